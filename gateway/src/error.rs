//! Refusals as clients see them, whoever refused: this gateway, the op's check, or the room.
//!
//! Class and text of a code that the room's table has are the table's, so that a client reads the
//! same whoever refuses.

use std::borrow::Cow;

use object::{Class, Reject};
use proto::v1;
use room::reject::Code;

/// One fault of one argument (ours 3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Where, in dotted form; empty for the whole object.
    pub path: String,
    /// Which rule: `required`, `type`, `maxLength`, ...
    pub rule: Cow<'static, str>,
    /// What to do about it.
    pub message: String,
}

/// A refused call: what the client is told and nothing else (ours 3).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    pub class: Class,
    /// The contract's code, for example `room_full`.
    pub code: Cow<'static, str>,
    pub message: Cow<'static, str>,
    /// Whether repeating the very same call can succeed.
    pub retryable: bool,
    /// Milliseconds until a repeat can be admitted, where that is known.
    pub retry_after_ms: Option<u64>,
    /// The argument at fault, where there is one.
    pub field: Option<Cow<'static, str>>,
    /// The bound that was met, in the unit the message names.
    pub limit: Option<u64>,
    /// For `invalid_arguments`: every fault at once.
    /// Bounded by `FAULTS_MAX` of the room's check.
    pub faults: Vec<Fault>,
}

impl Refusal {
    /// A refusal with no optional parts.
    #[must_use]
    pub const fn new(
        class: Class,
        code: &'static str,
        message: &'static str,
        retryable: bool,
    ) -> Self {
        Self {
            class,
            code: Cow::Borrowed(code),
            message: Cow::Borrowed(message),
            retryable,
            retry_after_ms: None,
            field: None,
            limit: None,
            faults: Vec::new(),
        }
    }

    /// Says when to come back, in milliseconds.
    #[must_use]
    pub const fn retry_after(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }

    /// Names the argument at fault.
    #[must_use]
    pub fn field(mut self, field: &'static str) -> Self {
        self.field = Some(Cow::Borrowed(field));
        self
    }

    /// Names the bound that was met.
    #[must_use]
    pub const fn limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Arguments that no op's own check has seen, with one fault (ours 3).
    #[must_use]
    pub fn invalid_arguments(path: &str, rule: &'static str, message: &str) -> Self {
        let mut refusal = Self::from(Code::InvalidArguments.reject());
        refusal.faults.push(Fault {
            path: path.to_owned(),
            rule: Cow::Borrowed(rule),
            message: message.to_owned(),
        });
        refusal
    }

    /// The argument of this name is to hold base64 and does not.
    #[must_use]
    pub fn invalid_attachment(field: &'static str) -> Self {
        Self::from(Code::InvalidAttachment.reject()).field(field)
    }

    /// The handle is damaged, forged, foreign, or its participant is gone (ours 3).
    #[must_use]
    pub fn invalid_participant_handle() -> Self {
        Self::from(Code::InvalidParticipantHandle.reject())
    }

    /// A poll before the cadence admits the next one (ours 7, 8).
    #[must_use]
    pub fn wait_rate_limited(retry_after_ms: u64) -> Self {
        Self::from(Code::WaitRateLimited.reject()).retry_after(retry_after_ms)
    }

    /// The guard's budget of this handle or address is used up (ours 19).
    #[must_use]
    pub fn rate_limited(retry_after_ms: u64) -> Self {
        Self::from(Code::RateLimited.reject()).retry_after(retry_after_ms)
    }

    /// Too many calls are in flight in this gateway (ours 20).
    #[must_use]
    pub const fn overloaded() -> Self {
        Self::new(
            Class::Overloaded,
            "overloaded",
            "The service is overloaded. Wait for retryAfterMs milliseconds, then repeat the call.",
            true,
        )
        .retry_after(OVERLOADED_RETRY_AFTER_MS)
    }

    /// The room cannot be reached at the moment; nothing is known to have happened.
    #[must_use]
    pub fn room_unavailable() -> Self {
        Self::from(Code::RoomUnavailable.reject())
    }

    /// No gateway of the room's home region answers; nothing is known to have happened.
    #[must_use]
    pub fn region_away(region: &str) -> Self {
        let mut refusal = Self::room_unavailable();
        refusal.message = Cow::Owned(format!(
            "The rooms of region `{region}` cannot be reached from here right now; other rooms are \
             not affected. Repeat the call shortly."
        ));
        refusal
    }

    /// A call that was forwarded to a region where its room is not at home: the regions files of
    /// two regions differ. Nothing ran.
    #[must_use]
    pub const fn wrong_region() -> Self {
        Self::new(
            Class::WrongRegion,
            "room_unavailable",
            "Two regions do not agree on where this room is; tell the service's operator.",
            true,
        )
    }

    /// The answer was lost after the call had been sent: it may have happened.
    #[must_use]
    pub const fn outcome_unknown() -> Self {
        Self::new(
            Class::OutcomeUnknown,
            "outcome_unknown",
            "The answer was lost: the call may or may not have happened. Read the room to find out \
             before repeating it, or repeat it with the same clientRequestId.",
            false,
        )
    }

    /// Three fresh room ids in a row were taken already (rooms 6.4).
    #[must_use]
    pub fn room_id_collision() -> Self {
        Self::from(Code::RoomIdCollision.reject())
    }

    /// A node's answer that is no JSON object: our own bug, told as such.
    #[must_use]
    pub const fn unreadable_answer() -> Self {
        Self::new(
            Class::Internal,
            "internal_error",
            "The service made a mistake with this answer; the call itself may have happened.",
            false,
        )
    }

    /// The system gives no random numbers to make ids of.
    #[must_use]
    pub const fn no_random() -> Self {
        Self::new(
            Class::Internal,
            "internal_error",
            "The service has no random numbers at the moment. Repeat the call.",
            true,
        )
    }
}

/// When to come back after [`Refusal::overloaded`], in milliseconds.
pub const OVERLOADED_RETRY_AFTER_MS: u64 = 1_000;

impl From<Reject> for Refusal {
    fn from(reject: Reject) -> Self {
        Self {
            class: reject.class,
            code: Cow::Borrowed(reject.code),
            message: reject.message,
            retryable: reject.retryable,
            retry_after_ms: reject.retry_after_ms,
            field: reject.field.map(Cow::Borrowed),
            limit: reject.limit,
            faults: reject
                .faults
                .into_iter()
                .map(|fault| Fault {
                    path: fault.path,
                    rule: Cow::Borrowed(fault.rule),
                    message: fault.message,
                })
                .collect(),
        }
    }
}

impl From<Refusal> for v1::Refusal {
    fn from(refusal: Refusal) -> Self {
        let fault = |fault: Fault| v1::Fault {
            path: fault.path,
            rule: fault.rule.into_owned(),
            message: fault.message,
        };
        Self {
            class: proto::class::number(refusal.class),
            code: refusal.code.into_owned(),
            message: refusal.message.into_owned(),
            retryable: refusal.retryable,
            retry_after_ms: refusal.retry_after_ms,
            field: refusal.field.map(Cow::into_owned),
            limit: refusal.limit,
            faults: refusal.faults.into_iter().map(fault).collect(),
            owner_hint: None,
            view: 0,
        }
    }
}

impl From<v1::Refusal> for Refusal {
    fn from(refusal: v1::Refusal) -> Self {
        Self {
            class: proto::class::class(refusal.class),
            code: Cow::Owned(refusal.code),
            message: Cow::Owned(refusal.message),
            retryable: refusal.retryable,
            retry_after_ms: refusal.retry_after_ms,
            field: refusal.field.map(Cow::Owned),
            limit: refusal.limit,
            faults: refusal
                .faults
                .into_iter()
                .map(|fault| Fault {
                    path: fault.path,
                    rule: Cow::Owned(fault.rule),
                    message: fault.message,
                })
                .collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reject_is_the_same_refusal_by_either_way() {
        let mut reject = Reject::new(Class::Limit, "text_too_long", "Shorten it.", false)
            .field("text")
            .limit(4000)
            .retry_after(7);
        reject.faults.push(object::Fault {
            path: "details.tone".into(),
            rule: "maxLength",
            message: "too long".into(),
        });
        let direct = Refusal::from(reject.clone());
        assert_eq!(direct, Refusal::from(proto::class::refusal(reject)));
        assert_eq!(direct, Refusal::from(v1::Refusal::from(direct.clone())), "to a peer and back");
        assert_eq!(direct.code, "text_too_long");
        assert_eq!(direct.faults.len(), 1);
    }
}
