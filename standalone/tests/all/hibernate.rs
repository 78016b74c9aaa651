//! Ten thousand sleeping rooms are polled with nothing new: none wakes, and every agent's lease
//! is kept all the same.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::time::{Instant, interval, timeout};

use crate::http::Http;
use crate::mcp::{Client, Era};
use crate::server::{FAST, Server};

const ROOMS: usize = 10_000;
/// Connections the rooms are spread over.
const CLIENTS: usize = 50;
/// Longer than making all rooms and polling them once takes, so that no lease ends before its
/// first renewal.
const LEASE_MS: u64 = 60_000;
/// Polls of each room.
const POLLS: usize = 3;
const STEP: Duration = Duration::from_secs(120);

/// The agent of one room.
struct Agent {
    handle: String,
    cursor: u64,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn polls_of_sleeping_rooms_wake_none_and_keep_every_lease() {
    let lease = format!("--agent-lease-ms={LEASE_MS}");
    let flags = ["--idle-to-stub-ms=50", lease.as_str(), "--empty-room-ms=600000", "--log=error"];
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_in(dir.path(), &[&FAST[..], &flags].concat());

    let made = (0..CLIENTS).map(|_| tokio::spawn(make(server.mcp)));
    let mut groups = Vec::new();
    for group in made.collect::<Vec<_>>() {
        groups.push(group.await.unwrap());
    }
    let stubs = |metrics: &str| sum(metrics, "roomring_rooms", "state=\"stub\"") >= ROOMS as f64;
    until(server.admin, "all rooms asleep", stubs).await;
    let before = sum(&metrics(server.admin).await, "roomring_room_wakes_total", "");

    for _ in 0..POLLS {
        let polled = groups.drain(..).map(|(client, agents)| tokio::spawn(poll(client, agents)));
        let polled: Vec<_> = polled.collect();
        for group in polled {
            groups.push(group.await.unwrap());
        }
    }
    let after = metrics(server.admin).await;
    let wakes = sum(&after, "roomring_room_wakes_total", "") - before;
    println!("hibernation: {ROOMS} sleeping rooms polled {POLLS} times, {wakes} wakes");
    assert!(wakes.abs() < f64::EPSILON, "{wakes} wakes");
    assert!(stubs(&after), "rooms left sleep");
}

/// Rooms of one client, one agent in each.
async fn make(address: SocketAddr) -> (Client, Vec<Agent>) {
    let mut client = Client::new(address, Era::Modern);
    let mut agents = Vec::new();
    for _ in 0..ROOMS / CLIENTS {
        let made = client.call("create_room", json!({"name": "Ana"})).await.unwrap().ok();
        assert_eq!(made["agentLeaseMs"], LEASE_MS);
        let handle = made["participantHandle"].as_str().unwrap().to_owned();
        agents.push(Agent { handle, cursor: made["cursor"].as_u64().unwrap() });
    }
    (client, agents)
}

/// Polls every room of one client once: nothing new, and the agent is still there.
async fn poll(mut client: Client, agents: Vec<Agent>) -> (Client, Vec<Agent>) {
    for agent in &agents {
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
    (client, agents)
}

async fn metrics(admin: SocketAddr) -> String {
    Http::new(admin).get("/metrics").await.unwrap().text().to_owned()
}

/// The sum of all samples of a metric whose labels hold some text.
fn sum(metrics: &str, name: &str, label: &str) -> f64 {
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let rest = series.strip_prefix(name)?;
        let whole = rest.is_empty() || rest.starts_with('{');
        (whole && rest.contains(label)).then(|| value.parse::<f64>().ok())?
    };
    metrics.lines().filter_map(sample).sum()
}

/// Reads the metrics until they satisfy a condition.
async fn until(admin: SocketAddr, what: &str, condition: impl Fn(&str) -> bool) {
    let begin = Instant::now();
    let waiting = async {
        // A scrape a tenth of a second is the condition's clock; there is no event for it.
        let mut scrape = interval(Duration::from_millis(100));
        loop {
            scrape.tick().await;
            if condition(&metrics(admin).await) {
                return;
            }
        }
    };
    let done = timeout(STEP, waiting).await;
    assert!(done.is_ok(), "{what}: not within {:?}", begin.elapsed());
}
