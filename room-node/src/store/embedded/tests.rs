//! What only the inside can reach: writes that fail, damaged bytes, bounds and sweeps.

mod bounds;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use futures_util::FutureExt as _;
use object::{BlobId, KindTag, Millis, ObjectId};

use super::super::{
    Append, Appended, ClaimRequest, Claimed, DEAD_MARK_MS, Error, Fence, Frame, Incarnation,
    Record, Result, Snapshot, Store as _,
};
use super::disk::{Changes, Disk, Table};
use super::meta::{Cache, METAS_CACHED_MAX, Meta};
use super::pending::{PENDING_BLOBS_MAX, PENDING_BYTES_MAX, Pending};
use super::queue::{QUEUE_CALLS_MAX, Queue, Taken};
use super::writer::SWEEP_MAX;
use super::{Embedded, Options, Sync, files, record};

const START: Millis = Millis(1_000);

fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().build().unwrap().block_on(future)
}

fn open(dir: &Path) -> Arc<Embedded> {
    Embedded::open(&Options::new(dir, Sync::Always, START)).unwrap()
}

fn room(name: &str) -> ObjectId {
    ObjectId::new(KindTag(b'r'), name).unwrap()
}

async fn claim(store: &Embedded, name: &str, nonce: u64) -> Result<Claimed> {
    let me = Incarnation { node: "a".into(), boot: 1 };
    let mut request =
        ClaimRequest { object: room(name), me, nonce, may_create: true, observed: None };
    let first = store.claim(request.clone(), START).await;
    let Err(Error::Owned { fence, .. }) = first else { return first };
    request.observed = Some(fence);
    store.claim(request, START).await
}

fn append(name: &str, fence: Fence, lsn: u64) -> Append {
    let records = vec![Record { bytes: Bytes::from_static(b"event") }];
    Append {
        object: room(name),
        fence,
        expect_lsn: lsn,
        frame: Frame { first_lsn: lsn + 1, fence, batch: u128::from(lsn), schema: 1, records },
        now: START,
        keep_blobs: Vec::new(),
        drop_blobs: Vec::new(),
        leases: Vec::new(),
        drop_leases: Vec::new(),
        due: Some(START.plus(5)),
    }
}

/// Changes one value on disk behind the store's back.
fn rewrite(dir: &Path, table: Table, key: Vec<u8>, change: impl FnOnce(Vec<u8>) -> Option<Bytes>) {
    let (disk, commit) = Disk::open(files::Directory::open(dir).unwrap()).unwrap();
    let value = disk.get(table, &key).unwrap().expect("a value to change").to_vec();
    let mut changes = Changes::default();
    match change(value) {
        Some(value) => changes.put(table, key, value),
        None => changes.delete(table, key),
    }
    disk.commit(&mut changes, commit + 1, true).unwrap();
}

#[test]
fn failed_write_is_unknown_and_ends_the_store() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    block_on(async {
        let fence = claim(&store, "fails", 1).await.unwrap().fence;
        assert_eq!(store.append(append("fails", fence, 0)).await, Ok(Appended::Stored));
        store.disk.upgrade().unwrap().fail_commits.store(true, Ordering::SeqCst);
        // All in flight are unknown, whatever they would have been answered.
        let stored = store.append(append("fails", fence, 1));
        let refused = store.append(append("fails", fence, 7));
        let (stored, refused) = futures_util::future::join(stored, refused).await;
        assert!(matches!(stored, Err(Error::Unknown { .. })), "{stored:?}");
        assert!(refused.is_err(), "{refused:?}");
        assert!(store.stats().failed);
        store.failure().await;
        let down = |error| matches!(error, Some(Error::Unavailable { .. }));
        assert!(down(store.append(append("fails", fence, 1)).await.err()));
        assert!(down(claim(&store, "fails", 2).await.err()));
        assert!(down(store.get_blob(room("fails"), BlobId(1)).await.err()));
        assert!(down(store.due(START, None, 1).await.err()));
    });
    store.close();
    // A new start finds what was acknowledged and nothing else.
    assert_eq!(block_on(claim(&open(dir.path()), "fails", 3)).unwrap().lsn, 1);
}

#[test]
fn damage_closes_the_object_and_clears_its_due_entry() {
    type Change = fn(Vec<u8>) -> Option<Bytes>;
    let flip: Change = |mut bytes| {
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        Some(bytes.into())
    };
    let lose: Change = |_| None;
    let cut: Change = |bytes| Some(bytes[..3].to_vec().into());
    let name = "damaged";
    let key = record::object_key(&room(name));
    let rows = [
        (Table::Meta, key.clone(), flip),
        (Table::Meta, key.clone(), cut),
        (Table::Snapshot, key.clone(), flip),
        (Table::Snapshot, key, lose),
        (Table::Log, record::frame_key(&room(name), 3), flip),
        (Table::Log, record::frame_key(&room(name), 3), lose),
        (Table::Log, record::frame_key(&room(name), 4), cut),
    ];
    for (table, key, change) in rows {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        block_on(async {
            claim(&store, "neighbour", 1).await.unwrap();
            let fence = claim(&store, name, 1).await.unwrap().fence;
            for lsn in 0..4 {
                store.append(append(name, fence, lsn)).await.unwrap();
            }
            let snapshot = Snapshot { schema: 1, lsn: 2, bytes: Bytes::from_static(b"state") };
            store.snapshot(room(name), fence, snapshot).await.unwrap();
        });
        store.close();
        rewrite(dir.path(), table, key, change);
        let store = open(dir.path());
        block_on(async {
            for nonce in 2..4 {
                let answer = claim(&store, name, nonce).await;
                assert!(matches!(answer, Err(Error::Damaged { .. })), "{table:?}: {answer:?}");
            }
            // Swept by the commit of any later write.
            claim(&store, "neighbour", 2).await.unwrap();
            assert_eq!(store.due(START.plus(9), None, 9).await, Ok((vec![], None)));
        });
    }
}

#[test]
fn damaged_blob_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let blob = BlobId(1);
    block_on(async {
        let fence = claim(&store, "blob", 1).await.unwrap().fence;
        let bytes = Bytes::from_static(b"bytes of a blob");
        store.put_blob(room("blob"), blob, bytes, START.plus(9)).await.unwrap();
        let mut keeps = append("blob", fence, 0);
        keeps.keep_blobs = vec![blob];
        store.append(keeps).await.unwrap();
    });
    store.close();
    rewrite(dir.path(), Table::Blob, record::blob_key(&room("blob"), blob), |mut bytes| {
        bytes[9] ^= 4;
        Some(bytes.into())
    });
    let answer = block_on(open(dir.path()).get_blob(room("blob"), blob));
    assert!(matches!(answer, Err(Error::Damaged { .. })), "{answer:?}");
}

#[test]
fn a_read_that_panics_is_told_and_the_next_one_is_served() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let disk = store.disk.upgrade().unwrap();
    block_on(async {
        disk.panic_reads.store(true, Ordering::SeqCst);
        assert!(matches!(store.due(START, None, 1).await, Err(Error::Damaged { .. })));
        let blob = store.get_blob(room("a"), BlobId(1)).await;
        assert!(matches!(blob, Err(Error::Damaged { .. })), "{blob:?}");
        disk.panic_reads.store(false, Ordering::SeqCst);
        assert_eq!(store.due(START, None, 1).await, Ok((vec![], None)));
        assert_eq!(store.get_blob(room("a"), BlobId(1)).await, Ok(None));
    });
}

#[test]
fn figures_are_those_of_the_call_that_was_just_answered() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    block_on(async {
        for number in 1..=300_u64 {
            let (blob, bytes) = (BlobId(number.into()), Bytes::from_static(b"x"));
            store.put_blob(room("up"), blob, bytes, START.plus(9)).await.unwrap();
            let stats = store.stats();
            assert_eq!((stats.uploads, stats.calls), (number, number));
        }
    });
}

#[test]
fn figures_are_shown_as_gauges_while_the_store_lives() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let registry = prometheus::Registry::new();
    store.register(&registry).unwrap();
    assert!(store.register(&registry).is_err());
    block_on(async {
        claim(&store, "shown", 1).await.unwrap();
        let bytes = Bytes::from_static(b"x");
        store.put_blob(room("shown"), BlobId(1), bytes, START.plus(9)).await.unwrap();
    });
    let shown = || prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    for line in ["queued_calls 0", "cached_records 1", "waiting_uploads 1", "failed_state 0"] {
        assert!(shown().contains(&format!("\nroomring_store_{line}\n")), "{}", shown());
    }
    drop(store);
    assert_eq!(shown(), "");
}

#[test]
fn expired_uploads_and_dead_marks_are_swept_from_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let registry = prometheus::Registry::new();
    store.register(&registry).unwrap();
    block_on(async {
        let late = START.plus(DEAD_MARK_MS);
        for number in 0..100 {
            let name = format!("dead {number}");
            let fence = claim(&store, &name, 1).await.unwrap().fence;
            store.destroy(room(&name), fence, 0, START).await.unwrap();
            let bytes = Bytes::from_static(b"x");
            store.put_blob(room("up"), BlobId(number), bytes, START.plus(9)).await.unwrap();
        }
        assert_eq!(store.stats().uploads, 100);
        // Each commit takes a bounded share of both.
        let fence = claim(&store, "last", 1).await.unwrap().fence;
        for lsn in 0..4 {
            let mut next = append("last", fence, lsn);
            next.now = late;
            store.append(next).await.unwrap();
            if lsn == 0 {
                assert_eq!(store.stats().uploads, 100 - SWEEP_MAX as u64);
            }
        }
        let disk = store.disk.upgrade().unwrap();
        assert_eq!(store.stats().uploads, 0);
        assert_eq!(disk.keys(Table::Blob, .., 9).unwrap().len(), 0);
        assert_eq!(disk.keys(Table::Meta, .., 9).unwrap().len(), 1);
        assert_eq!(disk.keys(Table::Mark, .., 9).unwrap(), [b"c"]);
        // Once for each kind.
        let shown = prometheus::TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
        let hits = "\nroomring_store_bounds_hit_total{bound=\"sweep_max\"} 2\n";
        assert!(shown.contains(hits), "{shown}");
    });
}

#[test]
fn full_queue_makes_callers_wait() {
    let queue = Queue::new();
    for call in 0..QUEUE_CALLS_MAX {
        assert_eq!(queue.push(call).now_or_never(), Some(Ok(())));
    }
    assert_eq!(queue.len(), QUEUE_CALLS_MAX);
    let mut waits = Box::pin(queue.push(QUEUE_CALLS_MAX));
    assert_eq!(waits.as_mut().now_or_never(), None);
    let mut taken = std::collections::VecDeque::new();
    assert_eq!(queue.take(&mut taken, 10), Taken::Work { tick: false });
    assert_eq!(taken, (0..10).collect::<Vec<_>>());
    assert_eq!(waits.now_or_never(), Some(Ok(())));
    queue.close();
    assert_eq!(queue.push(0).now_or_never(), Some(Err(0)));
    while queue.take(&mut taken, usize::MAX) != Taken::Closed {}
    assert_eq!(taken.len(), QUEUE_CALLS_MAX + 1);
}

#[test]
fn ticker_asks_while_needed_and_ends_with_the_queue() {
    let queue = Queue::<u8>::new();
    std::thread::scope(|scope| {
        let ticker = scope.spawn(|| queue.tick_every(std::time::Duration::from_millis(1), || true));
        let mut taken = std::collections::VecDeque::new();
        for _ in 0..3 {
            assert_eq!(queue.take(&mut taken, 1), Taken::Work { tick: true });
        }
        queue.close();
        ticker.join().unwrap();
    });
}

#[test]
fn waiting_uploads_are_bounded_by_number_and_bytes() {
    let key = |number: usize| number.to_be_bytes().to_vec();
    let mut pending = Pending::default();
    for number in 0..PENDING_BLOBS_MAX {
        pending.add(key(number), START, 1).unwrap();
    }
    let full = pending.add(key(PENDING_BLOBS_MAX), START, 1);
    assert!(matches!(full, Err(Error::Full { .. })));
    // Replacing one is no growth.
    pending.add(key(0), START.plus(1), PENDING_BYTES_MAX - PENDING_BLOBS_MAX + 1).unwrap();
    assert!(pending.remove(&key(1)) && !pending.remove(&key(1)));
    assert!(matches!(pending.add(key(1), START, 2), Err(Error::Full { .. })));
    pending.add(key(1), START, 1).unwrap();
    assert_eq!(pending.find(&key(0), START), Some(true));
    assert_eq!(pending.find(&key(1), START), Some(false));
    let mut swept = 0;
    while pending.pop_expired(START).is_some() {
        swept += 1;
    }
    assert_eq!((swept, pending.len()), (PENDING_BLOBS_MAX - 1, 1));
}

#[test]
fn cache_of_records_is_bounded_and_keeps_what_is_used() {
    let mut cache = Cache::default();
    let name = |number: usize| room(&format!("{number}"));
    for number in 0..METAS_CACHED_MAX * 2 {
        cache.put(name(number), Meta::new(0, 0, START));
        assert!(cache.get(&name(0)).is_some());
        cache.age();
        assert!(cache.len() <= METAS_CACHED_MAX + 1);
    }
    assert!(cache.get(&name(1)).is_none());
}

#[test]
fn keys_of_one_object_hold_no_other_and_times_sort() {
    let names = ["a", "a\0", "ab", "b", "\u{10ffff}", "\u{ff}"];
    for one in names {
        for other in names.into_iter().filter(|other| *other != one) {
            let key = record::object_key(&room(one));
            assert!(!record::frame_key(&room(other), 7).starts_with(&key));
        }
    }
    let mut dues: Vec<_> =
        names.iter().flat_map(|name| [1, 2, 300].map(|at| (Millis(at), room(name)))).collect();
    dues.sort();
    let mut keys: Vec<_> = dues.iter().map(|(at, object)| record::time_key(*at, object)).collect();
    keys.sort();
    let parsed: Vec<_> = keys.iter().map(|key| record::parse_time_key(key).unwrap()).collect();
    assert_eq!(parsed, dues);
    assert_eq!(record::parse_time_key(b"short"), None);
}
