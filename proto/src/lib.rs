//! Wire types between gateway and room node.
//!
//! Only shapes and their mapping to [`object`] types live here; no behaviour.
#![forbid(unsafe_code)]

pub mod class;

/// Generated from `roomring/v1/node.proto`.
#[allow(
    missing_debug_implementations,
    unreachable_pub,
    unused_qualifications,
    clippy::all,
    clippy::pedantic,
    clippy::restriction
)]
pub mod v1 {
    tonic::include_proto!("roomring.v1");
}
