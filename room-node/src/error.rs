//! What the host itself refuses, in one place: the code, its class, and whether repeating is safe.

use object::{Class, Reject};

/// Why a host does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot register the host's metrics")]
    Metrics(#[from] prometheus::Error),
}

/// Too many calls wait for this object, or the node is full. Nothing ran.
pub(crate) const fn overloaded(what: &'static str) -> Reject {
    Reject::new(Class::Overloaded, "overloaded", what, true).retry_after(OVERLOADED_RETRY_MS)
}

/// A full queue drains within a few appends; half a second spreads the retries.
const OVERLOADED_RETRY_MS: u64 = 500;

/// The node has more to do than it can, and this kind of call is refused until it has caught up.
/// Nothing ran.
pub(crate) const fn shedding() -> Reject {
    let what = "This server has more to do than it can; wait `retryAfterMs` and call again.";
    Reject::new(Class::Overloaded, "overloaded", what, true).retry_after(SHEDDING_RETRY_MS)
}

/// What is refused changes once a second; two of them spread the retries.
const SHEDDING_RETRY_MS: u64 = 2_000;

/// The object cannot be reached now. Nothing was changed.
pub(crate) const fn unavailable() -> Reject {
    Reject::new(
        Class::Unavailable,
        "room_unavailable",
        "The room cannot be reached right now; try again shortly.",
        true,
    )
}

/// Another incarnation owns the object. Nothing ran.
pub(crate) const fn not_owner() -> Reject {
    Reject::new(
        Class::NotOwner,
        "room_unavailable",
        "The room is being moved to another server; try again shortly.",
        true,
    )
}

/// The node stops taking calls. Nothing ran.
pub(crate) const fn draining() -> Reject {
    Reject::new(
        Class::NotOwner,
        "room_unavailable",
        "This server is shutting down; try again shortly.",
        true,
    )
}

/// The object has been set aside because its stored bytes or its code are faulty.
pub(crate) const fn quarantined() -> Reject {
    Reject::new(
        Class::Unavailable,
        "room_unavailable",
        "The room is out of service until an operator has looked at it.",
        false,
    )
}

/// A fault of ours while this very call was decided. Nothing was stored.
pub(crate) const fn internal() -> Reject {
    Reject::new(
        Class::Internal,
        "internal_error",
        "The server failed on this call; nothing was changed.",
        false,
    )
}

/// It cannot be told whether the change was stored.
pub(crate) const fn outcome_unknown() -> Reject {
    Reject::new(
        Class::OutcomeUnknown,
        "outcome_unknown",
        "It is not known whether the call took effect; repeat it with the same clientRequestId.",
        false,
    )
}

/// The caller's time is over.
pub(crate) const fn deadline() -> Reject {
    Reject::new(
        Class::Deadline,
        "deadline_exceeded",
        "The call was not answered in time; it may or may not have taken effect.",
        false,
    )
}

/// A wait before its time (ours 7).
pub(crate) const fn wait_rate_limited(retry_after_ms: u64) -> Reject {
    Reject::new(
        Class::TooFast,
        "wait_rate_limited",
        "This wait came too early; wait `retryAfterMs` milliseconds and call again.",
        true,
    )
    .retry_after(retry_after_ms)
}

/// A second wait while one is held.
pub(crate) const fn wait_already_pending() -> Reject {
    Reject::new(
        Class::Conflict,
        "wait_already_pending",
        "Another wait of this participant is being held; let it end before the next one.",
        true,
    )
}

/// An op this node does not know: a newer peer.
pub(crate) const fn unknown_op() -> Reject {
    Reject::new(Class::Invalid, "unknown_op", "This server does not know the operation.", false)
}

/// A malformed envelope between our own processes.
pub(crate) const fn malformed(what: &'static str) -> Reject {
    Reject::new(Class::Invalid, "malformed_call", what, false)
}

#[cfg(test)]
mod tests {
    use room::reject::Code;

    use super::*;

    // The host says it for any object, so it cannot take the room's table; clients see one text.
    #[test]
    fn refused_waits_are_told_as_the_rooms_table_tells_them() {
        let early = Code::WaitRateLimited.reject().retry_after(1_500);
        assert_eq!(wait_rate_limited(1_500), early);
        assert_eq!(wait_already_pending(), Code::WaitAlreadyPending.reject());
    }
}
