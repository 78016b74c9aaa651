//! The store in Redis: one atomic function per call, fenced inside it.
//!
//! The functions (`../functions/*.lua`) hold the rules; this side encodes, verifies what comes
//! back, and says exactly how a call ended. Why it is so: `docs/decisions/0011-redis-store.md`.

mod due;
mod keys;
mod ledger;
mod loss;
mod metrics;
mod scan;
mod snapshot;
mod state;
#[cfg(test)]
mod tests;
mod wire;

use std::sync::Arc;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use membership::BucketSet;
use object::{BlobId, Millis, ObjectId, ParticipantId};
use prometheus::Registry;
use redis_link::{Call, Library, RedisLink};
use tokio::sync::watch;

use self::keys::{Keys, blob_member, lease_field};
use self::loss::Loss;
pub use self::loss::LostAcked;
use self::metrics::Metrics;
use self::scan::Scan;
use self::wire::{Answer, Code, failed, nonce, number};
use super::{
    Append, Appended, BLOB_BYTES_MAX, ClaimRequest, Claimed, DEAD_MARK_MS, Due, Error,
    FRAME_BYTES_MAX, Fence, Frame, Result, SNAPSHOT_BYTES_MAX, Snapshot, Store, sealed,
};
use crate::clock::{Clock, Mono};
use crate::error::StartError;

/// The functions, for the settings of the link. A change of what a function means needs a new
/// version of the name: two versions run side by side during a rollout.
pub const LIBRARY: Library = Library {
    name: "room_v2",
    code: concat!(
        include_str!("../functions/head.lua"),
        include_str!("../functions/claim.lua"),
        include_str!("../functions/append.lua"),
        include_str!("../functions/lease.lua"),
        include_str!("../functions/snap.lua"),
        include_str!("../functions/ending.lua"),
        include_str!("../functions/check.lua"),
    ),
    functions: &[
        "claim", "refence", "append", "lease", "due", "snap", "release", "destroy", "lost",
    ],
    reads: &["check", "look"],
    vital: &[],
};

/// A call is answered within this time, in milliseconds: the time the host allows for an unknown
/// outcome to be resolved.
const CALL_MS: u64 = 2_000;
/// An upload or a read of a blob or chunk is answered within this time, in milliseconds.
const TRANSFER_MS: u64 = 5_000;
/// Bytes that no append keeps vanish after at least this time, in milliseconds.
const UPLOAD_MS: u64 = 600_000;

/// How to open the store.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// When the present stretch of service began, as the node table says.
    pub up_since: Millis,
    /// The highest schema of frames and snapshots the caller can read; a claim of an object with
    /// a higher one answers [`Error::Newer`] and changes nothing.
    pub schema_max: u32,
    pub clock: Clock,
}

/// The store in Redis.
pub struct RedisStore {
    link: Arc<RedisLink>,
    options: Options,
    clock: Clock,
    metrics: Metrics,
    scan: Scan,
    loss: Arc<Loss>,
}

impl std::fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RedisStore").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Drop for RedisStore {
    fn drop(&mut self) {
        self.loss.ended.cancel();
    }
}

impl RedisStore {
    /// Begins to serve over an open link; `owned` are the buckets whose due times this node
    /// looks after. To be called inside the runtime that will run it.
    ///
    /// # Errors
    ///
    /// If the registry holds one of the store's metrics.
    pub fn open(
        link: Arc<RedisLink>,
        owned: watch::Receiver<BucketSet>,
        options: Options,
        registry: &Registry,
    ) -> std::result::Result<Arc<Self>, StartError> {
        let loss = Arc::new(Loss::default());
        let ended = loss.ended.clone();
        let changes = link.changes();
        let store = Arc::new(Self {
            link,
            options,
            clock: options.clock,
            metrics: Metrics::register(registry)?,
            scan: Scan::new(owned),
            loss,
        });
        tokio::spawn(loss::run(Arc::downgrade(&store), changes, ended));
        Ok(store)
    }

    /// Moves the due time of an object earlier, whoever owns it; a later time changes nothing.
    ///
    /// # Errors
    ///
    /// [`Error::Fenced`] if there is no such object.
    pub async fn bring_forward(&self, object: &ObjectId, at: Millis) -> Result<()> {
        let keys = Keys::new(object);
        let args = vec![keys.member(), Bytes::new(), Bytes::new(), wire::due(Some(at))];
        self.write("due", &keys, vec![keys.meta(), keys.due()], args, &[]).await?;
        self.scan.lower(keys.bucket, Some(at));
        Ok(())
    }

    /// Calls a function that may write, and waits for the durability level.
    async fn write(
        &self,
        function: &'static str,
        keys: &Keys,
        names: Vec<Bytes>,
        args: Vec<Bytes>,
        blobs: &[BlobId],
    ) -> Result<(Code, Answer)> {
        let call = Call {
            key: keys.meta(),
            function,
            keys: names,
            args,
            writes: true,
            durable: true,
            deadline: self.clock.instant(self.within(CALL_MS)),
        };
        let answer = self.link.call(call).await.map_err(|failure| failed(failure, true));
        let answer = answer.and_then(|value| wire::answer(value, blobs));
        self.metrics.count(function, answer.as_ref().map(|(code, _)| *code));
        answer
    }

    /// Calls a function that only reads.
    async fn read(
        &self,
        function: &'static str,
        keys: &Keys,
        names: Vec<Bytes>,
        args: Vec<Bytes>,
    ) -> Result<Answer> {
        let call = Call {
            key: keys.meta(),
            function,
            keys: names,
            args,
            writes: false,
            durable: false,
            deadline: self.clock.instant(self.within(CALL_MS)),
        };
        let answer = self.link.call(call).await.map_err(|failure| failed(failure, false));
        let answer = answer.and_then(|value| wire::answer(value, &[]));
        self.metrics.count(function, answer.as_ref().map(|(code, _)| *code));
        answer.map(|(_, answer)| answer)
    }

    fn within(&self, ms: u64) -> Mono {
        self.clock.mono().plus(ms)
    }

    /// Passes a result on, and has the object looked at if its fence is gone.
    fn watched<T>(&self, object: &ObjectId, result: Result<T>) -> Result<T> {
        if matches!(result, Err(Error::Fenced | Error::Absent | Error::Lsn { .. })) {
            self.loss.suspect(object);
        }
        result
    }

    async fn do_append(&self, append: Append) -> Result<Appended> {
        check_frame(&append.frame)?;
        let object = &append.object;
        let keys = Keys::new(object);
        let bytes = append.frame.encode();
        let (names, args) = append_call(&keys, &append, bytes.clone());
        let (code, _) = self.write("append", &keys, names, args, &append.keep_blobs).await?;
        self.scan.lower(keys.bucket, append.due);
        let now = self.clock.mono();
        self.loss.ledger().acknowledged(object, &append.frame, bytes, now);
        Ok(match code {
            Code::Done => Appended::Stored,
            Code::Duplicate => Appended::Duplicate,
        })
    }

    async fn do_lease(
        &self,
        object: &ObjectId,
        fence: Fence,
        leases: &[(ParticipantId, Millis)],
        due: Option<Millis>,
    ) -> Result<()> {
        let keys = Keys::new(object);
        let mut args = fenced(keys.member(), fence);
        args.extend([wire::due(due), number(leases.len() as u64)]);
        for (who, end) in leases {
            args.extend([lease_field(*who), number(end.0)]);
        }
        self.write("lease", &keys, vec![keys.meta(), keys.due()], args, &[]).await?;
        self.scan.lower(keys.bucket, due);
        Ok(())
    }

    async fn do_release(&self, object: &ObjectId, fence: Fence) -> Result<()> {
        let keys = Keys::new(object);
        let args = vec![number(fence.epoch), nonce(fence.nonce)];
        self.write("release", &keys, vec![keys.meta()], args, &[]).await?;
        self.loss.ledger().forget(object);
        Ok(())
    }

    async fn do_destroy(&self, object: &ObjectId, fence: Fence, lsn: u64) -> Result<()> {
        let keys = Keys::new(object);
        let mut args = fenced(keys.member(), fence);
        args.extend([number(lsn), number(DEAD_MARK_MS), keys.blobs(), keys.chunks()]);
        let names = vec![keys.meta(), keys.log(), keys.snapshot(), keys.due(), keys.kept()];
        self.write("destroy", &keys, names, args, &[]).await?;
        self.loss.ledger().forget(object);
        Ok(())
    }

    async fn do_set_due(&self, object: &ObjectId, fence: Fence, due: Option<Millis>) -> Result<()> {
        let keys = Keys::new(object);
        let mut args = fenced(keys.member(), fence);
        args.push(wire::due(due));
        self.write("due", &keys, vec![keys.meta(), keys.due()], args, &[]).await?;
        self.scan.lower(keys.bucket, due);
        Ok(())
    }

    async fn do_check(&self, object: &ObjectId, fence: Fence) -> Result<()> {
        let keys = Keys::new(object);
        // The fence may be there while events behind it went with an old primary.
        let acked = self.loss.ledger().get(object).map_or(0, |known| known.lsn);
        let args = vec![number(fence.epoch), nonce(fence.nonce), number(acked)];
        self.read("check", &keys, vec![keys.meta()], args).await.map(drop)
    }

    async fn do_put(
        &self,
        object: &ObjectId,
        blob: BlobId,
        bytes: &Bytes,
        expires: Millis,
    ) -> Result<()> {
        if bytes.len() > BLOB_BYTES_MAX {
            return Err(Error::Full { what: "a blob over the largest size" });
        }
        let px = expires.since(self.clock.now()).max(UPLOAD_MS);
        self.upload(Keys::new(object).blob(blob), sealed::seal(bytes), px).await
    }

    async fn upload(&self, key: Bytes, value: Bytes, px: u64) -> Result<()> {
        let deadline = self.clock.instant(self.within(TRANSFER_MS));
        let put = self.link.put(key, value, px, deadline).await;
        let put = put.map_err(|failure| failed(failure, true));
        self.metrics.count("put", put.as_ref().map(|()| Code::Done));
        put
    }

    async fn download(&self, key: Bytes) -> Result<Option<Bytes>> {
        let deadline = self.clock.instant(self.within(TRANSFER_MS));
        let got = self.link.get(key, deadline).await;
        let got = got.map_err(|failure| failed(failure, false));
        self.metrics.count("get", got.as_ref().map(|_| Code::Done));
        got
    }

    async fn do_get(&self, object: &ObjectId, blob: BlobId) -> Result<Option<Bytes>> {
        let stored = self.download(Keys::new(object).blob(blob)).await?;
        stored.map(|stored| sealed::unseal(stored, "a blob")).transpose()
    }
}

/// The first arguments of most functions.
fn fenced(id: Bytes, fence: Fence) -> Vec<Bytes> {
    vec![id, number(fence.epoch), nonce(fence.nonce)]
}

fn append_call(keys: &Keys, append: &Append, bytes: Bytes) -> (Vec<Bytes>, Vec<Bytes>) {
    let mut names = vec![keys.meta(), keys.log(), keys.due(), keys.kept()];
    let blobs = || append.keep_blobs.iter().chain(&append.drop_blobs);
    names.extend(blobs().map(|blob| keys.blob(*blob)));
    let frame = &append.frame;
    let mut args = fenced(keys.member(), append.fence);
    args.extend([
        number(append.expect_lsn),
        number(frame.first_lsn),
        number(frame.records.len() as u64),
        Bytes::copy_from_slice(&frame.batch.to_be_bytes()),
        bytes,
        number(append.now.0),
        wire::due(append.due),
        number(u64::from(frame.schema)),
        number(append.keep_blobs.len() as u64),
        number(append.drop_blobs.len() as u64),
        number(append.leases.len() as u64),
        number(append.drop_leases.len() as u64),
    ]);
    args.extend(blobs().map(|blob| blob_member(*blob)));
    for (who, end) in &append.leases {
        args.extend([lease_field(*who), number(end.0)]);
    }
    args.extend(append.drop_leases.iter().map(|who| lease_field(*who)));
    (names, args)
}

fn check_frame(frame: &Frame) -> Result<()> {
    if frame.records.is_empty() {
        return Err(Error::Damaged { what: "a frame without events" });
    }
    let bytes: usize = frame.records.iter().map(|record| record.bytes.len()).sum();
    if bytes > FRAME_BYTES_MAX {
        return Err(Error::Full { what: "a frame over the largest size" });
    }
    Ok(())
}

impl Store for RedisStore {
    fn claim(&self, request: ClaimRequest, now: Millis) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(async move {
            let result = self.do_claim(&request, now).await;
            self.watched(&request.object, result)
        })
    }

    fn refence(
        &self,
        object: ObjectId,
        old: Fence,
        nonce: u64,
        _now: Millis,
    ) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(async move {
            let result = self.do_refence(&object, old, nonce).await;
            self.watched(&object, result)
        })
    }

    fn check(&self, object: ObjectId, fence: Fence) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let result = self.do_check(&object, fence).await;
            self.watched(&object, result)
        })
    }

    fn append(&self, append: Append) -> BoxFuture<'_, Result<Appended>> {
        Box::pin(async move {
            let object = append.object.clone();
            let result = self.do_append(append).await;
            self.watched(&object, result)
        })
    }

    fn lease(
        &self,
        object: ObjectId,
        fence: Fence,
        leases: Vec<(ParticipantId, Millis)>,
        due: Option<Millis>,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let result = self.do_lease(&object, fence, &leases, due).await;
            self.watched(&object, result)
        })
    }

    fn snapshot(
        &self,
        object: ObjectId,
        fence: Fence,
        snapshot: Snapshot,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            if snapshot.bytes.len() > SNAPSHOT_BYTES_MAX {
                return Err(Error::Full { what: "a snapshot over the largest size" });
            }
            let result = self.do_snapshot(&object, fence, &snapshot).await;
            self.watched(&object, result)
        })
    }

    fn release(&self, object: ObjectId, fence: Fence) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let result = self.do_release(&object, fence).await;
            self.watched(&object, result)
        })
    }

    fn destroy(
        &self,
        object: ObjectId,
        fence: Fence,
        lsn: u64,
        _now: Millis,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let result = self.do_destroy(&object, fence, lsn).await;
            self.watched(&object, result)
        })
    }

    fn due(
        &self,
        now: Millis,
        after: Option<Due>,
        limit: usize,
    ) -> BoxFuture<'_, Result<(Vec<Due>, Option<Millis>)>> {
        Box::pin(self.scan_due(now, after, limit))
    }

    fn set_due(
        &self,
        object: ObjectId,
        fence: Fence,
        due: Option<Millis>,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let result = self.do_set_due(&object, fence, due).await;
            self.watched(&object, result)
        })
    }

    fn put_blob(
        &self,
        object: ObjectId,
        blob: BlobId,
        bytes: Bytes,
        expires: Millis,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move { self.do_put(&object, blob, &bytes, expires).await })
    }

    fn get_blob(&self, object: ObjectId, blob: BlobId) -> BoxFuture<'_, Result<Option<Bytes>>> {
        Box::pin(async move { self.do_get(&object, blob).await })
    }

    fn up_since(&self) -> Millis {
        self.options.up_since
    }
}
