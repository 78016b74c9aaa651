//! The history checker: reads what clients saw on the wire, and says by name which promise broke.
//!
//! A history is ndjson, one record a line: `{t, client, op, key, phase, room, sequence?,
//! detail?}` (interfaces.md, tasks and reports), in the order of `t` (microseconds of one clock).
//! Because the room assigns sequences itself the order to compare with is given, and checking is
//! linear but for the lookups (cluster 4.3). The rules and their names are in `rules`.
//!
//! | op | what its records hold |
//! |---|---|
//! | `join` | `detail.leaseMs`, `detail.cursor` |
//! | `send_text`, `send_attachment`, `collab_request`, `collab_response`, `collab_result` | a change: `key` is in the event itself; an attachment's `invoke` has `detail.hash` |
//! | `poll` | one wait: `detail.cursor`, `detail.to`, `detail.truncated`, `detail.events` |
//! | `read` | all that every participant can read together: `detail.events` |
//! | `read_attachment` | `key` of the upload; `ok` has `detail.hash`, `fail` has `detail.code` |
//! | `repeat` | the change `key` sent again after a restart: its `sequence`, `detail.duplicate` |
//! | `lease` | a call that needs the agent to be still a participant |
//! | `leave` | the only agent of a room goes: `detail.emptyMs`, after which the room dies, `detail.boundMs` late at most |
//! | `log` | one look at what the store holds, in their order: `detail.frames`, and its record (`frames.rs`) |
//!
//! An event is `{sequence, key, scoped, attachment}`; a frame is `{first, count, epoch, nonce, node?}`
//! with `first` an lsn. Any `ok` may have `detail.node`: not judged, for the reader of a violation.

mod frames;
mod index;
mod rules;
#[cfg(test)]
mod tests;
mod timers;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub use rules::{RULES, check};

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// About to be sent.
    Invoke,
    /// Answered with success.
    Ok,
    /// Answered with a refusal: nothing changed.
    Fail,
    /// No answer: it happened once or not at all.
    Unknown,
}

/// One line of a history.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Record {
    pub t: u64,
    pub client: String,
    pub op: String,
    pub key: String,
    pub phase: Phase,
    pub room: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub detail: Value,
}

impl Record {
    /// A field of `detail`; null if it is not there.
    fn field(&self, name: &str) -> &Value {
        self.detail.get(name).unwrap_or(&Value::Null)
    }
}

/// An event as an observer saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    pub sequence: u64,
    pub key: String,
    /// Part of a task: not everybody sees it.
    #[serde(default)]
    pub scoped: bool,
    #[serde(default)]
    pub attachment: bool,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// One of [`RULES`].
    pub rule: &'static str,
    pub detail: String,
}

/// Reads ndjson; a line that is no record is an error with its number.
pub fn parse(text: &str) -> Result<Vec<Record>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))
        })
        .collect()
}

/// Writes ndjson.
pub fn write(records: &[Record]) -> serde_json::Result<String> {
    let mut text = String::new();
    for record in records {
        text.push_str(&serde_json::to_string(record)?);
        text.push('\n');
    }
    Ok(text)
}
