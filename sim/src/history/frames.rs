//! Rules on the log as the store holds it: who wrote what under which fence.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Phase, Record};

/// A frame of the log.
#[derive(Debug, Deserialize)]
struct Frame {
    /// The lsn of its first event, and how many events it has.
    first: u64,
    count: u64,
    epoch: u64,
    nonce: u64,
    /// The incarnation that wrote it, where that is known.
    #[serde(default)]
    node: String,
}

/// Hands every violation to `add`.
pub(super) fn check(records: &[Record], add: &mut dyn FnMut(&'static str, String)) {
    let logs = records.iter().filter(|record| record.op == "log" && record.phase == Phase::Ok);
    for record in logs {
        let frames = serde_json::from_value(record.field("frames").clone());
        let frames: Vec<Frame> = frames.unwrap_or_else(|error| {
            add("well-formed", format!("{}: frames: {error}", record.room));
            Vec::new()
        });
        let mut owners: BTreeMap<(u64, u64), &str> = BTreeMap::new();
        for frame in &frames {
            let here = format!("{}: the frame at lsn {}", record.room, frame.first);
            let owner = *owners.entry((frame.epoch, frame.nonce)).or_insert(&frame.node);
            if owner != frame.node {
                add("fence-owner", format!("{here} is of {}, not of {owner}", frame.node));
            }
        }
        for (before, frame) in frames.iter().zip(frames.iter().skip(1)) {
            let here = format!("{}: the frame at lsn {}", record.room, frame.first);
            if before.first + before.count != frame.first {
                add("log-contiguous", format!("{here} follows {before:?}"));
            }
            let falls = frame.epoch < before.epoch;
            if falls || (frame.epoch == before.epoch && frame.nonce != before.nonce) {
                add("fence-order", format!("{here} follows {before:?}"));
            }
        }
    }
}
