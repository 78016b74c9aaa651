//! The history checker: reads what clients saw on the wire, and says by name which promise broke.
//!
//! A history is ndjson, one record a line: `{t, client, op, key, phase, room, sequence?,
//! detail?}` (interfaces.md, tasks and reports), in the order of `t` (microseconds of one clock).
//! Because the room assigns sequences itself the order to compare with is given, and checking is
//! linear but for the lookups (cluster 4.3). Rules and their names: [`rules`].
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
//!
//! An event is `{sequence, key, scoped, attachment}`.

mod index;
mod rules;
mod tests;

use serde::{Deserialize, Serialize};
use serde_json::Value;

pub(crate) use rules::{RULES, check};

/// Where a call stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Phase {
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
pub(crate) struct Record {
    pub(crate) t: u64,
    pub(crate) client: String,
    pub(crate) op: String,
    pub(crate) key: String,
    pub(crate) phase: Phase,
    pub(crate) room: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) sequence: Option<u64>,
    #[serde(default, skip_serializing_if = "Value::is_null")]
    pub(crate) detail: Value,
}

/// An event as an observer saw it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Seen {
    pub(crate) sequence: u64,
    pub(crate) key: String,
    /// Part of a task: not everybody sees it.
    #[serde(default)]
    pub(crate) scoped: bool,
    #[serde(default)]
    pub(crate) attachment: bool,
}

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    /// One of [`RULES`].
    pub(crate) rule: &'static str,
    pub(crate) detail: String,
}

/// Reads ndjson; a line that is no record is an error with its number.
pub(crate) fn parse(text: &str) -> Result<Vec<Record>, String> {
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(at, line)| {
            serde_json::from_str(line).map_err(|error| format!("line {}: {error}", at + 1))
        })
        .collect()
}

/// Writes ndjson.
pub(crate) fn write(records: &[Record]) -> String {
    let line = |record| serde_json::to_string(record).unwrap() + "\n";
    records.iter().map(line).collect()
}
