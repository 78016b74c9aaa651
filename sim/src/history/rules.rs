//! The rules, each with the name a violation carries.

use std::collections::BTreeMap;

use super::index::{Change, Observation, Room, build};
use super::{Phase, Record, Seen, Violation};

/// Every rule, by name.
pub const RULES: [&str; 23] = [
    "well-formed",
    "acknowledged-present",
    "acknowledged-sequence",
    "no-gap",
    "sequence-once",
    "key-once",
    "unknown-at-most-once",
    "failed-absent",
    "known-key",
    "real-time-order",
    "poll-contiguous",
    "poll-own-acks",
    "poll-fresh",
    "attachment-hash",
    "task-state",
    "lease-kept",
    "gone-stays",
    "log-contiguous",
    "log-immutable",
    "fence-order",
    "fence-owner",
    "nothing-after-destroy",
    "timer-on-time",
];

/// Retention of rooms 19: what is older may be missing from a read.
const MESSAGES_KEPT: usize = 100;
const ATTACHMENTS_KEPT: usize = 8;

/// All violations of all rules; none means the history is good.
pub fn check(records: &[Record]) -> Vec<Violation> {
    let mut found = Found(Vec::new());
    let (rooms, malformed) = build(records);
    for detail in malformed {
        found.add("well-formed", detail);
    }
    for (name, room) in &rooms {
        for (key, change) in &room.changes {
            changes(&mut found, name, room, key, change);
        }
        sequences(&mut found, name, room);
        real_time(&mut found, name, room);
        polls(&mut found, name, room);
    }
    attachments(&mut found, &rooms, records);
    tasks(&mut found, &rooms, records);
    leases(&mut found, &rooms, records);
    gone(&mut found, records);
    super::frames::check(records, &mut |rule, detail| found.add(rule, detail));
    super::timers::check(records, &mut |rule, detail| found.add(rule, detail));
    found.0
}

struct Found(Vec<Violation>);

impl Found {
    fn add(&mut self, rule: &'static str, detail: String) {
        debug_assert!(RULES.contains(&rule), "{rule}");
        self.0.push(Violation { rule, detail });
    }
}

/// What became of one change: there once, at its sequence; or absent where it was refused.
fn changes(found: &mut Found, name: &str, room: &Room, key: &str, change: &Change) {
    let seen: Vec<u64> = room.of.get(key).into_iter().flatten().copied().collect();
    let here = format!("{name}: {key} seen at {seen:?}");
    let acked = change.acks.first().map(|(_, sequence)| *sequence);
    match (acked, seen.as_slice()) {
        (Some(_), [_, _, ..]) => found.add("key-once", here),
        (Some(acked), [at]) if acked != *at => {
            found.add("acknowledged-sequence", format!("{here}, acknowledged at {acked}"));
        }
        (None, [_, _, ..]) => found.add("unknown-at-most-once", here),
        (None, [_]) if change.failed && !change.unknown => found.add("failed-absent", here),
        _ => {}
    }
    if change.acks.iter().any(|(_, sequence)| Some(*sequence) != acked) {
        found.add("acknowledged-sequence", format!("{name}: {key} acknowledged differently"));
    }
    let Some((acked_at, sequence)) = change.acks.first().copied() else { return };
    if seen.is_empty() {
        if !cut_away(room, sequence) {
            let here = format!("{name}: {key} at {sequence} was never seen");
            found.add("acknowledged-present", here);
        }
        return;
    }
    // Reads are in the order of time: once retention has let go of a change it stays gone.
    for read in room.observations.iter().filter(|o| o.poll.is_none() && o.invoke > acked_at) {
        if evicted(read, change.attachment, sequence) {
            break;
        }
        if !read.events.iter().any(|event| event.key == key) {
            let at = read.invoke;
            let here = format!("{name}: {key} missing from the read at {at}");
            found.add("acknowledged-present", here);
        }
    }
}

/// Whether retention explains that a read does not show this sequence.
fn evicted(read: &Observation, attachment: bool, sequence: u64) -> bool {
    let kept = if attachment { ATTACHMENTS_KEPT } else { MESSAGES_KEPT };
    let later = |event: &&Seen| event.attachment == attachment && event.sequence > sequence;
    read.events.iter().filter(later).count() >= kept
}

/// Whether a poll was told that it is cut, and retention had let go of this sequence by then: nobody
/// but its author may have polled before. What Redis holds is looked at apart.
fn cut_away(room: &Room, sequence: u64) -> bool {
    room.observations.iter().any(|observation| {
        observation.poll.is_some_and(|(cursor, to, truncated)| {
            truncated && cursor < sequence && sequence + MESSAGES_KEPT as u64 <= to
        })
    })
}

/// Each sequence belongs to one known change, and none is left out.
fn sequences(found: &mut Found, name: &str, room: &Room) {
    let mut expected = 1;
    for (sequence, keys) in &room.at {
        if !(expected..*sequence).all(|missing| cut_away(room, missing)) {
            found.add(
                "no-gap",
                format!("{name}: {expected} to {sequence} exclusive were never seen"),
            );
        }
        expected = sequence + 1;
        if keys.len() > 1 {
            found.add("sequence-once", format!("{name}: {sequence} was seen as {keys:?}"));
        }
        for key in keys.iter().filter(|key| !room.changes.contains_key(*key)) {
            found.add("known-key", format!("{name}: nobody sent {key}, seen at {sequence}"));
        }
    }
}

/// What was acknowledged before another call began stands before it.
fn real_time(found: &mut Found, name: &str, room: &Room) {
    let acks = Acks::of(room.changes.values());
    for (key, change) in &room.changes {
        let Some((_, own)) = change.acks.first().copied() else { continue };
        let highest = acks.before(change.first_invoke);
        if own <= highest {
            let here = format!("{name}: {key} at {own}");
            found.add("real-time-order", format!("{here} began after {highest} was acknowledged"));
        }
    }
}

/// A poller sees everything it may see, in order, and never a past it has already left.
fn polls(found: &mut Found, name: &str, room: &Room) {
    let mut cursors: BTreeMap<&str, u64> =
        room.joins.iter().map(|(client, (cursor, _))| (client.as_str(), *cursor)).collect();
    let all = Acks::of(room.changes.values());
    let mut own: BTreeMap<&str, Acks> = BTreeMap::new();
    let unscoped: BTreeMap<u64, &Seen> = room
        .observations
        .iter()
        .flat_map(|observation| &observation.events)
        .filter(|event| !event.scoped)
        .map(|event| (event.sequence, event))
        .collect();
    for observation in &room.observations {
        let Some((cursor, to, truncated)) = observation.poll else { continue };
        let client = observation.client.as_str();
        let here = format!("{name}: {client} from {cursor} to {to}");
        let expected = cursors.insert(client, to);
        if expected.is_some_and(|expected| expected != cursor) || to < cursor {
            found.add("poll-contiguous", format!("{here}, expected to begin at {expected:?}"));
        }
        let shown: Vec<u64> = observation.events.iter().map(|event| event.sequence).collect();
        let inside = shown.iter().all(|sequence| *sequence > cursor && *sequence <= to);
        if !inside || !shown.is_sorted_by(|a, b| a < b) {
            found.add("poll-contiguous", format!("{here} shows {shown:?}"));
        }
        for (sequence, event) in unscoped.range(cursor + 1..=to.max(cursor + 1)) {
            let own = room.changes.get(&event.key).is_some_and(|change| change.client == client);
            if *sequence <= to && !own && !truncated && !shown.contains(sequence) {
                found.add("poll-contiguous", format!("{here} leaves out {sequence}"));
            }
        }
        let own = own.entry(client).or_insert_with(|| {
            Acks::of(room.changes.values().filter(|change| change.client == client))
        });
        stale(found, observation, &here, to, [own, &all]);
    }
}

/// The highest sequence acknowledged before some moment, to whom.
struct Acks(Vec<(u64, u64)>);

impl Acks {
    fn of<'a>(changes: impl Iterator<Item = &'a Change>) -> Self {
        let mut acks: Vec<(u64, u64)> =
            changes.filter_map(|change| change.acks.first().copied()).collect();
        acks.sort_unstable();
        let mut highest = 0;
        for (_, sequence) in &mut acks {
            highest = highest.max(*sequence);
            *sequence = highest;
        }
        Self(acks)
    }

    fn before(&self, t: u64) -> u64 {
        let count = self.0.partition_point(|(acked, _)| *acked < t);
        count.checked_sub(1).and_then(|last| self.0.get(last)).map_or(0, |(_, highest)| *highest)
    }
}

fn stale(found: &mut Found, observation: &Observation, here: &str, to: u64, acks: [&Acks; 2]) {
    for (acks, rule) in acks.into_iter().zip(["poll-own-acks", "poll-fresh"]) {
        let acked = acks.before(observation.invoke);
        if to < acked {
            found.add(rule, format!("{here}, though {acked} was acknowledged before"));
            return;
        }
    }
}

/// An acknowledged upload is read back with the same bytes until eight newer ones push it out.
fn attachments(found: &mut Found, rooms: &BTreeMap<String, Room>, records: &[Record]) {
    for record in records.iter().filter(|record| record.op == "read_attachment") {
        let Some(room) = rooms.get(&record.room) else { continue };
        let Some(change) = room.changes.get(&record.key) else { continue };
        let Some((_, sequence)) = change.acks.first().copied() else { continue };
        let here = format!("{}: {} at {sequence}", record.room, record.key);
        match record.phase {
            Phase::Ok if record.field("hash") != change.hash.as_str() => {
                found.add("attachment-hash", format!("{here} has other bytes"));
            }
            Phase::Fail if room.attachments.range(sequence + 1..).count() < ATTACHMENTS_KEPT => {
                found.add("attachment-hash", format!("{here} cannot be read"));
            }
            Phase::Invoke | Phase::Ok | Phase::Fail | Phase::Unknown => {}
        }
    }
}

/// An acknowledged step of a task, sent again, is a duplicate at its first sequence.
fn tasks(found: &mut Found, rooms: &BTreeMap<String, Room>, records: &[Record]) {
    for record in records.iter().filter(|record| record.op == "repeat") {
        let Some(room) = rooms.get(&record.room) else { continue };
        let Some(change) = room.changes.get(&record.key) else { continue };
        let Some((_, sequence)) = change.acks.first().copied() else { continue };
        let kept = match record.phase {
            Phase::Ok => record.sequence == Some(sequence) && record.field("duplicate") == true,
            Phase::Fail => false,
            Phase::Invoke | Phase::Unknown => true,
        };
        if !kept {
            let here = format!("{}: {} at {sequence}", record.room, record.key);
            found.add("task-state", format!("{here} came back as {:?}", record.sequence));
        }
    }
}

/// An agent heard within its lease is still a participant.
fn leases(found: &mut Found, rooms: &BTreeMap<String, Room>, records: &[Record]) {
    let mut heard: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut invoked: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    for record in records {
        let agent = (record.room.as_str(), record.client.as_str());
        let lease = rooms.get(&record.room).and_then(|room| room.joins.get(&record.client));
        let Some((_, lease_us)) = lease else { continue };
        match (record.op.as_str(), record.phase) {
            // Reads of the timeline renew nothing (rooms 18.1).
            ("read", _) | (_, Phase::Unknown) => {}
            (_, Phase::Invoke) => {
                invoked.insert(agent, record.t);
            }
            (_, Phase::Ok) => {
                // The renewal happened after the invocation, at the earliest.
                heard.insert(agent, invoked.get(&agent).copied().unwrap_or_default());
            }
            ("lease", Phase::Fail) => {
                let since = heard.get(&agent).copied().unwrap_or_default();
                if record.t < since + lease_us {
                    found.add("lease-kept", format!("{agent:?} was heard at {since}"));
                }
            }
            (_, Phase::Fail) => {}
        }
    }
}

/// What a participant that is no more is told.
pub(super) const GONE: [&str; 2] = ["invalid_participant_handle", "already_left"];

/// Two leases of one agent never overlap: who was told to be gone does nothing more before it
/// joins again, whichever gateway or node it asks.
fn gone(found: &mut Found, records: &[Record]) {
    let mut gone: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let mut invoked: BTreeMap<(&str, &str, &str), u64> = BTreeMap::new();
    for record in records.iter().filter(|record| record.op != "read") {
        let agent = (record.room.as_str(), record.client.as_str());
        let call = (record.client.as_str(), record.op.as_str(), record.key.as_str());
        let told = record.field("code").as_str().is_some_and(|code| GONE.contains(&code));
        match record.phase {
            Phase::Invoke => {
                invoked.insert(call, record.t);
            }
            Phase::Ok if record.op == "join" => {
                gone.remove(&agent);
            }
            Phase::Ok => {
                let since = gone.get(&agent).copied().unwrap_or(u64::MAX);
                if invoked.get(&call).is_some_and(|at| *at > since) {
                    let here = format!("{agent:?} did {} {}", record.op, record.key);
                    found.add("gone-stays", format!("{here} after it was gone at {since}"));
                }
            }
            Phase::Fail if told => {
                gone.entry(agent).or_insert(record.t);
            }
            Phase::Fail | Phase::Unknown => {}
        }
    }
}
