//! What is put off to the next turn, and is done all the same (docs/bounds.md).

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::FutureExt as _;
use futures_util::future::join_all;
use object::BlobId;
use tokio::sync::oneshot;

use super::super::super::{
    BLOB_BYTES_MAX, ClaimRequest, Due, Error, Incarnation, Result, Store as _,
};
use super::super::disk::{CACHE_BYTES_MAX, Changes, Disk, Table};
use super::super::queue::Queue;
use super::super::reader::{self, DUE_PAGE_MAX, READS_TAKEN_MAX, Read};
use super::super::writer::{COMMIT_BYTES_MAX, COMMIT_CALLS_MAX, Call, Shared, Writer, gather};
use super::super::{DROP_AT_OPEN_MAX, QUEUE_BLOB_BYTES_MAX, drop_uploads, files, record};
use super::{START, append, block_on, claim, open, rewrite, room};

/// The disk of a store without its threads, and what a thread shares with the callers' side.
struct Bare {
    disk: Arc<Disk>,
    shared: Arc<Shared>,
    commit: u64,
}

impl Bare {
    fn open(dir: &Path) -> Self {
        let (disk, commit) = Disk::open(files::Directory::open(dir).unwrap()).unwrap();
        let shared = Shared::default();
        shared.tick(START);
        Self { disk: Arc::new(disk), shared: Arc::new(shared), commit }
    }

    fn writer(&self) -> Writer {
        Writer::new(Arc::clone(&self.disk), Arc::clone(&self.shared), self.commit, true, u32::MAX)
    }

    fn hit(&self, bound: &str) -> u64 {
        self.shared.bounds_hit().find(|(name, _)| *name == bound).unwrap().1
    }

    fn commits(&self) -> u64 {
        self.shared.commits.load(std::sync::atomic::Ordering::Relaxed)
    }
}

/// A queue that holds these and takes no more.
fn closed<T: std::fmt::Debug>(calls: impl IntoIterator<Item = T>) -> Queue<T> {
    let queue = Queue::new();
    for call in calls {
        queue.push(call).now_or_never().unwrap().unwrap();
    }
    queue.close();
    queue
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a call")
    }
}

impl std::fmt::Debug for Read {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a read")
    }
}

type Answer<T> = oneshot::Receiver<Result<T>>;

fn claim_call(name: &str) -> (Call, Answer<super::super::super::Claimed>) {
    let me = Incarnation { node: "a".into(), boot: 1 };
    let object = room(name);
    let request = ClaimRequest { object, me, nonce: 7, may_create: true, observed: None };
    let (reply, answer) = oneshot::channel();
    (Call::Claim(request, START, reply), answer)
}

fn put_call(number: u128, len: usize) -> (Call, Answer<()>) {
    let (reply, answer) = oneshot::channel();
    let (object, blob, bytes) = (room("up"), BlobId(number), Bytes::from(vec![7; len]));
    (Call::PutBlob { object, blob, bytes, expires: START.plus(9), reply }, answer)
}

#[test]
fn uploads_over_the_bytes_of_the_queue_wait_and_are_stored() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let bytes = Bytes::from(vec![7; BLOB_BYTES_MAX]);
    let most = QUEUE_BLOB_BYTES_MAX / BLOB_BYTES_MAX;
    block_on(async {
        let put = |number: usize| {
            store.put_blob(room("up"), BlobId(number as u128), bytes.clone(), START.plus(9))
        };
        // A place is given back by whoever takes the answer, so all of them are held here.
        let mut first: Vec<_> = (0..most).map(put).collect();
        for upload in &mut first {
            assert_eq!(upload.now_or_never(), None);
        }
        assert_eq!(store.stats().queued_bytes, QUEUE_BLOB_BYTES_MAX as u64);
        let mut waits = put(most);
        assert_eq!((&mut waits).now_or_never(), None);
        let hits: Vec<_> = store.shared.bounds_hit().filter(|(_, hits)| *hits > 0).collect();
        assert_eq!(hits, [("queue_blob_bytes_max", 1)]);
        assert_eq!(join_all(first).await, vec![Ok(()); most]);
        assert_eq!(waits.await, Ok(()));
        let stats = store.stats();
        let stored = bytes.len() * (most + 1);
        assert_eq!((stats.queued_bytes, stats.uploads), (0, most as u64 + 1));
        assert_eq!((stats.upload_bytes, stats.calls), (stored as u64, most as u64 + 1));
    });
}

#[test]
fn a_commit_takes_so_many_calls_and_the_next_one_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let bare = Bare::open(dir.path());
    let count = 2 * COMMIT_CALLS_MAX + 10;
    let (calls, answers): (Vec<_>, Vec<_>) =
        (0..count).map(|number| claim_call(&number.to_string())).unzip();
    bare.writer().run(&closed(calls));
    for answer in block_on(join_all(answers)) {
        assert_eq!(answer.unwrap().unwrap().fence.epoch, 1);
    }
    assert_eq!((bare.commits(), bare.hit("commit_calls_max")), (3, 2));
}

#[test]
fn a_commit_takes_so_many_bytes_and_the_next_one_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let bare = Bare::open(dir.path());
    // Two are over the bound together, one is not.
    let (calls, answers): (Vec<_>, Vec<_>) =
        (0..5).map(|number| put_call(number, COMMIT_BYTES_MAX / 2 + 1)).unzip();
    bare.writer().run(&closed(calls));
    for answer in block_on(join_all(answers)) {
        assert_eq!(answer.unwrap(), Ok(()));
    }
    assert_eq!((bare.commits(), bare.hit("commit_bytes_max")), (3, 2));
}

#[test]
fn the_writer_gives_callers_a_few_turns_and_then_goes_on_without_them() {
    let queue = closed([1, 2, 3]);
    let mut calls = VecDeque::from([0]);
    assert!(gather(&queue, &mut calls, 4), "as many as expected");
    assert!(!gather(&queue, &mut calls, 5), "nobody comes");
    assert_eq!(calls, [0, 1, 2, 3]);
    // The writer expects as many as last time: a full group, then one call.
    let dir = tempfile::tempdir().unwrap();
    let bare = Bare::open(dir.path());
    let count = COMMIT_CALLS_MAX + 1;
    let (calls, answers): (Vec<_>, Vec<_>) =
        (0..count).map(|number| claim_call(&number.to_string())).unzip();
    bare.writer().run(&closed(calls));
    assert!(block_on(join_all(answers)).into_iter().all(|answer| answer.unwrap().is_ok()));
    assert_eq!((bare.commits(), bare.hit("gather_turns_max")), (2, 1));
}

#[test]
fn uploads_nobody_kept_are_dropped_at_the_next_start_in_bounded_commits() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path());
    let count = DROP_AT_OPEN_MAX * 2 + 10;
    let bytes = Bytes::from_static(b"x");
    let put = |number: usize| {
        store.put_blob(room("up"), BlobId(number as u128), bytes.clone(), START.plus(9))
    };
    assert!(block_on(join_all((0..count).map(put))).into_iter().all(|put| put.is_ok()));
    store.close();
    let bare = Bare::open(dir.path());
    assert_eq!(bare.disk.keys(Table::Blob, .., usize::MAX).unwrap().len(), count);
    assert_eq!(drop_uploads(&bare.disk, bare.commit).unwrap(), bare.commit + 3);
    assert!(bare.disk.keys(Table::Blob, .., 1).unwrap().is_empty());
    assert_eq!(bare.disk.keys(Table::Mark, .., 9).unwrap(), [b"c"]);
    assert_eq!(drop_uploads(&bare.disk, bare.commit).unwrap(), bare.commit);
}

#[test]
fn reads_are_taken_in_bounded_portions_and_all_are_answered() {
    let dir = tempfile::tempdir().unwrap();
    let bare = Bare::open(dir.path());
    let read = |number: usize| {
        let (reply, answer) = oneshot::channel();
        (Read::Blob { object: room("a"), blob: BlobId(number as u128), reply }, answer)
    };
    let (reads, answers): (Vec<_>, Vec<_>) = (0..2 * READS_TAKEN_MAX + 1).map(read).unzip();
    reader::run(&bare.disk, &bare.shared, &closed(reads));
    for answer in block_on(join_all(answers)) {
        assert_eq!(answer.unwrap(), Ok(None));
    }
    assert_eq!(bare.hit("reads_taken_max"), 2);
}

#[test]
fn a_page_of_due_times_is_bounded_whatever_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let bare = Bare::open(dir.path());
    let mut changes = Changes::default();
    for number in 0..DUE_PAGE_MAX + 10 {
        let key = record::time_key(START, &room(&format!("{number:05}")));
        changes.put(Table::Due, key, Bytes::new());
    }
    bare.disk.commit(&mut changes, bare.commit + 1, true).unwrap();
    let ask = |after: Option<Due>| {
        let (reply, answer) = oneshot::channel();
        let read = Read::Due { now: START, after, limit: usize::MAX, reply };
        reader::run(&bare.disk, &bare.shared, &closed([read]));
        block_on(answer).unwrap().unwrap().0
    };
    let first = ask(None);
    assert_eq!(first.len(), DUE_PAGE_MAX);
    assert_eq!(ask(first.last().cloned()).len(), 10);
    assert_eq!(bare.hit("due_page_max"), 2);
}

#[test]
fn a_damaged_object_is_looked_for_in_so_many_due_times() {
    // With room for three entries it is found behind two others, with room for two it stays.
    for (scan_max, stays, hits) in [(4, false, 0), (3, false, 1), (2, true, 1)] {
        let dir = tempfile::tempdir().unwrap();
        let store = open(dir.path());
        block_on(async {
            for name in ["a", "b", "damaged"] {
                let fence = claim(&store, name, 1).await.unwrap().fence;
                store.append(append(name, fence, 0)).await.unwrap();
            }
        });
        store.close();
        let key = record::object_key(&room("damaged"));
        rewrite(dir.path(), Table::Meta, key, |bytes| Some(bytes[..3].to_vec().into()));
        let bare = Bare::open(dir.path());
        let mut writer = bare.writer();
        writer.quarantine_scan_max = scan_max;
        let (call, answer) = claim_call("damaged");
        writer.run(&closed([call]));
        let answer = block_on(answer).unwrap();
        assert!(matches!(answer, Err(Error::Damaged { .. })), "{answer:?}");
        let keys = bare.disk.keys(Table::Due, .., 9).unwrap();
        assert_eq!(keys.len(), 2 + usize::from(stays), "{scan_max}");
        assert_eq!(bare.hit("quarantine_scan_max"), hits, "{scan_max}");
    }
}

#[test]
fn the_database_has_the_size_of_the_cache() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(Bare::open(dir.path()).disk.cache_bytes(), CACHE_BYTES_MAX);
}
