//! Stores under test, and short ways to say what the tests do.

use std::future::Future;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use object::{BlobId, KindTag, Millis, ObjectId, ParticipantId};
use redis_link::Durability;
use room_node::store::embedded::{Embedded, Options, Sync};
use room_node::store::memory::Memory;
use room_node::store::{
    Append, ClaimRequest, Claimed, Error, Fence, Frame, Incarnation, Record, Snapshot, Store,
};
use tempfile::TempDir;

use crate::timed::{Servers, Timed};

/// Where every test's time begins.
pub(crate) const START: Millis = Millis(1_000_000);

/// One implementation that can be restarted.
pub(crate) enum Subject {
    Memory(Arc<Memory>),
    Embedded(TempDir, Option<Arc<Embedded>>),
    Redis(Box<Timed>),
}

impl Subject {
    pub(crate) fn memory() -> Self {
        Self::Memory(Memory::new(START))
    }

    pub(crate) fn embedded() -> Self {
        let dir = tempfile::tempdir().expect("a directory");
        let store = open(dir.path(), START);
        Self::Embedded(dir, Some(store))
    }

    pub(crate) async fn redis() -> Self {
        Self::Redis(Box::new(Timed::start().await))
    }

    pub(crate) async fn redis_over(servers: Servers, durability: Durability) -> Self {
        Self::Redis(Box::new(Timed::over(servers, durability).await))
    }

    pub(crate) fn store(&self) -> &dyn Store {
        match self {
            Self::Memory(store) => &**store,
            Self::Embedded(_, store) => &**store.as_ref().expect("an open store"),
            Self::Redis(store) => &**store,
        }
    }

    /// A clean stop and a new start at `now`.
    pub(crate) async fn reopen(&mut self, now: Millis) {
        match self {
            Self::Memory(store) => store.reopen(now),
            Self::Embedded(dir, store) => {
                store.take().expect("an open store").close();
                *store = Some(open(dir.path(), now));
            }
            Self::Redis(store) => store.reopen(now),
        }
    }
}

/// Held while a process is started and while a directory is opened: between fork and exec a child
/// holds the locks of its parent, so that a directory just closed looks taken.
static STARTING: Mutex<()> = Mutex::new(());

/// Starts a process while no directory is being opened.
pub(crate) fn starting<T>(start: impl FnOnce() -> T) -> T {
    let _held = STARTING.lock().unwrap_or_else(PoisonError::into_inner);
    start()
}

pub(crate) fn open(dir: &Path, now: Millis) -> Arc<Embedded> {
    starting(|| open_at_once(dir, now))
}

fn open_at_once(dir: &Path, now: Millis) -> Arc<Embedded> {
    Embedded::open(&Options::new(dir, Sync::Always, now)).expect("the store opens")
}

pub(crate) fn block_on<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .expect("a runtime")
        .block_on(future)
}

/// Runs one test on every implementation.
pub(crate) fn each(test: impl AsyncFn(&mut Subject)) {
    block_on(async {
        test(&mut Subject::memory()).await;
        test(&mut Subject::embedded()).await;
        test(&mut Subject::redis().await).await;
    });
}

pub(crate) fn object(name: &str) -> ObjectId {
    ObjectId::new(KindTag(b'r'), name).expect("a valid name")
}

pub(crate) fn node(name: &str, boot: u64) -> Incarnation {
    Incarnation { node: name.into(), boot }
}

pub(crate) fn who(id: u128) -> ParticipantId {
    ParticipantId(id)
}

pub(crate) fn request(object: &ObjectId, me: &Incarnation, nonce: u64) -> ClaimRequest {
    let (object, me) = (object.clone(), me.clone());
    ClaimRequest { object, me, nonce, may_create: true, observed: None }
}

/// A claim that takes the place of what is owned under this fence.
pub(crate) fn taking(
    object: &ObjectId,
    me: &Incarnation,
    nonce: u64,
    observed: Fence,
) -> ClaimRequest {
    ClaimRequest { observed: Some(observed), ..request(object, me, nonce) }
}

/// A claim that takes the place of whoever owns the object.
pub(crate) async fn claim(store: &dyn Store, object: &ObjectId, nonce: u64) -> Claimed {
    let me = node("a", 1);
    let first = store.claim(request(object, &me, nonce), START).await;
    let Err(Error::Owned { fence, .. }) = first else { return first.expect("a claim") };
    let again = taking(object, &me, nonce, fence);
    store.claim(again, START).await.expect("a claim of what was observed")
}

pub(crate) fn frame(fence: Fence, lsn: u64, batch: u128, events: &[&str]) -> Frame {
    let record = |event: &&str| Record { bytes: Bytes::copy_from_slice(event.as_bytes()) };
    let records = events.iter().map(record).collect();
    Frame { first_lsn: lsn + 1, fence, batch, schema: 1, records }
}

/// One event after `lsn`, with nothing else changed.
pub(crate) fn append(object: &ObjectId, fence: Fence, lsn: u64, batch: u128) -> Append {
    Append {
        object: object.clone(),
        fence,
        expect_lsn: lsn,
        frame: frame(fence, lsn, batch, &["event"]),
        now: START,
        keep_blobs: Vec::new(),
        drop_blobs: Vec::new(),
        leases: Vec::new(),
        drop_leases: Vec::new(),
        due: None,
    }
}

pub(crate) fn snapshot(lsn: u64) -> Snapshot {
    Snapshot { schema: 1, lsn, bytes: Bytes::from(format!("state at {lsn}")) }
}

pub(crate) async fn put(store: &dyn Store, object: &ObjectId, blob: u128, expires: Millis) {
    let bytes = Bytes::from(format!("blob {blob}"));
    store.put_blob(object.clone(), BlobId(blob), bytes, expires).await.expect("an upload");
}

pub(crate) async fn blob(store: &dyn Store, object: &ObjectId, blob: u128) -> Option<Bytes> {
    store.get_blob(object.clone(), BlobId(blob)).await.expect("a read")
}
