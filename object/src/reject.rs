//! Refusals: a closed class drives transport and retry, a code is what clients program against.

use std::borrow::Cow;

/// What kind of refusal this is. Transport, status codes and retries look only at the class.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Class {
    Invalid,
    Unauthenticated,
    Forbidden,
    NotFound,
    Conflict,
    Gone,
    Limit,
    TooFast,
    Overloaded,
    NotOwner,
    Fenced,
    WrongRegion,
    Deadline,
    OutcomeUnknown,
    Unavailable,
    Internal,
}

/// One fault of one argument.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Where, in dotted form: `details.tone`, `attachmentIds[2]`; empty for the whole object.
    pub path: String,
    /// Which rule: `required`, `type`, `minLength`, `maxLength`, `pattern`, ...
    pub rule: &'static str,
    /// What to do about it, for the client.
    pub message: String,
}

/// A refused call: what the client is told, and nothing else. Log context travels elsewhere.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Reject {
    pub class: Class,
    /// The contract's code, for example `room_full`.
    pub code: &'static str,
    /// Public text: says what to do, never holds a handle or a message's text.
    pub message: Cow<'static, str>,
    /// Whether repeating the very same call can succeed.
    pub retryable: bool,
    pub retry_after_ms: Option<u64>,
    /// The argument at fault, where there is one.
    pub field: Option<&'static str>,
    /// The bound that was met, in the unit the message names.
    pub limit: Option<u64>,
    /// For `invalid_arguments`: every fault at once.
    pub faults: Vec<Fault>,
}

impl Reject {
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
            code,
            message: Cow::Borrowed(message),
            retryable,
            retry_after_ms: None,
            field: None,
            limit: None,
            faults: Vec::new(),
        }
    }

    /// Names the argument at fault.
    #[must_use]
    pub const fn field(mut self, field: &'static str) -> Self {
        self.field = Some(field);
        self
    }

    /// Names the bound that was met.
    #[must_use]
    pub const fn limit(mut self, limit: u64) -> Self {
        self.limit = Some(limit);
        self
    }

    /// Says when to come back.
    #[must_use]
    pub const fn retry_after(mut self, ms: u64) -> Self {
        self.retry_after_ms = Some(ms);
        self
    }
}
