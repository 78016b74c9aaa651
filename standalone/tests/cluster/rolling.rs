//! A rolling restart of the gateways under load, behind what looks at their readiness as a balancer
//! does: no call fails.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::StatusCode;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::backend::Backend;
use crate::http::Http;
use crate::mcp::{Client, Era};
use crate::program::{Program, STEP};
use crate::server::{self, FAST};

const GATEWAYS: usize = 2;
/// Between two looks at a gateway's readiness.
const LOOK: Duration = Duration::from_millis(100);
/// Ten looks.
const PRE_STOP: &str = "--pre-stop-ms=1000";
/// Longest a call may take.
const DEADLINE: Duration = Duration::from_secs(10);
/// Of half of the agents, between two calls.
const BUSY: Duration = Duration::from_millis(40);
/// Of the others: their connections are idle most of the time.
const IDLE: Duration = Duration::from_millis(700);
const AGENTS: usize = 16;
/// Calls of each agent before the first restart, between two and after the last.
const CALLS: usize = 3;

/// Where calls can be sent.
#[derive(Default)]
struct Balancer {
    ready: Mutex<Vec<SocketAddr>>,
    turn: AtomicUsize,
}

impl Balancer {
    /// The next of those that were ready when they were looked at last.
    fn next(&self) -> SocketAddr {
        let ready = self.ready.lock().unwrap();
        assert!(!ready.is_empty(), "no gateway is ready");
        ready[self.turn.fetch_add(1, Ordering::Relaxed) % ready.len()]
    }

    fn set(&self, at: SocketAddr, is_ready: bool) {
        let mut ready = self.ready.lock().unwrap();
        ready.retain(|other| *other != at);
        if is_ready {
            ready.push(at);
        }
    }

    /// Looks at a gateway's readiness again and again, on connections of its own.
    fn watch(self: &Arc<Self>, at: SocketAddr) -> JoinHandle<()> {
        let balancer = Arc::clone(self);
        tokio::spawn(async move {
            let mut looks = tokio::time::interval(LOOK);
            loop {
                looks.tick().await;
                let answer = Http::new(at).get("/readyz").await;
                balancer.set(at, answer.is_ok_and(|answer| answer.status == StatusCode::OK));
            }
        })
    }
}

/// One agent in a room of its own, whose calls go through the balancer.
struct Agent {
    name: usize,
    handle: String,
    /// A connection to each gateway it has been sent to.
    clients: HashMap<SocketAddr, Client>,
    said: usize,
    failed: Vec<String>,
}

impl Agent {
    async fn join(name: usize, balancer: &Balancer) -> Self {
        let mut client = Client::within(balancer.next(), Era::Modern, DEADLINE);
        let made = client.call("create_room", json!({"name": "Ana"})).await.unwrap().ok();
        let handle = made["participantHandle"].as_str().unwrap().to_owned();
        Self { name, handle, clients: HashMap::new(), said: 0, failed: Vec::new() }
    }

    async fn say(&mut self, balancer: &Balancer) {
        let at = balancer.next();
        let client =
            self.clients.entry(at).or_insert_with(|| Client::within(at, Era::Modern, DEADLINE));
        let text = format!("room-{}.text-{}", self.name, self.said + self.failed.len());
        let request =
            json!({"participantHandle": self.handle, "clientRequestId": text, "text": text});
        match client.call("send_text", request).await {
            Ok(called) if !called.refused => self.said += 1,
            Ok(called) => self.failed.push(called.value.to_string()),
            Err(lost) => self.failed.push(format!("{lost:?} at {at}")),
        }
    }
}

struct Load {
    stop: Arc<AtomicBool>,
    /// Calls answered, of each agent.
    counts: Arc<[AtomicUsize]>,
    agents: Vec<JoinHandle<Agent>>,
}

impl Load {
    async fn start(balancer: &Arc<Balancer>) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let counts: Arc<[AtomicUsize]> = (0..AGENTS).map(|_| AtomicUsize::new(0)).collect();
        let mut agents = Vec::new();
        for name in 0..AGENTS {
            let mut agent = Agent::join(name, balancer).await;
            let (stop, counts) = (Arc::clone(&stop), Arc::clone(&counts));
            let balancer = Arc::clone(balancer);
            agents.push(tokio::spawn(async move {
                let mut pace = tokio::time::interval(if name % 2 == 0 { BUSY } else { IDLE });
                while !stop.load(Ordering::SeqCst) {
                    pace.tick().await;
                    agent.say(&balancer).await;
                    counts[name].store(agent.said, Ordering::SeqCst);
                }
                agent
            }));
        }
        Self { stop, counts, agents }
    }

    /// Returns when every agent has had some more answers.
    async fn goes_on(&self) {
        let count = || self.counts.iter().map(|count| count.load(Ordering::SeqCst));
        let goals: Vec<usize> = count().map(|count| count + CALLS).collect();
        let mut turn = tokio::time::interval(LOOK);
        let reached = async {
            while count().zip(&goals).any(|(count, goal)| count < *goal) {
                turn.tick().await;
            }
        };
        tokio::time::timeout(STEP, reached).await.unwrap();
    }

    /// How many calls were answered, and what became of the others.
    async fn end(self) -> (usize, Vec<String>) {
        self.stop.store(true, Ordering::SeqCst);
        let (mut said, mut failed) = (0, Vec::new());
        for agent in self.agents {
            let agent = agent.await.unwrap();
            said += agent.said;
            failed.extend(agent.failed);
        }
        (said, failed)
    }
}

/// A gateway with whoever looks at its readiness; returns when that has found it ready.
async fn gateway(dir: &Path, redis: &str, balancer: &Arc<Balancer>) -> (Program, JoinHandle<()>) {
    let (dir, redis) = (dir.to_owned(), redis.to_owned());
    let flags = [&FAST[..], &[PRE_STOP]].concat();
    let start = tokio::task::spawn_blocking(move || server::gateway(&dir, &redis, &flags));
    let gateway = start.await.unwrap();
    let watch = balancer.watch(gateway.at);
    let mut turn = tokio::time::interval(LOOK);
    let found = async {
        while !balancer.ready.lock().unwrap().contains(&gateway.at) {
            turn.tick().await;
        }
    };
    tokio::time::timeout(STEP, found).await.unwrap();
    (gateway, watch)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_when_one_gateway_after_the_other_is_restarted() {
    let dir = tempfile::tempdir().unwrap();
    let backend = Backend::start(dir.path(), &["--log-format=json"]);
    let balancer = Arc::<Balancer>::default();
    let mut gateways = Vec::new();
    for _ in 0..GATEWAYS {
        gateways.push(gateway(dir.path(), &backend.url, &balancer).await);
    }
    let load = Load::start(&balancer).await;
    load.goes_on().await;
    for _ in 0..GATEWAYS {
        let (old, watch) = gateways.remove(0);
        old.signal("TERM");
        let ended = tokio::task::spawn_blocking(move || old.wait()).await.unwrap();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        watch.abort();
        load.goes_on().await;
        gateways.push(gateway(dir.path(), &backend.url, &balancer).await);
        load.goes_on().await;
    }
    let (said, failed) = load.end().await;
    println!("{GATEWAYS} gateways restarted: {said} calls answered, {} failed", failed.len());
    assert_eq!(failed, Vec::<String>::new(), "of {said}");
}
