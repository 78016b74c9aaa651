//! Goal 11: sleeping rooms in a real Redis, polled with nothing new. None wakes, none is claimed,
//! and Redis is read only for what time asks: due times, and the link's own questions.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use object::{Caller, ParticipantId};
use prometheus::Registry;
use redis_link::rig::Server;
use room::Room;
use room_node::clock::Clock;
use room_node::cluster::Alone;
use room_node::config::Config;
use room_node::host::{Host, Response};
use room_node::store::Incarnation;
use tokio::time::Instant;

use super::link;
use crate::{name, print, request, tick};

/// Rounds in which each agent polls once, one a wait period.
const ROUNDS: usize = 2;
/// Calls in flight.
const TASKS: usize = 32;
/// Agents of one room.
const AGENTS: usize = 2;
/// Longer than the whole run on a busy machine: no agent may leave. How often a lease is stored
/// depends on its step alone, which is the default.
const LEASE_MS: u64 = 1_800_000;
/// Longest time until all rooms are asleep.
const ASLEEP: Duration = Duration::from_secs(120);

/// What only reads, among all that the store, its functions and the link ask of Redis.
const READS: [&str; 18] = [
    "get",
    "mget",
    "strlen",
    "exists",
    "type",
    "pttl",
    "hget",
    "hmget",
    "hgetall",
    "hlen",
    "lrange",
    "llen",
    "lindex",
    "zscore",
    "zrange",
    "zrangebyscore",
    "zcard",
    "smembers",
];
/// Of these, what one lease write of one agent reads before it writes.
const READS_OF_A_LEASE: [&str; 3] = ["hmget", "hget", "zscore"];

struct Town {
    host: Host<Room>,
    rooms: usize,
    /// Position of each room, once all agents are in it.
    cursors: Vec<AtomicU64>,
    calls: AtomicU64,
    answered: AtomicU64,
    refused: AtomicU64,
    unavailable: AtomicU64,
}

pub(crate) fn run(rooms: usize) {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(2).enable_all().build().unwrap().block_on(async {
        let server = link::server();
        let town = Arc::new(start(&server, rooms).await);
        let begin = Instant::now();
        each(&town, settle).await;
        while town.host.metrics().stubs.get() < rooms as i64 {
            assert!(begin.elapsed() < ASLEEP * 4, "{} stubs", town.host.metrics().stubs.get());
            tick(Duration::from_millis(50)).await;
        }
        println!("{rooms} rooms with {AGENTS} agents are asleep after {:.1?}", begin.elapsed());
        let unavailable = town.unavailable.load(Ordering::Relaxed);
        println!("{unavailable} calls were tried again because Redis was late");
        // Whatever has been asked for at the start is over.
        let begin = Instant::now();
        let before = Seen::of(&town, &server);
        let period = Duration::from_millis(town.host.config().wait_period_ms + 100);
        for round in 1..=ROUNDS {
            let next = Instant::now() + period;
            each(&town, poll).await;
            if round < ROUNDS {
                tick(next.saturating_duration_since(Instant::now()).max(Duration::from_millis(1)))
                    .await;
            }
        }
        let after = Seen::of(&town, &server);
        println!("polled {ROUNDS} times in {:.1?}", begin.elapsed());
        report(&town, &before, &after, begin.elapsed());
    });
}

async fn start(server: &Server, rooms: usize) -> Town {
    let config = Config {
        idle_to_stub_ms: 1_000,
        stub_to_cold_ms: LEASE_MS,
        agent_lease_ms: LEASE_MS,
        wakes_per_second: u32::MAX,
        ..Config::default()
    };
    let me = Incarnation { node: "10.20.30.40:7400".into(), boot: 1 };
    let (clock, registry) = (Clock::system(), Registry::new());
    let store = link::store(server, clock, &registry).await;
    let alone = Arc::new(Alone::default());
    let settings = room::Settings { agent_lease_ms: LEASE_MS, ..room::Settings::default() };
    let host = Host::start(config, settings, store, clock, me, alone, &registry).unwrap();
    let cursors = (0..rooms).map(|_| AtomicU64::new(0)).collect();
    let [calls, answered, refused, unavailable] = [0; 4].map(AtomicU64::new);
    Town { host, rooms, cursors, calls, answered, refused, unavailable }
}

/// Does one thing with every room, `TASKS` at a time.
async fn each<F: Future<Output = ()> + Send>(
    town: &Arc<Town>,
    act: impl Fn(Arc<Town>, usize) -> F + Copy + Send + 'static,
) {
    let work = |task: usize| {
        let town = Arc::clone(town);
        tokio::spawn(async move {
            for room in (task..town.rooms).step_by(TASKS) {
                act(Arc::clone(&town), room).await;
            }
        })
    };
    for task in (0..TASKS).map(work).collect::<Vec<_>>() {
        task.await.unwrap();
    }
}

const fn agent(room: usize, agent: usize) -> ParticipantId {
    ParticipantId((agent as u128 + 1) << 100 | room as u128)
}

/// Creates a room with its agents.
async fn settle(town: Arc<Town>, room: usize) {
    let (host, name) = (&town.host, name(room));
    for (number, op) in ["create_room", "join_room"].into_iter().enumerate() {
        let args = match number {
            0 => r#"{"name":"Agent 0"}"#.to_owned(),
            _ => format!(r#"{{"roomId":"{name}","name":"Agent {number}"}}"#),
        };
        let caller = Caller::Joining(agent(room, number));
        let response = loop {
            let id = u128::from(town.calls.fetch_add(1, Ordering::Relaxed)) | 1 << 100;
            let call = request(host, op, &name, caller, id, Bytes::from(args.clone()));
            let response = host.call(call).await;
            // On a machine too busy for the store's deadlines; nothing was changed.
            if response.result.as_ref().is_err_and(|it| it.code == "room_unavailable") {
                town.unavailable.fetch_add(1, Ordering::Relaxed);
                tick(Duration::from_millis(100)).await;
            } else {
                break response;
            }
        };
        let body = body(&response);
        town.cursors[room].store(body["cursor"].as_u64().unwrap(), Ordering::Relaxed);
    }
}

/// Polls a room once for each of its agents; an early one comes again when it may.
async fn poll(town: Arc<Town>, room: usize) {
    let (host, name) = (&town.host, name(room));
    let cursor = town.cursors[room].load(Ordering::Relaxed);
    let args = Bytes::from(format!(r#"{{"cursor":{cursor},"timeoutSeconds":0}}"#));
    for number in 0..AGENTS {
        loop {
            let caller = Caller::Participant(agent(room, number));
            let id = u128::from(town.calls.fetch_add(1, Ordering::Relaxed)) | 1 << 100;
            let call = request(host, "wait_for_events", &name, caller, id, args.clone());
            let response = host.call(call).await;
            if response.result.as_ref().is_ok() {
                assert_eq!(body(&response)["events"], serde_json::json!([]), "{response:?}");
                town.answered.fetch_add(1, Ordering::Relaxed);
                break;
            }
            let code = response.result.as_ref().err().map(|refused| refused.code);
            let (counter, ms) = match code {
                Some("wait_rate_limited") => (&town.refused, response.next_wait_ms.unwrap()),
                Some("room_unavailable") => (&town.unavailable, 100),
                _ => panic!("{response:?}"),
            };
            counter.fetch_add(1, Ordering::Relaxed);
            tick(Duration::from_millis(ms)).await;
        }
    }
}

fn body(response: &Response) -> serde_json::Value {
    let Ok(success) = &response.result else { panic!("{response:?}") };
    serde_json::from_slice(&success.body).unwrap()
}

/// Counters of the host and of Redis at one moment.
struct Seen {
    host: BTreeMap<&'static str, f64>,
    redis: BTreeMap<String, f64>,
}

impl Seen {
    fn of(town: &Town, server: &Server) -> Self {
        let metrics = town.host.metrics();
        let sum = |counters: &prometheus::IntCounterVec, values: &[&str]| {
            values.iter().map(|value| counters.with_label_values(&[*value]).get() as f64).sum()
        };
        let host = BTreeMap::from([
            ("polls", town.answered.load(Ordering::Relaxed) as f64),
            ("refused", town.refused.load(Ordering::Relaxed) as f64),
            ("unavailable", town.unavailable.load(Ordering::Relaxed) as f64),
            ("wakes", sum(&metrics.wakes, &["call", "poll", "timer", "disconnect"])),
            ("claims", sum(&metrics.claims, &["granted", "lapsed", "owned"])),
            ("stub_claims", metrics.stub_claims.get() as f64),
            ("stub_answers", metrics.stub_answers.get() as f64),
            ("lease_writes", metrics.lease_writes.get() as f64),
            ("timers", metrics.timers.get() as f64),
        ]);
        let stats = server.ask(&["INFO", "commandstats"]).unwrap();
        let stats: String = redis_link::redis::from_redis_value(stats).unwrap();
        let redis = stats.lines().filter_map(|line| {
            let (name, rest) = line.strip_prefix("cmdstat_")?.split_once(":calls=")?;
            Some((name.to_owned(), rest.split(',').next()?.parse().ok()?))
        });
        Self { host, redis: redis.collect() }
    }
}

fn report(town: &Town, before: &Seen, after: &Seen, took: Duration) {
    let host = |name: &str| after.host[name] - before.host[name];
    let redis = |name: &str| {
        let of = |seen: &Seen| seen.redis.get(name).copied().unwrap_or(0.0);
        of(after) - of(before)
    };
    for name in after.redis.keys() {
        if redis(name) > 0.0 {
            println!("redis {name}: {}", redis(name));
        }
    }
    for name in after.host.keys() {
        println!("node {name}: {}", host(name));
    }
    let polls = host("polls");
    let reads: f64 = READS.iter().map(|name| redis(name)).sum();
    let of_leases = host("lease_writes") * READS_OF_A_LEASE.len() as f64;
    assert!(polls >= (town.rooms * AGENTS) as f64, "{polls} polls");
    let n = polls as usize;
    print("goal11_wakes", n, host("wakes"));
    print("goal11_claims", n, host("claims"));
    print("goal11_redis_reads_per_poll", n, (reads - of_leases) / polls);
    // The due index is read by time, not by polls: a slow machine polls less and reads as much. So
    // once more without it, and with it at the rate at which these agents are to poll.
    let due = redis("zrangebyscore");
    let apart = (reads - of_leases - due) / polls;
    let polls_due =
        (town.rooms * AGENTS) as f64 * 1_000.0 / town.host.config().wait_period_ms as f64;
    print("goal11_redis_reads_per_poll_due_apart", n, apart);
    let due_rate = due / took.as_secs_f64();
    print("goal11_due_reads_per_second", n, due_rate);
    print("goal11_redis_reads_per_poll_in_cadence", n, apart + due_rate / polls_due);
    print("goal11_lease_writes_per_poll", n, host("lease_writes") / polls);
}
