//! The edge: MCP over HTTP, sealed handles, the first tier of the cadence, the guard, and the
//! way to the nodes that own the rooms.
//!
//! A call passes [`call::Pipeline`]: check, handle, cadence, guard, routing, upstream. Everything
//! before the last step is decided in this process; a refused wait ends there. The gateway keeps
//! nothing that a restart would lose for a client, except open connections.
#![forbid(unsafe_code)]

pub mod cadence;
pub mod call;
pub mod client_addr;
pub mod clock;
pub mod compose;
pub mod config;
pub mod error;
#[cfg(test)]
mod fake_node;
pub mod flags;
pub mod guard;
pub mod handle;
pub mod http;
pub mod mcp;
pub mod metrics;
pub mod pages;
pub mod region;
mod relay;
pub mod routing;
mod running;
pub mod upstream;

pub use running::{Cluster, Gateway, Peering, Ports, Running, StartError};
