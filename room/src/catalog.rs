//! The catalog: what every tool is called, takes, gives and costs; the edge builds its tool list
//! and its checks from here.

use object::{OpMeta, Reject};
use serde_json::Value;

/// Hints for agent hosts, as MCP names them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Annotations {
    pub read_only: bool,
    pub destructive: bool,
    pub idempotent: bool,
    pub open_world: bool,
}

/// The stateless check of an op: arguments without the blob's value, and the blob's bytes.
/// The same function runs at the edge and at the node; the refusal lists every fault at once.
pub type Check = fn(&Value, Option<&[u8]>) -> Result<(), Reject>;

/// One op shown through MCP.
#[derive(Clone, Debug)]
pub struct Tool {
    pub meta: &'static OpMeta,
    pub title: &'static str,
    /// Purpose, when to use it and when another tool instead, side effects, limits, errors.
    pub description: &'static str,
    pub annotations: Annotations,
    /// JSON Schema 2020-12, root `type: object`, no `$ref`.
    pub input_schema: Value,
    pub output_schema: Value,
    pub check: Check,
}

/// All tools, in the order the seeds name them. Built once per process.
#[must_use]
pub fn tools() -> Vec<Tool> {
    crate::ops::tools()
}
