//! Storing a batch: one append under the fence, and what to believe when its outcome is unknown.

use futures_util::future::BoxFuture;
use object::{BlobId, Millis, Object, ObjectId};

use super::Inner;
use super::batch::Batch;
use super::live::Live;
use crate::store::{self, Append, Fence, Frame};

/// What became of a batch.
#[derive(Debug)]
pub(super) enum Committed {
    /// Stored: everything may be let out.
    Stored,
    /// The object is gone, and that is stored.
    Destroyed,
    /// Certainly not stored, and memory is ahead of the store.
    Failed(store::Error),
    /// Certainly not stored because this blob was not there.
    BlobMissing(BlobId),
    /// The events are stored, but the end of the object that followed them is not for sure.
    NotDestroyed(store::Error),
    /// Not known within the time allowed.
    Unknown,
}

/// Pause between two looks at a store that does not answer.
pub(super) const RESOLVE_PAUSE_MS: u64 = 25;

/// Stores a batch and moves the activation's position. Nothing is let out here.
pub(super) async fn commit<O: Object>(
    host: &Inner<O>,
    id: &ObjectId,
    live: &mut Live<O>,
    batch: &Batch,
) -> Committed {
    if batch.stores_nothing() {
        return Committed::Stored;
    }
    let due = if batch.destroy { live.stored_due } else { live.object.next_due() };
    if !batch.records.is_empty() {
        let append = append_of::<O>(host, id, live, batch, due);
        let outcome = append_once(host, live, append).await;
        host.metrics.appends.with_label_values(&[outcome.label()]).inc();
        match outcome {
            Landed::Stored | Landed::Resolved => {
                live.lsn += batch.records.len() as u64;
                live.tail_frames += 1;
                live.tail_bytes += batch.bytes;
                live.stored_due = due;
                live.wrote = true;
            }
            Landed::BlobMissing(blob) => return Committed::BlobMissing(blob),
            Landed::Failed(error) => return Committed::Failed(error),
            Landed::Unknown => return Committed::Unknown,
        }
        host.metrics.batch_events.observe(batch.records.len() as f64);
    } else if !batch.destroy {
        host.metrics.lease_writes.inc();
        let (fence, leases) = (live.fence, &batch.leases);
        let written =
            repeat(host, || host.store.lease(id.clone(), fence, leases.clone(), due)).await;
        // No call of this batch changed a fact, so there is nothing to be in doubt about.
        if let Err(error) = written {
            return Committed::Failed(error);
        }
        live.stored_due = due;
    }
    if batch.destroy {
        let (fence, lsn) = (live.fence, live.lsn);
        let now = host.clock.now();
        return match repeat(host, || host.store.destroy(id.clone(), fence, lsn, now)).await {
            Ok(()) => Committed::Destroyed,
            Err(error) if !batch.records.is_empty() => Committed::NotDestroyed(error),
            Err(store::Error::Unknown { .. }) => Committed::Unknown,
            Err(error) => Committed::Failed(error),
        };
    }
    Committed::Stored
}

/// Repeats a call that is safe to repeat until its outcome is known or time is over.
pub(crate) async fn repeat<'a, O: Object>(
    host: &'a Inner<O>,
    mut call: impl FnMut() -> BoxFuture<'a, store::Result<()>>,
) -> store::Result<()> {
    let give_up = host.clock.mono().plus(host.config.in_doubt_ms_max);
    loop {
        match host.timed(call()).await {
            Err(store::Error::Unknown { .. }) if host.clock.mono() < give_up => {
                host.clock.sleep_until(host.clock.mono().plus(RESOLVE_PAUSE_MS)).await;
            }
            ended => return ended,
        }
    }
}

enum Landed {
    Stored,
    /// Unknown at first, then found or repeated.
    Resolved,
    BlobMissing(BlobId),
    Failed(store::Error),
    Unknown,
}

impl Landed {
    const fn label(&self) -> &'static str {
        match self {
            Self::Stored => "stored",
            Self::Resolved => "resolved",
            Self::BlobMissing(_) | Self::Failed(_) => "failed",
            Self::Unknown => "unknown",
        }
    }
}

impl From<store::Result<store::Appended>> for Landed {
    fn from(result: store::Result<store::Appended>) -> Self {
        match result {
            Ok(store::Appended::Stored | store::Appended::Duplicate) => Self::Stored,
            Err(store::Error::BlobMissing { blob }) => Self::BlobMissing(blob),
            Err(store::Error::Unknown { .. }) => Self::Unknown,
            Err(error) => Self::Failed(error),
        }
    }
}

fn append_of<O: Object>(
    host: &Inner<O>,
    id: &ObjectId,
    live: &Live<O>,
    batch: &Batch,
    due: Option<Millis>,
) -> Append {
    Append {
        object: id.clone(),
        fence: live.fence,
        expect_lsn: live.lsn,
        frame: Frame {
            first_lsn: live.lsn + 1,
            fence: live.fence,
            batch: super::random_u128(),
            schema: O::SCHEMA,
            records: batch.records.clone(),
        },
        now: host.clock.now(),
        keep_blobs: batch.keep_blobs.clone(),
        drop_blobs: batch.drop_blobs.clone(),
        leases: batch.leases.clone(),
        drop_leases: batch.drop_leases.clone(),
        due,
    }
}

async fn append_once<O: Object>(host: &Inner<O>, live: &mut Live<O>, append: Append) -> Landed {
    match Landed::from(host.timed(host.store.append(append.clone())).await) {
        Landed::Unknown => {
            let fence = &mut live.fence;
            let give_up = host.clock.instant(host.clock.mono().plus(host.config.in_doubt_ms_max));
            match tokio::time::timeout_at(give_up, resolve(host, fence, append)).await {
                Ok(landed) => landed,
                Err(_elapsed) => Landed::Unknown,
            }
        }
        landed @ (Landed::Stored
        | Landed::Resolved
        | Landed::BlobMissing(_)
        | Landed::Failed(_)) => landed,
    }
}

// First a new fence, so that the lost append can never land; then the log is read; then the
// append is repeated once, if it is not there (cluster 2.5).
async fn resolve<O: Object>(host: &Inner<O>, fence: &mut Fence, mut append: Append) -> Landed {
    let mut repeated = false;
    loop {
        let nonce = super::random_u64();
        let claimed = loop {
            let id = append.object.clone();
            match host.store.refence(id, append.fence, nonce, host.clock.now()).await {
                Ok(claimed) => break claimed,
                Err(store::Error::Unknown { .. } | store::Error::Unavailable { .. }) => {
                    host.clock.sleep_until(host.clock.mono().plus(RESOLVE_PAUSE_MS)).await;
                }
                // Somebody else has claimed it since: whether ours landed is theirs to know.
                Err(_) => return Landed::Unknown,
            }
        };
        *fence = claimed.fence;
        if claimed.tail.iter().any(|frame| frame.batch == append.frame.batch) {
            return Landed::Resolved;
        }
        if claimed.lsn != append.expect_lsn {
            return Landed::Unknown;
        }
        if repeated {
            let context = "an append was lost twice".to_owned();
            return Landed::Failed(store::Error::Unavailable { context });
        }
        repeated = true;
        append.fence = claimed.fence;
        append.frame.fence = claimed.fence;
        match Landed::from(host.store.append(append.clone()).await) {
            Landed::Stored => return Landed::Resolved,
            Landed::Unknown => {}
            landed @ (Landed::Resolved | Landed::BlobMissing(_) | Landed::Failed(_)) => {
                return landed;
            }
        }
    }
}
