//! The edge over real sockets: raw bytes in, raw bytes out, a scripted backend behind.
//!
//! `rig` holds the server, the script and a byte-level client; each other module is one part of
//! the contract as tables. Nothing sleeps: every test waits for an answer or for a signal of the
//! script.
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
mod results;
mod rig;
mod who;
