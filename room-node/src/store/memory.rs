//! The reference store: a plain implementation under one mutex, gone with the process.
//!
//! It states the rules of [`Store`] as simply as possible; the other stores are compared with it
//! step by step. Tests of the host inject faults into it (see [`Fault`]). It needs no clock: "now"
//! is the latest time any caller has named.

mod fault;
mod world;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use object::{BlobId, Millis, ObjectId, ParticipantId};

use self::fault::Faults;
pub use self::fault::{FAULTS_PLANTED_MAX, Fault, Hold, Method};
use self::world::World;
use super::{
    Append, Appended, ClaimRequest, Claimed, Due, Error, Fence, Frame, Result, Snapshot, Store,
};

/// A store in memory, with injectable faults.
#[derive(Debug)]
pub struct Memory {
    world: Mutex<World>,
    faults: Faults,
}

impl Memory {
    /// An empty store whose present stretch of service began at `up_since`.
    #[must_use]
    pub fn new(up_since: Millis) -> Arc<Self> {
        Arc::new(Self { world: Mutex::new(World::new(up_since)), faults: Faults::default() })
    }

    /// Makes the next call of `method` meet `fault`. Faults of one method queue up in order, at
    /// most [`FAULTS_PLANTED_MAX`]; false if there was no room.
    pub fn inject(&self, method: Method, fault: Fault) -> bool {
        self.faults.push(method, fault)
    }

    /// How often `method` has been called, refused calls included.
    #[must_use]
    pub fn calls(&self, method: Method) -> u64 {
        self.faults.calls(method)
    }

    /// Stands for a restart at `now`: uploads nobody kept are gone, service begins anew. Owners
    /// stay as they were stored.
    pub fn reopen(&self, now: Millis) {
        self.world().reopen(now);
    }

    /// Forgets the last `frames` frames of a log, as a failover that lost its tail would. Returns
    /// the lsn the log now ends at.
    pub fn lose_tail(&self, object: &ObjectId, frames: usize) -> Option<u64> {
        self.world().lose_tail(object, frames)
    }

    /// Makes every later claim of this object answer [`Error::Damaged`].
    pub fn damage(&self, object: &ObjectId) {
        self.world().damage(object);
    }

    /// Claims of objects that hold a schema above `schema` answer [`Error::Newer`] from now on.
    pub fn set_schema_max(&self, schema: u32) {
        self.world().set_schema_max(schema);
    }

    /// The frames of an object that no snapshot has replaced; `None` if it is absent or destroyed.
    #[must_use]
    pub fn frames(&self, object: &ObjectId) -> Option<Vec<Frame>> {
        self.world().frames(object)
    }

    /// The fence an object is owned under now; `None` if nobody owns it.
    #[must_use]
    pub fn fence(&self, object: &ObjectId) -> Option<Fence> {
        self.world().fence(object)
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn run<T: Send>(
        &self,
        method: Method,
        call: impl FnOnce(&mut World) -> Result<T> + Send,
    ) -> Result<T> {
        match self.faults.next(method) {
            None => call(&mut self.world()),
            Some(Fault::Refuse(error)) => Err(error),
            Some(Fault::ApplyThenUnknown) => {
                // Whatever the call would have answered is exactly what the caller never learns.
                let _lost = call(&mut self.world());
                Err(Error::Unknown { context: "injected: the answer was lost".into() })
            }
            Some(Fault::HoldCall(hold)) => {
                hold.pass().await;
                call(&mut self.world())
            }
            Some(Fault::HoldAnswer(hold)) => {
                let answer = call(&mut self.world());
                hold.pass().await;
                answer
            }
        }
    }
}

impl Store for Memory {
    fn claim(&self, request: ClaimRequest, now: Millis) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(self.run(Method::Claim, move |world| world.claim(&request, now)))
    }

    fn refence(
        &self,
        object: ObjectId,
        old: Fence,
        nonce: u64,
        now: Millis,
    ) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(self.run(Method::Refence, move |world| world.refence(&object, old, nonce, now)))
    }

    fn check(&self, object: ObjectId, fence: Fence) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.run(Method::Check, move |world| world.check(&object, fence)))
    }

    fn append(&self, append: Append) -> BoxFuture<'_, Result<Appended>> {
        Box::pin(self.run(Method::Append, move |world| world.append(append)))
    }

    fn lease(
        &self,
        object: ObjectId,
        fence: Fence,
        leases: Vec<(ParticipantId, Millis)>,
        due: Option<Millis>,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.run(Method::Lease, move |world| world.lease(&object, fence, &leases, due)))
    }

    fn snapshot(
        &self,
        object: ObjectId,
        fence: Fence,
        snapshot: Snapshot,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.run(Method::Snapshot, move |world| world.snapshot(&object, fence, snapshot)))
    }

    fn release(&self, object: ObjectId, fence: Fence) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.run(Method::Release, move |world| world.release(&object, fence)))
    }

    fn destroy(
        &self,
        object: ObjectId,
        fence: Fence,
        lsn: u64,
        now: Millis,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.run(Method::Destroy, move |world| world.destroy(&object, fence, lsn, now)))
    }

    fn due(
        &self,
        now: Millis,
        after: Option<Due>,
        limit: usize,
    ) -> BoxFuture<'_, Result<(Vec<Due>, Option<Millis>)>> {
        Box::pin(self.run(Method::Due, move |world| Ok(world.due(now, after.as_ref(), limit))))
    }

    fn set_due(
        &self,
        object: ObjectId,
        fence: Fence,
        due: Option<Millis>,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(self.run(Method::SetDue, move |world| world.set_due(&object, fence, due)))
    }

    fn put_blob(
        &self,
        object: ObjectId,
        blob: BlobId,
        bytes: Bytes,
        expires: Millis,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(
            self.run(Method::PutBlob, move |world| world.put_blob(object, blob, bytes, expires)),
        )
    }

    fn get_blob(&self, object: ObjectId, blob: BlobId) -> BoxFuture<'_, Result<Option<Bytes>>> {
        Box::pin(self.run(Method::GetBlob, move |world| Ok(world.get_blob(object, blob))))
    }

    fn up_since(&self) -> Millis {
        self.world().up_since()
    }
}
