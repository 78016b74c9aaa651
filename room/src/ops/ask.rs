//! What an op is given and what it gives back.

use object::{Attached, BlobArg, BlobId, Call, Effect, Millis, Outcome, Poll, Reject, Reply};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::apply;
use crate::event::Event;
use crate::live::Signal;
use crate::room::Decision;
use crate::settings::Settings;
use crate::spec::{self, Field};
use crate::state::{Author, Fact, Participant, State};

/// One question to the room.
pub struct Ask<'a> {
    pub state: &'a State,
    pub settings: &'a Settings,
    pub now: Millis,
    pub random: u128,
    pub call: &'a Call<'a>,
    /// The parsed arguments.
    pub args: &'a Value,
    /// The calling participant, for ops that are reached by handle.
    pub me: Option<&'a Participant>,
}

// The arguments hold what people wrote.
impl std::fmt::Debug for Ask<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Ask").field("op", &self.call.op.name).finish_non_exhaustive()
    }
}

impl<'a> Ask<'a> {
    /// The input of an op; dispatch has run its check.
    pub fn input<T: DeserializeOwned>(&self, fields: &[Field]) -> Result<T, Reject> {
        let clean = spec::clean(fields, self.args);
        serde_json::from_value(Value::Object(clean)).map_err(|_| spec::invalid(Vec::new()))
    }

    /// The caller; ops that are reached by handle always have one.
    pub fn me(&self) -> Result<&'a Participant, Reject> {
        self.me.ok_or_else(|| crate::reject::Code::InvalidParticipantHandle.reject())
    }

    /// The blob beside the arguments.
    pub fn blob(&self) -> Result<&'a BlobArg<'a>, Reject> {
        self.call.blob.as_ref().ok_or_else(|| spec::invalid(Vec::new()))
    }

    /// The caller as an author of this moment.
    pub fn author(&self) -> Result<Author, Reject> {
        let me = self.me()?;
        Ok(Author { id: me.id, name: me.name.clone(), kind: me.kind })
    }

    /// The sequence the next message or attachment gets.
    #[must_use]
    pub const fn next_sequence(&self) -> u64 {
        self.state.sequence + 1
    }
}

/// What an op decided: the host's decision and what dispatch needs beside it.
#[derive(Debug)]
pub struct Step {
    pub decision: Decision,
    /// What a repeat of this change is answered from; only for changes.
    pub fact: Fact,
    /// Renews the caller's agent lease though nothing is stored.
    pub renews: bool,
}

/// An op's answer.
pub type Verdict = Result<Step, Reject>;

impl Step {
    /// A success with this answer, changing nothing so far.
    pub fn reply(body: &impl Serialize) -> Verdict {
        Ok(Self::body(json(body)?))
    }

    /// A success with these JSON bytes.
    #[must_use]
    pub fn body(body: Vec<u8>) -> Self {
        Self { decision: Decision::reply(Reply::new(body)), fact: Fact::default(), renews: false }
    }

    /// The room as it is once this step is taken.
    #[must_use]
    pub fn after(&self, before: &State) -> State {
        let mut after = before.clone();
        self.decision.events.iter().for_each(|event| apply::evolve(&mut after, event));
        self.decision.signals.iter().for_each(|signal| apply::absorb(&mut after, signal));
        after
    }

    /// The same step with this answer.
    pub fn replying(mut self, body: &impl Serialize) -> Verdict {
        self.decision.outcome = Outcome::Reply(Reply::new(json(body)?));
        Ok(self)
    }

    /// Asks to be asked again.
    #[must_use]
    pub const fn park(until: Millis) -> Self {
        Self {
            decision: Decision::only(Outcome::Park { until }),
            fact: Fact { sequence: 0, id: 0 },
            renews: false,
        }
    }

    /// Adds a fact.
    #[must_use]
    pub fn event(mut self, event: Event) -> Self {
        self.decision.events.push(event);
        self
    }

    /// Adds facts.
    #[must_use]
    pub fn events(mut self, events: impl IntoIterator<Item = Event>) -> Self {
        self.decision.events.extend(events);
        self
    }

    /// Adds a volatile change.
    #[must_use]
    pub fn signal(mut self, signal: Signal) -> Self {
        self.decision.signals.push(signal);
        self
    }

    /// Adds an effect.
    #[must_use]
    pub fn effect(mut self, effect: Effect) -> Self {
        self.decision.effects.push(effect);
        self
    }

    /// What a repeat is answered from.
    #[must_use]
    pub const fn fact(mut self, sequence: u64, id: u128) -> Self {
        self.fact = Fact { sequence, id };
        self
    }

    /// Renews the caller's lease although nothing is stored (rooms 18.1).
    #[must_use]
    pub const fn renewing(mut self) -> Self {
        self.renews = true;
        self
    }

    /// Makes an uploaded blob permanent.
    #[must_use]
    pub fn keep(mut self, blob: BlobId) -> Self {
        self.decision.keep_blobs.push(blob);
        self
    }

    /// Removes blobs.
    #[must_use]
    pub fn drop_blobs(mut self, blobs: impl IntoIterator<Item = BlobId>) -> Self {
        self.decision.drop_blobs.extend(blobs);
        self
    }

    /// Attaches a stored blob to the answer.
    #[must_use]
    pub fn attach(mut self, attached: Attached) -> Self {
        if let Outcome::Reply(reply) = &mut self.decision.outcome {
            reply.attached = Some(attached);
        }
        self
    }

    /// Says what a wait's answer means for the cadence.
    #[must_use]
    pub const fn poll(mut self, poll: Poll) -> Self {
        if let Outcome::Reply(reply) = &mut self.decision.outcome {
            reply.poll = Some(poll);
        }
        self
    }
}

/// Compact JSON. Our answers always serialize; a failure would be our own bug and is refused.
pub fn json(body: &impl Serialize) -> Result<Vec<u8>, Reject> {
    serde_json::to_vec(body).map_err(|_| crate::reject::Code::RoomUnavailable.reject())
}
