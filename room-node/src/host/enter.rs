//! The way of a call into the host and of its answer out of it.

use std::sync::Arc;

use object::{BlobId, Object, ObjectId, Reject};
use tokio::sync::oneshot;

use super::call::{Pending, Request, Response, Success, Verdict};
use super::directory::{Active, Cause};
use super::{Inner, mailbox, random_u128};
use crate::error;
use crate::store::Error as StoreError;

impl<O: Object> Inner<O> {
    pub(super) async fn dispatch(self: &Arc<Self>, request: Request) -> Response {
        if let Err(reject) = self.enter(&request.object, request.view, request.hops).await {
            return Response::refused(reject);
        }
        if let Some(who) = request.caller.participant().filter(|_| request.op.wait) {
            return self.wait(request, who).await;
        }
        if let Err(reject) = self.spared(&request) {
            return Response::refused(reject);
        }
        let object = request.object.clone();
        let verdict = match self.put_blob(&request).await {
            Ok(blob) => self.submit(request, blob).await,
            Err(reject) => Err(reject),
        };
        let result = self.success(&object, verdict).await;
        Response { result, next_wait_ms: None, elsewhere: None }
    }

    // Hands a call over and waits for its verdict.
    async fn submit(self: &Arc<Self>, request: Request, blob: Option<BlobId>) -> Verdict {
        let object = request.object.clone();
        let (pending, verdict) = self.pending(request, blob);
        {
            let mut shard = self.directory.shard(&object);
            if let Some(verdict) = self.known_absent(&mut shard, &pending) {
                return verdict;
            }
            let entry = self.entry(&mut shard, &object, Cause::Call)?;
            self.push(&entry, pending)?;
        }
        self.verdict(&object, verdict).await
    }

    /// A call ready for a mailbox, and where its verdict will come.
    pub(crate) fn pending(
        &self,
        request: Request,
        blob: Option<BlobId>,
    ) -> (Box<Pending>, oneshot::Receiver<Verdict>) {
        let (reply, verdict) = oneshot::channel();
        let came = self.clock.now();
        // A wait that was held elsewhere has only the rest of its time.
        let again = request.op.wait && (request.attempt > 1 || request.hops > 0);
        let held_ms = if again { request.age_ms.min(self.config.hold_ms_max) } else { 0 };
        let since = object::Millis(came.0.saturating_sub(held_ms));
        (Box::new(Pending { request, blob, came, since, pass: None, reply }), verdict)
    }

    /// Puts a call into a mailbox. The caller holds the shard's lock, so that an entry never
    /// leaves the directory with a call in it.
    pub(crate) fn push(&self, entry: &Active, call: Box<Pending>) -> Result<(), Reject> {
        if let Err(mailbox::Full(_call)) =
            entry.mailbox.push_call(call, self.config.mailbox_calls_max)
        {
            self.metrics.bound_hit("mailbox_calls_max");
            return Err(error::overloaded("Too many calls wait for this room; slow down."));
        }
        self.metrics.mailbox_calls.inc();
        Ok(())
    }

    /// Waits for a verdict; dropped before, it lets a parked call be forgotten.
    pub(crate) async fn verdict(
        self: &Arc<Self>,
        object: &ObjectId,
        verdict: oneshot::Receiver<Verdict>,
    ) -> Verdict {
        let mut cancel = CancelOnDrop { host: self, object, armed: true };
        let verdict = verdict.await.unwrap_or_else(|_dropped| Err(error::unavailable()));
        cancel.armed = false;
        verdict
    }

    async fn put_blob(&self, request: &Request) -> Result<Option<BlobId>, Reject> {
        let Some(bytes) = request.blob.clone() else { return Ok(None) };
        let id = BlobId::from_random(random_u128());
        let expires = self.clock.now().plus(self.config.blob_upload_ms);
        // A blob that may or may not be there is found missing by the append that names it.
        match self.store.put_blob(request.object.clone(), id, bytes, expires).await {
            Ok(()) | Err(StoreError::Unknown { .. }) => Ok(Some(id)),
            Err(reason) => {
                tracing::warn!(%reason, "blob was not stored");
                Err(error::unavailable())
            }
        }
    }

    /// Reads the blob a reply names; it may have been dropped since.
    pub(crate) async fn success(
        &self,
        object: &ObjectId,
        verdict: Verdict,
    ) -> Result<Success, Reject> {
        let reply = verdict?;
        let (blob, image_mime) = match reply.attached {
            None => return Ok(Success { body: reply.body, blob: None, image_mime: None }),
            Some(object::Attached::Image { blob, mime }) => (blob, Some(mime)),
            Some(object::Attached::Text { blob }) => (blob, None),
        };
        match self.store.get_blob(object.clone(), blob).await {
            Ok(Some(bytes)) => Ok(Success { body: reply.body, blob: Some(bytes), image_mime }),
            Ok(None) => Err(error::unavailable()),
            Err(reason) => {
                tracing::warn!(%reason, "blob was not read");
                Err(error::unavailable())
            }
        }
    }
}

// Wakes the object when a caller goes, so that a parked call is forgotten soon.
struct CancelOnDrop<'a, O: Object> {
    host: &'a Arc<Inner<O>>,
    object: &'a ObjectId,
    armed: bool,
}

impl<O: Object> Drop for CancelOnDrop<'_, O> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let mut shard = self.host.directory.shard(self.object);
        match shard.active.get(self.object) {
            Some(entry) => entry.mailbox.nudge(),
            None => self.host.sweep_held(&mut shard, self.object),
        }
    }
}
