//! Waits: admitted or refused by cadence before any object is touched, and answered from a stub
//! where nothing is new.

use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use object::{Class, IdlePoll, Millis, Object, ObjectId, ParticipantId, Poll, Reject, Reply};

use super::cadence::{Admission, Asked};
use super::stub::{Poller, Stub};
use crate::error;
use crate::host::{
    Active, Cause, Checked, Held, Inner, PassKey, Pending, Request, Response, Shard, Verdict,
};
use crate::store;

/// What a stub says to a poll.
enum AtStub {
    Refused(Response),
    Answered(Answered),
    /// Held beside the stub from now on.
    Held(HeldUntil, Option<Horizon>),
    /// Its fence is to be checked first.
    InDoubt(store::Fence),
    /// Only the object can tell.
    Wake,
}

/// How a wait is held beside a stub.
struct HeldUntil {
    pass: PassKey,
    until: Millis,
    timeout: Reply,
}

/// How far a wait came without waiting.
enum Begun {
    Ended(Response),
    InDoubt(store::Fence, Box<Pending>),
    Absent(Verdict),
    Answered(Answered),
    /// It is in a mailbox, or held beside a stub once the lease is stored.
    Waits(PassKey, Option<Horizon>),
}

/// An answer from a stub, and the lease write that has to come first.
struct Answered {
    reply: Reply,
    next_wait_ms: u64,
    horizon: Option<Horizon>,
}

/// Raises a stored lease end.
struct Horizon {
    fence: store::Fence,
    due: Option<Millis>,
    before: Poller,
    stored: Millis,
}

impl<O: Object> Inner<O> {
    /// Answers a wait of a participant.
    pub(crate) async fn wait(self: &Arc<Self>, request: Request, who: ParticipantId) -> Response {
        let object = request.object.clone();
        let (mut pending, verdict) = self.pending(request, None);
        let begun = loop {
            match self.begin(pending, who) {
                Begun::InDoubt(fence, again) => {
                    pending = again;
                    if let Err(reject) = self.clear_stub(&object, fence).await {
                        return Response::refused(reject);
                    }
                }
                begun => break begun,
            }
        };
        let pass = match begun {
            Begun::InDoubt(..) => return Response::refused(error::unavailable()),
            Begun::Ended(response) => return response,
            Begun::Absent(verdict) => {
                let result = self.success(&object, verdict).await;
                return Response { result, next_wait_ms: None, elsewhere: None };
            }
            Begun::Answered(answered) => return self.idle_answer(&object, answered).await,
            Begun::Waits(pass, horizon) => (pass, horizon),
        };
        let (key, horizon) = pass;
        let mut pass = Pass { host: self, object: &object, key, open: true };
        if let Some(horizon) = horizon
            && let Err(reject) = self.write_horizon(&object, &horizon).await
        {
            drop(verdict);
            self.forget_abandoned(&object);
            return Response::refused(reject);
        }
        let verdict = self.verdict(&object, verdict).await;
        let (verdict, next_wait_ms) = pass.settle(verdict);
        let result = self.success(&object, verdict).await;
        Response { result, next_wait_ms, elsewhere: None }
    }

    // Everything that happens under the lock of the object's shard.
    fn begin(self: &Arc<Self>, mut pending: Box<Pending>, who: ParticipantId) -> Begun {
        if !self.cluster.is_leased() {
            return Begun::Ended(Response::refused(error::not_owner()));
        }
        let mut shard = self.directory.shard(&pending.request.object);
        if let Some(verdict) = self.known_absent(&mut shard, &pending) {
            return Begun::Absent(verdict);
        }
        match self.at_stub(&mut shard, &pending, who) {
            AtStub::Refused(refused) => return Begun::Ended(refused),
            AtStub::Answered(answered) => return Begun::Answered(answered),
            AtStub::Held(held, horizon) => {
                let pass = held.pass;
                self.hold(&mut shard, pending, held);
                return Begun::Waits(pass, horizon);
            }
            AtStub::InDoubt(fence) => return Begun::InDoubt(fence, pending),
            AtStub::Wake => {}
        }
        if let Err(reject) = self.spared_wait(&mut shard, &pending.request, who) {
            return Begun::Ended(Response::refused(reject));
        }
        let (entry, pass) = match self.admit(&mut shard, &mut pending, who) {
            Ok(admitted) => admitted,
            Err(refused) => return Begun::Ended(*refused),
        };
        match self.push(&entry, pending) {
            Ok(()) => Begun::Waits(pass, None),
            Err(reject) => {
                entry.book().abandon(who, pass.ticket);
                Begun::Ended(Response::refused(reject))
            }
        }
    }

    fn admit(
        self: &Arc<Self>,
        shard: &mut Shard,
        pending: &mut Pending,
        who: ParticipantId,
    ) -> Result<(Arc<Active>, PassKey), Box<Response>> {
        let entry = self
            .entry(shard, &pending.request.object, Cause::Poll)
            .map_err(|reject| Box::new(Response::refused(reject)))?;
        let (now, entries_max) = (self.clock.mono(), self.config.cadence_entries_max);
        let asked = Asked { request: pending.request.request, moved_ms: pending.moved_ms() };
        let (admission, pass) = entry.book().admit(self.rule, who, asked, now, entries_max);
        self.admitted(admission)?;
        pending.pass = Some(pass);
        Ok((entry, pass))
    }

    fn admitted(&self, admission: Admission) -> Result<(), Box<Response>> {
        match admission {
            Admission::Admitted | Admission::Replaces => Ok(()),
            Admission::Pending => Err(Box::new(Response::refused(error::wait_already_pending()))),
            Admission::TooEarly(ms) => {
                self.metrics.waits_refused.with_label_values(&["owner"]).inc();
                let result = Err(error::wait_rate_limited(ms));
                Err(Box::new(Response { result, next_wait_ms: Some(ms), elsewhere: None }))
            }
        }
    }

    // Cadence first, then the object's own word on what it would answer. Nothing is changed
    // unless the stub can answer.
    fn at_stub(&self, shard: &mut Shard, call: &Pending, who: ParticipantId) -> AtStub {
        let (wall, now) = (self.clock.now(), self.clock.mono());
        let id = &call.request.object;
        if shard.active.contains_key(id) {
            return AtStub::Wake;
        }
        shard.note_primary(self.primary());
        let Some(mut stub) = shard.stub(id, wall, now) else { return AtStub::Wake };
        if stub.unchecked {
            return AtStub::InDoubt(stub.fence);
        }
        let due = stub.next_due();
        let projection = stub.projection;
        let sequence = u64::from(stub.sequence);
        let Some(poller) = stub.find(who) else { return AtStub::Wake };
        let before = *poller;
        let mut cadence = poller.cadence(now);
        if let Some(pass) = shard.held_pass(id, who) {
            cadence.hold(pass.ticket, pass.start);
        }
        let asked = Asked { request: call.request.request, moved_ms: call.moved_ms() };
        let admission = cadence.admit(self.rule, asked, now);
        if let Err(refused) = self.admitted(admission) {
            return AtStub::Refused(*refused);
        }
        // Expiry is recorded by the object before anybody is told.
        if admission == Admission::Replaces || due.is_some_and(|due| due <= wall) {
            return AtStub::Wake;
        }
        let Some(projection) = self.projections.get(projection) else { return AtStub::Wake };
        let poll = IdlePoll { args: &call.request.args, sequence, projection: &projection };
        let settings = &self.settings;
        let asked = catch_unwind(AssertUnwindSafe(|| {
            let hold = O::hold_idle_poll(settings, &poll, call.since);
            (hold, O::answer_idle_poll(settings, &poll))
        }));
        let Ok((hold, Some(reply))) = asked else { return AtStub::Wake };
        // Before anything changes: a poll refused here has renewed nothing.
        if hold.is_some() && shard.held_count(id) >= self.config.parked_calls_max {
            self.metrics.bound_hit("parked_calls_max");
            let full = error::overloaded("Too many calls are held here; try again.");
            return AtStub::Refused(Response::refused(full));
        }
        let quiet = reply.poll.or(Some(Poll::Quiet));
        let mut next_wait_ms = 0;
        if hold.is_none() {
            next_wait_ms = cadence.settle(self.rule, cadence.ticket, quiet, now);
        }
        (poller.t, poller.last) = (cadence.t, cadence.last);
        let stored = self.renew_poller(poller, wall);
        stub.touched = now;
        shard.put_stub(id, &stub);
        let horizon = stored.map(|stored| Horizon {
            fence: stub.fence,
            due: stub.next_due(),
            before,
            stored,
        });
        match hold {
            Some((until, timeout)) => {
                let until = until.min(call.since.plus(self.config.hold_ms_max));
                let pass = PassKey { who, ticket: cadence.ticket, start: cadence.start };
                AtStub::Held(HeldUntil { pass, until, timeout }, horizon)
            }
            None => AtStub::Answered(Answered { reply, next_wait_ms, horizon }),
        }
    }

    // Raises a lease in memory; the end to store, if it moved past the stored one.
    fn renew_poller(&self, poller: &mut Poller, wall: Millis) -> Option<Millis> {
        poller.end = poller.end.max(wall.plus(self.config.agent_lease_ms));
        if poller.end <= poller.stored {
            return None;
        }
        poller.stored = poller.end.plus(self.config.lease_step_ms);
        Some(poller.stored)
    }

    // Puts a wait beside a stub and makes sure that its end is noticed.
    fn hold(&self, shard: &mut Shard, mut call: Box<Pending>, held: HeldUntil) {
        let HeldUntil { pass, until, timeout } = held;
        let id = call.request.object.clone();
        call.pass = Some(pass);
        shard.hold(&id, Held { call, until, timeout });
        self.metrics.parked_calls.inc();
        self.stub_timer_by(shard, &id, until);
    }

    async fn idle_answer(&self, object: &ObjectId, answered: Answered) -> Response {
        let Answered { mut reply, next_wait_ms, horizon } = answered;
        if let Some(horizon) = horizon
            && let Err(refused) = self.write_horizon(object, &horizon).await
        {
            return Response::refused(refused);
        }
        self.metrics.stub_answers.inc();
        splice_retry_after(&mut reply.body, next_wait_ms);
        let result = self.success(object, Ok(reply)).await;
        Response { result, next_wait_ms: Some(next_wait_ms), elsewhere: None }
    }

    /// Asks for a stub's fence after a change of the store's primary. A stub that was lost is
    /// forgotten; the poll then finds out who owns the object.
    pub(crate) async fn clear_stub(
        &self,
        object: &ObjectId,
        fence: store::Fence,
    ) -> Result<(), Reject> {
        let primary = self.primary();
        let checked = self.check(object, fence).await;
        let (wall, now) = (self.clock.now(), self.clock.mono());
        let mut shard = self.directory.shard(object);
        shard.note_primary(self.primary());
        let Some(mut stub) = shard.stub(object, wall, now).filter(|stub| stub.fence == fence)
        else {
            return Ok(());
        };
        match checked {
            // It may have changed again in the meantime: then it is asked again.
            Checked::Ours if primary == self.primary() => {
                stub.unchecked = false;
                shard.put_stub(object, &stub);
                Ok(())
            }
            Checked::Ours => Ok(()),
            Checked::Lost => {
                self.forget_stub(&mut shard, object);
                Ok(())
            }
            Checked::Unsure => Err(error::unavailable()),
        }
    }

    // The lease is stored before the poller is told; a failure takes the whole poll back.
    async fn write_horizon(&self, object: &ObjectId, horizon: &Horizon) -> Result<(), Reject> {
        self.metrics.lease_writes.inc();
        let lease = vec![(horizon.before.who, horizon.stored)];
        let (id, fence, due) = (object, horizon.fence, horizon.due);
        let written =
            crate::host::repeat(self, || self.store.lease(id.clone(), fence, lease.clone(), due))
                .await;
        let Err(reason) = written else { return Ok(()) };
        tracing::warn!(%reason, "agent lease of a sleeping object was not stored");
        let (wall, now) = (self.clock.now(), self.clock.mono());
        let mut shard = self.directory.shard(object);
        if let Some(mut stub) = shard.stub(object, wall, now).filter(|stub| stub.fence == fence) {
            if reason == store::Error::Fenced {
                self.forget_stub(&mut shard, object);
                return Err(error::not_owner());
            } else {
                take_back(&mut stub, &horizon.before);
                shard.put_stub(object, &stub);
            }
        }
        Err(error::unavailable())
    }
}

fn take_back(stub: &mut Stub, before: &Poller) {
    if let Some(poller) = stub.find(before.who) {
        *poller = *before;
    }
}

// An admitted wait. However it ends, its participant may wait again afterwards.
struct Pass<'a, O: Object> {
    host: &'a Arc<Inner<O>>,
    object: &'a ObjectId,
    key: PassKey,
    open: bool,
}

impl<O: Object> Pass<'_, O> {
    fn settle(&mut self, verdict: Verdict) -> (Verdict, Option<u64>) {
        let poll = match &verdict {
            Ok(reply) => reply.poll,
            // Not the object's word: the caller comes again with the same request, free.
            Err(reject) if is_ours(reject.class) => return (verdict, None),
            Err(_) => None,
        };
        self.open = false;
        let host = self.host;
        let (wall, now) = (host.clock.now(), host.clock.mono());
        let mut shard = host.directory.shard(self.object);
        let settled = shard.settle(host.rule, self.object, &self.key, poll, wall, now);
        drop(shard);
        let Some(ms) = settled else { return (verdict, None) };
        match verdict {
            Ok(mut reply) if poll != Some(Poll::Terminal) => {
                splice_retry_after(&mut reply.body, ms);
                (Ok(reply), Some(ms))
            }
            verdict => (verdict, Some(ms)),
        }
    }
}

impl<O: Object> Drop for Pass<'_, O> {
    fn drop(&mut self) {
        if self.open {
            self.host.directory.shard(self.object).abandon(self.object, &self.key);
        }
    }
}

const fn is_ours(class: Class) -> bool {
    match class {
        Class::Overloaded
        | Class::NotOwner
        | Class::Fenced
        | Class::WrongRegion
        | Class::Deadline
        | Class::OutcomeUnknown
        | Class::Unavailable
        | Class::Internal => true,
        Class::Invalid
        | Class::Unauthenticated
        | Class::Forbidden
        | Class::NotFound
        | Class::Conflict
        | Class::Gone
        | Class::Limit
        | Class::TooFast => false,
    }
}

/// Adds `retryAfterMs` to a compact JSON object, as its last member.
pub(crate) fn splice_retry_after(body: &mut Vec<u8>, ms: u64) {
    if body.pop() != Some(b'}') {
        return;
    }
    if body.last() != Some(&b'{') {
        body.push(b',');
    }
    // Writing to a Vec cannot fail.
    let _infallible = write!(body, "\"retryAfterMs\":{ms}}}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_retry_time_is_the_last_member() {
        for (body, expected) in [
            ("{}", r#"{"retryAfterMs":7}"#),
            (r#"{"a":{}}"#, r#"{"a":{},"retryAfterMs":7}"#),
            (r#"{"a":"}"}"#, r#"{"a":"}","retryAfterMs":7}"#),
        ] {
            let mut bytes = body.as_bytes().to_vec();
            splice_retry_after(&mut bytes, 7);
            assert_eq!(String::from_utf8_lossy(&bytes), expected);
        }
    }
}
