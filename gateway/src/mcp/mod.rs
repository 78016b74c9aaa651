//! MCP as the outside sees it: both protocol eras over one endpoint (ours 1, mcp.md 1).
//!
//! [`jsonrpc`] reads the envelope without copying, [`era`] tells the eras apart, [`headers`] checks
//! what the modern era demands of them, [`dispatch`] orders all checks and finds the method,
//! [`tools`] runs a tool and [`render`] writes its result. Only `tools` awaits.

pub mod dispatch;
pub mod era;
pub mod headers;
#[cfg(feature = "test-hooks")]
pub mod hooks;
pub mod jsonrpc;
pub mod prepared;
pub mod render;
pub mod schema;
pub mod tools;

/// The name both eras tell (interfaces.md, names).
pub const SERVER_NAME: &str = "roomring";
/// The version both eras tell.
pub const SERVER_VERSION: &str = env!("CARGO_PKG_VERSION");
/// How long a client may keep `server/discover` and `tools/list`, in milliseconds.
pub const LIST_TTL_MS: u64 = 3_600_000;
