//! `kill -9` between a call and its answer, again and again, on one data directory.
//!
//! Nine agents in three rooms work at once; the kill is triggered by their own traffic, so that
//! a call is in flight. After each restart everything acknowledged is asked for again, and the
//! whole history goes through the checker. `ROOMRING_CRASH_KILLS=200` is the long form;
//! `ROOMRING_CRASH_SEED` chooses another course.

mod agent;
mod gate;
mod log;
mod verify;

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};

use fastrand::Rng;
use serde_json::{Value, json};

use crate::history::{Phase, Record, check, write};
use crate::mcp::{Client, Era};
use crate::server::{FAST, Server};
use agent::Agent;
use gate::{Gate, Moment};
use log::Log;

const KILLS: u32 = 10;
const ROOMS: usize = 3;
const AGENTS: [&str; 3] = ["ana", "bo", "cy"];
/// Of all kills, how many must meet a call in flight, in percent.
const IN_FLIGHT_MIN: u32 = 80;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_acknowledged_is_lost_by_kill_9() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u32>().unwrap());
    let kills = number("ROOMRING_CRASH_KILLS").unwrap_or(KILLS);
    let seed = number("ROOMRING_CRASH_SEED").unwrap_or(1);
    let mut rng = Rng::with_seed(u64::from(seed));
    let dir = tempfile::tempdir().unwrap();
    let log = Log::new();

    let mut server = Arc::new(Server::start_in(dir.path(), &FAST));
    let mut agents = assemble(&server, &log).await;
    let mut in_flight = 0;
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
        in_flight += u32::from(agents.iter().any(|agent| agent.lost > 0));
        drop(gate);
        server = Arc::new(Server::start_in(dir.path(), &FAST));
        verify::verify(&mut agents, server.mcp, round).await;
    }
    stop(server);
    // Once more after a proper end, so that what was sent again is looked at too.
    let server = Arc::new(Server::start_in(dir.path(), &FAST));
    verify::read_rooms(&agents, server.mcp, kills + 1).await;
    stop(server);
    judge(&log.records(), kills, in_flight, seed);
}

/// Ends the process by SIGTERM, which must go well.
fn stop(server: Arc<Server>) {
    server.signal("TERM");
    let ended = Arc::into_inner(server).unwrap().wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

/// Rooms with three agents each; in each room everybody's tasks go to the next one.
async fn assemble(server: &Server, log: &Log) -> Vec<Agent> {
    let mut agents = Vec::new();
    for at in 0..ROOMS {
        let room = format!("crash-{at}");
        let board = Arc::new(Mutex::new(Vec::new()));
        let first = agents.len();
        for short in AGENTS {
            let mut client = Client::new(server.mcp, Era::Modern);
            let mut agent = Agent {
                name: format!("{short}{at}"),
                room: room.clone(),
                id: String::new(),
                handle: String::new(),
                peer: String::new(),
                cursor: 0,
                board: Arc::clone(&board),
                log: log.clone(),
                keys: 0,
                acked: Vec::new(),
                unknown: Vec::new(),
                lost: 0,
            };
            let about = agent.about("join", short);
            log.add(&about, Phase::Invoke, None, Value::Null);
            let join = json!({"roomId": room, "name": agent.name});
            let joined = client.call("join_room", join).await.unwrap().ok();
            let detail = json!({"cursor": joined["cursor"], "leaseMs": joined["agentLeaseMs"]});
            log.add(&about, Phase::Ok, None, detail);
            agent.id = joined["participant"]["id"].as_str().unwrap().to_owned();
            agent.handle = joined["participantHandle"].as_str().unwrap().to_owned();
            agents.push(agent);
        }
        for n in 0..AGENTS.len() {
            let peer = &agents[first + (n + 1) % AGENTS.len()];
            agents[first + n].peer = format!("{}={}", peer.name, peer.id);
        }
    }
    agents
}

/// Runs the checker, prints the figures, keeps the history of a failure.
fn judge(records: &[Record], kills: u32, in_flight: u32, seed: u32) {
    let count = |op: &dyn Fn(&Record) -> bool| records.iter().filter(|r| op(r)).count();
    let change = |r: &Record| r.op.starts_with("send_") || r.op.starts_with("collab_");
    let acked = count(&|r| change(r) && r.phase == Phase::Ok);
    let refused = count(&|r| change(r) && r.phase == Phase::Fail && r.detail["code"] != "not_sent");
    let unknown: Vec<&Record> =
        records.iter().filter(|r| change(r) && r.phase == Phase::Unknown).collect();
    let mut first_read: BTreeMap<(&str, &str), bool> = BTreeMap::new();
    for lost in &unknown {
        let read = records.iter().find(|r| {
            r.op == "read" && r.phase == Phase::Ok && r.room == lost.room && r.t > lost.t
        });
        let landed = read
            .is_some_and(|r| r.detail["events"].to_string().contains(&format!("\"{}\"", lost.key)));
        first_read.insert((&lost.room, &lost.key), landed);
    }
    let landed = first_read.values().filter(|landed| **landed).count();
    let percent = in_flight * 100 / kills;
    let violations = check(records);
    let summary = json!({
        "kills": kills, "seed": seed, "in_flight_percent": percent, "acknowledged": acked,
        "unknown": unknown.len(), "unknown_landed": landed, "refused": refused,
        "violations": violations.len(),
    });
    println!("crash test: {summary}");
    let reports = Path::new(env!("CARGO_TARGET_TMPDIR"));
    std::fs::write(reports.join("crash-history.ndjson"), write(records)).unwrap();
    std::fs::write(reports.join("crash.json"), summary.to_string()).unwrap();
    assert!(violations.is_empty(), "{violations:#?}\nhistory in {}", reports.display());
    assert!(percent >= IN_FLIGHT_MIN, "{percent} % of the kills met a call in flight");
    assert!(!unknown.is_empty(), "no outcome was unknown");
    assert!(acked > 0, "nothing was acknowledged");
    assert_eq!(refused, 0, "a healthy server refuses nothing here");
}
