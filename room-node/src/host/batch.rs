//! One batch: what a run of decisions adds up to before it is stored.

use bytes::Bytes;
use object::{BlobId, Decision, Effect, Millis, Object, Outcome, ParticipantId};

use super::call::{Pending, Verdict};
use super::live::Live;
use super::mailbox::Message;
use crate::config::Config;
use crate::store::Record;

/// Everything one append carries and everything that is let out after it.
///
/// Bounded by `batch_events_max` and `batch_bytes_max`, and what the last decision adds beyond them.
#[derive(Debug, Default)]
pub(super) struct Batch {
    pub(super) records: Vec<Record>,
    pub(super) bytes: usize,
    pub(super) answers: Vec<(Box<Pending>, Verdict)>,
    pub(super) parked: Vec<Parked>,
    /// Calls that met the end of the object before they were decided.
    #[expect(clippy::vec_box, reason = "calls stay boxed on their way through queues")]
    pub(super) retry: Vec<Box<Pending>>,
    pub(super) lost: Vec<(ParticipantId, u64)>,
    pub(super) effects: Vec<Effect>,
    /// Stored lease ends to raise.
    pub(super) leases: Vec<(ParticipantId, Millis)>,
    pub(super) keep_blobs: Vec<BlobId>,
    pub(super) drop_blobs: Vec<BlobId>,
    pub(super) drop_leases: Vec<ParticipantId>,
    pub(super) destroy: bool,
    /// The call that ended the object is the last of `answers`.
    pub(super) ended_by_call: bool,
    /// What is let out only if the object has ended.
    pub(super) last_effects: Vec<Effect>,
    /// An event or a signal was applied: parked calls are asked again.
    pub(super) changed: bool,
    /// A call that is no wait without news was decided.
    pub(super) command: bool,
    /// Decisions so far.
    pub(super) decisions: usize,
}

/// A call that waits for a change.
#[derive(Debug)]
pub(super) struct Parked {
    pub(super) call: Box<Pending>,
    pub(super) until: Millis,
}

impl Batch {
    /// True if nothing needs the store.
    pub(super) fn stores_nothing(&self) -> bool {
        self.records.is_empty() && self.leases.is_empty() && !self.destroy
    }

    /// The bound that this batch has met, if any.
    pub(super) fn full(&self, config: &Config) -> Option<&'static str> {
        if self.decisions >= config.batch_events_max
            || self.records.len() >= config.batch_events_max
        {
            return Some("batch_events_max");
        }
        (self.bytes >= config.batch_bytes_max).then_some("batch_bytes_max")
    }

    /// True if there is nothing to let out either.
    pub(super) fn is_empty(&self) -> bool {
        self.decisions == 0
    }

    /// Applies a decision to the object and notes what follows from it. The outcome is returned
    /// to the caller of this function, which knows whose it is.
    pub(super) fn absorb<O: Object>(
        &mut self,
        live: &mut Live<O>,
        decision: Decision<O::Event, O::Signal>,
        now: Millis,
        step_ms: u64,
    ) -> Outcome {
        self.decisions += 1;
        if decision.destroy {
            self.destroy = true;
            self.changed = true;
            self.last_effects = decision.effects;
            return decision.outcome;
        }
        self.effects.extend(decision.effects);
        self.changed |= !decision.events.is_empty() || !decision.signals.is_empty();
        for event in &decision.events {
            let mut bytes = Vec::new();
            O::encode_event(event, &mut bytes);
            self.bytes += bytes.len();
            self.records.push(Record { bytes: Bytes::from(bytes) });
            live.object.evolve(event);
        }
        for blob in decision.keep_blobs {
            self.keep_blobs.push(blob);
        }
        for blob in decision.drop_blobs {
            // Named and dropped within one batch: in neither list, it expires by itself.
            let before = self.keep_blobs.len();
            self.keep_blobs.retain(|kept| *kept != blob);
            if self.keep_blobs.len() == before {
                self.drop_blobs.push(blob);
            }
        }
        for gone in &decision.drop_leases {
            self.leases.retain(|(who, _)| who != gone);
            live.stored.retain(|(who, _)| who != gone);
            live.heard.retain(|(who, _)| who != gone);
            self.drop_leases.push(*gone);
        }
        // Whoever goes by this very decision has no lease any more, whatever it renews.
        if let Some(renewal) = decision.renewal
            && !decision.drop_leases.contains(&renewal.participant)
        {
            self.renew(live, renewal.participant, renewal.end, now, step_ms);
        }
        for signal in &decision.signals {
            live.object.absorb(signal);
        }
        decision.outcome
    }

    // The stored end runs ahead of the true one, so that the next renewals write nothing.
    fn renew<O: Object>(
        &mut self,
        live: &mut Live<O>,
        who: ParticipantId,
        end: Millis,
        now: Millis,
        step_ms: u64,
    ) {
        live.object.renew(who, end, now);
        let ahead = end.plus(step_ms);
        match live.stored.iter_mut().find(|(known, _)| *known == who) {
            Some((_, stored)) if *stored >= end => return,
            Some((_, stored)) => *stored = ahead,
            None => live.stored.push((who, ahead)),
        }
        self.drop_leases.retain(|gone| *gone != who);
        match self.leases.iter_mut().find(|(known, _)| *known == who) {
            Some((_, raised)) => *raised = ahead,
            None => self.leases.push((who, ahead)),
        }
    }

    /// Takes the batch apart into messages to be decided again; parked ones came first.
    pub(super) fn into_messages(self) -> Vec<Message> {
        let calls = self
            .parked
            .into_iter()
            .map(|parked| parked.call)
            .chain(self.answers.into_iter().map(|(call, _)| call))
            .chain(self.retry);
        let lost = self
            .lost
            .into_iter()
            .map(|(participant, connection)| Message::Disconnect { participant, connection });
        calls.map(Message::Call).chain(lost).collect()
    }

    /// The calls that name a blob, and the rest to be decided again.
    #[expect(clippy::vec_box, reason = "calls stay boxed on their way through queues")]
    pub(super) fn split_by_blob(self, blob: BlobId) -> (Vec<Box<Pending>>, Vec<Message>) {
        let mut named = Vec::new();
        let mut rest = Vec::new();
        for message in self.into_messages() {
            match message {
                Message::Call(call) if call.blob == Some(blob) => named.push(call),
                other @ (Message::Call(_) | Message::Disconnect { .. }) => rest.push(other),
            }
        }
        (named, rest)
    }

    /// The object has not ended: whoever asked for it is told, and nothing else of it leaves.
    pub(super) fn not_ended(&mut self, reject: object::Reject) {
        self.last_effects = Vec::new();
        if std::mem::take(&mut self.ended_by_call)
            && let Some((call, _)) = self.answers.pop()
        {
            call.answer(Err(reject));
        }
    }

    /// Ends every call of the batch with one refusal.
    pub(super) fn refuse(self, reject: &object::Reject) {
        for (call, _) in self.answers {
            call.answer(Err(reject.clone()));
        }
        for call in self.parked.into_iter().map(|parked| parked.call).chain(self.retry) {
            call.answer(Err(reject.clone()));
        }
    }
}
