//! An object with nothing to do: when it is looked at again, and how it goes to sleep.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use object::Object;

use super::actor::{End, put_back_parked};
use super::directory::Active;
use super::lifecycle::{self, Inputs, Rest};
use super::live::Live;
use super::{Inner, activation, commit};
use crate::clock::Mono;
use crate::store;

/// A tail up to this long is read again rather than rewritten.
const TAIL_FRAMES_KEPT: usize = 32;

pub(super) fn at_rest<O: Object>(host: &Inner<O>, live: &Live<O>) -> Rest {
    let backs_off = live.due_backoff_ms > 0;
    lifecycle::rest(
        &host.config,
        Inputs {
            now: host.clock.mono(),
            commanded: live.commanded,
            busy: live.object.busy(),
            work_parked: live.parked.iter().any(|parked| !parked.call.request.op.wait),
            backs_off_until: backs_off.then(|| host.clock.when(live.due_not_before)),
            behind: live.heard.iter().any(|(_, seen)| *seen < live.lsn),
            stored: live.lsn > 0,
        },
    )
}

/// When an object at rest is looked at again at the latest.
pub(super) fn stay_until<O: Object>(
    host: &Inner<O>,
    entry: &Active,
    live: &Live<O>,
    until: Mono,
) -> Mono {
    let until = entry.leaves().map_or(until, |by| until.min(by));
    let at = live.next_time().map_or(until, |at| until.min(host.clock.when(at)));
    at.max(host.clock.mono().plus(1))
}

pub(super) async fn fall_asleep<O: Object>(
    host: &Arc<Inner<O>>,
    entry: &Arc<Active>,
    live: &mut Live<O>,
    rest: Rest,
) -> Option<End> {
    match rest {
        Rest::Stay(_) => None,
        Rest::Stub => {
            // A poll that only built a stub writes no snapshot for a short tail.
            let worth = live.wrote || live.tail_frames > TAIL_FRAMES_KEPT;
            if settle_down(host, entry, live, worth).await.is_err() {
                return Some(End::Rebuild);
            }
            host.sleep(entry, live).await
        }
        Rest::Vanish => {
            let (id, fence) = (&entry.id, live.fence);
            let at = host.clock.now();
            let _tried =
                commit::repeat(host, || host.store.destroy(id.clone(), fence, 0, at)).await;
            put_back_parked(host, entry, live);
            Some(End::Over)
        }
    }
}

/// Stores what makes the next reading quick, as far as worth it, and the exact due time.
pub(super) async fn settle_down<O: Object>(
    host: &Inner<O>,
    entry: &Active,
    live: &mut Live<O>,
    worth: bool,
) -> store::Result<()> {
    if worth && live.tail_frames > 0 {
        snapshot(host, entry, live).await?;
    }
    let (id, fence, due) = (&entry.id, live.fence, live.object.next_due());
    if due != live.stored_due {
        commit::repeat(host, || host.store.set_due(id.clone(), fence, due)).await?;
        live.stored_due = due;
    }
    Ok(())
}

/// Whether a tail is so long that the next owner should not have to read it.
pub(super) const fn is_long<O>(live: &Live<O>) -> bool {
    live.tail_frames > TAIL_FRAMES_KEPT
}

/// Stores a snapshot. One that cannot be written now is written later; a lost fence is an error.
pub(super) async fn snapshot<O: Object>(
    host: &Inner<O>,
    entry: &Active,
    live: &mut Live<O>,
) -> store::Result<()> {
    let encoded = catch_unwind(AssertUnwindSafe(|| live.object.encode_snapshot()));
    let Ok(state) = encoded else {
        host.metrics.panics.inc();
        host.note_panic(&entry.id);
        return Err(store::Error::Fenced);
    };
    let snapshot = activation::wrap_snapshot::<O>(live.lsn, &state);
    let (id, fence) = (&entry.id, live.fence);
    let written =
        commit::repeat(host, || host.store.snapshot(id.clone(), fence, snapshot.clone())).await;
    match written {
        Ok(()) => {
            host.metrics.snapshots.inc();
            (live.tail_frames, live.tail_bytes) = (0, 0);
            Ok(())
        }
        Err(store::Error::Fenced) => Err(store::Error::Fenced),
        Err(reason) => {
            tracing::warn!(%reason, "snapshot was not written");
            Ok(())
        }
    }
}
