//! The host with a small object through its whole life, on the reference store and paused time.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    unreachable_pub,
    reason = "tests stop at the first surprise, and share what their modules show"
)]

mod basics;
mod bounds;
mod counter;
mod crash;
mod faults;
mod handoff;
mod held;
mod hints;
mod link;
mod pressure;
mod rig;
mod room;
mod shed;
mod sleep;
mod streams;
mod takeover;
mod timers;
mod town;
