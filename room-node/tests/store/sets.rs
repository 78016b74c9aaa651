//! The store on sets of servers: a primary with replicas under sentinels, a Redis Cluster while a
//! slot moves, and replicas that flush to a file of their own before an answer.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::{join, join_all};
use object::ObjectId;
use prometheus::{Registry, TextEncoder};
use redis_link::rig::{Cluster, Sentinel, Server};
use redis_link::{Durability, RedisLink, Settings};
use room_node::store::redis::{LIBRARY, RedisStore};
use room_node::store::{Appended, Fence, Store};

use crate::conformance::{STEPS, run};
use crate::harness::{START, Subject, append, block_on, claim, object, starting};
use crate::redis_faults::{REPLICATED, until};
use crate::timed::{Servers, all_buckets, key, store};

/// Seeds that the other stores do not run.
const SEEDS: [u64; 2] = [101, 102];

/// Steps where a replica flushes first, each of which waits for its next report.
const FLUSHED_STEPS: usize = 30;

fn conforms(servers: impl Fn() -> Servers, durability: Durability, seeds: &[u64]) {
    let mut stored = 0;
    for seed in seeds {
        let servers = starting(&servers);
        stored += block_on(async {
            run(*seed, STEPS, Subject::redis_over(servers, durability).await).await
        });
    }
    assert!(stored > seeds.len() * STEPS / 10, "only {stored} appends were stored");
}

/// Three primaries with two replicas each: with one, a promoted primary would have none, and stop.
fn cluster() -> Cluster {
    let cluster = Cluster::start(3, 2, &REPLICATED).expect("redis-server");
    // The objects of the sequences are not all at one primary.
    let owner = |n| cluster.owner(&key("m", &object(&format!("object {n}"))));
    assert!((1..4).any(|n| owner(n) != owner(0)), "all objects are at one primary");
    cluster
}

#[test]
fn sentinels_at_d3_answer_as_the_reference_does() {
    let servers = || Servers::Sentinel(Sentinel::start(&REPLICATED).expect("redis-server"));
    conforms(servers, Durability::D3, &SEEDS);
}

#[test]
fn a_cluster_at_d1_answers_as_the_reference_does() {
    conforms(|| Servers::Cluster(cluster()), Durability::D1, &SEEDS[..1]);
}

#[test]
fn a_cluster_at_d3_answers_as_the_reference_does() {
    conforms(|| Servers::Cluster(cluster()), Durability::D3, &SEEDS[1..]);
}

/// Redis 7.0 has no WAITAOF, valkey-server has; where it is not installed, this says so.
#[test]
fn replicas_that_flush_before_the_answer_answer_as_the_reference_does() {
    let program = Path::new("valkey-server");
    let always = [&REPLICATED[..], &["--appendfsync", "always"]].concat();
    let primary = match starting(|| Server::start_program(program, &always)) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("d4 is not tested here: valkey-server 8 is not installed");
            return;
        }
        started => started.expect("valkey-server"),
    };
    let of = format!("127.0.0.1 {}", primary.port());
    let args = ["--appendonly", "yes", "--appendfsync", "always"];
    let args = [&args[..], &["--repl-diskless-sync-delay", "0", "--replicaof", &of]].concat();
    let replica = starting(|| Server::start_program(program, &args)).expect("valkey-server");
    replica.until_in_step().unwrap();
    primary.until_replicas(1).unwrap();
    // A new replica confirms nothing before it has written its first file.
    redis_link::rig::until("the replica confirms its file", || {
        let is_at_rest = |field| Ok::<_, std::io::Error>(replica.info(field)? == "0");
        Ok(is_at_rest("aof_rewrite_scheduled")? && is_at_rest("aof_rewrite_in_progress")?)
    })
    .unwrap();
    let servers = Servers::Pair(primary, replica);
    let stored = block_on(async {
        run(SEEDS[0], FLUSHED_STEPS, Subject::redis_over(servers, Durability::D4).await).await
    });
    assert!(stored >= FLUSHED_STEPS / 10, "only {stored} appends were stored");
}

/// Rooms that are written to while the slot of the first one moves.
const ROOMS: usize = 6;
/// Appends acknowledged in each room before the slot moves, and after.
const EACH: u64 = 20;

struct Writer {
    room: ObjectId,
    fence: Fence,
    lsn: u64,
}

impl Writer {
    /// One append after the other, none of which may fail.
    async fn write(&mut self, store: &RedisStore, stop: &AtomicBool, told: &AtomicU64s, at: usize) {
        while !stop.load(Ordering::Relaxed) {
            let batch = u128::from(self.lsn) + 1;
            let stored = store.append(append(&self.room, self.fence, self.lsn, batch)).await;
            assert_eq!(stored, Ok(Appended::Stored), "room {at}, append {batch}");
            self.lsn += 1;
            told[at].store(self.lsn, Ordering::Relaxed);
        }
    }
}

type AtomicU64s = [std::sync::atomic::AtomicU64; ROOMS];

async fn link(url: &str, registry: &Registry) -> Arc<RedisLink> {
    let endpoint = url.parse().expect("an endpoint");
    let settings = Settings::new(endpoint, Durability::D3, &[LIBRARY]);
    RedisLink::open(settings, registry).await.expect("a link")
}

/// How often calls were tried again since a part of their keys had moved.
fn tried_again(registry: &Registry) -> u64 {
    let text = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    let value = |line: &str| line.strip_prefix(RESHARDING)?.trim().parse().ok();
    text.lines().find_map(value).unwrap_or(0)
}

const RESHARDING: &str = "roomring_redis_retries_total{cause=\"try_again\"}";

/// While some keys of a room are here and some there, its functions run on neither side
/// (TRYAGAIN): its calls wait, those of other rooms go on, and none fails.
#[test]
fn a_slot_moves_while_its_room_is_written_to() {
    block_on(async {
        let cluster = starting(cluster);
        let registry = Registry::new();
        let link = link(&cluster.url(), &registry).await;
        let store = store(&link, all_buckets());
        let mut writers = Vec::new();
        for number in 0..ROOMS {
            let room = object(&format!("moved {number}"));
            let fence = claim(&*store, &room, 1).await.fence;
            writers.push(Writer { room, fence, lsn: 0 });
        }
        let (stop, told) = (AtomicBool::new(false), AtomicU64s::default());
        let moving = key("m", &writers[0].room);
        let from = cluster.owner(&moving).unwrap();
        let to = (from + 1) % 3;
        let all_reach = async |goals: [u64; ROOMS]| {
            until("all rooms are written to", async || {
                let reached =
                    told.iter().zip(goals).all(|(told, goal)| told.load(Ordering::Relaxed) >= goal);
                reached.then_some(())
            })
            .await;
        };
        let now = || std::array::from_fn(|at| told[at].load(Ordering::Relaxed));
        let moves = async {
            all_reach([EACH; ROOMS]).await;
            cluster.begin_move(&moving, from, to).unwrap();
            assert_eq!(cluster.move_some(&moving, from, to, 1).unwrap(), 1);
            until("a call is tried again", async || (tried_again(&registry) > 0).then_some(()))
                .await;
            // The rooms of other slots do not notice.
            let mut goals: [u64; ROOMS] = now();
            goals.iter_mut().skip(1).for_each(|goal| *goal += EACH);
            all_reach(goals).await;
            while cluster.move_some(&moving, from, to, 1).unwrap() > 0 {}
            cluster.end_move(&moving, from, to).unwrap();
            let mut goals: [u64; ROOMS] = now();
            goals.iter_mut().for_each(|goal| *goal += EACH);
            all_reach(goals).await;
            stop.store(true, Ordering::Relaxed);
        };
        let writes = writers
            .iter_mut()
            .enumerate()
            .map(|(at, writer)| writer.write(&store, &stop, &told, at));
        join(join_all(writes), moves).await;
        assert_eq!(cluster.owner(&moving), Some(to));
        for writer in writers {
            let state = store.refence(writer.room, writer.fence, 2, START).await.unwrap();
            assert_eq!(state.lsn, writer.lsn);
            let batches: Vec<u128> = state.tail.iter().map(|frame| frame.batch).collect();
            assert_eq!(batches, (1..=u128::from(writer.lsn)).collect::<Vec<_>>());
        }
        println!("a slot moved: {} calls were tried again", tried_again(&registry));
    });
}
