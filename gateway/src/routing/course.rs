//! One call from its first attempt to its last: whom to ask, when to ask again, when to stop.
//! What may be repeated is decided by the pure table in [`crate::upstream::retry`].

use std::time::Duration;

use bytes::Bytes;
use membership::Incarnation;
use object::Class;
use proto::v1;

use super::health::{Leave, PATIENCE};
use super::held::Held;
use super::view::Target;
use super::{Inner, Nodes};
use crate::clock::{self, Instant};
use crate::error::Refusal;
use crate::upstream::retry::{self, Failure, Next, Options, Progress, drawn};
use crate::upstream::{OPEN_WAIT, Reply, Request};

/// Taken off what a node is told of the deadline, so that its own refusal arrives in time.
const DEADLINE_MARGIN: Duration = Duration::from_millis(20);

/// How far a call has come.
pub(super) struct Course<'a> {
    routes: &'a Inner,
    request: &'a Request,
    started: Instant,
    failed_at: Option<Instant>,
    /// Number of the next sending. Sendings that certainly did nothing do not count: the room
    /// takes a number above 1 for a call that it may have seen. A wait may have been parked.
    number: u32,
    doubts: u32,
    /// Hints followed, and pauses made since it was last sent, under the present view.
    hops: u32,
    pauses: u32,
    /// The view of the last pick.
    view: u64,
    /// Where the last refusal said that the object is.
    hint: Option<String>,
    /// The incarnation to ask once more, after a lost answer or once its stream has opened.
    again: Option<Incarnation>,
    held: Option<Held<'a>>,
    /// It has waited for a suspect node before.
    suspected: bool,
}

/// An attempt without a final answer.
struct Failed {
    failure: Failure,
    /// What the node said, if it said anything.
    refused: Option<Reply>,
    /// Whom it was that was asked; `None` if there was nobody to ask.
    target: Option<Target>,
    /// It was kept back because the node is suspect.
    suspect: bool,
}

impl Failed {
    /// Nothing left this process.
    const fn not_sent(target: Option<Target>, suspect: bool) -> Self {
        Self { failure: Failure::NotSent, refused: None, target, suspect }
    }
}

impl<'a> Course<'a> {
    pub(super) fn new(routes: &'a Inner, request: &'a Request) -> Self {
        Self {
            routes,
            request,
            started: clock::now(),
            failed_at: None,
            number: request.attempt,
            doubts: 0,
            hops: 0,
            pauses: 0,
            view: 0,
            hint: None,
            again: None,
            held: None,
            suspected: false,
        }
    }

    pub(super) async fn run(mut self) -> Reply {
        loop {
            let failed = match self.attempt().await {
                Ok(reply) => return reply,
                Err(failed) => failed,
            };
            if failed.failure.in_doubt() {
                self.doubts += 1;
                self.pauses = 0;
            }
            let sent = failed.failure != Failure::NotSent;
            if failed.failure.in_doubt() || (self.request.wait && sent) {
                self.number = self.number.saturating_add(1);
            }
            if !self.recover(&failed).await {
                return self.end(failed);
            }
            self.routes.metrics.retried(failed.failure);
        }
    }

    /// The node to ask now: the one whose answer was lost, the one that was named, the owner.
    fn pick(&mut self) -> Option<Target> {
        if let Nodes::View(followed) = &self.routes.nodes {
            // Read first: a change in between is then seen as one.
            self.view = followed.view();
            let again = self.again.take().and_then(|incarnation| followed.same(&incarnation));
            if again.is_some() {
                return again;
            }
            let hinted = self.hint.as_deref().and_then(|address| followed.at(address));
            if hinted.is_some() {
                self.hint = None;
                return hinted;
            }
        }
        self.routes.nodes.owner(&self.request.object)
    }

    async fn attempt(&mut self) -> Result<Reply, Failed> {
        let Some(target) = self.pick() else {
            return Err(Failed::not_sent(None, false));
        };
        let now = clock::now();
        let remaining = self.request.deadline.saturating_duration_since(now);
        if remaining.is_zero() {
            return Err(Failed::not_sent(Some(target), false));
        }
        if !self.may_send(&target, now) {
            return Err(Failed::not_sent(Some(target), true));
        }
        let call = self.envelope(&target, now, remaining);
        let answer = target.node.upstream.attempt(call, self.request.deadline).await;
        self.note(&target, answer.as_ref().err(), remaining);
        let (failure, refused) = match answer {
            Ok(v1::Answer {
                what: Some(v1::answer::What::Success(success)), next_wait_ms, ..
            }) => {
                return Ok(Reply { result: Ok(success), next_wait_ms });
            }
            Ok(v1::Answer {
                what: Some(v1::answer::What::Refusal(mut refusal)),
                next_wait_ms,
                ..
            }) => {
                let class = proto::class::class(refusal.class);
                if class == Class::NotOwner {
                    self.learn(&target, refusal.owner_hint.take(), refusal.view);
                }
                let reply = Reply { result: Err(Refusal::from(refusal)), next_wait_ms };
                (Failure::Refused(class), Some(reply))
            }
            // An answer of a newer kind: it ran, and nobody knows how it went.
            Ok(v1::Answer { what: None, .. }) => (Failure::Lost, None),
            Err(failure) => (failure, None),
        };
        Err(Failed { failure, refused, target: Some(target), suspect: false })
    }

    /// Whether a call may go to this node now: not if it is suspect, but for a probe.
    fn may_send(&self, target: &Target, now: Instant) -> bool {
        let Nodes::View(followed) = &self.routes.nodes else { return true };
        // Without a stream nothing is sent anyway, and a probe is not used up.
        if !target.node.upstream.is_open() {
            return true;
        }
        match target.node.health.leave(now) {
            Leave::Send => true,
            Leave::Probe => {
                // A mark lasts for so long only.
                followed.suspect(&target.node, true);
                true
            }
            Leave::KeepBack => false,
        }
    }

    /// Takes note of whether the node has answered. One whose streams have ended is known to be
    /// away without that.
    fn note(&self, target: &Target, failure: Option<&Failure>, had: Duration) {
        let Nodes::View(followed) = &self.routes.nodes else { return };
        let node = &target.node;
        match failure {
            None if node.health.answered() => {
                tracing::info!(address = node.address, "node answers again");
                followed.suspect(node, false);
            }
            Some(Failure::Lost | Failure::TimedOut)
                if had >= PATIENCE
                    && node.upstream.is_open()
                    && node.health.failed(clock::now()) =>
            {
                tracing::warn!(address = node.address, "node has open streams and answers no call");
                followed.suspect(node, true);
            }
            None | Some(_) => {}
        }
    }

    fn envelope(&self, target: &Target, now: Instant, remaining: Duration) -> v1::Call {
        let request = self.request;
        v1::Call {
            id: 0,
            op: request.op.to_owned(),
            kind: u32::from(request.object.kind().0),
            object: request.object.name().to_owned(),
            participant: request
                .participant
                .map(|id| Bytes::copy_from_slice(&id.0.to_be_bytes()))
                .unwrap_or_default(),
            joining: request.joining,
            args: request.args.clone(),
            blob: request.blob.clone(),
            request: Bytes::copy_from_slice(&request.request.0.to_be_bytes()),
            attempt: self.number,
            age_ms: millis(request.age + now.duration_since(self.started)),
            deadline_ms: millis(remaining.saturating_sub(DEADLINE_MARGIN)).max(1),
            view: target.view,
            hops: self.hops,
            connection: 0,
            forwarded: None,
        }
    }

    /// Takes a node's word on who owns the object.
    fn learn(&mut self, asked: &Target, hint: Option<String>, view: u64) {
        let Nodes::View(followed) = &self.routes.nodes else { return };
        if followed.saw(view) {
            self.routes.metrics.view_refreshes.inc();
        }
        // A node that names itself has no advice.
        self.hint = hint.filter(|address| *address != asked.node.address);
    }

    /// Does what the failure asks for before the next attempt; false if there is none.
    async fn recover(&mut self, failed: &Failed) -> bool {
        // Only a wait has time for a node that may be silent for long; nothing of another has run.
        let patient = self.request.wait || self.doubts > 0;
        if failed.suspect && !patient && std::mem::replace(&mut self.suspected, true) {
            return false;
        }
        loop {
            match retry::next(failed.failure, self.options(), self.progress()) {
                Next::GiveUp => return false,
                Next::Follow => {
                    self.hops += 1;
                    self.routes.metrics.hops.inc();
                    return true;
                }
                Next::Repeat { backoff_max } => {
                    if !self.routes.budget.spend() {
                        return false;
                    }
                    // The same node first: it may just have lost the connection.
                    let first = self.doubts == 1;
                    let asked = failed.target.as_ref().filter(|_| first);
                    self.again = asked.and_then(|target| target.node.incarnation.clone());
                    tokio::time::sleep(drawn(backoff_max)).await;
                    return true;
                }
                Next::Hold { backoff_max } => {
                    if !self.hold() {
                        return false;
                    }
                    let moved = self.pause(failed, backoff_max).await;
                    let asked = failed.failure != Failure::NotSent;
                    // Asking a node that has refused already is a repeat like any other; without
                    // a budget the call waits on for the view.
                    if moved || !asked || self.routes.budget.spend() {
                        return true;
                    }
                }
            }
        }
    }

    fn options(&self) -> Options {
        let (hinted, can_move) = match &self.routes.nodes {
            Nodes::One(_) => (false, false),
            Nodes::View(followed) => {
                let hint = self.hint.as_deref();
                (hint.is_some_and(|address| followed.at(address).is_some()), true)
            }
        };
        Options { repeatable: self.request.repeatable, hinted, can_move }
    }

    fn progress(&mut self) -> Progress {
        let now = clock::now();
        let failed_at = *self.failed_at.get_or_insert(now);
        Progress {
            doubts: self.doubts,
            hops: self.hops,
            pauses: self.pauses,
            since_failure: now.duration_since(failed_at),
            remaining: self.request.deadline.saturating_duration_since(now),
        }
    }

    /// Takes a place among the calls held for the room, once.
    fn hold(&mut self) -> bool {
        if self.held.is_none() {
            self.held = self.routes.holds.enter(&self.request.object);
        }
        if self.held.is_none() {
            self.routes.metrics.held_refused.inc();
        }
        self.held.is_some()
    }

    /// Waits for the next try of a call that has not run. True if the view has changed, which
    /// makes it a new question.
    async fn pause(&mut self, failed: &Failed, backoff_max: Duration) -> bool {
        let upstream = failed.target.as_ref().map(|target| &target.node.upstream);
        let closed = upstream.filter(|upstream| !upstream.is_open());
        // Nothing is gained by looking again and again whether a stream has opened: it tells.
        let told = closed.is_some() || failed.suspect;
        let pause = if told { OPEN_WAIT } else { drawn(backoff_max) };
        let until = self.request.deadline.min(clock::now() + pause);
        let opened = async {
            match closed {
                Some(upstream) => upstream.opened().await,
                None => std::future::pending().await,
            }
        };
        let heard = async {
            match failed.target.as_ref().filter(|_| failed.suspect) {
                Some(target) => target.node.health.heard().await,
                None => std::future::pending().await,
            }
        };
        let changed = async {
            match &self.routes.nodes {
                Nodes::View(followed) => {
                    if let Some(view) = upstream.and_then(|upstream| upstream.draining_view())
                        && followed.saw(view)
                    {
                        self.routes.metrics.view_refreshes.inc();
                    }
                    followed.changed_from(self.view).await;
                }
                Nodes::One(_) => std::future::pending().await,
            }
        };
        let moved = tokio::select! {
            biased;
            () = changed => true,
            () = opened => {
                // Whoever was to be asked is there now.
                self.again = failed.target.as_ref().and_then(|to| to.node.incarnation.clone());
                false
            }
            () = heard => false,
            () = tokio::time::sleep_until(until) => false,
        };
        (self.hops, self.pauses) = if moved { (0, 0) } else { (self.hops, self.pauses + 1) };
        moved
    }

    /// The end of a call that is not repeated any more.
    fn end(&self, failed: Failed) -> Reply {
        let doubts = if self.request.harmless { 0 } else { self.doubts };
        match failed.refused {
            Some(reply) if failed.failure.settles(doubts) => reply,
            Some(_) | None => {
                let refusal = if doubts > 0 {
                    Refusal::outcome_unknown()
                } else {
                    Refusal::room_unavailable()
                };
                Reply { result: Err(refusal), next_wait_ms: None }
            }
        }
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
