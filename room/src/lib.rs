//! The Room: a pure state machine, one file per op, and the catalog of its tools.
//!
//! `room` never awaits, reads a clock, draws randomness or names a protocol.
#![forbid(unsafe_code)]

pub mod app;
pub mod catalog;
pub mod grant;
pub mod live_view;
pub mod surface;
pub mod transcript;

use object::KindTag;

/// The room's letter in stored keys.
pub const KIND: KindTag = KindTag(b'r');
