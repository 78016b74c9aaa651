//! A history looked up by room and key: what was asked, what was acknowledged, what was seen.

use std::collections::{BTreeMap, BTreeSet};

use super::{Phase, Record, Seen};

/// Ops that change a room by one event.
const CHANGES: [&str; 5] =
    ["send_text", "send_attachment", "collab_request", "collab_response", "collab_result"];

/// One change, by whatever number of attempts under one key.
#[derive(Debug, Default)]
pub(super) struct Change {
    pub(super) client: String,
    pub(super) attachment: bool,
    pub(super) first_invoke: u64,
    /// Time and sequence of each success.
    pub(super) acks: Vec<(u64, u64)>,
    pub(super) failed: bool,
    pub(super) unknown: bool,
    /// Of an upload's bytes.
    pub(super) hash: String,
}

/// One answered observation of a room.
#[derive(Debug)]
pub(super) struct Observation {
    pub(super) client: String,
    /// A wait, with the cursor it asked from, the cursor it was given, and whether it was cut.
    pub(super) poll: Option<(u64, u64, bool)>,
    pub(super) invoke: u64,
    pub(super) events: Vec<Seen>,
}

#[derive(Debug, Default)]
pub(super) struct Room {
    pub(super) changes: BTreeMap<String, Change>,
    pub(super) observations: Vec<Observation>,
    /// Keys seen at each sequence.
    pub(super) at: BTreeMap<u64, BTreeSet<String>>,
    /// Sequences at which each key was seen.
    pub(super) of: BTreeMap<String, BTreeSet<u64>>,
    /// Sequences seen as attachments.
    pub(super) attachments: BTreeSet<u64>,
    /// Cursor and agent lease (microseconds) each client joined with.
    pub(super) joins: BTreeMap<String, (u64, u64)>,
}

/// Everything by room, and the records that answer no invocation.
pub(super) fn build(records: &[Record]) -> (BTreeMap<String, Room>, Vec<String>) {
    let mut rooms: BTreeMap<String, Room> = BTreeMap::new();
    let mut open: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    let mut malformed = Vec::new();
    let mut last = 0;
    for record in records {
        if record.t < last {
            malformed.push(format!("time runs backwards at {}", record.t));
        }
        last = record.t;
        let call = (record.client.as_str(), record.op.as_str(), record.key.as_str());
        let invoked = if record.phase == Phase::Invoke {
            if open.insert(call, record.t).is_some() {
                malformed.push(format!("{call:?} invoked twice without an end"));
            }
            record.t
        } else if let Some(invoked) = open.remove(&call) {
            invoked
        } else {
            malformed.push(format!("{call:?} ended without having begun"));
            continue;
        };
        note(rooms.entry(record.room.clone()).or_default(), record, invoked);
    }
    malformed.extend(open.keys().map(|call| format!("{call:?} has no end")));
    (rooms, malformed)
}

fn note(room: &mut Room, record: &Record, invoked: u64) {
    let number = |name: &str| record.field(name).as_u64().unwrap_or_default();
    if CHANGES.contains(&record.op.as_str()) {
        change(room, record);
    } else if record.phase != Phase::Ok {
    } else if record.op == "join" {
        let joined = (number("cursor"), number("leaseMs") * 1000);
        room.joins.insert(record.client.clone(), joined);
    } else if record.op == "poll" || record.op == "read" {
        let events: Vec<Seen> =
            serde_json::from_value(record.field("events").clone()).unwrap_or_default();
        for event in &events {
            room.at.entry(event.sequence).or_default().insert(event.key.clone());
            room.of.entry(event.key.clone()).or_default().insert(event.sequence);
            if event.attachment {
                room.attachments.insert(event.sequence);
            }
        }
        let truncated = record.field("truncated") == true;
        let poll = (record.op == "poll").then(|| (number("cursor"), number("to"), truncated));
        let client = record.client.clone();
        room.observations.push(Observation { client, poll, invoke: invoked, events });
    }
}

fn change(room: &mut Room, record: &Record) {
    let change = room.changes.entry(record.key.clone()).or_insert_with(|| Change {
        client: record.client.clone(),
        attachment: record.op == "send_attachment",
        first_invoke: record.t,
        hash: record.field("hash").as_str().unwrap_or_default().to_owned(),
        ..Change::default()
    });
    match record.phase {
        Phase::Invoke => {}
        Phase::Ok => change.acks.push((record.t, record.sequence.unwrap_or_default())),
        Phase::Fail => change.failed = true,
        Phase::Unknown => change.unknown = true,
    }
}
