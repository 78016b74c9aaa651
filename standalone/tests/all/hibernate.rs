//! Sleeping rooms are polled with nothing new: none wakes, and every agent's lease is kept all the
//! same. A thousand rooms where tests are built for debugging; `cargo xtask test process` sets
//! `ROOMRING_SLEEPERS=10000` on a release build.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, interval, timeout};

use crate::mcp::{Client, Era};
use crate::metrics::{scrape, sum};
use crate::server::{FAST, Server};

const ROOMS: usize = 1_000;
/// Agent lease for each thousand rooms, in milliseconds: longer than polling them all once takes,
/// on a busy machine too, and never shorter than for a thousand in a debug build.
const LEASE_MS_PER_THOUSAND: usize = if cfg!(debug_assertions) { LEASE_MS_MIN } else { 3_000 };
const LEASE_MS_MIN: usize = 10_000;
/// Connections the rooms are spread over.
const CLIENTS: usize = 50;
/// Polls of each room after all are asleep.
const ROUNDS_MIN: usize = 2;
/// Longest any step may take, in leases.
const STEP_LEASES: u32 = 6;

/// The agent of one room.
struct Agent {
    handle: String,
    cursor: u64,
}

/// What the pollers and the test tell each other.
struct Progress {
    rooms: usize,
    lease: Duration,
    /// Rounds of each client over its rooms.
    rounds: Vec<AtomicUsize>,
    stop: AtomicBool,
}

impl Progress {
    fn slowest(&self) -> usize {
        self.rounds.iter().map(|rounds| rounds.load(Ordering::SeqCst)).min().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_of_sleeping_rooms_wake_none_and_keep_every_lease() {
    let rooms = std::env::var("ROOMRING_SLEEPERS").map_or(ROOMS, |text| text.parse().unwrap());
    let lease_ms = (rooms * LEASE_MS_PER_THOUSAND / 1_000).max(LEASE_MS_MIN);
    let lease_ms = u64::try_from(lease_ms).unwrap();
    let lease_time = Duration::from_millis(lease_ms);
    let lease = format!("--agent-lease-ms={lease_ms}");
    let flags = ["--idle-to-stub-ms=50", lease.as_str(), "--log=error"];
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_in(dir.path(), &[&FAST[..], &flags].concat());
    let rounds = (0..CLIENTS).map(|_| AtomicUsize::new(0)).collect();
    let start = Instant::now();
    let progress =
        Arc::new(Progress { rooms, lease: lease_time, rounds, stop: AtomicBool::new(false) });
    let pollers: Vec<_> =
        (0..CLIENTS).map(|at| tokio::spawn(live(server.mcp, Arc::clone(&progress), at))).collect();

    let asleep = |metrics: &str| stubs(metrics) >= rooms as f64 && progress.slowest() > 0;
    let step = lease_time * STEP_LEASES;
    until(server.admin, step, "all rooms made, polled and asleep", asleep).await;
    let made = start.elapsed();
    let (begin, rounds) = (Instant::now(), progress.slowest());
    let before = wakes(&scrape(server.admin).await);
    // Each agent lives by renewals alone by then.
    let lived =
        |_: &str| begin.elapsed() > lease_time * 5 / 4 && progress.slowest() >= rounds + ROUNDS_MIN;
    until(server.admin, step, "every lease outlived", lived).await;
    let after = scrape(server.admin).await;

    progress.stop.store(true, Ordering::SeqCst);
    for poller in pollers {
        poller.await.unwrap();
    }
    let rounds = progress.slowest() - rounds;
    let woken = wakes(&after) - before;
    println!(
        "hibernation: {rooms} sleeping rooms after {made:.1?}, each polled {rounds} times in {:.1?}, \
         {woken} wakes",
        begin.elapsed()
    );
    assert!(woken.abs() < f64::EPSILON, "{woken} wakes");
    assert!(stubs(&after) >= rooms as f64, "{} rooms are asleep", stubs(&after));
}

/// Makes one client's rooms, then polls them in turn until told to stop.
async fn live(address: SocketAddr, progress: Arc<Progress>, at: usize) {
    let mut client = Client::new(address, Era::Modern);
    let mut agents = Vec::new();
    let mut kept = Instant::now();
    for _ in 0..progress.rooms / CLIENTS {
        let made = client.call("create_room", json!({"name": "Ana"})).await.unwrap().ok();
        assert_eq!(made["agentLeaseMs"].as_u64().map(u128::from), Some(progress.lease.as_millis()));
        let handle = made["participantHandle"].as_str().unwrap().to_owned();
        agents.push(Agent { handle, cursor: made["cursor"].as_u64().unwrap() });
        if kept.elapsed() > progress.lease / 4 {
            kept = Instant::now();
            for agent in &agents {
                poll(&mut client, agent).await;
            }
        }
    }
    while !progress.stop.load(Ordering::SeqCst) {
        for agent in &agents {
            poll(&mut client, agent).await;
        }
        progress.rounds[at].fetch_add(1, Ordering::SeqCst);
    }
}

/// Polls one room: nothing new, and the agent is still there.
async fn poll(client: &mut Client, agent: &Agent) {
    let arguments = json!({"participantHandle": agent.handle, "cursor": agent.cursor});
    let answer = loop {
        client.in_cadence().await;
        let called = client.call("wait_for_events", arguments.clone()).await.unwrap();
        if !called.refused {
            break called.value;
        }
        assert_eq!(called.code(), "wait_rate_limited", "{}", called.value);
        client.keep_cadence(&called.value);
    };
    assert_eq!(answer["events"], json!([]));
    assert_eq!(answer["participants"].as_array().unwrap().len(), 1, "{answer}");
}

fn stubs(metrics: &str) -> f64 {
    sum(metrics, "roomring_rooms", "state=\"stub\"")
}

fn wakes(metrics: &str) -> f64 {
    sum(metrics, "roomring_room_wakes_total", "")
}

/// Reads the metrics until they satisfy a condition.
async fn until(admin: SocketAddr, step: Duration, what: &str, condition: impl Fn(&str) -> bool) {
    let begin = Instant::now();
    let waiting = async {
        // A scrape a tenth of a second is the condition's clock; there is no event for it.
        let mut tick = interval(Duration::from_millis(100));
        loop {
            tick.tick().await;
            if condition(&scrape(admin).await) {
                return;
            }
        }
    };
    if timeout(step, waiting).await.is_err() {
        let last = scrape(admin).await;
        let rooms: Vec<&str> = last.lines().filter(|l| l.starts_with("roomring_room")).collect();
        panic!("{what}: not within {:?}: {rooms:#?}", begin.elapsed());
    }
}
