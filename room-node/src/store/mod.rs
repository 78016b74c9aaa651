//! The store: the one place where durable truth lives, and the fence that guards it.
//!
//! Every write names the fence it was claimed under; the store compares epoch and nonce for
//! equality inside the same atomic step as the write. All checks come before any effect.
//! A method returns only when its effect is durable at the store's level.

pub mod embedded;
mod frame;
pub mod memory;
pub mod redis;
mod sealed;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use object::{BlobId, Millis, ObjectId, ParticipantId};

pub use frame::{Frame, FrameError, Record};

/// How long a destroyed object refuses the writes of its old fence, in milliseconds: longer than
/// any deadline or repeat of an unknown outcome (cluster 2.3).
pub const DEAD_MARK_MS: u64 = 3_600_000;

/// The largest blob a store takes, in bytes: above every limit of the contract.
pub const BLOB_BYTES_MAX: usize = 16 * 1024 * 1024;

/// The largest frame a store takes, in bytes of its events: far above a batch of the host.
pub const FRAME_BYTES_MAX: usize = 4 * 1024 * 1024;

/// The largest snapshot a store takes, in bytes.
pub const SNAPSHOT_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One run of one node process: the owner named in a claim.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Incarnation {
    pub node: Arc<str>,
    /// Random per start of the process.
    pub boot: u64,
}

/// Ownership of one object. Equality of both parts is what lets a write in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Fence {
    pub epoch: u64,
    pub nonce: u64,
}

/// Asks for ownership. Idempotent by nonce: a repeat after an unknown outcome is safe.
#[derive(Clone, Debug)]
pub struct ClaimRequest {
    pub object: ObjectId,
    pub me: Incarnation,
    /// Fresh random number of this claim.
    pub nonce: u64,
    /// Whether an absent or destroyed object may start a new generation.
    pub may_create: bool,
    /// The fence of the owner whose place the claim takes, as the caller observed it: of a former
    /// activation or run of its own, or of a node whose lease has ended. `None` states that nobody
    /// owns the object.
    pub observed: Option<Fence>,
}

/// Everything a claim returns: waking is one round trip.
#[derive(Clone, Debug)]
pub struct Claimed {
    pub fence: Fence,
    /// Position of the last stored event; 0 for a new generation.
    pub lsn: u64,
    pub snapshot: Option<Snapshot>,
    /// Frames after the snapshot, contiguous, in order.
    pub tail: Vec<Frame>,
    /// Stored ends of agent leases.
    pub leases: Vec<(ParticipantId, Millis)>,
    /// The stored next due time.
    pub due: Option<Millis>,
    /// When the object was last written.
    pub written: Millis,
    /// True if this claim started a new generation.
    pub created: bool,
}

/// A stored state at one position of the log.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Snapshot {
    pub schema: u32,
    pub lsn: u64,
    pub bytes: Bytes,
}

/// One append: a batch of events and everything that changes with it, atomically.
#[derive(Clone, Debug)]
pub struct Append {
    pub object: ObjectId,
    pub fence: Fence,
    /// The lsn before this batch.
    pub expect_lsn: u64,
    pub frame: Frame,
    pub now: Millis,
    /// Uploaded blobs made permanent; one that is absent refuses the whole append.
    pub keep_blobs: Vec<BlobId>,
    pub drop_blobs: Vec<BlobId>,
    /// Raised lease ends (never lowered by the store).
    pub leases: Vec<(ParticipantId, Millis)>,
    pub drop_leases: Vec<ParticipantId>,
    /// The next due time after this batch; `None` clears it.
    pub due: Option<Millis>,
}

/// How an append ended well.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Appended {
    Stored,
    /// This batch id is one of the last two stored: an earlier attempt had landed.
    Duplicate,
}

/// An entry of the due index.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Due {
    pub at: Millis,
    pub object: ObjectId,
}

/// Why a store call failed.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    #[error("the object does not exist")]
    Absent,
    #[error("another incarnation owns the object")]
    Owned { fence: Fence, owner: Incarnation },
    #[error("the fence does not match: another claim has been made, or the object is gone")]
    Fenced,
    #[error("the log stands at {actual}, not where the caller expected")]
    Lsn { actual: u64 },
    #[error("a blob to keep is not there")]
    BlobMissing { blob: BlobId },
    #[error("the object was written by a newer schema ({found})")]
    Newer { found: u32 },
    #[error("stored bytes are damaged: {what}")]
    Damaged { what: &'static str },
    #[error("the store is full: {what}")]
    Full { what: &'static str },
    /// The effect may or may not have happened: take a new fence before believing either.
    #[error("the outcome is unknown: {context}")]
    Unknown { context: String },
    /// The effect has certainly not happened.
    #[error("the store cannot be reached: {context}")]
    Unavailable { context: String },
}

pub type Result<T> = std::result::Result<T, Error>;

/// A store of fenced logs, snapshots, due times and blobs.
pub trait Store: Send + Sync + std::fmt::Debug + 'static {
    /// Takes ownership: allowed if there is no owner, or if `observed` is exactly the stored fence,
    /// whoever the owner is; so a claim that arrives late takes nothing from a later one. Raises the
    /// epoch, sets nonce and owner. Else [`Error::Owned`] says whose fence is stored, for the caller
    /// to judge whether it may take that place.
    fn claim(&self, request: ClaimRequest, now: Millis) -> BoxFuture<'_, Result<Claimed>>;

    /// A claim by the running owner, compare-and-set on the old fence. Returns the new fence with
    /// the state of the log, so that an unknown outcome is resolved by one call.
    fn refence(
        &self,
        object: ObjectId,
        old: Fence,
        nonce: u64,
        now: Millis,
    ) -> BoxFuture<'_, Result<Claimed>>;

    /// Whether this is still the stored fence: [`Error::Fenced`] if it is not, [`Error::Lsn`] if it
    /// is and events that were acknowledged under it are known to be gone. Changes nothing.
    /// An owner asks before it answers from memory again once its store may have lost a claim.
    fn check(&self, object: ObjectId, fence: Fence) -> BoxFuture<'_, Result<()>>;

    /// Appends one batch under the fence.
    fn append(&self, append: Append) -> BoxFuture<'_, Result<Appended>>;

    /// Raises stored lease ends and rewrites due; no log entry, lsn unchanged, repeatable.
    fn lease(
        &self,
        object: ObjectId,
        fence: Fence,
        leases: Vec<(ParticipantId, Millis)>,
        due: Option<Millis>,
    ) -> BoxFuture<'_, Result<()>>;

    /// Stores a snapshot (its lsn at most the log's) and trims the log up to it.
    fn snapshot(
        &self,
        object: ObjectId,
        fence: Fence,
        snapshot: Snapshot,
    ) -> BoxFuture<'_, Result<()>>;

    /// Gives ownership up. A repeat of the same release is a success.
    fn release(&self, object: ObjectId, fence: Fence) -> BoxFuture<'_, Result<()>>;

    /// Ends the object: deletes log, snapshot, leases, due entry and its kept blobs; leaves a
    /// dead mark that refuses every write of the old fence. A repeat is a success.
    fn destroy(
        &self,
        object: ObjectId,
        fence: Fence,
        lsn: u64,
        now: Millis,
    ) -> BoxFuture<'_, Result<()>>;

    /// Entries with `at <= now`, in order of (time, object), after `after`, at most `limit`;
    /// and the time of the first entry later than `now`.
    fn due(
        &self,
        now: Millis,
        after: Option<Due>,
        limit: usize,
    ) -> BoxFuture<'_, Result<(Vec<Due>, Option<Millis>)>>;

    /// The owner moves its due entry to any time, or removes it.
    fn set_due(
        &self,
        object: ObjectId,
        fence: Fence,
        due: Option<Millis>,
    ) -> BoxFuture<'_, Result<()>>;

    /// Stores bytes under a fresh id; they vanish some time after `expires` unless an append
    /// keeps them.
    fn put_blob(
        &self,
        object: ObjectId,
        blob: BlobId,
        bytes: Bytes,
        expires: Millis,
    ) -> BoxFuture<'_, Result<()>>;

    /// Reads a blob; `None` if it is not there.
    fn get_blob(&self, object: ObjectId, blob: BlobId) -> BoxFuture<'_, Result<Option<Bytes>>>;

    /// Start of the present stretch of service: objects last written before it get their agent
    /// leases extended at the next claim, since nobody could have polled them.
    fn up_since(&self) -> Millis;
}
