//! What a campaign found: broken promises, and how long rooms were away for each kind of fault.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::{Value, json};
use sim::history::{Phase, Record, Violation};

use crate::nemesis::Struck;

/// A room that gives no answer for longer than this is away, in microseconds; its agents pause for
/// a quarter of it at most.
const AWAY_US: u64 = 1_000_000;

/// Refusals that are the ordinary pace of polling.
const PACE: &str = "wait_rate_limited";

/// The figures of one kind of fault.
#[derive(Debug, Default)]
struct Kind {
    /// For each strike, how long it took until every room answered again, in milliseconds.
    away_ms: Vec<u64>,
    /// The longest that one room was silent.
    silent_ms: u64,
    refused: usize,
    unknown: usize,
    not_sent: usize,
    dark: usize,
}

/// From a fault until the last room that went away answers again, and the longest that one room
/// was silent, in microseconds. The second is what counts where a fault strikes one after the other.
fn away(records: &[Record], rooms: &[String], from: u64, to: u64) -> (u64, u64) {
    let of = |room: &String| {
        let (mut back, mut last, mut silent) = (from, from, 0);
        let inside = records.iter().filter(|r| {
            r.t > from && r.t <= to && r.phase == Phase::Ok && r.room == *room && r.op != "read"
        });
        for at in inside.map(|record| record.t).chain([to]) {
            if at - last > AWAY_US {
                back = at;
                silent = silent.max(at - last);
            }
            last = at;
        }
        (back - from, silent)
    };
    let each = rooms.iter().map(of);
    each.fold((0, 0), |all, one| (all.0.max(one.0), all.1.max(one.1)))
}

fn kinds(
    records: &[Record],
    rooms: &[String],
    struck: &[Struck],
    end: u64,
) -> BTreeMap<String, Kind> {
    let mut kinds: BTreeMap<String, Kind> = BTreeMap::new();
    for (at, fault) in struck.iter().enumerate() {
        let to = struck.get(at + 1).map_or(end, |next| next.begin);
        let kind = kinds.entry(fault.kind.clone()).or_default();
        let (back, silent) = away(records, rooms, fault.begin, to);
        kind.away_ms.push(back / 1_000);
        kind.silent_ms = kind.silent_ms.max(silent / 1_000);
        kind.dark += fault.dark.len();
        for record in records.iter().filter(|r| r.t > fault.begin && r.t <= to) {
            match (record.phase, record.detail["code"].as_str()) {
                (Phase::Fail, Some("not_sent")) => kind.not_sent += 1,
                (Phase::Fail, Some(PACE)) | (Phase::Invoke | Phase::Ok, _) => {}
                (Phase::Fail, _) => kind.refused += 1,
                (Phase::Unknown, _) => kind.unknown += 1,
            }
        }
    }
    kinds
}

fn quantile(sorted: &[u64], percent: usize) -> u64 {
    let at = (sorted.len() * percent).div_ceil(100).max(1) - 1;
    sorted.get(at).copied().unwrap_or_default()
}

/// Prints the table, returns the report. After `end` nothing was broken any more.
pub(crate) fn report(
    records: &[Record],
    rooms: &[String],
    struck: &[Struck],
    end: u64,
    violations: &[Violation],
) -> Value {
    println!(
        "\n| fault | n | away ms p50 | p99 | max | one room | refused | no answer | not sent |"
    );
    println!("|---|---|---|---|---|---|---|---|---|");
    let mut rows = Vec::new();
    for (name, mut kind) in kinds(records, rooms, struck, end) {
        kind.away_ms.sort_unstable();
        let [p50, p99] = [50, 99].map(|percent| quantile(&kind.away_ms, percent));
        let (n, max) = (kind.away_ms.len(), kind.away_ms.last().copied().unwrap_or_default());
        let Kind { silent_ms, refused, unknown, not_sent, dark, .. } = kind;
        let calls = format!("{refused} | {unknown} | {not_sent}");
        println!("| {name} | {n} | {p50} | {p99} | {max} | {silent_ms} | {calls} |");
        rows.push(json!({"fault": name, "n": n, "away_ms": {"p50": p50, "p99": p99, "max": max},
            "one_room_silent_ms_max": silent_ms,
            "refused": refused, "no_answer": unknown, "not_sent": not_sent, "dark": dark}));
    }
    let broken = |rules: &[&str]| violations.iter().filter(|v| rules.contains(&v.rule)).count();
    let change = |r: &&Record| r.op.starts_with("send_") || r.op.starts_with("collab_");
    let ended = |phase| records.iter().filter(change).filter(|r| r.phase == phase).count();
    let mut codes: BTreeMap<&str, usize> = BTreeMap::new();
    for record in records.iter().filter(|record| record.phase == Phase::Fail) {
        *codes.entry(record.detail["code"].as_str().unwrap_or("?")).or_default() += 1;
    }
    let lost = ["acknowledged-present", "acknowledged-sequence"];
    let doubled = ["key-once", "unknown-at-most-once", "sequence-once"];
    let summary = json!({
        "faults": struck.len(),
        "acknowledged": ended(Phase::Ok),
        "no_answer": ended(Phase::Unknown),
        "lost_acknowledged": broken(&lost),
        "doubled": broken(&doubled),
        "gaps": broken(&["no-gap"]),
        "violations": violations.len(),
        "rooms_that_stayed_away": struck.iter().map(|fault| fault.dark.len()).sum::<usize>(),
        "refusals": codes,
    });
    println!("\n{summary:#}");
    json!({"summary": summary, "kinds": rows, "strikes": strikes(struck)})
}

fn strikes(struck: &[Struck]) -> Vec<Value> {
    let one = |fault: &Struck| {
        json!({"fault": fault.kind, "victim": fault.victim, "begin_us": fault.begin,
            "healed_us": fault.healed, "dark": fault.dark})
    };
    struck.iter().map(one).collect()
}

/// Writes the report and the history beside it.
pub(crate) fn write(reports: &Path, report: &Value, history: &str) {
    std::fs::create_dir_all(reports).unwrap();
    std::fs::write(reports.join("faults.json"), format!("{report:#}\n")).unwrap();
    std::fs::write(reports.join("faults-history.ndjson"), history).unwrap();
}
