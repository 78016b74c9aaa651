//! Waits: admitted or refused by cadence before any object is touched.

use std::io::Write as _;
use std::sync::Arc;

use object::{Class, Object, ObjectId, ParticipantId, Poll};

use super::book::Book;
use super::cadence::Admission;
use crate::error;
use crate::host::{Active, Cause, Inner, Request, Response, Verdict};

impl<O: Object> Inner<O> {
    /// Answers a wait of a participant.
    pub(crate) async fn wait(self: &Arc<Self>, request: Request, who: ParticipantId) -> Response {
        let object = request.object.clone();
        let short = request.request;
        let (pending, verdict) = self.pending(request, None);
        let ticket = {
            let mut shard = self.directory.shard(&object);
            let entry = match self.entry(&mut shard, &object, Cause::Poll, Book::default) {
                Ok(entry) => entry,
                Err(reject) => return Response::refused(reject),
            };
            let ticket = match self.admit(&entry, who, short) {
                Ok(ticket) => ticket,
                Err(refused) => return refused,
            };
            if let Err(reject) = self.push(&entry, pending) {
                entry.book().abandon(who, ticket);
                return Response::refused(reject);
            }
            ticket
        };
        let mut pass = Pass { host: self, object: &object, who, ticket, open: true };
        let verdict = self.verdict(&object, verdict).await;
        let (verdict, next_wait_ms) = pass.settle(verdict);
        Response { result: self.success(&object, verdict).await, next_wait_ms }
    }

    fn admit(
        &self,
        entry: &Active,
        who: ParticipantId,
        request: object::RequestId,
    ) -> Result<u16, Response> {
        let now = self.clock.mono();
        let entries_max = self.config.cadence_entries_max;
        let (admission, ticket) = entry.book().admit(self.rule, who, request, now, entries_max);
        self.admitted(admission).map(|()| ticket)
    }

    /// The refusal of a wait that is not admitted.
    pub(crate) fn admitted(&self, admission: Admission) -> Result<(), Response> {
        match admission {
            Admission::Admitted | Admission::Replaces => Ok(()),
            Admission::Pending => Err(Response::refused(error::wait_already_pending())),
            Admission::TooEarly(ms) => {
                self.metrics.waits_refused.with_label_values(&["owner"]).inc();
                let result = Err(error::wait_rate_limited(ms));
                Err(Response { result, next_wait_ms: Some(ms) })
            }
        }
    }
}

// An admitted wait. However it ends, its participant may wait again afterwards.
struct Pass<'a, O: Object> {
    host: &'a Arc<Inner<O>>,
    object: &'a ObjectId,
    who: ParticipantId,
    ticket: u16,
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
        let (host, now) = (self.host, self.host.clock.mono());
        let shard = host.directory.shard(self.object);
        let Some(ms) = shard.settle(host.rule, self.object, self.who, self.ticket, poll, now)
        else {
            return (verdict, None);
        };
        drop(shard);
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
            let shard = self.host.directory.shard(self.object);
            shard.abandon(self.object, self.who, self.ticket);
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
