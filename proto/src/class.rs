//! The numbers of [`Class`] on the wire, and refusals to and from it. Numbers are never reused.

use object::{Class, Fault, Reject};

use crate::v1;

/// The wire number of a class.
#[must_use]
pub const fn number(class: Class) -> u32 {
    match class {
        Class::Invalid => 1,
        Class::Unauthenticated => 2,
        Class::Forbidden => 3,
        Class::NotFound => 4,
        Class::Conflict => 5,
        Class::Gone => 6,
        Class::Limit => 7,
        Class::TooFast => 8,
        Class::Overloaded => 9,
        Class::NotOwner => 10,
        Class::Fenced => 11,
        Class::WrongRegion => 12,
        Class::Deadline => 13,
        Class::OutcomeUnknown => 14,
        Class::Unavailable => 15,
        Class::Internal => 16,
    }
}

/// The class of a wire number; an unknown one (a newer peer) is `Internal`.
#[must_use]
pub const fn class(number: u32) -> Class {
    match number {
        1 => Class::Invalid,
        2 => Class::Unauthenticated,
        3 => Class::Forbidden,
        4 => Class::NotFound,
        5 => Class::Conflict,
        6 => Class::Gone,
        7 => Class::Limit,
        8 => Class::TooFast,
        9 => Class::Overloaded,
        10 => Class::NotOwner,
        11 => Class::Fenced,
        12 => Class::WrongRegion,
        13 => Class::Deadline,
        14 => Class::OutcomeUnknown,
        15 => Class::Unavailable,
        _ => Class::Internal,
    }
}

/// A refusal as it goes over the wire.
#[must_use]
pub fn refusal(reject: Reject) -> v1::Refusal {
    v1::Refusal {
        class: number(reject.class),
        code: reject.code.to_owned(),
        message: reject.message.into_owned(),
        retryable: reject.retryable,
        retry_after_ms: reject.retry_after_ms,
        field: reject.field.map(str::to_owned),
        limit: reject.limit,
        faults: reject.faults.into_iter().map(fault).collect(),
        owner_hint: None,
        view: 0,
    }
}

fn fault(fault: Fault) -> v1::Fault {
    v1::Fault { path: fault.path, rule: fault.rule.to_owned(), message: fault.message }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_class_survives_the_wire() {
        for n in 1..=16 {
            assert_eq!(number(class(n)), n);
        }
        assert_eq!(class(99), Class::Internal);
    }
}
