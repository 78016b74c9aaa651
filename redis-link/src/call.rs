//! What is asked of Redis, and how a call can fail.

use std::fmt;

use bytes::Bytes;
use tokio::time::Instant;

/// One call of a function of a [`Library`](crate::Library).
#[derive(Clone)]
pub struct Call {
    /// Its hash tag decides primary and lane. All of `keys` share the tag.
    pub key: Bytes,
    /// The name the function has in its library.
    pub function: &'static str,
    pub keys: Vec<Bytes>,
    pub args: Vec<Bytes>,
    /// Whether the function may write. One that may not is run as a read-only one.
    pub writes: bool,
    /// Whether the answer waits for the durability level: at D3 and D4 for WAIT or WAITAOF.
    pub durable: bool,
    /// The answer comes by then. What was not sent by then is never sent.
    pub deadline: Instant,
}

impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Keys hold the ids of rooms and arguments what people wrote: neither is printed.
        f.debug_struct("Call")
            .field("function", &self.function)
            .field("keys", &self.keys.len())
            .field("args", &self.args.len())
            .field("writes", &self.writes)
            .field("durable", &self.durable)
            .finish_non_exhaustive()
    }
}

/// Why a call has no answer.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Failure {
    /// Nothing ran, and nothing of this call will. Repeating it is safe.
    #[error("redis was not asked: {reason}")]
    NotSent { reason: Unsent },
    /// It may have run, may still run, or ran and is not confirmed at the level.
    #[error("redis may have done it: {reason}; take a new fence, then read")]
    Unknown { reason: Doubt },
    /// The server or the function answered with an error. Nothing changed, provided that the
    /// function checks before it writes.
    #[error("redis refused: {code} {detail}")]
    Refused {
        /// The first word of the error, such as `OOM`, `MISCONF` or `NOREPLICAS`.
        code: String,
        /// The rest of the error; for the log only.
        detail: String,
    },
}

/// Why nothing ran.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Unsent {
    #[error("the lane's queue is full; shed load or raise the number of lanes")]
    QueueFull,
    #[error("the deadline passed before it was sent")]
    Deadline,
    #[error("no primary is connected; see the log for the reason of the last attempt")]
    NoPrimary,
    #[error("the link is closed: the store behind it is not the one it was; see the log")]
    Closed,
    #[error("the server could not run it until the deadline (moved, loading or read-only)")]
    Busy,
    #[error("no library has a function of this name")]
    NoFunction,
}

/// Why it is not known whether it ran, or whether it will last.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Doubt {
    #[error("the link was lost after sending")]
    LinkLost,
    #[error("no answer in time")]
    Timeout,
    #[error("the answers do not belong to the calls; the link was cut")]
    Mismatch,
    #[error("fewer replicas confirmed it than the durability level asks for")]
    ShortWait,
}

impl Failure {
    pub(crate) const fn not_sent(reason: Unsent) -> Self {
        Self::NotSent { reason }
    }

    pub(crate) const fn unknown(reason: Doubt) -> Self {
        Self::Unknown { reason }
    }
}
