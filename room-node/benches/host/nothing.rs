//! A store that takes everything and keeps nothing, so that only the host's memory is measured.

use bytes::Bytes;
use futures_util::future::BoxFuture;
use object::{BlobId, Millis, ObjectId, ParticipantId};
use room_node::store::{
    Append, Appended, ClaimRequest, Claimed, Due, Error, Fence, Result, Snapshot, Store,
};

#[derive(Debug)]
pub(crate) struct Nothing;

fn ready<T: Send + 'static>(value: T) -> BoxFuture<'static, Result<T>> {
    Box::pin(std::future::ready(Ok(value)))
}

impl Store for Nothing {
    fn claim(&self, request: ClaimRequest, now: Millis) -> BoxFuture<'_, Result<Claimed>> {
        ready(Claimed {
            fence: Fence { epoch: 1, nonce: request.nonce },
            lsn: 0,
            snapshot: None,
            tail: Vec::new(),
            leases: Vec::new(),
            due: None,
            written: now,
            created: true,
        })
    }

    fn refence(&self, _: ObjectId, _: Fence, _: u64, _: Millis) -> BoxFuture<'_, Result<Claimed>> {
        Box::pin(std::future::ready(Err(Error::Absent)))
    }

    fn check(&self, _: ObjectId, _: Fence) -> BoxFuture<'_, Result<()>> {
        Box::pin(async { Ok(()) })
    }

    fn append(&self, _: Append) -> BoxFuture<'_, Result<Appended>> {
        ready(Appended::Stored)
    }

    fn lease(
        &self,
        _: ObjectId,
        _: Fence,
        _: Vec<(ParticipantId, Millis)>,
        _: Option<Millis>,
    ) -> BoxFuture<'_, Result<()>> {
        ready(())
    }

    fn snapshot(&self, _: ObjectId, _: Fence, _: Snapshot) -> BoxFuture<'_, Result<()>> {
        ready(())
    }

    fn release(&self, _: ObjectId, _: Fence) -> BoxFuture<'_, Result<()>> {
        ready(())
    }

    fn destroy(&self, _: ObjectId, _: Fence, _: u64, _: Millis) -> BoxFuture<'_, Result<()>> {
        ready(())
    }

    fn due(
        &self,
        _: Millis,
        _: Option<Due>,
        _: usize,
    ) -> BoxFuture<'_, Result<(Vec<Due>, Option<Millis>)>> {
        ready((Vec::new(), None))
    }

    fn set_due(&self, _: ObjectId, _: Fence, _: Option<Millis>) -> BoxFuture<'_, Result<()>> {
        ready(())
    }

    fn put_blob(&self, _: ObjectId, _: BlobId, _: Bytes, _: Millis) -> BoxFuture<'_, Result<()>> {
        ready(())
    }

    fn get_blob(&self, _: ObjectId, _: BlobId) -> BoxFuture<'_, Result<Option<Bytes>>> {
        ready(None)
    }

    fn up_since(&self) -> Millis {
        Millis(0)
    }
}
