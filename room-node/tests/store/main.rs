//! The store's suite: every implementation against the same rules, against the reference, and
//! against kill -9.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    clippy::needless_pass_by_value,
    reason = "tests stop at the first surprise"
)]

mod conformance;
mod crash;
mod faults;
mod frames;
mod harness;
mod open;
mod redis;
mod redis_faults;
mod rules;
mod sets;
mod timed;
mod torn;
