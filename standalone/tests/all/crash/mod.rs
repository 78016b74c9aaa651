//! `kill -9` between a call and its answer, again and again, on one data directory.
//!
//! Nine agents in three rooms work at once, waits held among their calls; the kill is triggered by
//! their own changes, so that one is in flight. After each restart everything acknowledged is asked for again, and the
//! whole history goes through the checker. `ROOMRING_CRASH_KILLS=200` is the long form;
//! `ROOMRING_CRASH_SEED` chooses another course.

mod agent;
mod gate;
#[expect(dead_code, reason = "the fault campaign uses the rest")]
mod log;
mod verify;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use fastrand::Rng;
use serde_json::json;

use crate::server::{FAST, Server};
use gate::{Gate, Moment};
use log::Log;
use sim::history::{Phase, Record, check, write};

const KILLS: u32 = 10;
const ROOMS: usize = 3;
const AGENTS: [&str; 3] = ["ana", "bo", "cy"];
/// Long polls, held up to 300 ms: agents must come back to their changes soon.
const HELD: [&str; 2] = ["--mcp-longpoll-enabled=true", "--hold-ms-max=300"];
/// Of all kills, how many must meet a change in flight, in percent. Waits do not count.
const IN_FLIGHT_MIN: u32 = 80;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_by_kill_9() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u32>().unwrap());
    let kills = number("ROOMRING_CRASH_KILLS").unwrap_or(KILLS);
    let seed = number("ROOMRING_CRASH_SEED").unwrap_or(1);
    let mut rng = Rng::with_seed(u64::from(seed));
    let dir = tempfile::tempdir().unwrap();
    let log = Log::new();

    let mut server = Arc::new(start(dir.path()));
    let rooms: Vec<String> = (0..ROOMS).map(|at| format!("crash-{at}")).collect();
    let mut agents = agent::assemble(server.mcp, &log, &rooms, &AGENTS).await;
    let mut figures = Figures { kills, seed, ..Figures::default() };
    for round in 1..=kills {
        let moment = match rng.u32(..3) {
            0 => Moment::Sent,
            1 => Moment::Between(rng.u64(..1_500)),
            _ => Moment::Answered,
        };
        let victim = Arc::clone(&server);
        let gate = Gate::new(moment, rng.u32(1..60), move || victim.kill());
        let working: Vec<_> = agents
            .drain(..)
            .map(|agent| tokio::spawn(agent.work(server.mcp, Arc::clone(&gate), rng.fork())))
            .collect();
        for work in working {
            agents.push(work.await.unwrap());
        }
        figures.changes_met += u32::from(agents.iter().any(|agent| !agent.unknown.is_empty()));
        figures.waits_met += u32::from(agents.iter().any(|agent| agent.waits_lost > 0));
        drop(gate);
        // Agents may have seen that it is over before the kernel has taken the process apart.
        server.end();
        let begin = Instant::now();
        server = Arc::new(start(dir.path()));
        figures.restarts_ms.push(begin.elapsed().as_millis());
        verify::verify(&mut agents, server.mcp, round).await;
    }
    stop(server);
    // Once more after a proper end, so that what was sent again is looked at too.
    let server = Arc::new(start(dir.path()));
    verify::read_rooms(&agents, server.mcp, kills + 1).await;
    stop(server);
    judge(&log.records(), figures);
}

/// What the run itself counts.
#[derive(Default)]
struct Figures {
    kills: u32,
    seed: u32,
    /// Kills that met a change in flight.
    changes_met: u32,
    /// Kills that met a wait in flight, held or not.
    waits_met: u32,
    /// From the start of the process to its first line, after each kill.
    restarts_ms: Vec<u128>,
}

fn start(dir: &Path) -> Server {
    Server::start_in(dir, &[&FAST[..], &HELD].concat())
}

/// Ends the process by SIGTERM, which must go well.
fn stop(server: Arc<Server>) {
    server.signal("TERM");
    let ended = Arc::into_inner(server).unwrap().wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// Runs the checker, writes history and figures, and only then judges.
fn judge(records: &[Record], mut figures: Figures) {
    let count = |op: &dyn Fn(&Record) -> bool| records.iter().filter(|r| op(r)).count();
    let change = |r: &Record| r.op.starts_with("send_") || r.op.starts_with("collab_");
    let acked = count(&|r| change(r) && r.phase == Phase::Ok);
    let refused = count(&|r| change(r) && r.phase == Phase::Fail && r.detail["code"] != "not_sent");
    let unknown: Vec<&Record> =
        records.iter().filter(|r| change(r) && r.phase == Phase::Unknown).collect();
    let percent = |part: u32| part * 100 / figures.kills;
    let in_flight = percent(figures.changes_met);
    let violations = check(records);
    figures.restarts_ms.sort_unstable();
    let restarts = &figures.restarts_ms;
    let summary = json!({
        "commit": commit(),
        "build": if cfg!(debug_assertions) { "debug" } else { "release" },
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "kills": figures.kills, "seed": figures.seed,
        "change_in_flight_percent": in_flight,
        "wait_in_flight_percent": percent(figures.waits_met),
        "acknowledged": acked, "unknown": unknown.len(),
        "unknown_landed": landed(records, &unknown), "refused": refused,
        "waits_answered": count(&|r| r.op == "poll" && r.phase == Phase::Ok),
        "restart_ms": {"n": restarts.len(), "min": restarts.first(),
            "median": restarts[restarts.len() / 2], "max": restarts.last()},
        "violations": violations.len(),
    });
    println!("crash test: {summary}");
    let reports = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("reports");
    std::fs::create_dir_all(&reports).unwrap();
    std::fs::write(reports.join("crash-history.ndjson"), write(records).unwrap()).unwrap();
    std::fs::write(reports.join("crash.json"), format!("{summary:#}\n")).unwrap();
    assert!(violations.is_empty(), "{violations:#?}\nhistory in {}", reports.display());
    assert!(in_flight >= IN_FLIGHT_MIN, "{in_flight} % of the kills met a change in flight");
    assert!(!unknown.is_empty(), "no outcome was unknown");
    assert!(figures.waits_met > 0, "no wait was held when a kill came");
    assert!(acked > 0, "nothing was acknowledged");
    assert_eq!(refused, 0, "a healthy server refuses nothing here");
}

/// How many of the unknown changes the first read after them shows.
fn landed(records: &[Record], unknown: &[&Record]) -> usize {
    let mut first_read: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    for lost in unknown {
        let read = records.iter().find(|r| {
            r.op == "read" && r.phase == Phase::Ok && r.room == lost.room && r.t > lost.t
        });
        let shown = read
            .is_some_and(|r| r.detail["events"].to_string().contains(&format!("\"{}\"", lost.key)));
        first_read.insert((&lost.room, &lost.key), shown);
    }
    first_read.values().filter(|shown| **shown).count()
}

/// The commit that is tested, if there is a repository.
fn commit() -> String {
    let out = std::process::Command::new("git").args(["describe", "--always", "--dirty"]).output();
    out.map_or_else(|_| String::new(), |out| String::from_utf8_lossy(&out.stdout).trim().to_owned())
}
