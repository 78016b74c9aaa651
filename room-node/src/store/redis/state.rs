//! Claims and snapshots: what a waking object is rebuilt from.

use bytes::Bytes;
use object::{Millis, ObjectId};

use super::super::{ClaimRequest, Claimed, Error, Fence, Result, Snapshot, sealed};
use super::keys::Keys;
use super::ledger::{Head, Verdict, judge};
use super::wire::{self, Answer, nonce, number};
use super::{RedisStore, UPLOAD_MS, fenced, snapshot};

impl RedisStore {
    pub(super) async fn do_claim(&self, request: &ClaimRequest, now: Millis) -> Result<Claimed> {
        let keys = Keys::new(&request.object);
        let (observed_epoch, observed) = match request.observed {
            Some(fence) => (number(fence.epoch), nonce(fence.nonce)),
            None => (Bytes::new(), Bytes::new()),
        };
        let args = vec![
            keys.member(),
            wire::owner(&request.me),
            nonce(request.nonce),
            Bytes::from_static(if request.may_create { b"1" } else { b"0" }),
            observed_epoch,
            observed,
            number(now.0),
            number(u64::from(self.options.schema_max)),
        ];
        let (_, answer) = self.write("claim", &keys, owned_keys(&keys), args, &[]).await?;
        self.rebuild(&request.object, &keys, request.nonce, answer).await
    }

    pub(super) async fn do_refence(
        &self,
        object: &ObjectId,
        old: Fence,
        new: u64,
    ) -> Result<Claimed> {
        let keys = Keys::new(object);
        let mut args = fenced(keys.member(), old);
        args.extend([nonce(new), number(u64::from(self.options.schema_max))]);
        let (_, answer) = self.write("refence", &keys, owned_keys(&keys), args, &[]).await?;
        self.rebuild(object, &keys, new, answer).await
    }

    /// Reads and verifies what a claim answered. What cannot be verified is let go of again: it
    /// is taken off the due index and has no owner, so that every later claim meets the same.
    async fn rebuild(
        &self,
        object: &ObjectId,
        keys: &Keys,
        nonce: u64,
        mut answer: Answer,
    ) -> Result<Claimed> {
        let fence = wire::fence(wire::integer(answer.next())?, nonce);
        match self.parse(keys, fence, answer).await {
            Ok((claimed, generation)) => {
                self.follow(object, keys, &claimed, generation).await;
                Ok(claimed)
            }
            Err(error @ (Error::Damaged { .. } | Error::Newer { .. })) => {
                if matches!(error, Error::Damaged { .. }) {
                    tracing::error!(bucket = keys.bucket.0, %error, "an object stays closed");
                    let _best_effort = self.do_set_due(object, fence, None).await;
                }
                let _best_effort = self.do_release(object, fence).await;
                Err(error)
            }
            Err(error) => Err(error),
        }
    }

    async fn parse(&self, keys: &Keys, fence: Fence, mut answer: Answer) -> Result<(Claimed, u64)> {
        let lsn = wire::integer(answer.next())?;
        let snapshot_lsn = wire::integer(answer.next())?;
        let written = Millis(wire::integer(answer.next())?);
        let generation = wire::bytes(answer.next())?;
        let generation = wire::parse_nonce(&generation).ok_or_else(wire::strange)?;
        let due = wire::bytes(answer.next())?;
        let stored = wire::bytes(answer.next())?;
        let frames = wire::array(answer.next())?;
        let leases = wire::leases(wire::array(answer.next())?)?;
        let set = wire::bytes(answer.next())?;
        let snapshot = match (stored.is_empty(), set.is_empty()) {
            (true, _) => None,
            (false, true) => Some(sealed::decode_snapshot(stored)?),
            (false, false) => Some(self.gather(keys, fence, stored).await?),
        };
        if snapshot.as_ref().map_or(0, |snapshot| snapshot.lsn) != snapshot_lsn {
            return Err(Error::Damaged { what: "a snapshot of another position" });
        }
        let tail = wire::tail(snapshot_lsn, lsn, frames)?;
        wire::readable(self.options.schema_max, snapshot.as_ref(), &tail)?;
        let due = match due.as_ref() {
            b"" => None,
            text => Some(wire::parse_score(text).ok_or_else(wire::strange)?),
        };
        let created = generation == fence.nonce;
        Ok((Claimed { fence, lsn, snapshot, tail, leases, due, written, created }, generation))
    }

    /// Reads the chunks of a large snapshot. They can only go if somebody else claims meanwhile.
    async fn gather(&self, keys: &Keys, fence: Fence, manifest: Bytes) -> Result<Snapshot> {
        let manifest = snapshot::manifest(manifest)?;
        let mut chunks = Vec::new();
        for at in 0..manifest.chunks as usize {
            match self.download(keys.chunk(manifest.set, at)).await? {
                Some(chunk) => chunks.push(chunk),
                None => {
                    // Of the log nothing is known yet, so any length will do.
                    let args = vec![number(fence.epoch), nonce(fence.nonce), number(0)];
                    self.read("check", keys, vec![keys.meta()], args).await?;
                    return Err(Error::Damaged { what: "a chunk of a snapshot is missing" });
                }
            }
        }
        snapshot::join(&manifest, &chunks)
    }

    /// Compares what was claimed with what this node knew, and follows it from here.
    async fn follow(&self, object: &ObjectId, keys: &Keys, claimed: &Claimed, generation: u64) {
        let known = self.loss.ledger().get(object).cloned();
        if let Some(known) = known {
            let head = Head {
                epoch: claimed.fence.epoch,
                nonce: Some(claimed.fence.nonce),
                generation: Some(generation),
                lsn: claimed.lsn,
                dead: false,
                frames: claimed.tail.iter().map(|kept| (kept.first_lsn, kept.batch)).collect(),
            };
            if let Verdict::Lost { kept_lsn } = judge(&known, Some(&head))
                && let Err(reason) = self.report(keys, &known, kept_lsn).await
            {
                tracing::error!(
                    bucket = keys.bucket.0, acked_lsn = known.lsn, kept_lsn, %reason,
                    "redis lost acknowledged events of a room, and no record of it could be kept"
                );
            }
        }
        let now = self.clock.mono();
        self.loss.ledger().claimed(object, claimed.fence, generation, claimed.lsn, now);
        self.scan.lower(keys.bucket, claimed.due);
    }

    pub(super) async fn do_snapshot(
        &self,
        object: &ObjectId,
        fence: Fence,
        stored: &Snapshot,
    ) -> Result<()> {
        let keys = Keys::new(object);
        let set = getrandom::u64().map_err(|_| Error::Unavailable {
            context: "the system gives no random numbers".to_owned(),
        })?;
        let packed = snapshot::pack(stored, set);
        let mut names = vec![keys.meta(), keys.log(), keys.snapshot()];
        for (at, chunk) in packed.chunks.into_iter().enumerate() {
            let key = keys.chunk(set, at);
            names.push(key.clone());
            self.upload(key, chunk, UPLOAD_MS).await?;
        }
        let mut args = fenced(keys.member(), fence);
        args.extend([
            number(stored.lsn),
            number(u64::from(stored.schema)),
            packed.value,
            keys.chunks(),
            packed.set,
        ]);
        self.write("snap", &keys, names, args, &[]).await.map(drop)
    }
}

fn owned_keys(keys: &Keys) -> Vec<Bytes> {
    vec![keys.meta(), keys.log(), keys.snapshot(), keys.due()]
}
