//! The Room: a pure state machine, one file per op, and the catalog of its tools.
//!
//! `room` never awaits, reads a clock, draws randomness or names a protocol.
#![forbid(unsafe_code)]
#![warn(clippy::wildcard_enum_match_arm)]

pub mod app;
pub mod budget;
pub mod catalog;
pub mod event;
pub mod grant;
pub mod invariant;
pub mod limits;
pub mod live;
pub mod live_view;
pub mod names;
pub mod ops;
pub mod reject;
pub mod routing;
pub mod settings;
pub mod spec;
pub mod state;
pub mod surface;
pub mod text;
pub mod transcript;
pub mod view;

mod apply;
mod codec;
mod deadline;
mod dedup;
mod notice;
mod page;
mod room;
mod roster;
mod task;
mod timeline;
mod wait;

// The same file is the host of the integration tests.
#[cfg(test)]
#[expect(dead_code, reason = "the integration tests use the rest")]
mod testing;

use object::{KindTag, Object, OpMeta};

#[cfg(test)]
use catalog::tools;

pub use room::{Cx, Decision, Room};
pub use settings::{CuratedApp, Settings};

/// The room's letter in stored keys.
pub const KIND: KindTag = Room::KIND;

/// The declaration of an op, by name.
#[must_use]
pub fn op(name: &str) -> Option<&'static OpMeta> {
    Room::op(name)
}
