//! Loss is never silent: after every change of a primary, what this node was told is stored is
//! compared with what is stored, and what went is kept in a record beside the object.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use bytes::Bytes;
use futures_util::future::join_all;
use object::{Millis, ObjectId};
use prost::Message;
use redis_link::redis::Value;
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;

use super::super::sealed;
use super::super::{Error, Fence, Frame, Result};
use super::RedisStore;
use super::keys::Keys;
use super::ledger::{Head, Known, LOOK_FRAMES, Ledger, Verdict, judge};
use super::wire;
use crate::metrics::InFlight;

/// Objects looked at together.
pub(super) const LOOKS_INFLIGHT_MAX: usize = 64;
/// Pause before objects are looked at again that could not be, in milliseconds.
const RETRY_MS: u64 = 250;
/// Old entries of the ledger are let go at this period, in milliseconds.
const SWEEP_MS: u64 = 5_000;
/// Records of losses kept per object, the newest.
const RECORDS_MAX: u64 = 8;

/// The ledger and the objects that must be looked at.
#[derive(Debug, Default)]
pub(super) struct Loss {
    ledger: Mutex<Ledger>,
    /// Only objects of the ledger, so its bound is `OBJECTS_MAX` there.
    suspects: Mutex<HashSet<ObjectId>>,
    told: Notify,
    pub(super) ended: CancellationToken,
}

impl Loss {
    pub(super) fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn suspects(&self) -> MutexGuard<'_, HashSet<ObjectId>> {
        self.suspects.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Somebody else has the object, or it is gone: was what we wrote still there?
    pub(super) fn suspect(&self, object: &ObjectId) {
        if self.ledger().get(object).is_some() {
            self.suspects().insert(object.clone());
            self.told.notify_one();
        }
    }
}

/// Acknowledged events that are no longer in the log of an object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LostAcked {
    /// When it was found out.
    pub found: Millis,
    /// The last lsn that was acknowledged.
    pub acked_lsn: u64,
    /// The last lsn that is still there.
    pub kept_lsn: u64,
    /// The fence under which the events were written.
    pub fence: Fence,
    /// The lost frames that were still in memory: the newest ones, up to a minute old.
    pub frames: Vec<Frame>,
}

#[derive(Clone, PartialEq, Message)]
struct StoredLost {
    #[prost(uint64, tag = "1")]
    found: u64,
    #[prost(uint64, tag = "2")]
    acked_lsn: u64,
    #[prost(uint64, tag = "3")]
    kept_lsn: u64,
    #[prost(uint64, tag = "4")]
    epoch: u64,
    #[prost(fixed64, tag = "5")]
    nonce: u64,
    #[prost(bytes = "bytes", repeated, tag = "6")]
    frames: Vec<Bytes>,
}

impl LostAcked {
    /// Reads one element of the list `{bNNNN}q:<object>`.
    ///
    /// # Errors
    ///
    /// If it is damaged, or written by a newer version.
    pub fn decode(bytes: Bytes) -> Result<Self> {
        let damaged = Error::Damaged { what: "a record of lost events" };
        let body = sealed::unseal(bytes, "a record of lost events")?;
        let stored = StoredLost::decode(body).map_err(|_| damaged.clone())?;
        let frames: std::result::Result<_, _> =
            stored.frames.into_iter().map(Frame::decode).collect();
        Ok(Self {
            found: Millis(stored.found),
            acked_lsn: stored.acked_lsn,
            kept_lsn: stored.kept_lsn,
            fence: wire::fence(stored.epoch, stored.nonce),
            frames: frames.map_err(|_| damaged)?,
        })
    }
}

/// Follows the link until the store is dropped.
pub(super) async fn run(
    store: Weak<RedisStore>,
    mut changes: tokio::sync::watch::Receiver<u64>,
    ended: CancellationToken,
) {
    loop {
        let Some(owner) = store.upgrade() else { return };
        let again = owner.look_at_suspects().await;
        let pause = if again { RETRY_MS } else { SWEEP_MS };
        let at = owner.clock.mono().plus(pause);
        let clock = owner.clock;
        let loss = Arc::clone(&owner.loss);
        drop(owner);
        let all = tokio::select! {
            () = ended.cancelled() => return,
            changed = changes.changed() => match changed {
                Ok(()) => true,
                Err(_closed) => return,
            },
            () = loss.told.notified() => false,
            () = clock.sleep_until(at) => false,
        };
        let Some(owner) = store.upgrade() else { return };
        let known = {
            let mut ledger = loss.ledger();
            ledger.sweep(clock.mono());
            owner.metrics.known.set(i64::try_from(ledger.len()).unwrap_or(i64::MAX));
            owner.metrics.known_frames.set(i64::try_from(ledger.frames()).unwrap_or(i64::MAX));
            owner.metrics.known_bytes.set(i64::try_from(ledger.bytes()).unwrap_or(i64::MAX));
            if all { ledger.objects() } else { Vec::new() }
        };
        loss.suspects().extend(known);
    }
}

impl RedisStore {
    /// Looks at every suspect; true if some could not be and must be looked at again.
    pub(super) async fn look_at_suspects(&self) -> bool {
        let suspects: Vec<ObjectId> = self.loss.suspects().drain().collect();
        let mut rest = suspects.as_slice();
        while !rest.is_empty() {
            let (together, later) = rest.split_at(rest.len().min(LOOKS_INFLIGHT_MAX));
            let looks = together.iter().map(|object| self.look_at(object));
            if join_all(looks).await.iter().any(Result::is_err) {
                // Whoever is looked at twice is found whole, or was told already.
                self.loss.suspects().extend(rest.iter().cloned());
                return true;
            }
            if !later.is_empty() {
                self.metrics.bound_hit("looks_inflight_max");
            }
            rest = later;
        }
        false
    }

    async fn look_at(&self, object: &ObjectId) -> Result<()> {
        let _in_flight = InFlight::of(&self.metrics.looks);
        let Some(known) = self.loss.ledger().get(object).cloned() else { return Ok(()) };
        let keys = Keys::new(object);
        let asked = vec![keys.meta(), keys.log()];
        let fence = known.fence;
        let args =
            vec![wire::number(LOOK_FRAMES), wire::number(fence.epoch), wire::nonce(fence.nonce)];
        let found = match self.read("look", &keys, asked, args).await {
            Ok(answer) => head(answer)?,
            // What cannot be read any more is as good as gone.
            Err(Error::Damaged { .. }) => None,
            Err(error) => return Err(error),
        };
        let ours = found.as_ref().is_some_and(|head| {
            head.epoch == known.fence.epoch && head.nonce == Some(known.fence.nonce)
        });
        match judge(&known, found.as_ref()) {
            Verdict::Whole => {}
            Verdict::Unverified => {
                self.metrics.unverified.inc();
                tracing::warn!(
                    bucket = keys.bucket.0,
                    "it cannot be told whether acknowledged events were lost: another owner has \
                     trimmed the log since"
                );
            }
            Verdict::Lost { kept_lsn } => self.report(&keys, &known, kept_lsn).await?,
        }
        let mut ledger = self.loss.ledger();
        if ledger.get(object).is_some_and(|now| now.fence == known.fence) {
            match found.filter(|_| ours) {
                Some(head) if head.lsn < known.lsn => {
                    let now = self.clock.mono();
                    ledger.claimed(object, known.fence, known.generation, head.lsn, now);
                }
                Some(_) => {}
                None => ledger.forget(object),
            }
        }
        Ok(())
    }

    /// Says what was lost, in the log, in the figures, and in a record beside the object.
    pub(super) async fn report(&self, keys: &Keys, known: &Known, kept_lsn: u64) -> Result<()> {
        let lost = known.frames.iter().filter(|kept| kept.last_lsn > kept_lsn);
        let stored = StoredLost {
            found: self.clock.now().0,
            acked_lsn: known.lsn,
            kept_lsn,
            epoch: known.fence.epoch,
            nonce: known.fence.nonce,
            frames: lost.map(|kept| kept.bytes.clone()).collect(),
        };
        let frames = stored.frames.len();
        let record = sealed::seal(&stored.encode_to_vec());
        let args = vec![record, wire::number(RECORDS_MAX)];
        self.write("lost", keys, vec![keys.lost()], args, &[]).await?;
        let events = known.lsn.saturating_sub(kept_lsn);
        self.metrics.lost.inc();
        self.metrics.lost_events.inc_by(events);
        tracing::error!(
            bucket = keys.bucket.0,
            acked_lsn = known.lsn,
            kept_lsn,
            frames,
            "redis lost acknowledged events of a room; the lost frames are kept in the list q: of \
             its bucket; look at the failover or restart that preceded, and at --durability"
        );
        Ok(())
    }
}

/// Reads the answer of `look`; none if there is no object.
fn head(mut answer: wire::Answer) -> Result<Option<Head>> {
    let mut field = || wire::bytes(answer.next());
    let (epoch, nonce, lsn) = (field()?, field()?, field()?);
    let (generation, dead) = (field()?, field()?);
    let Some(epoch) = wire::parse(&epoch) else { return Ok(None) };
    let frames = wire::array(answer.next())?;
    Ok(Some(Head {
        epoch,
        nonce: wire::parse_nonce(&nonce),
        generation: wire::parse_nonce(&generation),
        lsn: wire::parse(&lsn).unwrap_or(0),
        dead: !dead.is_empty(),
        frames: frames.into_iter().filter_map(place).collect(),
    }))
}

/// First lsn and batch of a stored frame.
fn place(frame: Value) -> Option<(u64, u128)> {
    let frame = Frame::decode(wire::bytes(Some(frame)).ok()?).ok()?;
    Some((frame.first_lsn, frame.batch))
}
