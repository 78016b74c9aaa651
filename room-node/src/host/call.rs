//! A call on its way through the host, and what becomes of it.

use bytes::Bytes;
use object::{
    BlobArg, BlobId, Call, Caller, Millis, ObjectId, OpMeta, Parked, Reject, Reply, RequestId,
};
use tokio::sync::oneshot;

use super::directory::PassKey;
use crate::clock::Mono;

/// One call as it enters the host.
#[derive(Clone)]
pub struct Request {
    pub op: &'static OpMeta,
    pub object: ObjectId,
    pub caller: Caller,
    /// One JSON object.
    pub args: Bytes,
    /// Bytes of the op's blob argument.
    pub blob: Option<Bytes>,
    /// The same on every retry of one client call.
    pub request: RequestId,
    /// 1 for the first attempt.
    pub attempt: u32,
    /// Age of the first attempt, in milliseconds.
    pub age_ms: u64,
    /// When the answer is no longer wanted.
    pub deadline: Mono,
    /// Connection the caller came by; 0 for none.
    pub connection: u64,
    /// The latest membership view its sender knows; 0 for none.
    pub view: u64,
    /// How many nodes have sent the call on before.
    pub hops: u32,
}

// Arguments may hold message text, so they are never printed.
impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request").field("op", &self.op.name).finish_non_exhaustive()
    }
}

/// A success, ready for the wire.
#[derive(Clone, PartialEq, Eq)]
pub struct Success {
    /// Compact JSON object.
    pub body: Vec<u8>,
    /// Bytes of an attached blob.
    pub blob: Option<Bytes>,
    /// MIME type of an attached image; `None` for attached text.
    pub image_mime: Option<String>,
}

impl std::fmt::Debug for Success {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Success").field("body_bytes", &self.body.len()).finish_non_exhaustive()
    }
}

/// How a call ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Response {
    pub result: Result<Success, Reject>,
    /// On answers of waits: milliseconds until the next wait of this participant is admitted.
    pub next_wait_ms: Option<u64>,
    /// With a refusal of class `NotOwner`: where the call belongs.
    pub elsewhere: Option<Elsewhere>,
}

/// Where a call belongs that is not answered here.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Elsewhere {
    /// Address of the owner, as far as it is known.
    pub hint: Option<String>,
    /// The view this was read from; 0 where there is none.
    pub view: u64,
}

impl Response {
    pub(crate) const fn refused(reject: Reject) -> Self {
        Self { result: Err(reject), next_wait_ms: None, elsewhere: None }
    }
}

/// What the actor says about a call, after the commit.
pub(crate) type Verdict = Result<Reply, Reject>;

/// A call that waits for its verdict: in a mailbox, in a batch, or parked.
pub(crate) struct Pending {
    pub(crate) request: Request,
    /// Where the request's blob was put.
    pub(crate) blob: Option<BlobId>,
    /// When the call reached the host.
    pub(crate) came: Millis,
    /// When its holding counts from: before it came, for a wait that was held elsewhere before.
    pub(crate) since: Millis,
    /// The admission of a wait.
    pub(crate) pass: Option<PassKey>,
    pub(crate) reply: oneshot::Sender<Verdict>,
}

impl std::fmt::Debug for Pending {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pending").field("op", &self.request.op.name).finish_non_exhaustive()
    }
}

impl Pending {
    /// How long a wait that comes again was held elsewhere, in milliseconds; `None` for a call that
    /// is here for the first time.
    pub(crate) fn moved_ms(&self) -> Option<u64> {
        let again = self.request.attempt > 1 || self.request.hops > 0;
        (again && self.request.op.wait).then(|| self.came.since(self.since))
    }

    /// The call as an object sees it.
    pub(crate) fn as_call(&self, parked: Option<Parked>, now: Millis) -> Call<'_> {
        let request = &self.request;
        Call {
            op: request.op,
            args: &request.args,
            blob: match (self.blob, &request.blob) {
                (Some(id), Some(bytes)) => Some(BlobArg { id, bytes }),
                _ => None,
            },
            caller: request.caller,
            request: request.request,
            attempt: request.attempt,
            age_ms: request.age_ms.saturating_add(now.since(self.came)),
            connection: request.connection,
            since: self.since,
            parked,
        }
    }

    /// True once nobody waits for the verdict.
    pub(crate) fn is_abandoned(&self) -> bool {
        self.reply.is_closed()
    }

    /// Tells the caller; a caller that is gone is no fault.
    pub(crate) fn answer(self: Box<Self>, verdict: Verdict) {
        let _gone = self.reply.send(verdict);
    }
}
