//! The edge over real sockets: raw bytes in, raw bytes out, a scripted backend behind.
//!
//! `rig` is the server under test and `wire` a byte-level client; each other module is one part of
//! the contract as tables, written against any rig. `standalone/tests/all/parity` runs the same
//! files against the whole product. Only `parting` and `scripted` need the
//! script. Nothing sleeps: every test waits for an answer or for a signal of the script.
#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test fails by panicking"
)]

mod bounds;
mod cancel;
#[cfg(feature = "test-hooks")]
mod hooks;
mod hostile;
mod legacy;
mod modern;
mod pages;
mod parting;
mod results;
#[cfg(test)]
mod rig;
mod scripted;
mod who;
mod wire;
