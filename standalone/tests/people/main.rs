//! What people and resident runtimes do, proven where it is reached: a test client over the node's
//! gRPC service, beside agents that come over MCP through the real gateway, in the same rooms.
//!
//! Each scenario runs twice: with real HTTP/2 between everybody and the node, and with the
//! generated client straight on the generated service, as one process has it. Time stands still
//! and is moved by hand (`stage`), so nothing sleeps and every period is the real one.
#![forbid(unsafe_code)]

#[cfg(test)]
mod agent;
#[cfg(test)]
mod apps;
#[cfg(test)]
mod edge;
#[cfg(test)]
mod grants;
#[cfg(test)]
#[path = "../all/http.rs"]
#[expect(dead_code, reason = "shared with the tests of the binary, which use more of it")]
mod http;
#[cfg(test)]
mod link;
#[cfg(test)]
mod lost;
#[cfg(test)]
#[path = "../all/mcp.rs"]
#[expect(
    dead_code,
    clippy::disallowed_methods,
    reason = "shared with the tests of the binary, which use more of it and live in real time"
)]
mod mcp;
#[cfg(test)]
mod meet;
#[cfg(test)]
mod shown;
#[cfg(test)]
mod stage;
#[cfg(test)]
mod tasks;
