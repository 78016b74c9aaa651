//! Links to Redis: where the primaries are, who they are, and calls whose outcome is exact.
//!
//! The order of use: [`RedisLink::open`] finds the primaries of an [`Endpoint`], checks them and
//! loads the [`Library`]s; then [`RedisLink::call`] runs one function on the primary that owns the
//! key. A failed call says whether it ran: [`Failure::NotSent`] and [`Failure::Refused`] changed
//! nothing, after [`Failure::Unknown`] the caller takes a new fence before it reads.
//!
//! Two calls are in order only if the second begins after the first was answered.

#![forbid(unsafe_code)]

mod call;
mod check;
mod clock;
mod core;
mod discover;
mod endpoint;
mod error;
mod exchange;
mod generation;
mod identity;
mod keeper;
mod lane;
mod library;
mod link;
mod metrics;
mod pool;
mod primary;
mod random;
mod retry;
#[cfg(feature = "rig")]
pub mod rig;
mod settings;
mod slot;
mod socket;
mod value;

pub use call::{Call, Doubt, Failure, Unsent};
pub use endpoint::{Address, Credentials, Endpoint, EndpointError};
pub use error::OpenError;
pub use link::RedisLink;
pub use redis;
pub use settings::{Durability, Library, Settings};
pub use slot::{SLOTS, slot};
