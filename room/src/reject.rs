//! Every code a client can be refused with: its class, whether repeating can succeed, and what to
//! do about it.

use object::{Class, Reject};

mod codes;

pub use codes::Code;

/// Who raises a code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The room itself.
    Room,
    /// The edge or the host, before the room is asked.
    Edge,
    /// Nobody: the reference's code for a case that our schemas report as `invalid_arguments` with
    /// the field at fault, or that cannot come about here. Kept so that its page can say so.
    Unused,
}

impl Code {
    /// The refusal with this code.
    #[must_use]
    pub const fn reject(self) -> Reject {
        Reject::new(self.class(), self.code(), self.message(), self.retryable())
    }

    /// The refusal with this code, and what exactly was wrong.
    #[must_use]
    pub fn because(self, what: &str) -> Reject {
        let mut reject = self.reject();
        reject.message = format!("{} Here: {what}.", self.message()).into();
        reject
    }

    /// The code of a text, if there is one.
    #[must_use]
    pub fn find(code: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|known| known.code() == code)
    }
}

impl From<Code> for Reject {
    fn from(code: Code) -> Self {
        code.reject()
    }
}

/// The class of a code, for callers that only have the code.
#[must_use]
pub fn class_of(code: &str) -> Option<Class> {
    Code::find(code).map(Code::class)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_unique_safe_and_say_what_to_do() {
        for (at, code) in Code::ALL.iter().enumerate() {
            let text = code.code();
            assert!(text.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{text}");
            assert!(code.message().len() > 20, "{text}");
            assert!(code.message().ends_with('.'), "{text}");
            assert!(Code::ALL[at + 1..].iter().all(|other| other.code() != text), "{text}");
            assert_eq!(Code::find(text), Some(*code));
        }
        assert_eq!(Code::find("nonsense"), None);
    }
}
