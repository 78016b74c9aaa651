//! Claiming an object and reading it back: snapshot, tail, agent leases.

use bytes::{BufMut, Bytes, BytesMut};
use object::{CodecError, Millis, Object, ObjectId, ParticipantId};

use super::live::Live;
use super::{Inner, commit};
use crate::store::{self, ClaimRequest, Claimed, Fence, Incarnation, Snapshot};

/// Why there is no activation.
#[derive(Debug)]
pub(super) enum LoadError {
    /// The object does not exist.
    Absent,
    /// This live incarnation owns it.
    Owned(Incarnation),
    /// Stored bytes cannot be read; the object is set aside. `owned` is the fence under which
    /// it was claimed, and may be taken off the due index; none if it must stay there.
    Damaged { what: String, owned: Option<Fence> },
    /// The store cannot be reached.
    Unavailable(store::Error),
}

/// Why what was claimed cannot be folded.
#[derive(Debug)]
enum Unreadable {
    Damaged(String),
    /// Written by newer code, which may come back.
    Newer(String),
}

impl From<CodecError> for Unreadable {
    fn from(error: CodecError) -> Self {
        match error {
            CodecError::Newer { .. } => Self::Newer(error.to_string()),
            CodecError::Damaged { .. } => Self::Damaged(error.to_string()),
        }
    }
}

/// A loaded object and whether the claim began a new generation.
#[derive(Debug)]
pub(super) struct Loaded<O> {
    pub(super) live: Live<O>,
    pub(super) created: bool,
}

/// Pause between two tries of a claim.
const CLAIM_PAUSE_MS: u64 = 25;

/// What a stub has kept: the fence it holds, and lease ends that are truer than the stored ones,
/// unless somebody else has owned the object since.
#[derive(Debug, Default)]
pub(crate) struct Exact {
    pub(super) fence: Option<Fence>,
    pub(super) ends: Vec<(ParticipantId, Millis)>,
}

/// Claims and reads an object.
pub(super) async fn load<O: Object>(
    host: &Inner<O>,
    id: &ObjectId,
    may_create: bool,
    exact: &Exact,
) -> Result<Loaded<O>, LoadError> {
    let primary = host.primary();
    let (claimed, lapsed) = claim(host, id, may_create, exact.fence).await?;
    // Every claim raises the epoch by one.
    let is_next = exact.fence.is_some_and(|kept| claimed.fence.epoch == kept.epoch.wrapping_add(1));
    let exact = if is_next { exact.ends.as_slice() } else { &[] };
    let created = claimed.created;
    let (written, due) = (claimed.written, claimed.due);
    let stored = claimed.leases.clone();
    let fence = claimed.fence;
    let mut live = fold::<O>(host, id, claimed).map_err(|unreadable| match unreadable {
        Unreadable::Damaged(what) => LoadError::Damaged { what, owned: Some(fence) },
        Unreadable::Newer(what) => LoadError::Damaged { what, owned: None },
    })?;
    live.stored_due = due;
    live.stored = stored;
    live.primary = primary;
    let now = host.clock.now();
    if lapsed || (exact.is_empty() && written < host.store.up_since()) {
        grace(host, id, fence, &mut live, now).await?;
    }
    for (who, end) in &live.stored {
        let end = exact.iter().find(|(known, _)| known == who).map_or(*end, |(_, exact)| *exact);
        live.object.renew(*who, end, now);
    }
    Ok(Loaded { live, created })
}

// Time in which nobody could poll does not count against agents (ours 17, cluster 2.7).
async fn grace<O: Object>(
    host: &Inner<O>,
    id: &ObjectId,
    fence: Fence,
    live: &mut Live<O>,
    now: Millis,
) -> Result<(), LoadError> {
    let least = now.plus(host.config.lease_step_ms);
    let raised: Vec<_> = live
        .stored
        .iter_mut()
        .filter(|(_, end)| *end < least)
        .map(|entry| {
            entry.1 = least;
            *entry
        })
        .collect();
    if raised.is_empty() {
        return Ok(());
    }
    host.metrics.lease_writes.inc();
    // Due may be early; it is set precisely when the object goes to sleep.
    host.store
        .lease(id.clone(), fence, raised, live.stored_due)
        .await
        .map_err(LoadError::Unavailable)
}

/// Takes a damaged object off the due index: nobody may fire its timers, and its entry would be
/// met by every scan. The first claim that can read it again sets its due time anew.
pub(super) async fn set_aside<O: Object>(host: &Inner<O>, id: &ObjectId, fence: Fence) {
    let removed = commit::repeat(host, || host.store.set_due(id.clone(), fence, None)).await;
    if let Err(reason) = removed {
        tracing::warn!(%reason, "a damaged object stays in the due index");
    }
}

/// Whether what this owner holds is ours to take: what this run of the node holds itself, and what a
/// run that is over held. A node joins under its name only once its former run has ended, so under
/// a lease any other run of that name is a former one. A run that is over itself has no lease, and
/// takes nothing from its successor.
pub(super) fn may_take<O: Object>(host: &Inner<O>, owner: &Incarnation) -> bool {
    let former = owner.node == host.me.node && host.cluster.is_leased();
    *owner == host.me || former || host.cluster.ended(owner)
}

/// Claims an object; `kept` is the fence of ours that it is known to stand under. With the claim
/// comes whether another run's place was taken.
async fn claim<O: Object>(
    host: &Inner<O>,
    id: &ObjectId,
    may_create: bool,
    kept: Option<Fence>,
) -> Result<(Claimed, bool), LoadError> {
    let mut request = ClaimRequest {
        object: id.clone(),
        me: host.me.clone(),
        nonce: super::random_u64(),
        may_create,
        observed: kept,
    };
    let mut lapsed = false;
    let give_up = host.clock.mono().plus(host.config.claim_ms_max);
    loop {
        match host.timed(host.store.claim(request.clone(), host.clock.now())).await {
            Ok(claimed) => {
                let label = if lapsed { "lapsed" } else { "granted" };
                host.metrics.claims.with_label_values(&[label]).inc();
                return Ok((claimed, lapsed));
            }
            Err(store::Error::Absent) => return Err(LoadError::Absent),
            // Stated once of each, with the fence that was seen: it may have moved on.
            Err(store::Error::Owned { fence, owner })
                if request.observed != Some(fence)
                    && may_take(host, &owner)
                    && host.clock.mono() < give_up =>
            {
                request.observed = Some(fence);
                lapsed = owner != host.me;
            }
            Err(store::Error::Owned { owner, .. }) => {
                host.metrics.claims.with_label_values(&["owned"]).inc();
                return Err(LoadError::Owned(owner));
            }
            // The store has taken it off the due index itself.
            Err(store::Error::Damaged { what }) => {
                return Err(LoadError::Damaged { what: what.to_owned(), owned: None });
            }
            Err(store::Error::Newer { found }) => {
                let what = format!("schema {found} is newer than ours");
                return Err(LoadError::Damaged { what, owned: None });
            }
            // The same nonce makes a repeat safe, whatever became of the first.
            Err(store::Error::Unknown { .. } | store::Error::Unavailable { .. })
                if host.clock.mono() < give_up =>
            {
                host.clock.sleep_until(host.clock.mono().plus(CLAIM_PAUSE_MS)).await;
            }
            Err(error) => {
                if matches!(error, store::Error::Unknown { .. } | store::Error::Unavailable { .. })
                {
                    host.metrics.bound_hit("claim_ms_max");
                }
                return Err(LoadError::Unavailable(error));
            }
        }
    }
}

// Every damage is an error: an object is never started empty or short.
fn fold<O: Object>(
    host: &Inner<O>,
    id: &ObjectId,
    claimed: Claimed,
) -> Result<Live<O>, Unreadable> {
    let (mut object, mut lsn) = match claimed.snapshot {
        Some(snapshot) => {
            newer::<O>(snapshot.schema)?;
            let bytes = unwrap_snapshot(&snapshot.bytes)?;
            (O::decode_snapshot(id, snapshot.schema, &bytes)?, snapshot.lsn)
        }
        None => (O::fresh(id), 0),
    };
    let (mut tail_frames, mut tail_bytes) = (0, 0);
    for frame in claimed.tail {
        newer::<O>(frame.schema)?;
        if frame.first_lsn != lsn + 1 {
            let found = frame.first_lsn;
            return Err(Unreadable::Damaged(format!("log has a gap: {found} after {lsn}")));
        }
        for record in &frame.records {
            object.evolve(&O::decode_event(frame.schema, &record.bytes)?);
            tail_bytes += record.bytes.len();
            lsn += 1;
        }
        tail_frames += 1;
    }
    if lsn != claimed.lsn {
        let head = claimed.lsn;
        return Err(Unreadable::Damaged(format!("log ends at {lsn}, its head says {head}")));
    }
    Ok(Live {
        object,
        fence: claimed.fence,
        lsn,
        tail_frames,
        tail_bytes,
        stored: Vec::new(),
        stored_due: None,
        parked: Vec::new(),
        ask_parked: false,
        heard: Vec::new(),
        commanded: host.clock.mono(),
        loaded: host.clock.now(),
        due_not_before: Millis(0),
        due_backoff_ms: 0,
        for_poll: false,
        wrote: false,
        primary: 0,
    })
}

fn newer<O: Object>(found: u32) -> Result<(), Unreadable> {
    if found > O::SCHEMA {
        return Err(CodecError::Newer { found, supported: O::SCHEMA }.into());
    }
    Ok(())
}

const SNAPSHOT_MAGIC: [u8; 2] = *b"RS";
const SNAPSHOT_VERSION: u8 = 1;
/// magic 2, version 1, crc32c 4.
const SNAPSHOT_PRELUDE_BYTES: usize = 7;

/// A snapshot as it is stored: magic, version, crc32c of the rest, the object's own bytes.
pub(super) fn wrap_snapshot<O: Object>(lsn: u64, state: &[u8]) -> Snapshot {
    let mut out = BytesMut::with_capacity(SNAPSHOT_PRELUDE_BYTES + state.len());
    out.put_slice(&SNAPSHOT_MAGIC);
    out.put_u8(SNAPSHOT_VERSION);
    out.put_u32(crc32c::crc32c(state));
    out.put_slice(state);
    Snapshot { schema: O::SCHEMA, lsn, bytes: out.freeze() }
}

fn unwrap_snapshot(bytes: &Bytes) -> Result<Bytes, Unreadable> {
    let damaged = |what: &str| Unreadable::Damaged(what.to_owned());
    let Some((prelude, _)) = bytes.split_first_chunk::<SNAPSHOT_PRELUDE_BYTES>() else {
        return Err(damaged("a snapshot is cut short"));
    };
    let [m0, m1, version, sum @ ..] = *prelude;
    if [m0, m1] != SNAPSHOT_MAGIC || version != SNAPSHOT_VERSION {
        return Err(damaged("a snapshot does not begin with its magic and version"));
    }
    let state = bytes.slice(SNAPSHOT_PRELUDE_BYTES..);
    if crc32c::crc32c(&state) != u32::from_be_bytes(sum) {
        return Err(damaged("a snapshot's checksum does not match"));
    }
    Ok(state)
}

/// Hands out an activation that was never stored.
#[cfg(test)]
pub(super) fn with_fresh<O: Object, T>(
    host: &Inner<O>,
    id: &ObjectId,
    then: impl FnOnce(&mut Live<O>) -> T,
) -> T {
    let fence = Fence { epoch: 1, nonce: 1 };
    let claimed = Claimed {
        fence,
        lsn: 0,
        snapshot: None,
        tail: Vec::new(),
        leases: Vec::new(),
        due: None,
        written: Millis(0),
        created: true,
    };
    let Ok(mut live) = fold::<O>(host, id, claimed) else { unreachable!("nothing to read") };
    then(&mut live)
}
