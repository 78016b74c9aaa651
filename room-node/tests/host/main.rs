//! The host with a small object through its whole life, on the reference store and paused time.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::indexing_slicing)]
#![allow(clippy::cast_possible_truncation, unreachable_pub)]

mod basics;
mod counter;
mod crash;
mod faults;
mod held;
mod link;
mod rig;
mod room;
mod sleep;
mod timers;
