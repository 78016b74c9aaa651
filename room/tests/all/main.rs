//! The room from outside: a naive model, replay, stored forms, the catalog, and the rules of the
//! contract as scenarios.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "helpers of tests fail by panicking"
)]

use room::catalog::tools;
use room::{KIND, Room, Settings, event, invariant, live, op};

mod catalog;
mod golden;
mod model;
mod replay;
mod rules;
#[path = "../../src/testing.rs"]
mod testing;
