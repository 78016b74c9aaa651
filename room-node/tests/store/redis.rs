//! What only the store in Redis has: its functions' refusals seen from outside, large snapshots,
//! and the scan of due times by bucket.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use membership::{BucketSet, bucket};
use object::{BlobId, Millis, ObjectId};
use redis_link::redis::{Connection, cmd};
use redis_link::rig::Server;
use redis_link::{Durability, RedisLink};
use room_node::store::redis::RedisStore;
use room_node::store::{
    Appended, Due, Error, Fence, Incarnation, SNAPSHOT_BYTES_MAX, Snapshot, Store,
};
use tokio::sync::watch;

use crate::harness::{
    START, append, block_on, claim, frame, node, object, put, request, snapshot, starting, taking,
    who,
};
use crate::timed::{all_buckets, due_key, key, link, raw, store};

/// A store, and a plain connection to look behind it.
struct Rig {
    server: Server,
    link: Arc<RedisLink>,
    store: Arc<RedisStore>,
    raw: Connection,
}

impl Rig {
    async fn start() -> Self {
        let server = starting(|| Server::start(&["--appendonly", "yes"])).expect("redis-server");
        let link = link(&server, Durability::D1).await;
        let (store, raw) = (store(&link, all_buckets()), raw(&server));
        Self { server, link, store, raw }
    }

    /// Every key of the store with its bytes and its expiry.
    fn all(&mut self) -> BTreeMap<Vec<u8>, (Vec<u8>, bool)> {
        let keys: Vec<Vec<u8>> = cmd("KEYS").arg("{b*").query(&mut self.raw).unwrap();
        let look = |key: Vec<u8>| {
            let dump: Vec<u8> = cmd("DUMP").arg(&key).query(&mut self.raw).unwrap();
            let ends: i64 = cmd("PTTL").arg(&key).query(&mut self.raw).unwrap();
            (key, (dump, ends >= 0))
        };
        keys.into_iter().map(look).collect()
    }
}

/// A room with two events, a kept blob, a lease, a due time and an upload nobody kept.
async fn furnished(store: &dyn Store, room: &ObjectId) -> Fence {
    let fence = claim(store, room, 1).await.fence;
    put(store, room, 1, START).await;
    put(store, room, 2, START).await;
    let mut first = append(room, fence, 0, 10);
    first.keep_blobs = vec![BlobId(1)];
    first.leases = vec![(who(1), START.plus(90))];
    first.due = Some(START.plus(50));
    store.append(first.clone()).await.unwrap();
    let mut second = append(room, fence, 1, 11);
    second.due = first.due;
    store.append(second).await.unwrap();
    fence
}

#[test]
fn a_refusal_writes_nothing() {
    block_on(async {
        let mut rig = Rig::start().await;
        let room = object("refused");
        let store = Arc::clone(&rig.store);
        let fence = furnished(&*store, &room).await;
        let before = rig.all();
        assert!(before.len() == 6, "{:?}", before.keys());

        let old = Fence { epoch: fence.epoch, nonce: 99 };
        let full = |fence: Fence, lsn: u64, batch: u128| {
            let mut full = append(&room, fence, lsn, batch);
            full.keep_blobs = vec![BlobId(2), BlobId(3)];
            full.drop_blobs = vec![BlobId(1)];
            full.leases = vec![(who(1), START.plus(500)), (who(2), START)];
            full.drop_leases = vec![who(1)];
            full
        };
        let missing = Some(Error::BlobMissing { blob: BlobId(3) });
        let fenced = Some(Error::Fenced);
        let lsn = Some(Error::Lsn { actual: 2 });
        assert_eq!(store.append(full(fence, 2, 20)).await.err(), missing);
        assert_eq!(store.append(full(old, 2, 20)).await.err(), fenced);
        assert_eq!(store.append(full(fence, 1, 20)).await.err(), lsn);
        assert_eq!(store.append(full(fence, 3, 20)).await.err(), lsn);
        // The duplicate is told before any look at blobs, and changes nothing either.
        assert_eq!(store.append(full(fence, 1, 11)).await, Ok(Appended::Duplicate));
        assert_eq!(store.append(full(fence, 0, 10)).await, Ok(Appended::Duplicate));
        let leases = vec![(who(1), START.plus(500))];
        assert_eq!(store.lease(room.clone(), old, leases, None).await.err(), fenced);
        assert_eq!(store.set_due(room.clone(), old, None).await.err(), fenced);
        assert_eq!(store.check(room.clone(), old).await.err(), fenced);
        assert_eq!(store.snapshot(room.clone(), old, snapshot(2)).await.err(), fenced);
        assert_eq!(store.snapshot(room.clone(), fence, snapshot(3)).await.err(), lsn);
        assert_eq!(store.release(room.clone(), old).await.err(), fenced);
        assert_eq!(store.destroy(room.clone(), old, 2, START).await.err(), fenced);
        assert_eq!(store.destroy(room.clone(), fence, 1, START).await.err(), lsn);
        assert_eq!(store.refence(room.clone(), old, 5, START).await.err(), fenced);
        let owned = store.claim(request(&room, &node("b", 1), 5), START).await.err();
        assert_eq!(owned, Some(Error::Owned { fence, owner: node("a", 1) }));
        // Nobody but the owner moves a due time later.
        store.bring_forward(&room, START.plus(60)).await.unwrap();
        assert_eq!(rig.all(), before);

        store.bring_forward(&room, START.plus(40)).await.unwrap();
        let at = START.plus(40);
        let due = Due { at, object: room };
        assert_eq!(store.due(at, None, 9).await.unwrap().0, [due]);
    });
}

#[test]
fn a_newer_schema_is_refused_and_stays_as_it_is() {
    block_on(async {
        let mut rig = Rig::start().await;
        let room = object("newer");
        let store = Arc::clone(&rig.store);
        let fence = claim(&*store, &room, 1).await.fence;
        let mut newer = append(&room, fence, 0, 1);
        newer.frame.schema = 7;
        store.append(newer).await.unwrap();
        let before = rig.all();
        let refused = store.claim(taking(&room, &node("a", 2), 2, fence), START).await.err();
        assert_eq!(refused, Some(Error::Newer { found: 7 }));
        let refused = store.refence(room, fence, 2, START).await.err();
        assert_eq!(refused, Some(Error::Newer { found: 7 }));
        assert_eq!(rig.all(), before);
    });
}

#[test]
fn a_dead_object_refuses_every_write_and_leaves_only_its_mark() {
    block_on(async {
        let mut rig = Rig::start().await;
        let room = object("dead");
        let store = Arc::clone(&rig.store);
        let fence = furnished(&*store, &room).await;
        store.snapshot(room.clone(), fence, snapshot(1)).await.unwrap();
        store.destroy(room.clone(), fence, 2, START).await.unwrap();
        let mark = key("m", &room);
        let upload = format!("{}:{:032x}", key("b", &room), 2);
        let left: Vec<_> = rig.all().into_iter().map(|(key, (_, ends))| (key, ends)).collect();
        assert_eq!(left, [(upload.into_bytes(), true), (mark.clone().into_bytes(), true)]);
        let before = rig.all();
        let fenced = Some(Error::Fenced);
        assert_eq!(store.append(append(&room, fence, 2, 3)).await.err(), fenced);
        assert_eq!(store.lease(room.clone(), fence, vec![], Some(START)).await.err(), fenced);
        assert_eq!(store.set_due(room.clone(), fence, Some(START)).await.err(), fenced);
        assert_eq!(store.snapshot(room.clone(), fence, snapshot(2)).await.err(), fenced);
        assert_eq!(store.release(room.clone(), fence).await.err(), fenced);
        assert_eq!(store.refence(room.clone(), fence, 9, START).await.err(), fenced);
        assert_eq!(rig.all(), before);
        // An entry that should not be there is taken away by whoever meets it.
        cmd("ZADD").arg(due_key(&room)).arg(5).arg("r:dead").exec(&mut rig.raw).unwrap();
        assert_eq!(store.bring_forward(&room, START).await.err(), fenced);
        assert_eq!(rig.all(), before);
        cmd("ZADD").arg(due_key(&room)).arg(5).arg("r:dead").exec(&mut rig.raw).unwrap();
        let mut asks = request(&room, &node("a", 1), 4);
        asks.may_create = false;
        assert_eq!(store.claim(asks, START).await.err(), Some(Error::Absent));
        assert_eq!(rig.all(), before);
        // A new generation has no end.
        assert!(claim(&*store, &room, 5).await.created);
        let ends: i64 = cmd("PTTL").arg(&mark).query(&mut rig.raw).unwrap();
        assert_eq!(ends, -1);
    });
}

#[test]
fn keys_broken_by_hand_are_damage_and_never_an_empty_room() {
    let breaks: [(&str, &[&[&str]]); 10] = [
        ("meta of another type", &[&["DEL", "m"], &["SET", "m", "x"]]),
        ("log of another type", &[&["DEL", "l"], &["SET", "l", "x"]]),
        ("snapshot of another type", &[&["DEL", "s"], &["RPUSH", "s", "x"]]),
        ("meta gone", &[&["DEL", "m"]]),
        ("log gone", &[&["DEL", "l"]]),
        ("a frame gone", &[&["LPOP", "l"]]),
        ("an owner without a nonce", &[&["HDEL", "m", "k"]]),
        ("a frame cut", &[&["LSET", "l", "0", "RF"]]),
        ("snapshot gone", &[&["DEL", "s"]]),
        ("snapshot cut", &[&["SETRANGE", "s", "9", "zz"]]),
    ];
    block_on(async {
        let mut rig = Rig::start().await;
        for (number, (what, commands)) in breaks.iter().enumerate() {
            let room = object(&format!("broken {number}"));
            let store = Arc::clone(&rig.store);
            let fence = furnished(&*store, &room).await;
            store.snapshot(room.clone(), fence, snapshot(1)).await.unwrap();
            for command in *commands {
                let mut broken = cmd(command[0]);
                broken.arg(key(command[1], &room));
                command[2..].iter().for_each(|arg| {
                    broken.arg(*arg);
                });
                broken.exec(&mut rig.raw).unwrap();
            }
            let due: Option<f64> = cmd("ZSCORE")
                .arg(due_key(&room))
                .arg(format!("r:broken {number}"))
                .query(&mut rig.raw)
                .unwrap();
            assert!(due.is_some(), "{what}");
            for boot in 1..3 {
                let asks = taking(&room, &node("a", boot), 9, fence);
                let claimed = store.claim(asks, START).await;
                assert!(matches!(claimed, Err(Error::Damaged { .. })), "{what}: {claimed:?}");
            }
            let (due, _) = store.due(START.plus(99), None, 9).await.unwrap();
            assert!(due.is_empty(), "{what}: {due:?}");
            // An owner that still has all in memory may go on where only the snapshot is broken.
            let append = store.append(append(&room, fence, 2, 12)).await;
            assert!(append.is_err() || what.starts_with("snapshot"), "{what}: {append:?}");
        }
        // A due index that is none stops its bucket only.
        let room = object("index");
        let fence = claim(&*rig.store, &room, 1).await.fence;
        cmd("SET").arg(due_key(&room)).arg("x").exec(&mut rig.raw).unwrap();
        let refused = rig.store.append(append(&room, fence, 0, 1)).await;
        assert!(matches!(refused, Err(Error::Damaged { .. })), "{refused:?}");
        let frames: u64 = cmd("LLEN").arg(key("l", &room)).query(&mut rig.raw).unwrap();
        assert_eq!(frames, 0);
    });
}

#[test]
fn large_snapshots_are_kept_in_chunks() {
    block_on(async {
        let mut rig = Rig::start().await;
        let room = object("large");
        let store = Arc::clone(&rig.store);
        let mut fence = claim(&*store, &room, 1).await.fence;
        let chunks = |rig: &mut Rig| {
            rig.all()
                .into_iter()
                .filter(|(key, _)| key.windows(3).any(|part| part == b"}c:"))
                .count()
        };
        let sizes = [(1, 2 << 20), (2, SNAPSHOT_BYTES_MAX), (3, 700_000), (3, 700_001), (4, 10)];
        let mut at = 0;
        for (nonce, (lsn, len)) in (2..).zip(sizes) {
            while at < lsn {
                store.append(append(&room, fence, at, u128::from(at) + 1)).await.unwrap();
                at += 1;
            }
            let bytes = Bytes::from(vec![u8::try_from(lsn).unwrap(); len]);
            let large = Snapshot { schema: 1, lsn, bytes };
            store.snapshot(room.clone(), fence, large.clone()).await.unwrap();
            let claimed = claim(&*store, &room, nonce).await;
            assert!(claimed.snapshot == Some(large) && claimed.tail.is_empty());
            fence = claimed.fence;
            let expected = if len < 512 << 10 { 0 } else { len / (512 << 10) + 1 };
            assert_eq!(chunks(&mut rig), expected, "{len} bytes");
            assert!(rig.all().values().all(|(_, ends)| !ends), "a chunk may not end");
        }
        let bytes = Bytes::from(vec![5; 1 << 20]);
        let large = Snapshot { schema: 1, lsn: 4, bytes };
        store.snapshot(room.clone(), fence, large.clone()).await.unwrap();
        let keys: Vec<String> = cmd("KEYS").arg("{b*}c:*:1").query(&mut rig.raw).unwrap();
        cmd("DEL").arg(&keys).exec(&mut rig.raw).unwrap();
        let damaged = store.claim(taking(&room, &node("a", 1), 99, fence), START).await;
        assert!(matches!(damaged, Err(Error::Damaged { .. })), "{damaged:?}");
        let all: Vec<Vec<u8>> = rig.all().into_keys().collect();
        cmd("DEL").arg(all).exec(&mut rig.raw).unwrap();

        let room = object("large and gone");
        let fence = claim(&*store, &room, 1).await.fence;
        store.append(append(&room, fence, 0, 1)).await.unwrap();
        store.snapshot(room.clone(), fence, Snapshot { lsn: 1, ..large }).await.unwrap();
        assert_eq!(chunks(&mut rig), 3);
        store.destroy(room, fence, 1, START).await.unwrap();
        assert_eq!(chunks(&mut rig), 0);
    });
}

#[test]
fn a_node_scans_the_buckets_it_owns() {
    block_on(async {
        let mut rig = Rig::start().await;
        let rooms: Vec<ObjectId> = (0..8).map(|number| object(&format!("due {number}"))).collect();
        for (at, room) in (0..).zip(&rooms) {
            let fence = claim(&*rig.store, room, 1).await.fence;
            rig.store.set_due(room.clone(), fence, Some(START.plus(at))).await.unwrap();
        }
        let of = |rooms: &[ObjectId]| -> BucketSet {
            rooms.iter().map(|room| bucket(room.name().as_bytes())).collect()
        };
        let set = watch::Sender::new(of(&rooms[2..5]));
        let other = store(&rig.link, set.subscribe());
        let seen = async |now: Millis| -> (Vec<ObjectId>, Option<Millis>) {
            let (due, next) = other.due(now, None, 99).await.unwrap();
            (due.into_iter().map(|due| due.object).collect(), next)
        };
        assert_eq!(seen(START.plus(3)).await, (rooms[2..4].to_vec(), Some(START.plus(4))));
        // What another node writes is found when the set changes, and after a time without it.
        let member = "r:due 2";
        cmd("ZADD").arg(due_key(&rooms[2])).arg(1).arg(member).exec(&mut rig.raw).unwrap();
        set.send_replace(of(&rooms[2..3]));
        assert_eq!(seen(Millis(1)).await, (rooms[2..3].to_vec(), None));
        cmd("ZADD").arg(due_key(&rooms[2])).arg(50_000).arg(member).exec(&mut rig.raw).unwrap();
        assert_eq!(seen(Millis(2)).await, (vec![], Some(Millis(50_000))));
        cmd("ZADD").arg(due_key(&rooms[2])).arg(20_000).arg(member).exec(&mut rig.raw).unwrap();
        assert_eq!(seen(Millis(40_000)).await, (rooms[2..3].to_vec(), None));
        set.send_replace(BucketSet::empty());
        assert_eq!(seen(Millis::FAR_FUTURE).await, (vec![], None));
        // An entry that no node of ours wrote is passed over.
        set.send_replace(of(&rooms[7..]));
        cmd("ZADD").arg(due_key(&rooms[7])).arg(1).arg("?").exec(&mut rig.raw).unwrap();
        assert_eq!(seen(START.plus(9)).await, (rooms[7..].to_vec(), None));
    });
}

#[test]
fn a_bucket_full_of_entries_to_skip_hides_none() {
    block_on(async {
        let mut rig = Rig::start().await;
        let room = object("behind the others");
        let fence = claim(&*rig.store, &room, 1).await.fence;
        let mut poison = cmd("ZADD");
        poison.arg(due_key(&room));
        for number in 0..1_000 {
            poison.arg(START.0).arg(format!("r:poison {number:04}"));
        }
        poison.exec(&mut rig.raw).unwrap();
        rig.store.set_due(room.clone(), fence, Some(START.plus(1))).await.unwrap();
        let (mut after, mut count, mut last) = (None, 0, None);
        loop {
            let (page, next) = rig.store.due(START.plus(1), after.clone(), 64).await.unwrap();
            assert!(page.is_sorted_by_key(|due| (due.at, due.object.clone())) && next.is_none());
            count += page.len();
            last = page.last().cloned().or(last);
            if page.len() < 64 {
                break;
            }
            after.clone_from(&last);
        }
        assert_eq!((count, last.map(|due| due.object)), (1_001, Some(room)));
        drop(rig.server);
    });
}

#[test]
fn an_owner_may_have_any_name() {
    block_on(async {
        let rig = Rig::start().await;
        for (number, name) in ["", "a/b", "0123456789abcdef", "ß}{:"].into_iter().enumerate() {
            let room = object(&format!("named {number}"));
            let me = Incarnation { node: name.into(), boot: u64::MAX };
            let fence = rig.store.claim(request(&room, &me, 1), START).await.unwrap().fence;
            let other = request(&room, &node("other", 1), 2);
            let owned = Error::Owned { fence, owner: me.clone() };
            assert_eq!(rig.store.claim(other, START).await.err(), Some(owned));
            let again = Incarnation { boot: 0, ..me };
            let asks = taking(&room, &again, 3, fence);
            let mine = rig.store.claim(asks, START).await.unwrap();
            assert_eq!(mine.fence.epoch, 2);
            let mut two = append(&room, mine.fence, 0, 1);
            two.frame = frame(mine.fence, 0, 1, &["one", "two"]);
            rig.store.append(two).await.unwrap();
        }
    });
}

/// Where FUNCTION is forbidden the same text runs as scripts.
#[test]
fn the_functions_run_as_scripts_too() {
    block_on(async {
        let args = ["--appendonly", "yes", "--rename-command", "FUNCTION", ""];
        let server = starting(|| Server::start(&args)).expect("redis-server");
        let store = store(&link(&server, Durability::D1).await, all_buckets());
        let room = object("scripts");
        let fence = furnished(&*store, &room).await;
        store.lease(room.clone(), fence, vec![(who(1), START.plus(95))], None).await.unwrap();
        store.append(append(&room, fence, 2, 12)).await.unwrap();
        store.snapshot(room.clone(), fence, snapshot(2)).await.unwrap();
        assert_eq!(store.check(room.clone(), fence).await, Ok(()));
        store.set_due(room.clone(), fence, Some(START)).await.unwrap();
        let state = store.refence(room.clone(), fence, 2, START).await.unwrap();
        assert!(state.lsn == 3 && state.tail.len() == 1 && state.due == Some(START));
        assert_eq!(state.leases, [(who(1), START.plus(95))]);
        store.release(room.clone(), state.fence).await.unwrap();
        let fence = claim(&*store, &room, 3).await.fence;
        store.destroy(room.clone(), fence, 3, START).await.unwrap();
        assert_eq!(store.check(room, fence).await.err(), Some(Error::Fenced));
    });
}
