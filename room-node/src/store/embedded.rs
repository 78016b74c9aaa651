//! The store on the local disk: one process, no Redis, every answer after fdatasync.
//!
//! Callers put their calls into a bounded queue. One writer thread takes all that are queued,
//! decides them in order over cached records, commits them as one atomic batch with one
//! fdatasync, and then answers them all: group commit across objects. Reads of blobs and of the
//! due index have a thread of their own. Why it is built on fjall, and what that was measured at:
//! `docs/decisions/0002-embedded-store.md`.
//!
//! A failed write ends the store: calls in flight are [`Error::Unknown`], later ones
//! [`Error::Unavailable`], and only a new start looks at the disk again.

mod disk;
mod files;
mod gauges;
mod meta;
mod pending;
mod queue;
mod reader;
mod record;
mod rules;
#[cfg(test)]
mod tests;
mod writer;

use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use object::{BlobId, Millis, ObjectId, ParticipantId};
use tokio::sync::{Semaphore, TryAcquireError, oneshot};

use self::disk::{Changes, Disk, Table};
pub use self::files::OpenError;
use self::queue::Queue;
use self::reader::Read;
use self::writer::{Call, Shared, Writer, failed};
use super::{
    Append, Appended, BLOB_BYTES_MAX, ClaimRequest, Claimed, Due, Error, Fence, Result, Snapshot,
    Store,
};

/// Bytes of uploads that may stand in the queue; an upload over it waits.
const QUEUE_BLOB_BYTES_MAX: usize = 64 * 1024 * 1024;
const _: () = assert!(BLOB_BYTES_MAX <= QUEUE_BLOB_BYTES_MAX);
/// Unnamed uploads dropped with one commit when the store is opened. Before there are figures: the
/// number of the commit tells how many it took.
const DROP_AT_OPEN_MAX: usize = 1_024;

/// When an answer may go out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sync {
    /// After fdatasync: an acknowledged change survives power loss.
    Always,
    /// After the write has reached the operating system; fdatasync at this period in milliseconds,
    /// whether or not further calls come. An acknowledged change survives kill -9. Power loss takes
    /// at most what was acknowledged in the last two periods and the time one fdatasync takes, and
    /// always a tail: never a change before one that is kept. A sync that fails ends the store as
    /// a failed write does.
    EveryMs(u64),
}

/// How to open the store.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data directory; created if absent.
    pub dir: PathBuf,
    pub sync: Sync,
    /// Unix time at opening: the start of this stretch of service.
    pub now: Millis,
    /// The highest schema of frames and snapshots the caller can read; a claim of an object with
    /// a higher one answers [`Error::Newer`] and changes nothing.
    pub schema_max: u32,
}

impl Options {
    /// Options that accept every schema.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, sync: Sync, now: Millis) -> Self {
        Self { dir: dir.into(), sync, now, schema_max: u32::MAX }
    }
}

/// Figures for gauges.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Stats {
    /// Calls that stand in the writer's queue.
    pub queued: u64,
    /// Calls decided since the start.
    pub calls: u64,
    /// Commits since the start; calls per commit is the size of the group.
    pub commits: u64,
    /// Records of objects kept in memory.
    pub cached: u64,
    /// Uploads that no append has kept yet.
    pub uploads: u64,
    /// Their bytes.
    pub upload_bytes: u64,
    /// Bytes of uploads that stand in the writer's queue.
    pub queued_bytes: u64,
    /// Reads that stand in the reader's queue.
    pub reads: u64,
    /// Whether a write has failed, so that everything is refused.
    pub failed: bool,
}

/// The embedded store.
pub struct Embedded {
    writes: Arc<Queue<Call>>,
    reads: Arc<Queue<Read>>,
    blob_bytes: Semaphore,
    shared: Arc<Shared>,
    threads: Mutex<Vec<JoinHandle<()>>>,
    up_since: Millis,
    #[cfg(test)]
    disk: std::sync::Weak<Disk>,
}

impl std::fmt::Debug for Embedded {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Embedded").field("stats", &self.stats()).finish_non_exhaustive()
    }
}

impl Embedded {
    /// Opens or creates the data directory. Blocks while the log of the last run is replayed.
    ///
    /// # Errors
    ///
    /// See [`OpenError`]. A refused directory is left as it was.
    pub fn open(options: &Options) -> std::result::Result<Arc<Self>, OpenError> {
        let directory = files::Directory::open(&options.dir)?;
        let (disk, commit) = Disk::open(directory)?;
        let disk = Arc::new(disk);
        let commit = drop_uploads(&disk, commit)?;
        let shared = Arc::new(Shared::default());
        shared.tick(options.now);
        let writes = Arc::new(Queue::new());
        let reads = Arc::new(Queue::new());
        let durable = options.sync == Sync::Always;
        let writer = Writer::new(
            Arc::clone(&disk),
            Arc::clone(&shared),
            commit,
            durable,
            options.schema_max,
        );
        let store = Self {
            writes: Arc::clone(&writes),
            reads: Arc::clone(&reads),
            blob_bytes: Semaphore::new(QUEUE_BLOB_BYTES_MAX),
            shared: Arc::clone(&shared),
            threads: Mutex::default(),
            up_since: options.now,
            #[cfg(test)]
            disk: Arc::downgrade(&disk),
        };
        // From here on a failure drops `store`, which closes the queues and ends the threads.
        store.spawn("store-write", &options.dir, {
            let writes = Arc::clone(&writes);
            move || writer.run(&writes)
        })?;
        store.spawn("store-read", &options.dir, move || reader::run(&disk, &shared, &reads))?;
        if let Sync::EveryMs(period) = options.sync {
            let period = Duration::from_millis(period.max(1));
            let shared = Arc::clone(&store.shared);
            store.spawn("store-tick", &options.dir, move || {
                writes.tick_every(period, || shared.dirty.load(Ordering::Relaxed));
            })?;
        }
        Ok(Arc::new(store))
    }

    /// Finishes what is queued, syncs, and lets go of the directory. Later calls are refused with
    /// [`Error::Unavailable`]. Blocks; a repeat does nothing.
    pub fn close(&self) {
        self.writes.close();
        self.reads.close();
        let threads = {
            let mut threads = self.threads.lock().unwrap_or_else(PoisonError::into_inner);
            std::mem::take(&mut *threads)
        };
        for thread in threads {
            if thread.join().is_err() {
                tracing::error!("a thread of the store ended by a panic");
            }
        }
    }

    /// Resolves when a write has failed, or the store was closed: nothing will be stored any more
    /// and the process should end. For one listener.
    pub async fn failure(&self) {
        self.shared.told.notified().await;
    }

    /// Figures for gauges.
    #[must_use]
    pub fn stats(&self) -> Stats {
        Stats {
            queued: self.writes.len() as u64,
            calls: self.shared.calls.load(Ordering::Relaxed),
            commits: self.shared.commits.load(Ordering::Relaxed),
            cached: self.shared.cached.load(Ordering::Relaxed),
            uploads: self.shared.pending.load(Ordering::Relaxed),
            upload_bytes: self.shared.pending_bytes.load(Ordering::Relaxed),
            queued_bytes: (QUEUE_BLOB_BYTES_MAX - self.blob_bytes.available_permits()) as u64,
            reads: self.reads.len() as u64,
            failed: self.shared.failed.load(Ordering::Relaxed),
        }
    }

    fn spawn(
        &self,
        name: &str,
        dir: &std::path::Path,
        body: impl FnOnce() + Send + 'static,
    ) -> std::result::Result<(), OpenError> {
        let thread = std::thread::Builder::new()
            .name(name.into())
            .spawn(body)
            .map_err(|source| OpenError::Directory { path: dir.to_owned(), source })?;
        self.threads.lock().unwrap_or_else(PoisonError::into_inner).push(thread);
        Ok(())
    }

    async fn write<T>(&self, make: impl FnOnce(oneshot::Sender<Result<T>>) -> Call) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        if self.writes.push(make(reply)).await.is_err() {
            return Err(failed());
        }
        answer.await.unwrap_or_else(|_| {
            Err(Error::Unknown { context: "the writer ended before it answered".into() })
        })
    }

    async fn read<T>(&self, make: impl FnOnce(oneshot::Sender<Result<T>>) -> Read) -> Result<T> {
        let (reply, answer) = oneshot::channel();
        if self.shared.failed.load(Ordering::Relaxed) || self.reads.push(make(reply)).await.is_err()
        {
            return Err(failed());
        }
        answer.await.unwrap_or_else(|_| Err(failed()))
    }
}

impl Drop for Embedded {
    fn drop(&mut self) {
        self.close();
    }
}

/// Drops every upload of the last run that no append has kept.
fn drop_uploads(disk: &Disk, mut commit: u64) -> std::result::Result<u64, OpenError> {
    loop {
        let keys = disk
            .keys(Table::Mark, vec![b'p']..vec![b'q'], DROP_AT_OPEN_MAX)
            .map_err(|error| OpenError::Damaged { what: error.to_string() })?;
        if keys.is_empty() {
            return Ok(commit);
        }
        let mut changes = Changes::default();
        for key in keys {
            if let Some(blob) = key.get(1..) {
                changes.delete(Table::Blob, blob.to_vec());
            }
            changes.delete(Table::Mark, key);
        }
        commit += 1;
        disk.commit(&mut changes, commit, true).map_err(|what| OpenError::Damaged { what })?;
    }
}

impl Store for Embedded {
    fn claim(&self, request: ClaimRequest, now: Millis) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(self.write(move |reply| Call::Claim(request, now, reply)))
    }

    fn refence(
        &self,
        object: ObjectId,
        old: Fence,
        nonce: u64,
        now: Millis,
    ) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(self.write(move |reply| Call::Refence { object, old, nonce, now, reply }))
    }

    fn check(&self, object: ObjectId, fence: Fence) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(move |reply| Call::Check(object, fence, reply)))
    }

    fn append(&self, append: Append) -> BoxFuture<'_, Result<Appended>> {
        Box::pin(self.write(move |reply| Call::Append(Box::new(append), reply)))
    }

    fn lease(
        &self,
        object: ObjectId,
        fence: Fence,
        leases: Vec<(ParticipantId, Millis)>,
        due: Option<Millis>,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(move |reply| Call::Lease { object, fence, leases, due, reply }))
    }

    fn snapshot(
        &self,
        object: ObjectId,
        fence: Fence,
        snapshot: Snapshot,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(move |reply| Call::Snapshot(object, fence, snapshot, reply)))
    }

    fn release(&self, object: ObjectId, fence: Fence) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(move |reply| Call::Release(object, fence, reply)))
    }

    fn destroy(
        &self,
        object: ObjectId,
        fence: Fence,
        lsn: u64,
        now: Millis,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(move |reply| Call::Destroy { object, fence, lsn, now, reply }))
    }

    fn due(
        &self,
        now: Millis,
        after: Option<Due>,
        limit: usize,
    ) -> BoxFuture<'_, Result<(Vec<Due>, Option<Millis>)>> {
        Box::pin(self.read(move |reply| Read::Due { now, after, limit, reply }))
    }

    fn set_due(
        &self,
        object: ObjectId,
        fence: Fence,
        due: Option<Millis>,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.write(move |reply| Call::SetDue(object, fence, due, reply)))
    }

    fn put_blob(
        &self,
        object: ObjectId,
        blob: BlobId,
        bytes: Bytes,
        expires: Millis,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            // A blob over the largest size is refused by the writer; it waits like the largest.
            let weight = u32::try_from(bytes.len().min(BLOB_BYTES_MAX)).unwrap_or(u32::MAX);
            let at_once = self.blob_bytes.try_acquire_many(weight);
            if matches!(at_once, Err(TryAcquireError::NoPermits)) {
                self.shared.bound_hit("queue_blob_bytes_max");
            }
            let Ok(_queued) = (match at_once {
                Ok(queued) => Ok(queued),
                Err(_full) => self.blob_bytes.acquire_many(weight).await,
            }) else {
                return Err(failed());
            };
            self.write(move |reply| Call::PutBlob { object, blob, bytes, expires, reply }).await
        })
    }

    fn get_blob(&self, object: ObjectId, blob: BlobId) -> BoxFuture<'_, Result<Option<Bytes>>> {
        Box::pin(self.read(move |reply| Read::Blob { object, blob, reply }))
    }

    fn up_since(&self) -> Millis {
        self.up_since
    }
}
