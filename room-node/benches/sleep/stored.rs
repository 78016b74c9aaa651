//! Goal 14: what a sleeping room with a snapshot of 512 bytes takes in Redis.
//!
//! The store writes the keys, Redis tells their size. The rooms fill few buckets, each as full as
//! with a million rooms over all buckets, since a bucket's due index changes its form as it grows.

use std::collections::BTreeSet;

use bytes::Bytes;
use membership::{BUCKETS, bucket};
use object::{KindTag, Millis, ObjectId, ParticipantId};
use prometheus::Registry;
use redis_link::redis::{Connection, cmd};
use room_node::clock::Clock;
use room_node::store::{Append, ClaimRequest, Frame, Incarnation, Record, Snapshot, Store};

use super::link;
use crate::{name, print};

/// Buckets that are filled, of all.
const FILLED: u16 = 8;
const MILLION: usize = 1_000_000;
const SNAPSHOT_BYTES: usize = 512;

pub(crate) fn run() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let server = link::server();
        let clock = Clock::system();
        let store = link::store(&server, clock, &Registry::new()).await;
        let client = redis_link::redis::Client::open(server.url()).unwrap();
        let mut raw = client.get_connection().unwrap();
        let before = used_memory(&mut raw);
        let rooms: Vec<ObjectId> = (0..)
            .map(name)
            .filter(|name| bucket(name.as_bytes()).0 < FILLED)
            .take(MILLION / usize::from(BUCKETS) * usize::from(FILLED))
            .map(|name| ObjectId::new(KindTag(b'r'), &name).unwrap())
            .collect();
        for (at, room) in rooms.iter().enumerate() {
            put(&*store, room, at as u64, clock.now()).await;
        }
        let grown = (used_memory(&mut raw) - before) as f64 / rooms.len() as f64;
        let mut sizes: Vec<[f64; 3]> = rooms.iter().map(|room| sizes(&mut raw, room)).collect();
        sizes.sort_by(|a, b| a.iter().sum::<f64>().total_cmp(&b.iter().sum()));
        let [meta, snapshot, due] = sizes[sizes.len() / 2];
        print("goal14_stored_room_bytes", rooms.len(), meta + snapshot + due);
        print("goal14_stored_record_bytes", rooms.len(), meta);
        print("goal14_stored_snapshot_bytes", rooms.len(), snapshot);
        print("goal14_stored_due_bytes", rooms.len(), due);
        print("goal14_stored_used_memory_bytes", rooms.len(), grown);
    });
}

/// A room with two agents that was claimed, changed and put to sleep; a stub keeps its claim.
async fn put(store: &dyn Store, room: &ObjectId, number: u64, now: Millis) {
    let me = Incarnation { node: "10.20.30.40:7400".into(), boot: u64::MAX };
    let nonce = u64::MAX - number;
    let object = room.clone();
    let claim = ClaimRequest { object, me, nonce, may_create: true, observed: None };
    let fence = store.claim(claim, now).await.unwrap().fence;
    let agent = |who: u128| ParticipantId(who << 100 | u128::from(number));
    let records = vec![Record { bytes: Bytes::from_static(b"two agents have joined") }];
    let batch = u128::MAX - u128::from(number);
    let append = Append {
        object: room.clone(),
        fence,
        expect_lsn: 0,
        frame: Frame { first_lsn: 1, fence, batch, schema: 1, records },
        now,
        keep_blobs: Vec::new(),
        drop_blobs: Vec::new(),
        leases: vec![(agent(1), now.plus(120_000)), (agent(2), now.plus(120_000))],
        drop_leases: Vec::new(),
        due: Some(now.plus(120_000)),
    };
    store.append(append).await.unwrap();
    let bytes = Bytes::from((0..SNAPSHOT_BYTES).map(|at| (at * 167) as u8).collect::<Vec<_>>());
    let snapshot = Snapshot { schema: 1, lsn: 1, bytes };
    store.snapshot(room.clone(), fence, snapshot).await.unwrap();
    store.set_due(room.clone(), fence, Some(now.plus(120_000))).await.unwrap();
}

/// Record, snapshot, and share of the due index. There is nothing else.
fn sizes(raw: &mut Connection, room: &ObjectId) -> [f64; 3] {
    let number = bucket(room.name().as_bytes()).0;
    let key = |kind: &str| format!("{{b{number:04}}}{kind}:r:{}", room.name());
    let of: BTreeSet<String> = cmd("KEYS").arg(format!("*:r:{}", room.name())).query(raw).unwrap();
    assert_eq!(of, BTreeSet::from([key("m"), key("s")]));
    let due = format!("{{b{number:04}}}due");
    let entries: u64 = cmd("ZCARD").arg(&due).query(raw).unwrap();
    [
        usage(raw, &key("m")) as f64,
        usage(raw, &key("s")) as f64,
        usage(raw, &due) as f64 / entries as f64,
    ]
}

fn usage(raw: &mut Connection, key: &str) -> u64 {
    cmd("MEMORY").arg("USAGE").arg(key).arg("SAMPLES").arg(0).query(raw).unwrap()
}

fn used_memory(raw: &mut Connection) -> i64 {
    let info: String = cmd("INFO").arg("memory").query(raw).unwrap();
    let field = info.lines().find_map(|line| line.strip_prefix("used_memory:")).unwrap();
    field.trim().parse().unwrap()
}
