//! Rolling restarts of gateways and nodes under load, behind what looks at the gateways' readiness as
//! a balancer does: no call fails.

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
/// Calls of each agent, without a pause, by which it is found out what the cluster can do.
const CALLS_AT_MOST: usize = 50;
/// Between two calls of an agent that makes no pause.
const NO_PAUSE: Duration = Duration::from_micros(1);
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
    /// Each agent calls at its pace.
    async fn start(balancer: &Arc<Balancer>, pace: impl Fn(usize) -> Duration) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let counts: Arc<[AtomicUsize]> = (0..AGENTS).map(|_| AtomicUsize::new(0)).collect();
        let mut agents = Vec::new();
        for name in 0..AGENTS {
            let mut agent = Agent::join(name, balancer).await;
            let (stop, counts) = (Arc::clone(&stop), Arc::clone(&counts));
            let (balancer, pace) = (Arc::clone(balancer), pace(name));
            agents.push(tokio::spawn(async move {
                let mut pace = tokio::time::interval(pace);
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
        self.each_has(CALLS).await;
    }

    /// Returns when every agent has had so many answers more.
    async fn each_has(&self, more: usize) {
        let count = || self.counts.iter().map(|count| count.load(Ordering::SeqCst));
        let goals: Vec<usize> = count().map(|count| count + more).collect();
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

/// Two gateways over a backend, and what stands before them.
struct Front {
    dir: tempfile::TempDir,
    url: String,
    balancer: Arc<Balancer>,
    gateways: Vec<(Program, JoinHandle<()>)>,
}

impl Front {
    async fn start(dir: tempfile::TempDir, backend: &Backend) -> Self {
        let (url, balancer) = (backend.url.clone(), Arc::<Balancer>::default());
        let mut gateways = Vec::new();
        for _ in 0..GATEWAYS {
            gateways.push(gateway(dir.path(), &url, &balancer).await);
        }
        Self { dir, url, balancer, gateways }
    }

    /// Restarts one gateway after the other while the load goes on.
    async fn restart(&mut self, load: &Load) {
        for _ in 0..GATEWAYS {
            let (old, watch) = self.gateways.remove(0);
            old.signal("TERM");
            let ended = tokio::task::spawn_blocking(move || old.wait()).await.unwrap();
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
            watch.abort();
            load.goes_on().await;
            self.gateways.push(gateway(self.dir.path(), &self.url, &self.balancer).await);
            load.goes_on().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_when_one_gateway_after_the_other_is_restarted() {
    let dir = tempfile::tempdir().unwrap();
    let backend = Backend::start(dir.path(), &["--log-format=json"]);
    let mut front = Front::start(dir, &backend).await;
    let pace = |name| if name % 2 == 0 { BUSY } else { IDLE };
    let load = Load::start(&front.balancer, pace).await;
    load.goes_on().await;
    front.restart(&load).await;
    let (said, failed) = load.end().await;
    println!("{GATEWAYS} gateways restarted: {said} calls answered, {} failed", failed.len());
    assert_eq!(failed, Vec::<String>::new(), "of {said}");
}

/// The promise of cluster 4: a rolling restart at half saturation, no failed call among those with
/// ten seconds.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_call_fails_when_all_are_restarted_at_half_of_what_the_cluster_can_do() {
    let dir = tempfile::tempdir().unwrap();
    let mut backend = Backend::start(dir.path(), &["--log-format=json"]);
    let mut front = Front::start(dir, &backend).await;
    let load = Load::start(&front.balancer, |_| NO_PAUSE).await;
    let begin = tokio::time::Instant::now();
    load.each_has(CALLS_AT_MOST).await;
    let took = begin.elapsed();
    let (at_most, failed) = load.end().await;
    assert_eq!(failed, Vec::<String>::new(), "of {at_most}");
    // Each agent at half the pace of all in the time that was measured.
    let pace = took * u32::try_from(AGENTS).unwrap() * 2 / u32::try_from(at_most).unwrap();
    let load = Load::start(&front.balancer, |_| pace).await;
    load.goes_on().await;
    front.restart(&load).await;
    for at in 0..backend.nodes.len() {
        tokio::task::block_in_place(|| backend.restart_node(at));
        load.goes_on().await;
    }
    let (said, failed) = load.end().await;
    println!(
        "{at_most} calls in {took:.2?} at most, then one of each agent in {pace:.2?}: all \
         restarted, {said} calls answered, {} failed",
        failed.len()
    );
    assert_eq!(failed, Vec::<String>::new(), "of {said}");
}
