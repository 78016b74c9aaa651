//! The room node: hosts durable objects, keeps them in a store, answers over gRPC.
#![forbid(unsafe_code)]

pub mod clock;
pub mod cluster;
pub mod compose;
pub mod config;
pub mod error;
pub mod flags;
pub mod front;
pub mod host;
pub mod metrics;
pub mod rpc;
pub mod serve;
pub mod store;
