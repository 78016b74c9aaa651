//! The writer: one thread that takes everything queued, decides it in order, commits it as one
//! atomic batch with one fdatasync, and only then answers.

use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use bytes::Bytes;
use object::{BlobId, Millis, ObjectId, ParticipantId};
use tokio::sync::{Notify, oneshot};

use super::super::{Append, Appended, ClaimRequest, Claimed, Error, Fence, Result, Snapshot};
use super::disk::{Changes, Disk, Table};
use super::gauges::BOUNDS;
use super::meta::Cache;
use super::pending::Pending;
use super::queue::{Queue, Taken};
use super::record;
use super::rules::QUARANTINE_SCAN_MAX;

/// Calls decided before a commit.
pub(super) const COMMIT_CALLS_MAX: usize = 512;
/// Bytes gathered before a commit.
pub(super) const COMMIT_BYTES_MAX: usize = 8 * 1024 * 1024;
/// Turns given to callers, one after another without a new call, before a commit goes out smaller
/// than the last one. Those answered last are the likeliest to call again at once; without this
/// the first of them would get a commit, and its fdatasync, for itself.
const GATHER_TURNS_MAX: u32 = 24;
/// Expired uploads and dead marks removed with one commit, of each kind.
pub(super) const SWEEP_MAX: usize = 64;

type Reply<T> = oneshot::Sender<Result<T>>;

pub(super) enum Call {
    Claim(ClaimRequest, Millis, Reply<Claimed>),
    Refence {
        object: ObjectId,
        old: Fence,
        nonce: u64,
        now: Millis,
        reply: Reply<Claimed>,
    },
    Check(ObjectId, Fence, Reply<()>),
    Append(Box<Append>, Reply<Appended>),
    Lease {
        object: ObjectId,
        fence: Fence,
        leases: Vec<(ParticipantId, Millis)>,
        due: Option<Millis>,
        reply: Reply<()>,
    },
    Snapshot(ObjectId, Fence, Snapshot, Reply<()>),
    Release(ObjectId, Fence, Reply<()>),
    Destroy {
        object: ObjectId,
        fence: Fence,
        lsn: u64,
        now: Millis,
        reply: Reply<()>,
    },
    SetDue(ObjectId, Fence, Option<Millis>, Reply<()>),
    PutBlob {
        object: ObjectId,
        blob: BlobId,
        bytes: Bytes,
        expires: Millis,
        reply: Reply<()>,
    },
}

/// What the writer shares with the callers' side.
#[derive(Debug, Default)]
pub(super) struct Shared {
    /// The latest time any caller has named, in ms.
    pub(super) clock: AtomicU64,
    pub(super) failed: AtomicBool,
    /// One permit when a write has failed.
    pub(super) told: Notify,
    /// Whether something was committed since the last sync.
    pub(super) dirty: AtomicBool,
    pub(super) commits: AtomicU64,
    pub(super) calls: AtomicU64,
    pub(super) cached: AtomicU64,
    pub(super) pending: AtomicU64,
    pub(super) pending_bytes: AtomicU64,
    /// How often each of [`BOUNDS`] was met.
    hits: [AtomicU64; BOUNDS.len()],
}

impl Shared {
    fn fail(&self) {
        self.failed.store(true, Ordering::Relaxed);
        self.told.notify_one();
    }

    pub(super) fn tick(&self, now: Millis) {
        self.clock.fetch_max(now.0, Ordering::Relaxed);
    }

    pub(super) fn bound_hit(&self, bound: &str) {
        for (_, hits) in BOUNDS.iter().zip(&self.hits).filter(|(name, _)| **name == bound) {
            hits.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// How often each of [`BOUNDS`] was met, in their order.
    pub(super) fn bounds_hit(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let hits = self.hits.iter().map(|hits| hits.load(Ordering::Relaxed));
        BOUNDS.into_iter().zip(hits)
    }

    pub(super) fn now(&self) -> Millis {
        Millis(self.clock.load(Ordering::Relaxed))
    }
}

/// An answer that waits for its commit.
type Answer = Box<dyn FnOnce(Option<&Error>) + Send>;

pub(super) struct Writer {
    pub(super) disk: Arc<Disk>,
    pub(super) shared: Arc<Shared>,
    pub(super) cache: Cache,
    pub(super) changes: Changes,
    /// Objects with changes that are not committed yet.
    /// At most [`COMMIT_CALLS_MAX`].
    pub(super) touched: HashSet<ObjectId>,
    pub(super) pending: Pending,
    pub(super) schema_max: u32,
    /// Entries of the due index looked through for one object.
    pub(super) quarantine_scan_max: usize,
    /// Time of the first dead mark, if any is known.
    pub(super) dead_first: Option<Millis>,
    /// At most [`COMMIT_CALLS_MAX`].
    answers: Vec<Answer>,
    commit: u64,
    /// Whether each commit is synced before its answers go out.
    durable: bool,
}

impl Writer {
    pub(super) fn new(
        disk: Arc<Disk>,
        shared: Arc<Shared>,
        commit: u64,
        durable: bool,
        schema_max: u32,
    ) -> Self {
        Self {
            disk,
            shared,
            cache: Cache::default(),
            changes: Changes::default(),
            touched: HashSet::new(),
            pending: Pending::default(),
            schema_max,
            quarantine_scan_max: QUARANTINE_SCAN_MAX,
            dead_first: Some(Millis(0)),
            answers: Vec::new(),
            commit,
            durable,
        }
    }

    /// Serves the queue until it is closed, then syncs.
    pub(super) fn run(mut self, queue: &Queue<Call>) {
        let _guard = FailOnExit { shared: Arc::clone(&self.shared), queue };
        let mut calls = VecDeque::new();
        let mut expected = 0;
        loop {
            match queue.take(&mut calls, COMMIT_CALLS_MAX) {
                Taken::Closed => break,
                Taken::Work { tick } => {
                    if !gather(queue, &mut calls, expected) {
                        self.shared.bound_hit("gather_turns_max");
                    }
                    if calls.len() >= COMMIT_CALLS_MAX {
                        self.shared.bound_hit("commit_calls_max");
                    }
                    // A single large group is forgotten after a few smaller ones.
                    expected = calls.len().max(expected / 2);
                    while let Some(call) = calls.pop_front() {
                        self.decide(call);
                        if self.changes.bytes() > COMMIT_BYTES_MAX {
                            self.shared.bound_hit("commit_bytes_max");
                            self.commit();
                        }
                    }
                    self.commit();
                    if tick && self.dirty() {
                        self.sync();
                    }
                }
            }
        }
        self.commit();
        if self.dirty() {
            self.sync();
        }
    }

    /// Commits first if this object has changes that a read of the disk would miss.
    pub(super) fn settle(&mut self, object: &ObjectId) {
        if self.touched.contains(object) {
            self.commit();
        }
    }

    fn decide(&mut self, call: Call) {
        self.shared.calls.fetch_add(1, Ordering::Relaxed);
        match call {
            Call::Claim(request, now, reply) => self.answer(reply, |w| w.claim(&request, now)),
            Call::Refence { object, old, nonce, now, reply } => {
                self.answer(reply, |w| w.refence(&object, old, nonce, now));
            }
            Call::Append(append, reply) => self.answer(reply, |w| w.append(*append)),
            Call::Lease { object, fence, leases, due, reply } => {
                self.answer(reply, |w| w.lease(&object, fence, &leases, due));
            }
            Call::Check(object, fence, reply) => {
                self.answer(reply, |w| w.check(&object, fence));
            }
            Call::Snapshot(object, fence, snapshot, reply) => {
                self.answer(reply, |w| w.snapshot(&object, fence, &snapshot));
            }
            Call::Release(object, fence, reply) => {
                self.answer(reply, |w| w.release(&object, fence));
            }
            Call::Destroy { object, fence, lsn, now, reply } => {
                self.answer(reply, |w| w.destroy(&object, fence, lsn, now));
            }
            Call::SetDue(object, fence, due, reply) => {
                self.answer(reply, |w| w.set_due(&object, fence, due));
            }
            Call::PutBlob { object, blob, bytes, expires, reply } => {
                self.answer(reply, |w| w.put_blob(&object, blob, &bytes, expires));
            }
        }
    }

    fn answer<T: Send + 'static>(
        &mut self,
        reply: Reply<T>,
        decide: impl FnOnce(&mut Self) -> Result<T>,
    ) {
        let result =
            if self.shared.failed.load(Ordering::Relaxed) { Err(failed()) } else { decide(self) };
        // A caller that has gone away no longer wants its answer.
        self.answers.push(Box::new(move |error| {
            let _gone = reply.send(error.map_or(result, |error| Err(error.clone())));
        }));
    }

    /// Commits what has been gathered and answers everybody who waits for it.
    fn commit(&mut self) {
        let mut error = None;
        if self.shared.failed.load(Ordering::Relaxed) {
            // Also a call whose own read forced the commit that failed ends here.
            self.changes = Changes::default();
            error = Some(failed());
        } else if !self.changes.is_empty() {
            self.commit += 1;
            match self.disk.commit(&mut self.changes, self.commit, self.durable) {
                Ok(()) => {
                    self.shared.commits.fetch_add(1, Ordering::Relaxed);
                    self.shared.dirty.store(!self.durable, Ordering::Relaxed);
                }
                Err(context) => error = Some(self.fail(context)),
            }
        }
        self.touched.clear();
        self.cache.age();
        self.sweep();
        // Before the answers: whoever has one finds its own call counted.
        self.shared.cached.store(self.cache.len() as u64, Ordering::Relaxed);
        self.shared.pending.store(self.pending.len() as u64, Ordering::Relaxed);
        self.shared.pending_bytes.store(self.pending.bytes() as u64, Ordering::Relaxed);
        for answer in self.answers.drain(..) {
            answer(error.as_ref());
        }
    }

    fn dirty(&self) -> bool {
        self.shared.dirty.load(Ordering::Relaxed)
    }

    fn sync(&mut self) {
        match self.disk.sync(self.commit) {
            Ok(()) => self.shared.dirty.store(false, Ordering::Relaxed),
            Err(context) => {
                self.fail(context);
            }
        }
    }

    /// After a failed write nothing is known about the disk: what is in flight is unknown, what
    /// comes later is refused, until the process is started again.
    fn fail(&mut self, context: String) -> Error {
        tracing::error!(%context, "the store failed and refuses further work");
        self.shared.fail();
        self.changes = Changes::default();
        Error::Unknown { context }
    }

    /// Removes a bounded number of expired uploads and dead marks; they go with the next commit.
    fn sweep(&mut self) {
        let now = self.shared.now();
        for turn in 1..=SWEEP_MAX {
            let Some(key) = self.pending.pop_expired(now) else { break };
            self.forget_upload(key);
            if turn == SWEEP_MAX {
                self.shared.bound_hit("sweep_max");
            }
        }
        if self.dead_first.is_none_or(|first| first > now) {
            return;
        }
        if let Err(error) = self.sweep_dead(now) {
            tracing::warn!(%error, "dead marks could not be swept");
            self.dead_first = None;
        }
    }

    /// Deletes an upload and its mark.
    pub(super) fn forget_upload(&mut self, key: Vec<u8>) {
        self.changes.delete(Table::Mark, mark_key(b'p', &key));
        self.changes.delete(Table::Blob, key);
    }

    fn sweep_dead(&mut self, now: Millis) -> Result<()> {
        let keys = self.disk.keys(Table::Mark, vec![b'd']..vec![b'e'], SWEEP_MAX + 1)?;
        self.dead_first = None;
        for (at, key) in keys.into_iter().enumerate() {
            let Some((until, object)) = key.get(1..).and_then(record::parse_time_key) else {
                self.changes.delete(Table::Mark, key);
                continue;
            };
            if at == SWEEP_MAX {
                self.shared.bound_hit("sweep_max");
            }
            if until > now || at == SWEEP_MAX {
                self.dead_first = Some(until);
                break;
            }
            self.changes.delete(Table::Mark, key);
            self.forget_dead(&object, until)?;
        }
        Ok(())
    }

    /// Deletes the record of a destroyed object, unless it has been created again since.
    fn forget_dead(&mut self, object: &ObjectId, until: Millis) -> Result<()> {
        let key = record::object_key(object);
        let Some(bytes) = self.disk.get(Table::Meta, &key)? else { return Ok(()) };
        if record::decode_meta(bytes)?.dead_until == Some(until) {
            self.cache.remove(object);
            self.changes.delete(Table::Meta, key);
        }
        Ok(())
    }
}

/// Gives callers a few turns to join a commit that is smaller than expected; false if it is smaller
/// still after the last turn.
pub(super) fn gather<T>(queue: &Queue<T>, calls: &mut VecDeque<T>, expected: usize) -> bool {
    let mut turns = 0;
    while calls.len() < expected && turns < GATHER_TURNS_MAX {
        std::thread::yield_now();
        let before = calls.len();
        queue.take_more(calls, COMMIT_CALLS_MAX - before);
        turns = if calls.len() > before { 0 } else { turns + 1 };
    }
    calls.len() >= expected
}

/// If the writer ends, even by a panic, nobody must wait for it.
struct FailOnExit<'a> {
    shared: Arc<Shared>,
    queue: &'a Queue<Call>,
}

impl Drop for FailOnExit<'_> {
    fn drop(&mut self) {
        self.shared.fail();
        self.queue.close();
        // Calls still queued are dropped with their replies, which tells the callers.
        let mut rest = VecDeque::new();
        while self.queue.take(&mut rest, COMMIT_CALLS_MAX) != Taken::Closed {
            rest.clear();
        }
    }
}

pub(super) fn mark_key(kind: u8, key: &[u8]) -> Vec<u8> {
    let mut mark = Vec::with_capacity(key.len() + 1);
    mark.push(kind);
    mark.extend_from_slice(key);
    mark
}

pub(super) fn failed() -> Error {
    Error::Unavailable { context: "the store has failed or is closed".into() }
}
