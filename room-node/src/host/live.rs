//! A loaded object and the decisions made on it. Nothing here awaits.

use object::{
    Activation, Cx, Millis, Object, ObjectId, Outcome, Parked as Why, ParticipantId, Poll,
};

use super::batch::{Batch, Parked};
use super::call::Pending;
use super::mailbox::{Mailbox, Message};
use super::shed::Gate;
use super::subscribers::Subscribers;
use super::trouble::jittered;
use crate::clock::Mono;
use crate::config::Config;
use crate::error;
use crate::metrics::Metrics;
use crate::store::Fence;

/// The state of one activation.
#[derive(Debug)]
pub(super) struct Live<O> {
    pub(super) object: O,
    pub(super) fence: Fence,
    /// Position of the last stored event.
    pub(super) lsn: u64,
    /// Frames and bytes stored after the last snapshot.
    pub(super) tail_frames: usize,
    pub(super) tail_bytes: usize,
    /// Stored lease ends, which run ahead of the true ones.
    pub(super) stored: Vec<(ParticipantId, Millis)>,
    /// The stored due time.
    pub(super) stored_due: Option<Millis>,
    /// At most `parked_calls_max`.
    pub(super) parked: Vec<Parked>,
    /// Something changed since parked calls were asked last.
    pub(super) ask_parked: bool,
    /// The lsn each participant had seen at its last wait on this activation.
    /// Bounded by the participants that hold a lease: who leaves is taken out.
    pub(super) heard: Vec<(ParticipantId, u64)>,
    /// When the last command was decided.
    pub(super) commanded: Mono,
    /// When it was read back: what calls waited for that is no waiting in a queue.
    pub(super) loaded: Millis,
    /// A due handler that achieved nothing is not asked again before this time.
    pub(super) due_not_before: Millis,
    pub(super) due_backoff_ms: u64,
    /// Read back for a poll: whether that is a wake or only a stub is not known yet.
    pub(super) for_poll: bool,
    /// Something was stored by this activation.
    pub(super) wrote: bool,
    /// The store's primary under which the fence was last known to be ours.
    pub(super) primary: u64,
}

/// What a decision needs besides the object.
pub(super) struct Env<'a, O: Object> {
    pub(super) settings: &'a O::Settings,
    pub(super) config: &'a Config,
    pub(super) metrics: &'a Metrics,
    pub(super) subscribers: &'a Subscribers,
    pub(super) gate: &'a Gate,
    pub(super) id: &'a ObjectId,
    pub(super) now: Millis,
}

impl<O: Object> Env<'_, O> {
    // A connection that is gone by now, or was never the caller's, must not become known to the
    // object: nobody would ever tell it of its end. One that goes later is told after this call.
    fn connection(&self, call: &object::Call<'_>) -> u64 {
        let held = |who| self.subscribers.holds(self.id, who, call.connection);
        match call.caller.participant() {
            Some(who) if call.connection != 0 && held(who) => call.connection,
            _ => 0,
        }
    }
}

/// What was being decided, for the case that the decision panics.
#[derive(Debug, Default)]
pub(super) struct Current {
    /// The call.
    pub(super) call: Option<Box<Pending>>,
    /// The due handler runs, before or without a call.
    pub(super) due: bool,
    /// Parked calls still to be asked, the next one last.
    pub(super) rest: Vec<Parked>,
}

/// First pause after a due handler that achieved nothing, and the longest.
pub(super) const DUE_BACKOFF_MS: u64 = 2_000;
pub(super) const DUE_BACKOFF_MS_MAX: u64 = 1_024_000;
/// Rounds of the due handler in one go; leases that end together are one round.
const DUE_ROUNDS_MAX: usize = 8;

impl<O: Object> Live<O> {
    /// Decides what is due, what is parked, and what waits in the mailbox, up to one batch.
    pub(super) fn gather(
        &mut self,
        env: &Env<'_, O>,
        mailbox: &Mailbox,
        batch: &mut Batch,
        current: &mut Current,
    ) {
        self.on_due(env, batch, current);
        if batch.destroy {
            return;
        }
        self.ask_parked(env, batch, current);
        let (mut taken, mut age_min_ms) = (0, u64::MAX);
        while !batch.destroy {
            if let Some(bound) = batch.full(env.config) {
                if !mailbox.is_empty() {
                    env.metrics.batches_full.with_label_values(&[bound]).inc();
                }
                break;
            }
            let Some(message) = mailbox.pop() else { break };
            match message {
                Message::Call(call) => {
                    env.metrics.mailbox_calls.dec();
                    taken += 1;
                    age_min_ms = age_min_ms.min(env.now.since(call.came.max(self.loaded)));
                    self.decide(env, batch, current, call, None);
                }
                Message::Disconnect { participant, connection } => {
                    let cx = self.cx(env);
                    let decision = self.object.on_disconnect(&cx, participant, connection);
                    batch.lost.push((participant, connection));
                    batch.command = true;
                    let _none = batch.absorb(self, decision, env.now, env.config.lease_step_ms);
                }
            }
        }
        if taken > 0 {
            env.gate.took(taken, age_min_ms);
        }
    }

    /// The next moment at which time alone asks for something.
    pub(super) fn next_time(&self) -> Option<Millis> {
        let due = self.object.next_due().map(|due| due.max(self.due_not_before));
        let parked = self.parked.iter().map(|parked| parked.until).min();
        match (due, parked) {
            (Some(due), Some(parked)) => Some(due.min(parked)),
            (one, other) => one.or(other),
        }
    }

    /// Notes that a participant has seen everything up to the present position.
    pub(super) fn hear(&mut self, who: ParticipantId) {
        match self.heard.iter_mut().find(|(known, _)| *known == who) {
            Some((_, seen)) => *seen = self.lsn,
            None => self.heard.push((who, self.lsn)),
        }
    }

    /// Asks waits a last time when the object has ended; they may have a terminal answer.
    pub(super) fn farewell(&mut self, settings: &O::Settings, metrics: &Metrics, now: Millis) {
        let cx = Cx { now, random: super::random_u128(), settings };
        // Each leaves the list only while it is asked, so that a panic costs no other.
        for _ in 0..self.parked.len() {
            let Some(parked) = self.parked.pop() else { return };
            metrics.parked_calls.dec();
            let call = parked.call.as_call(Some(Why::Changed), now);
            match self.object.decide(&cx, &call).outcome {
                Outcome::Reply(reply) => parked.call.answer(Ok(reply)),
                Outcome::Refuse(reject) => parked.call.answer(Err(reject)),
                Outcome::Park { .. } => {
                    metrics.parked_calls.inc();
                    self.parked.insert(0, parked);
                }
            }
        }
    }

    fn cx<'a>(&self, env: &Env<'a, O>) -> Cx<'a, O::Settings> {
        Cx { now: env.now, random: super::random_u128(), settings: env.settings }
    }

    // Expiry is recorded before anybody is told (cluster 2.7).
    fn on_due(&mut self, env: &Env<'_, O>, batch: &mut Batch, current: &mut Current) {
        for _ in 0..DUE_ROUNDS_MAX {
            let stored = self.lsn > 0 || !batch.records.is_empty();
            let due = self.object.next_due().is_some_and(|due| due <= env.now);
            if !stored || !due || env.now < self.due_not_before || batch.destroy {
                return;
            }
            let cx = self.cx(env);
            current.due = true;
            let decision = self.object.on_due(&cx);
            let _none = batch.absorb(self, decision, env.now, env.config.lease_step_ms);
            current.due = false;
            if self.object.next_due().is_none_or(|due| due > env.now) {
                self.due_backoff_ms = 0;
                return;
            }
        }
        env.metrics.bound_hit("due_rounds_max");
        // Still due after all rounds: the handler is at fault, so it is asked less and less often.
        self.due_backoff_ms = (self.due_backoff_ms * 2).clamp(DUE_BACKOFF_MS, DUE_BACKOFF_MS_MAX);
        let pause = jittered(self.due_backoff_ms, super::random_u64());
        self.due_not_before = env.now.plus(pause);
    }

    fn ask_parked(&mut self, env: &Env<'_, O>, batch: &mut Batch, current: &mut Current) {
        let all = std::mem::take(&mut self.ask_parked);
        if self.parked.is_empty() {
            return;
        }
        current.rest = std::mem::take(&mut self.parked);
        current.rest.reverse();
        while let Some(one) = current.rest.pop() {
            let why = if one.call.is_abandoned() {
                Why::Cancelled
            } else if one.until <= env.now {
                Why::TimedOut
            } else if all {
                Why::Changed
            } else {
                self.parked.push(one);
                continue;
            };
            env.metrics.parked_calls.dec();
            self.decide(env, batch, current, one.call, Some(why));
            if batch.destroy {
                break;
            }
        }
        self.parked.extend(std::mem::take(&mut current.rest).into_iter().rev());
    }

    fn decide(
        &mut self,
        env: &Env<'_, O>,
        batch: &mut Batch,
        current: &mut Current,
        call: Box<Pending>,
        why: Option<Why>,
    ) {
        // Nothing ran for a caller that is gone; it is not begun.
        if why.is_none() && call.is_abandoned() {
            return;
        }
        current.call = Some(call);
        if why.is_none() {
            self.on_due(env, batch, current);
            if batch.destroy {
                batch.retry.extend(current.call.take());
                return;
            }
        }
        let Some(call) = &current.call else { return };
        let outcome = self.outcome(env, batch, call, why);
        let Some(call) = current.call.take() else { return };
        batch.ended_by_call = batch.destroy && !matches!(outcome, Outcome::Park { .. });
        match outcome {
            Outcome::Reply(reply) => {
                batch.command |= reply.poll != Some(Poll::Quiet);
                batch.answers.push((call, Ok(reply)));
            }
            Outcome::Refuse(reject) => {
                batch.command = true;
                batch.answers.push((call, Err(reject)));
            }
            Outcome::Park { .. } if why == Some(Why::Cancelled) => {}
            Outcome::Park { until } => {
                batch.command |= why.is_none() && !call.request.op.wait;
                if self.parked.len() + batch.parked.len() >= env.config.parked_calls_max {
                    env.metrics.bound_hit("parked_calls_max");
                    let full = error::overloaded("Too many calls are held here; try again.");
                    batch.answers.push((call, Err(full)));
                } else {
                    let longest = match call.request.op.wait {
                        true => call.since.plus(env.config.hold_ms_max),
                        false => until,
                    };
                    batch.parked.push(Parked { call, until: until.min(longest) });
                }
            }
        }
    }

    fn outcome(
        &mut self,
        env: &Env<'_, O>,
        batch: &mut Batch,
        pending: &Pending,
        why: Option<Why>,
    ) -> Outcome {
        let cx = self.cx(env);
        let mut call = pending.as_call(why, env.now);
        call.connection = env.connection(&call);
        let exists = self.lsn > 0 || !batch.records.is_empty();
        match call.op.activation {
            Activation::Peek | Activation::MustExist if !exists => {
                batch.decisions += 1;
                match O::absent(&cx, &call) {
                    Ok(reply) => Outcome::Reply(reply),
                    Err(reject) => Outcome::Refuse(reject),
                }
            }
            Activation::MustCreate
                if exists && why.is_none() && !self.object.may_repeat_creation(&call) =>
            {
                batch.decisions += 1;
                Outcome::Refuse(O::occupied(&call))
            }
            Activation::Peek
            | Activation::MustExist
            | Activation::MayCreate
            | Activation::MustCreate => {
                let decision = self.object.decide(&cx, &call);
                batch.absorb(self, decision, env.now, env.config.lease_step_ms)
            }
        }
    }
}
