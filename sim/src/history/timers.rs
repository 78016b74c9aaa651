//! The timer of an empty room: it dies once, not before its time, and not long after (cluster 4.3,
//! rule 9).

use std::collections::{BTreeMap, BTreeSet};

use super::rules::GONE;
use super::{Phase, Record};

/// What two nodes' ideas of Redis's clock may differ by, in microseconds.
const EARLY_US: u64 = 1_000_000;

/// One agent alone in a room: when it was there, asked to go, and was gone.
#[derive(Debug, Default)]
struct Visit {
    joined: Option<u64>,
    leaves: Option<u64>,
    left: Option<u64>,
    empty_us: u64,
    bound_us: u64,
}

/// Hands every violation to `add`. Only rooms are judged whose last agent left with a known period.
pub(super) fn check(records: &[Record], add: &mut dyn FnMut(&'static str, String)) {
    let mut rooms: BTreeMap<&str, Vec<Visit>> = BTreeMap::new();
    let mut looked: BTreeMap<(&str, &str), u64> = BTreeMap::new();
    let timed = |record: &&Record| record.op == "leave";
    let named: BTreeSet<&str> = records.iter().filter(timed).map(|r| r.room.as_str()).collect();
    for record in records.iter().filter(|record| named.contains(record.room.as_str())) {
        let visits = rooms.entry(&record.room).or_default();
        match (record.op.as_str(), record.phase) {
            ("join", Phase::Invoke) => visits.push(Visit::default()),
            ("join", Phase::Ok) => {
                let last = visits.last_mut();
                last.into_iter().for_each(|visit| visit.joined = Some(record.t));
            }
            ("leave", _) => visits.last_mut().into_iter().for_each(|visit| leave(visit, record)),
            ("log", Phase::Invoke) => {
                looked.insert((&record.room, &record.key), record.t);
            }
            ("log", Phase::Ok) => {
                let begun = looked.get(&(record.room.as_str(), record.key.as_str()));
                let begun = begun.copied().unwrap_or(record.t);
                if let Some(what) = wrong(visits, record, begun) {
                    let here = format!("{}: the look {} begun at {begun}", record.room, record.key);
                    add("timer-on-time", format!("{here}, {what}"));
                }
            }
            _ => {}
        }
    }
}

fn leave(visit: &mut Visit, record: &Record) {
    let told = record.field("code").as_str().is_some_and(|code| GONE.contains(&code));
    match record.phase {
        Phase::Invoke => {
            visit.leaves = visit.leaves.or(Some(record.t));
            let number = |name| record.field(name).as_u64().unwrap_or_default();
            visit.empty_us = number("emptyMs") * 1_000;
            visit.bound_us = number("boundMs") * 1_000;
        }
        Phase::Ok => visit.left = visit.left.or(Some(record.t)),
        Phase::Fail if told => visit.left = visit.left.or(Some(record.t)),
        Phase::Fail | Phase::Unknown => {}
    }
}

/// What is wrong with a look that began at `begun`, given who was there by then.
fn wrong(visits: &[Visit], record: &Record, begun: u64) -> Option<String> {
    let last = visits.last()?;
    if record.field("dead") == true {
        // The last who certainly came before the look: the room lives until its end at least.
        let sure = |visit: &&Visit| visit.joined.is_some_and(|joined| joined < begun);
        let visit = visits.iter().rev().find(sure)?;
        let least = visit.leaves.map(|leaves| leaves + visit.empty_us);
        let early = least.is_none_or(|least| record.t + EARLY_US < least);
        return early.then(|| format!("dead, and not before {least:?} was it to die"));
    }
    // Whoever has asked to come may be there.
    let left = last.left?;
    let most = left + last.empty_us + last.bound_us;
    (begun > most).then(|| format!("there, and by {most} it was to die"))
}
