//! The room from outside: a naive model, replay, stored forms, the catalog, and the rules of the
//! contract as scenarios.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    dead_code
)]

use room::{KIND, Room, Settings, event, invariant, live, op};

mod catalog;
mod golden;
mod model;
mod replay;
mod rules;
#[path = "../../src/testing.rs"]
mod testing;
