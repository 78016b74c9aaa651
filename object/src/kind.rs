//! The trait every kind of durable object implements.

use std::fmt::Debug;
use std::sync::Arc;

use crate::{Call, Cx, Decision, KindTag, Millis, ObjectId, OpMeta, ParticipantId, Reject, Reply};

/// Stored bytes that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum CodecError {
    #[error("stored schema version {found} is newer than {supported}")]
    Newer { found: u32, supported: u32 },
    #[error("stored bytes are damaged: {what}")]
    Damaged { what: &'static str },
}

/// What is kept of a sleeping object so that polls with nothing new need not wake it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IdleView {
    /// The last assigned sequence: a poll with this cursor has nothing new.
    pub sequence: u64,
    /// Participants that may poll, with the end of their agent lease.
    pub pollers: Vec<(ParticipantId, Millis)>,
    /// Encoded roster projection, as [`Object::answer_idle_poll`] wants it; the same for every
    /// poller, shared between equal sleepers.
    pub projection: Arc<[u8]>,
}

/// A poll of a sleeping object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct IdlePoll<'a> {
    pub args: &'a [u8],
    pub sequence: u64,
    pub projection: &'a [u8],
}

/// A pure durable object. The host calls `decide`, stores the events, then lets the outcome out.
///
/// Order of one batch: for each call `on_due` (if [`Object::next_due`] has come), `decide`,
/// `evolve` each event, `renew`, `absorb` each signal; then one append; then all outcomes and
/// effects. If the append fails the whole object is dropped and read again from the store.
pub trait Object: Sized + Send + 'static {
    /// The kind's letter in stored keys.
    const KIND: KindTag;
    /// Version of the event and snapshot encoding this code writes.
    const SCHEMA: u32;

    /// A fact. Replaying all facts over [`Object::fresh`] gives the state.
    type Event: Clone + Debug + Send + 'static;
    /// A change of the volatile part, lost with the activation.
    type Signal: Clone + Debug + Send + 'static;
    /// What operators may turn; the same for all objects of a node.
    type Settings: Clone + Debug + Send + Sync + 'static;

    /// The declaration of an op, by name.
    fn op(name: &str) -> Option<&'static OpMeta>;

    /// The object before its first event.
    fn fresh(id: &ObjectId) -> Self;

    /// Answers an op on an object that does not exist (`Peek` and `MustExist` ops).
    fn absent(cx: &Cx<'_, Self::Settings>, call: &Call<'_>) -> Result<Reply, Reject>;

    /// Answers a `MustCreate` op on an object that exists.
    fn occupied(call: &Call<'_>) -> Reject;

    /// True if a `MustCreate` op on this existing object may be the edge's own repeat of the call
    /// that made it; then `decide` answers it instead of [`Object::occupied`].
    fn may_repeat_creation(&self, call: &Call<'_>) -> bool {
        let _never = call;
        false
    }

    /// True if calls of this op are never refused for overload: they end something, or keep a
    /// participant's place.
    fn never_shed(op: &OpMeta) -> bool {
        let _never = op;
        false
    }

    /// Decides one call. Pure: equal inputs give equal decisions.
    fn decide(
        &self,
        cx: &Cx<'_, Self::Settings>,
        call: &Call<'_>,
    ) -> Decision<Self::Event, Self::Signal>;

    /// Records what time alone has done (leases that ended, the death of an empty room).
    /// Called only when `next_due() <= now`. Its outcome is ignored.
    fn on_due(&self, cx: &Cx<'_, Self::Settings>) -> Decision<Self::Event, Self::Signal>;

    /// Tells the volatile part that a connection is gone.
    fn on_disconnect(
        &self,
        cx: &Cx<'_, Self::Settings>,
        participant: ParticipantId,
        connection: u64,
    ) -> Decision<Self::Event, Self::Signal>;

    /// Folds one fact.
    fn evolve(&mut self, event: &Self::Event);

    /// Raises a participant's agent lease; never lowers, ignores unknown participants.
    fn renew(&mut self, participant: ParticipantId, end: Millis, now: Millis);

    /// Applies one volatile change.
    fn absorb(&mut self, signal: &Self::Signal);

    /// The earliest time at which `on_due` has something to do.
    fn next_due(&self) -> Option<Millis>;

    /// True while volatile work forbids sleeping (attached app hosts, requests in flight).
    fn busy(&self) -> bool;

    /// What is kept when the object goes to sleep.
    fn idle_view(&self, settings: &Self::Settings) -> IdleView;

    /// Answers a wait from what is kept, if it is certain that the object would answer the same
    /// (nothing new for this cursor). `None` wakes the object.
    fn answer_idle_poll(settings: &Self::Settings, poll: &IdlePoll<'_>) -> Option<Reply>;

    /// How a poll of a sleeping object with nothing new is held: until when, and the answer then.
    /// `since` is when the poll came. `None` if it is not held, or if only the object can tell.
    /// The host parks such a poll beside the sleeping object and wakes nothing for it.
    fn hold_idle_poll(
        settings: &Self::Settings,
        poll: &IdlePoll<'_>,
        since: Millis,
    ) -> Option<(Millis, Reply)> {
        let _not_held = (settings, poll, since);
        None
    }

    /// Appends the stored form of an event.
    fn encode_event(event: &Self::Event, out: &mut Vec<u8>);
    /// Reads an event of any schema up to [`Object::SCHEMA`].
    fn decode_event(schema: u32, bytes: &[u8]) -> Result<Self::Event, CodecError>;
    /// The stored form of the state (agent leases and the volatile part are not in it).
    fn encode_snapshot(&self) -> Vec<u8>;
    /// Reads a snapshot of any schema up to [`Object::SCHEMA`].
    fn decode_snapshot(id: &ObjectId, schema: u32, bytes: &[u8]) -> Result<Self, CodecError>;
}
