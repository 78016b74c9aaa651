//! The fault campaign: real processes, a seeded nemesis, clients that write down what they saw, and
//! the checker over all of it. `cargo xtask faults --seed N --minutes M` builds the programs and
//! starts it.
//!
//! The clients are those of the crash test of `roomring`.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "clients of real processes live in real time and read their own switches"
    )
)]

#[cfg(test)]
mod brief;
#[cfg(test)]
mod cluster;
#[cfg(test)]
#[expect(dead_code, reason = "the crash test uses the rest")]
#[path = "../../../standalone/tests/all/crash"]
mod crash {
    pub(crate) mod agent;
    mod gate;
    pub(crate) mod log;
    pub(crate) mod verify;
}
#[cfg(test)]
mod figures;
#[cfg(test)]
#[expect(dead_code, reason = "the crash test uses the rest")]
#[path = "../../../standalone/tests/all/http.rs"]
mod http;
#[cfg(test)]
#[expect(dead_code, reason = "the crash test uses the rest")]
#[path = "../../../standalone/tests/all/mcp.rs"]
mod mcp;
#[cfg(test)]
mod nemesis;
#[cfg(test)]
mod netns;
#[cfg(test)]
mod process;
#[cfg(test)]
mod proxy;
#[cfg(test)]
mod resp;
#[cfg(test)]
mod stored;
#[cfg(test)]
mod workload;

#[cfg(test)]
mod campaign {
    use std::collections::BTreeSet;
    use std::path::{Path, PathBuf};
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    use fastrand::Rng;
    use serde_json::{Value, json};
    use sim::history::{Record, Violation, check, write};
    use tokio::task::JoinHandle;
    use tokio::time::Instant;

    use crate::cluster::Cluster;
    use crate::crash::log::Log;
    use crate::crash::{agent, verify};
    use crate::stored::Stored;
    use crate::workload::{Floor, work};
    use crate::{brief, figures, nemesis};

    const ROOMS: usize = 16;
    const AGENTS: [&str; 2] = ["ana", "bo"];
    /// Agents whose rooms die behind them.
    const VISITORS: usize = 2;
    /// Undisturbed work before the first fault.
    const WARM: Duration = Duration::from_secs(3);
    /// Violations printed at most.
    const SHOWN_MAX: usize = 20;

    fn variable(name: &str) -> Option<String> {
        std::env::var(format!("ROOMRING_FAULTS_{name}")).ok()
    }

    /// What clients were told together with what the store held, once the rooms that were left must
    /// have died; and how much of it was seen.
    async fn with_looks(
        log: &Log,
        visiting: Vec<JoinHandle<BTreeSet<String>>>,
        stored: Option<JoinHandle<Stored>>,
    ) -> (Vec<Record>, Value) {
        let mut empty = BTreeSet::new();
        for visit in visiting {
            empty.extend(visit.await.unwrap());
        }
        let mut records = log.records();
        let Some(stored) = stored else { return (records, Value::Null) };
        let mut stored = stored.await.unwrap();
        stored.finish(&empty).await;
        let looks = stored.summary();
        assert_ne!(looks["frames_seen"], 0, "the store was not looked at");
        records.append(&mut stored.records);
        records.sort_by_key(|record| record.t);
        (records, looks)
    }

    /// With all that was said of the key at hand: a broken promise must be told from this alone.
    fn show(violations: &[Violation], records: &[Record]) {
        for violation in violations.iter().take(SHOWN_MAX) {
            println!("{}: {}", violation.rule, violation.detail);
            let named = |key: &str| violation.detail.split([' ', ',']).any(|word| word == key);
            let about =
                records.iter().filter(|record| !record.key.is_empty() && named(&record.key));
            for line in write(&about.cloned().collect::<Vec<_>>()).unwrap().lines() {
                println!("    {line}");
            }
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn nothing_acknowledged_is_lost_or_doubled() {
        let number = |name, other| variable(name).map_or(other, |text| text.parse().unwrap());
        let (seed, seconds) = (number("SEED", 1), number("SECONDS", 60));
        let built = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("debug");
        let programs = variable("PROGRAMS").map_or(built, PathBuf::from);
        let alone = variable("ALONE").is_some();
        let dir = tempfile::tempdir().unwrap();
        let mut rng = Rng::with_seed(seed);

        let mut cluster = if alone {
            Cluster::alone(&programs, dir.path())
        } else {
            Cluster::start(&programs, dir.path()).await
        };
        let log = Log::new();
        let rooms: Vec<String> = (0..ROOMS).map(|at| format!("faults-{at}")).collect();
        let agents = agent::assemble(cluster.mcp[0], &log, &rooms, &AGENTS).await;
        let floor = Floor { gateways: cluster.mcp.clone(), over: AtomicBool::new(false) };
        let floor = Arc::new(floor);
        let working: Vec<_> = agents
            .into_iter()
            .map(|agent| tokio::spawn(work(agent, Arc::clone(&floor), rng.fork())))
            .collect();
        let visiting: Vec<_> = (0..VISITORS)
            .map(|who| brief::visit(who, Arc::clone(&floor), log.clone(), rng.fork()))
            .map(tokio::spawn)
            .collect();
        let stored = cluster
            .redis_at
            .map(|redis| tokio::spawn(Stored::new(redis, log.clone()).watch(Arc::clone(&floor))));
        tokio::time::sleep_until(Instant::now() + WARM).await;
        let end = Instant::now() + Duration::from_secs(seconds);
        let struck = nemesis::strike(&mut cluster, &log, &rooms, rng.fork(), end).await;
        let calm = log.now();
        floor.over.store(true, Ordering::Relaxed);
        let mut agents = Vec::new();
        for work in working {
            agents.push(work.await.unwrap());
        }
        verify::read_rooms(&agents, cluster.mcp[0], 1).await;
        let (records, looks) = with_looks(&log, visiting, stored).await;

        let violations = check(&records);
        let mut report = figures::report(&log.records(), &rooms, &struck, calm, &violations);
        println!("what the store held: {looks:#}");
        report["stored"] = looks;
        report["seed"] = json!(seed);
        report["seconds"] = json!(seconds);
        report["alone"] = json!(alone);
        report["cores"] = json!(std::thread::available_parallelism().map_or(0, usize::from));
        let reports = Path::new(env!("CARGO_TARGET_TMPDIR")).with_file_name("reports");
        figures::write(&reports, &report, &write(&records).unwrap());
        show(&violations, &records);
        if !violations.is_empty() || struck.iter().any(|fault| !fault.dark.is_empty()) {
            // What the processes said stays for whoever looks for the cause.
            println!("logs in {}", dir.keep().display());
        }
        assert!(violations.is_empty(), "{} broken promises", violations.len());
        assert!(struck.iter().all(|fault| fault.dark.is_empty()), "a room stayed away");
    }
}
