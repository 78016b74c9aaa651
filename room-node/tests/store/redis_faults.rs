//! What happens to acknowledged events when Redis is killed, full, or goes back in time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::future::join_all;
use object::ObjectId;
use redis_link::redis::{Connection, cmd};
use redis_link::rig::{Sentinel, Server};
use redis_link::{Durability, RedisLink};
use room_node::store::redis::{LostAcked, RedisStore};
use room_node::store::{Appended, Claimed, Error, Fence, Store};

use crate::harness::{
    START, append, block_on, claim, node, object, put, request, snapshot, starting, taking, who,
};
use crate::timed::{all_buckets, due_key, key, link, link_to, raw, store};

/// How long a condition is waited for that a server brings about.
const PATIENCE: Duration = Duration::from_secs(60);

/// Polls until the condition holds, for as long as [`PATIENCE`].
pub(crate) async fn until<T>(what: &str, mut look: impl AsyncFnMut() -> Option<T>) -> T {
    let mut turn = tokio::time::interval(Duration::from_millis(5));
    let polled = async {
        loop {
            turn.tick().await;
            if let Some(seen) = look().await {
                return seen;
            }
        }
    };
    tokio::time::timeout(PATIENCE, polled).await.unwrap_or_else(|_| panic!("never: {what}"))
}

fn replica_of(server: &Server) -> Server {
    let address = server.address();
    let port = address.port.to_string();
    starting(|| Server::start(&["--appendonly", "yes", "--replicaof", &address.host, &port]))
        .expect("a replica")
}

fn info(raw: &mut Connection, field: &str) -> String {
    let info: String = cmd("INFO").arg("replication").query(raw).unwrap();
    let line = info.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_default().to_owned()
}

/// Two owners with one epoch: the claim of the first was lost with the primary, so the second
/// got the same number. Only the nonce tells them apart.
#[test]
fn a_late_append_of_a_lost_claim_is_refused_though_the_epochs_are_equal() {
    block_on(async {
        let mut primary =
            starting(|| Server::start(&["--appendonly", "yes"])).expect("redis-server");
        let replica = replica_of(&primary);
        let mut behind = raw(&replica);
        let before = store(&link(&primary, Durability::D1).await, all_buckets());
        let room = object("collision");
        let first = claim(&*before, &room, 1).await;
        before.append(append(&room, first.fence, 0, 1)).await.unwrap();
        until("the replica has the event", async || {
            let frames: u64 = cmd("LLEN").arg(key("l", &room)).query(&mut behind).ok()?;
            (frames == 1).then_some(())
        })
        .await;
        // From here on the replica hears nothing more; then the primary is gone.
        cmd("REPLICAOF").arg("NO").arg("ONE").exec(&mut behind).unwrap();
        let a = claim(&*before, &room, 2).await.fence;
        primary.kill();
        assert_eq!(info(&mut behind, "role"), "master");

        let after = store(&link(&replica, Durability::D1).await, all_buckets());
        let asks = taking(&room, &node("b", 1), 3, first.fence);
        let b = after.claim(asks, START).await.unwrap().fence;
        assert!(a.epoch == b.epoch && a.nonce != b.nonce);
        // The first owner's append arrives late, at the new primary.
        assert_eq!(after.append(append(&room, a, 1, 20)).await.err(), Some(Error::Fenced));
        assert_eq!(after.append(append(&room, b, 1, 21)).await, Ok(Appended::Stored));
        assert_eq!(after.append(append(&room, a, 2, 22)).await.err(), Some(Error::Fenced));
        assert_eq!(after.check(room.clone(), a).await.err(), Some(Error::Fenced));
        assert_eq!(after.release(room.clone(), a).await.err(), Some(Error::Fenced));
        let tail = after.refence(room, b, 4, START).await.unwrap().tail;
        assert_eq!(tail.iter().map(|frame| frame.batch).collect::<Vec<_>>(), [1, 21]);
    });
}

#[test]
fn a_late_append_after_a_refence_is_refused() {
    block_on(async {
        let server = starting(|| Server::start(&["--appendonly", "yes"])).expect("redis-server");
        let store = store(&link(&server, Durability::D1).await, all_buckets());
        let room = object("late");
        let old = claim(&*store, &room, 1).await.fence;
        let late = append(&room, old, 0, 1);
        let new = store.refence(room.clone(), old, 2, START).await.unwrap();
        assert_eq!(new.lsn, 0);
        assert_eq!(store.append(late).await.err(), Some(Error::Fenced));
        assert_eq!(store.append(append(&room, new.fence, 0, 1)).await, Ok(Appended::Stored));
    });
}

#[test]
fn a_full_redis_refuses_before_any_effect() {
    block_on(async {
        let server = starting(|| Server::start(&["--appendonly", "yes"])).expect("redis-server");
        let store = store(&link(&server, Durability::D1).await, all_buckets());
        let mut raw = raw(&server);
        let room = object("full");
        let fence = claim(&*store, &room, 1).await.fence;
        store.append(append(&room, fence, 0, 1)).await.unwrap();
        put(&*store, &room, 1, START).await;
        let mut limit = |bytes: &str| {
            cmd("CONFIG").arg("SET").arg("maxmemory").arg(bytes).exec(&mut raw).unwrap();
        };
        limit("1");
        let mut more = append(&room, fence, 1, 2);
        more.keep_blobs = vec![object::BlobId(1)];
        more.leases = vec![(who(1), START)];
        more.due = Some(START);
        let full = |result: Result<(), Error>| matches!(result, Err(Error::Full { .. }));
        assert!(full(store.append(more.clone()).await.map(drop)));
        assert!(full(store.claim(request(&room, &node("a", 1), 9), START).await.map(drop)));
        assert!(full(store.refence(room.clone(), fence, 9, START).await.map(drop)));
        assert!(full(store.snapshot(room.clone(), fence, snapshot(1)).await));
        assert!(full(store.lease(room.clone(), fence, vec![], None).await));
        assert!(full(store.put_blob(room.clone(), object::BlobId(2), "x".into(), START).await));
        // Reads go on.
        assert_eq!(store.check(room.clone(), fence).await, Ok(()));
        assert!(store.get_blob(room.clone(), object::BlobId(1)).await.unwrap().is_some());
        assert_eq!(store.due(START, None, 9).await, Ok((vec![], None)));
        limit("0");
        let state = store.refence(room.clone(), fence, 2, START).await.unwrap();
        assert!(state.fence.epoch == 2 && state.lsn == 1 && state.leases.is_empty());
        assert!(state.due.is_none() && state.tail.len() == 1 && state.snapshot.is_none());
        more.fence = state.fence;
        assert_eq!(store.append(more).await, Ok(Appended::Stored));
    });
}

const WRITERS: usize = 8;
const KILLS: usize = 4;
/// Appends acknowledged between two kills.
const APPENDS_BETWEEN: u64 = 150;

/// What one writer knows for sure.
struct Written {
    room: ObjectId,
    fence: Fence,
    lsn: u64,
    /// Acknowledged batches, in order.
    acked: Vec<u128>,
    /// Batches whose outcome was unknown, and how a new fence and a look resolved it.
    found: u64,
    absent: u64,
}

impl Written {
    /// A new fence, and then what is there is what will ever be there.
    async fn resolve(&mut self, store: &RedisStore, nonce: u64) -> Claimed {
        let (room, old) = (self.room.clone(), self.fence);
        let claimed = until("a refence gets through", async || {
            match store.refence(room.clone(), old, nonce, START).await {
                Ok(claimed) => Some(claimed),
                Err(Error::Unknown { .. } | Error::Unavailable { .. }) => None,
                Err(other) => panic!("{other}"),
            }
        })
        .await;
        self.fence = claimed.fence;
        claimed
    }

    async fn write(&mut self, store: &RedisStore, stop: &AtomicBool, mut told: impl FnMut()) {
        let mut batch = 0;
        let mut turn = tokio::time::interval(Duration::from_millis(2));
        while !stop.load(Ordering::Relaxed) {
            batch += 1;
            let append = append(&self.room, self.fence, self.lsn, batch);
            match store.append(append).await {
                Ok(stored) => assert_eq!(stored, Appended::Stored),
                Err(Error::Unavailable { .. }) => {
                    turn.tick().await;
                    continue;
                }
                Err(Error::Unknown { .. }) => {
                    let nonce = 1_000 + batch as u64;
                    let claimed = self.resolve(store, nonce).await;
                    if claimed.tail.iter().any(|frame| frame.batch == batch) {
                        self.found += 1;
                    } else {
                        self.absent += 1;
                        assert_eq!(claimed.lsn, self.lsn);
                        continue;
                    }
                }
                Err(other) => panic!("{other}"),
            }
            self.lsn += 1;
            self.acked.push(batch);
            told();
        }
    }
}

#[test]
fn everything_acknowledged_survives_kill_9_of_redis() {
    block_on(async {
        let args = ["--appendonly", "yes", "--appendfsync", "always"];
        let mut server = starting(|| Server::start(&args)).expect("redis-server");
        let store = store(&link(&server, Durability::D2).await, all_buckets());
        let mut writers = Vec::new();
        for number in 0..WRITERS {
            let room = object(&format!("killed {number}"));
            let fence = claim(&*store, &room, 1).await.fence;
            let acked = Vec::new();
            writers.push(Written { room, fence, lsn: 0, acked, found: 0, absent: 0 });
        }
        let stop = AtomicBool::new(false);
        let told = std::cell::Cell::new(0_u64);
        let writes = writers
            .iter_mut()
            .map(|writer| writer.write(&store, &stop, || told.set(told.get() + 1)));
        let kills = async {
            for kill in 1..=KILLS as u64 {
                let goal = kill * APPENDS_BETWEEN;
                until("the writers get on", async || (told.get() >= goal).then_some(())).await;
                server.kill();
                starting(|| server.run()).expect("redis-server starts again");
            }
            let goal = told.get() + APPENDS_BETWEEN;
            until("the writers get on", async || (told.get() >= goal).then_some(())).await;
            stop.store(true, Ordering::Relaxed);
        };
        futures_util::future::join(join_all(writes), kills).await;
        let (mut found, mut absent) = (0, 0);
        for writer in &mut writers {
            let end = writer.resolve(&store, 9).await;
            let there: Vec<u128> = end.tail.iter().map(|frame| frame.batch).collect();
            assert_eq!(there, writer.acked, "what is there is what was acknowledged");
            found += writer.found;
            absent += writer.absent;
        }
        println!(
            "{} acknowledged, {found} unknown and there, {absent} unknown and not",
            told.get()
        );
    });
}

/// Takes events from a log as a failover to an older copy would.
fn go_back(raw: &mut Connection, room: &ObjectId, events: u64) {
    let (meta, log) = (key("m", room), key("l", room));
    cmd("LTRIM").arg(&log).arg(0).arg(-1 - events.cast_signed()).exec(raw).unwrap();
    for field in ["s", "n"] {
        let by = -events.cast_signed();
        cmd("HINCRBY").arg(&meta).arg(field).arg(by).exec(raw).unwrap();
    }
}

fn records(raw: &mut Connection, room: &ObjectId) -> Vec<LostAcked> {
    let records: Vec<Vec<u8>> =
        cmd("LRANGE").arg(key("q", room)).arg(0).arg(-1).query(raw).unwrap();
    records.into_iter().map(|record| LostAcked::decode(record.into()).unwrap()).collect()
}

async fn written(store: &RedisStore, name: &str) -> (ObjectId, Fence) {
    let room = object(name);
    let fence = claim(store, &room, 1).await.fence;
    for lsn in 0..4 {
        store.append(append(&room, fence, lsn, u128::from(lsn) + 1)).await.unwrap();
    }
    (room, fence)
}

/// Cuts every link; the store looks at what it knows once they stand again.
fn cut(raw: &mut Connection) {
    cmd("CLIENT").arg("KILL").arg("TYPE").arg("normal").exec(raw).unwrap();
}

async fn reconnects(link: &RedisLink, store: &RedisStore, room: &ObjectId) {
    let seen = *link.changes().borrow();
    until("the link stands again", async || {
        drop(store.get_blob(room.clone(), object::BlobId(1)).await);
        drop(store.due(START, None, 1).await);
        (*link.changes().borrow() > seen).then_some(())
    })
    .await;
}

#[test]
fn a_primary_that_went_back_is_told_and_what_was_lost_is_kept() {
    block_on(async {
        let server = starting(|| Server::start(&["--appendonly", "yes"])).expect("redis-server");
        let link = link(&server, Durability::D1).await;
        let store = store(&link, all_buckets());
        let mut raw = raw(&server);
        let (room, fence) = written(&store, "lost").await;
        let (whole, kept) = written(&store, "whole").await;
        let (gone, _) = written(&store, "gone").await;
        let (taken, old) = written(&store, "taken").await;
        let asks = taking(&taken, &node("b", 1), 7, old);
        let other = store_of_another(&link);
        let new = other.claim(asks, START).await.unwrap().fence;
        other.append(append(&taken, new, 4, 99)).await.unwrap();

        go_back(&mut raw, &room, 2);
        cmd("DEL").arg(key("m", &gone)).arg(key("l", &gone)).exec(&mut raw).unwrap();
        cut(&mut raw);
        reconnects(&link, &store, &whole).await;
        let lost = until("both records", async || {
            let lost = records(&mut raw, &room);
            (!lost.is_empty() && !records(&mut raw, &gone).is_empty()).then_some(lost)
        })
        .await;
        assert_eq!(lost.len(), 1);
        let lost = &lost[0];
        assert_eq!((lost.acked_lsn, lost.kept_lsn, lost.fence), (4, 2, fence));
        assert_eq!(lost.frames.iter().map(|frame| frame.batch).collect::<Vec<_>>(), [3, 4]);
        let lost = records(&mut raw, &gone);
        assert_eq!((lost[0].acked_lsn, lost[0].kept_lsn, lost[0].frames.len()), (4, 0, 4));
        for fine in [&whole, &taken] {
            assert_eq!(records(&mut raw, fine), []);
        }
        assert_eq!(store.check(whole.clone(), kept).await, Ok(()));
        // Told once: neither the next change nor the next claim says it again.
        claim(&*store, &room, 2).await;
        assert_eq!(records(&mut raw, &room).len(), 1);
    });
}

fn store_of_another(link: &Arc<RedisLink>) -> Arc<RedisStore> {
    store(link, all_buckets())
}

#[test]
fn an_owner_that_asks_for_its_fence_hears_that_acknowledged_events_went() {
    block_on(async {
        let server = Server::start(&["--appendonly", "yes"]).expect("redis-server");
        let store = store(&link(&server, Durability::D1).await, all_buckets());
        let mut raw = raw(&server);
        let (room, fence) = written(&store, "asked").await;
        assert_eq!(store.check(room.clone(), fence).await, Ok(()));
        go_back(&mut raw, &room, 1);
        let gone = Some(Error::Lsn { actual: 3 });
        assert_eq!(store.check(room.clone(), fence).await.err(), gone);
    });
}

#[test]
fn a_claim_that_finds_less_than_was_acknowledged_tells_it() {
    block_on(async {
        let server = starting(|| Server::start(&["--appendonly", "yes"])).expect("redis-server");
        let store = store(&link(&server, Durability::D1).await, all_buckets());
        let mut raw = raw(&server);
        let (room, fence) = written(&store, "claimed").await;
        go_back(&mut raw, &room, 1);
        let state = store.refence(room.clone(), fence, 2, START).await.unwrap();
        assert_eq!(state.lsn, 3);
        let lost = records(&mut raw, &room);
        assert_eq!((lost.len(), lost[0].acked_lsn, lost[0].kept_lsn), (1, 4, 3));
        // Another event in the place of the lost one is no repair.
        store.append(append(&room, state.fence, 3, 50)).await.unwrap();
        go_back(&mut raw, &room, 1);
        let other = store_of_another(&link(&server, Durability::D1).await);
        let asks = taking(&room, &node("b", 1), 7, state.fence);
        let new = other.claim(asks, START).await.unwrap().fence;
        other.append(append(&room, new, 3, 60)).await.unwrap();
        assert_eq!(store.check(room.clone(), state.fence).await.err(), Some(Error::Fenced));
        let lost = until("the second record", async || {
            let lost = records(&mut raw, &room);
            (lost.len() == 2).then_some(lost)
        })
        .await;
        assert_eq!((lost[1].acked_lsn, lost[1].kept_lsn), (4, 3));
        assert_eq!(lost[1].frames.iter().map(|frame| frame.batch).collect::<Vec<_>>(), [50]);
        let due: Option<f64> =
            cmd("ZSCORE").arg(due_key(&room)).arg("r:claimed").query(&mut raw).unwrap();
        assert_eq!(due, None);
    });
}

#[test]
fn the_newest_records_of_losses_are_kept_and_no_more() {
    block_on(async {
        let server = starting(|| Server::start(&["--appendonly", "yes"])).expect("redis-server");
        let store = store(&link(&server, Durability::D1).await, all_buckets());
        let mut raw = raw(&server);
        let (room, mut fence) = written(&store, "lost often").await;
        for batch in 10..20 {
            store.append(append(&room, fence, 4, batch)).await.unwrap();
            go_back(&mut raw, &room, 1);
            let state = store.refence(room.clone(), fence, 1 + batch as u64, START).await.unwrap();
            assert_eq!(state.lsn, 4);
            fence = state.fence;
        }
        let lost = records(&mut raw, &room);
        let batches: Vec<u128> = lost.iter().map(|lost| lost.frames[0].batch).collect();
        assert_eq!(batches, (12..20).collect::<Vec<_>>());
    });
}

pub(crate) const REPLICATED: [&str; 6] =
    ["--appendonly", "yes", "--min-replicas-to-write", "1", "--min-replicas-max-lag", "4"];

/// A real failover to a replica that never had the last acknowledged event.
#[test]
fn a_failover_that_loses_an_acknowledged_event_is_told() {
    block_on(async {
        let mut set = starting(|| Sentinel::start(&REPLICATED)).expect("redis-server");
        let link = link_to(&set.url(), Durability::D1).await;
        let store = store(&link, all_buckets());
        let (room, fence) = written(&store, "failed over").await;
        let old = set.primary_index().unwrap();
        for (index, server) in set.servers.iter().enumerate() {
            if index != old {
                let mut replica = raw(server);
                until("the replica has all", async || {
                    let frames: u64 = cmd("LLEN").arg(key("l", &room)).query(&mut replica).ok()?;
                    (frames == 4).then_some(())
                })
                .await;
            }
        }
        // From here on the primary drops a replica rather than send it something large, and has
        // it copy everything anew, which begins seconds later.
        let mut primary = raw(&set.servers[old]);
        for (name, value) in
            [("client-output-buffer-limit", "replica 1 1 1"), ("repl-backlog-size", "16384")]
        {
            cmd("CONFIG").arg("SET").arg(name).arg(value).exec(&mut primary).unwrap();
        }
        let mut large = append(&room, fence, 4, 5);
        large.frame.records[0].bytes = vec![7; 256 << 10].into();
        assert_eq!(store.append(large).await, Ok(Appended::Stored));
        set.kill_primary().unwrap();
        let new = until("another primary is elected", async || {
            let index = set.primary_index().ok().filter(|index| *index != old)?;
            set.servers[index].is_primary().then_some(index)
        })
        .await;
        let server = &set.servers[new];
        // A sentinel cuts the clients of a server that it has just promoted.
        let frames = until("the new primary answers", async || {
            cmd("LLEN").arg(key("l", &room)).query::<u64>(&mut raw(server)).ok()
        })
        .await;
        assert_eq!(frames, 4, "the event was to be lost");
        let lost = until("the loss is told", async || {
            let told: Vec<Vec<u8>> =
                cmd("LRANGE").arg(key("q", &room)).arg(0).arg(-1).query(&mut raw(server)).ok()?;
            told.into_iter().next().map(|record| LostAcked::decode(record.into()).unwrap())
        })
        .await;
        assert_eq!((lost.acked_lsn, lost.kept_lsn, lost.fence), (5, 4, fence));
        assert_eq!(lost.frames.iter().map(|frame| frame.batch).collect::<Vec<_>>(), [5]);
    });
}
