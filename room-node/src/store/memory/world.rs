//! The rules of the store over plain maps.

use std::collections::{BTreeMap, HashMap};

use bytes::Bytes;
use object::{BlobId, Millis, ObjectId, ParticipantId};

use super::super::{
    Append, Appended, BLOB_BYTES_MAX, ClaimRequest, Claimed, DEAD_MARK_MS, Due, Error,
    FRAME_BYTES_MAX, Fence, Frame, Incarnation, Result, SNAPSHOT_BYTES_MAX, Snapshot,
};

#[derive(Debug)]
pub(super) struct World {
    /// Bounded by the objects that exist: `--ephemeral` keeps all of them in memory.
    objects: BTreeMap<ObjectId, Entry>,
    /// Bounded by what those objects keep, and uploads that have not expired.
    blobs: HashMap<(ObjectId, BlobId), Blob>,
    up_since: Millis,
    /// The latest time any caller has named.
    now: Millis,
    schema_max: u32,
}

#[derive(Debug)]
enum Entry {
    Live(Box<Live>),
    /// Refuses every write of the old fence until `until`.
    Dead {
        epoch: u64,
        ended: u64,
        until: Millis,
    },
}

#[derive(Debug)]
struct Live {
    epoch: u64,
    owner: Option<(u64, Incarnation)>,
    /// The nonce of the last release, so that its repeat is a success.
    released: Option<u64>,
    /// The nonce that started this generation.
    created: u64,
    lsn: u64,
    snapshot: Option<Snapshot>,
    /// Bounded by the appends since the last snapshot (`snapshot_frames` of the host).
    log: Vec<Frame>,
    /// Bounded by the object's participants.
    leases: BTreeMap<ParticipantId, Millis>,
    due: Option<Millis>,
    written: Millis,
    /// The last two batch ids, newest last.
    /// Bounded by what a repeat can ask for.
    batches: Vec<u128>,
    damaged: bool,
}

#[derive(Debug)]
struct Blob {
    bytes: Bytes,
    /// `None` once an append has kept it.
    expires: Option<Millis>,
}

impl Live {
    fn new(epoch: u64, nonce: u64, now: Millis) -> Self {
        Self {
            epoch,
            owner: None,
            released: None,
            created: nonce,
            lsn: 0,
            snapshot: None,
            log: Vec::new(),
            leases: BTreeMap::new(),
            due: None,
            written: now,
            batches: Vec::new(),
            damaged: false,
        }
    }

    fn check(&self, fence: Fence) -> Result<()> {
        match &self.owner {
            Some((nonce, _)) if self.epoch == fence.epoch && *nonce == fence.nonce => Ok(()),
            _ => Err(Error::Fenced),
        }
    }

    fn own(&mut self, nonce: u64, owner: Incarnation) {
        self.epoch += 1;
        self.owner = Some((nonce, owner));
        self.released = None;
    }

    fn claimed(&self, nonce: u64) -> Claimed {
        Claimed {
            fence: Fence { epoch: self.epoch, nonce },
            lsn: self.lsn,
            snapshot: self.snapshot.clone(),
            tail: self.log.clone(),
            leases: self.leases.iter().map(|(who, end)| (*who, *end)).collect(),
            due: self.due,
            written: self.written,
            created: self.created == nonce,
        }
    }

    fn raise(&mut self, leases: &[(ParticipantId, Millis)]) {
        for (who, end) in leases {
            let stored = self.leases.entry(*who).or_insert(*end);
            *stored = (*stored).max(*end);
        }
    }

    fn readable(&self, schema_max: u32) -> Result<()> {
        if self.damaged {
            return Err(Error::Damaged { what: "a frame" });
        }
        let frames = self.log.iter().map(|frame| frame.schema);
        let found = frames.chain(self.snapshot.iter().map(|snapshot| snapshot.schema)).max();
        match found {
            Some(found) if found > schema_max => Err(Error::Newer { found }),
            _ => Ok(()),
        }
    }
}

impl World {
    pub(super) fn new(up_since: Millis) -> Self {
        Self {
            objects: BTreeMap::new(),
            blobs: HashMap::new(),
            up_since,
            now: up_since,
            schema_max: u32::MAX,
        }
    }

    pub(super) fn claim(&mut self, request: &ClaimRequest, now: Millis) -> Result<Claimed> {
        self.tick(now);
        let schema_max = self.schema_max;
        let gone = match self.objects.get(&request.object) {
            None => Some(0),
            Some(Entry::Dead { epoch, .. }) => Some(*epoch),
            Some(Entry::Live(_)) => None,
        };
        if let Some(epoch) = gone {
            if !request.may_create {
                return Err(Error::Absent);
            }
            let live = Box::new(Live::new(epoch, request.nonce, now));
            self.objects.insert(request.object.clone(), Entry::Live(live));
        }
        let Some(Entry::Live(live)) = self.objects.get_mut(&request.object) else {
            return Err(Error::Absent);
        };
        if let Some((nonce, owner)) = &live.owner {
            if *nonce == request.nonce && *owner == request.me {
                live.readable(schema_max)?;
                return Ok(live.claimed(request.nonce));
            }
            let fence = Fence { epoch: live.epoch, nonce: *nonce };
            if request.observed != Some(fence) {
                return Err(Error::Owned { fence, owner: owner.clone() });
            }
        }
        if let Err(error) = live.readable(schema_max) {
            // Nobody can own a damaged object, so nobody else could take it off the due index.
            if matches!(error, Error::Damaged { .. }) {
                live.due = None;
            }
            return Err(error);
        }
        live.own(request.nonce, request.me.clone());
        Ok(live.claimed(request.nonce))
    }

    pub(super) fn refence(
        &mut self,
        object: &ObjectId,
        old: Fence,
        nonce: u64,
        now: Millis,
    ) -> Result<Claimed> {
        self.tick(now);
        let schema_max = self.schema_max;
        let live = self.live(object)?;
        let Some((stored, owner)) = live.owner.clone() else { return Err(Error::Fenced) };
        let repeat = stored == nonce && live.epoch == old.epoch.saturating_add(1);
        if !repeat {
            live.check(old)?;
        }
        live.readable(schema_max)?;
        if !repeat {
            live.own(nonce, owner);
        }
        Ok(live.claimed(nonce))
    }

    pub(super) fn check(&mut self, object: &ObjectId, fence: Fence) -> Result<()> {
        self.live(object)?.check(fence)
    }

    pub(super) fn append(&mut self, append: Append) -> Result<Appended> {
        self.tick(append.now);
        let live = self.live(&append.object)?;
        live.check(append.fence)?;
        if live.lsn > append.expect_lsn && live.batches.contains(&append.frame.batch) {
            return Ok(Appended::Duplicate);
        }
        if live.lsn != append.expect_lsn || append.frame.first_lsn != append.expect_lsn + 1 {
            return Err(Error::Lsn { actual: live.lsn });
        }
        if append.frame.records.is_empty() {
            return Err(Error::Damaged { what: "a frame without events" });
        }
        let bytes: usize = append.frame.records.iter().map(|record| record.bytes.len()).sum();
        if bytes > FRAME_BYTES_MAX {
            return Err(Error::Full { what: "a frame over the largest size" });
        }
        let missing = append.keep_blobs.iter().find(|blob| !self.has(&append.object, **blob));
        if let Some(blob) = missing {
            return Err(Error::BlobMissing { blob: *blob });
        }

        for blob in append.keep_blobs {
            if let Some(blob) = self.blobs.get_mut(&(append.object.clone(), blob)) {
                blob.expires = None;
            }
        }
        for blob in append.drop_blobs {
            self.blobs.remove(&(append.object.clone(), blob));
        }
        let live = self.live(&append.object)?;
        live.raise(&append.leases);
        for who in &append.drop_leases {
            live.leases.remove(who);
        }
        live.due = append.due;
        live.lsn = append.frame.last_lsn();
        live.written = append.now;
        live.batches.push(append.frame.batch);
        if live.batches.len() > 2 {
            live.batches.remove(0);
        }
        live.log.push(append.frame);
        Ok(Appended::Stored)
    }

    pub(super) fn lease(
        &mut self,
        object: &ObjectId,
        fence: Fence,
        leases: &[(ParticipantId, Millis)],
        due: Option<Millis>,
    ) -> Result<()> {
        let live = self.live(object)?;
        live.check(fence)?;
        live.raise(leases);
        live.due = due;
        Ok(())
    }

    pub(super) fn snapshot(
        &mut self,
        object: &ObjectId,
        fence: Fence,
        snapshot: Snapshot,
    ) -> Result<()> {
        let live = self.live(object)?;
        live.check(fence)?;
        if snapshot.bytes.len() > SNAPSHOT_BYTES_MAX {
            return Err(Error::Full { what: "a snapshot over the largest size" });
        }
        let before = live.snapshot.as_ref().map_or(0, |stored| stored.lsn);
        if snapshot.lsn < before {
            // A late repeat: the log behind the newer snapshot is gone, so it must stay.
            return Ok(());
        }
        let ends_batch =
            snapshot.lsn == before || live.log.iter().any(|frame| frame.last_lsn() == snapshot.lsn);
        if snapshot.lsn == 0 || !ends_batch {
            return Err(Error::Lsn { actual: live.lsn });
        }
        live.log.retain(|frame| frame.first_lsn > snapshot.lsn);
        live.snapshot = Some(snapshot);
        Ok(())
    }

    pub(super) fn release(&mut self, object: &ObjectId, fence: Fence) -> Result<()> {
        let live = self.live(object)?;
        if live.owner.is_none() && live.epoch == fence.epoch && live.released == Some(fence.nonce) {
            return Ok(());
        }
        live.check(fence)?;
        live.owner = None;
        live.released = Some(fence.nonce);
        Ok(())
    }

    pub(super) fn destroy(
        &mut self,
        object: &ObjectId,
        fence: Fence,
        lsn: u64,
        now: Millis,
    ) -> Result<()> {
        self.tick(now);
        if let Some(Entry::Dead { epoch, ended, .. }) = self.objects.get(object)
            && *epoch == fence.epoch.saturating_add(1)
            && *ended == fence.nonce
        {
            return Ok(());
        }
        let live = self.live(object)?;
        live.check(fence)?;
        if live.lsn != lsn {
            return Err(Error::Lsn { actual: live.lsn });
        }
        let epoch = live.epoch + 1;
        let until = now.plus(DEAD_MARK_MS);
        self.objects.insert(object.clone(), Entry::Dead { epoch, ended: fence.nonce, until });
        self.blobs.retain(|(of, _), blob| of != object || blob.expires.is_some());
        Ok(())
    }

    pub(super) fn due(
        &mut self,
        now: Millis,
        after: Option<&Due>,
        limit: usize,
    ) -> (Vec<Due>, Option<Millis>) {
        self.tick(now);
        let mut all: Vec<Due> = Vec::new();
        for (object, entry) in &self.objects {
            if let Entry::Live(live) = entry
                && let Some(at) = live.due
            {
                all.push(Due { at, object: object.clone() });
            }
        }
        all.sort_by(|a, b| (a.at, &a.object).cmp(&(b.at, &b.object)));
        let next = all.iter().map(|due| due.at).find(|at| *at > now);
        let past =
            |due: &Due| after.is_none_or(|after| (due.at, &due.object) > (after.at, &after.object));
        all.retain(|due| due.at <= now && past(due));
        all.truncate(limit);
        (all, next)
    }

    pub(super) fn set_due(
        &mut self,
        object: &ObjectId,
        fence: Fence,
        due: Option<Millis>,
    ) -> Result<()> {
        let live = self.live(object)?;
        live.check(fence)?;
        live.due = due;
        Ok(())
    }

    pub(super) fn put_blob(
        &mut self,
        object: ObjectId,
        blob: BlobId,
        bytes: Bytes,
        expires: Millis,
    ) -> Result<()> {
        if bytes.len() > BLOB_BYTES_MAX {
            return Err(Error::Full { what: "a blob over the largest size" });
        }
        let stored = self.blobs.get(&(object.clone(), blob));
        if stored.is_none_or(|stored| stored.expires.is_some()) {
            self.blobs.insert((object, blob), Blob { bytes, expires: Some(expires) });
        }
        Ok(())
    }

    pub(super) fn get_blob(&self, object: ObjectId, blob: BlobId) -> Option<Bytes> {
        self.blobs.get(&(object, blob)).map(|blob| blob.bytes.clone())
    }

    pub(super) fn up_since(&self) -> Millis {
        self.up_since
    }

    pub(super) fn reopen(&mut self, now: Millis) {
        self.blobs.retain(|_, blob| blob.expires.is_none());
        self.up_since = now;
        self.tick(now);
    }

    pub(super) fn lose_tail(&mut self, object: &ObjectId, frames: usize) -> Option<u64> {
        let live = self.live(object).ok()?;
        for _ in 0..frames {
            if let Some(frame) = live.log.pop() {
                live.lsn = frame.first_lsn - 1;
                live.batches.retain(|batch| *batch != frame.batch);
            }
        }
        Some(live.lsn)
    }

    pub(super) fn damage(&mut self, object: &ObjectId) {
        if let Ok(live) = self.live(object) {
            live.damaged = true;
        }
    }

    pub(super) fn set_schema_max(&mut self, schema: u32) {
        self.schema_max = schema;
    }

    pub(super) fn frames(&self, object: &ObjectId) -> Option<Vec<Frame>> {
        match self.objects.get(object) {
            Some(Entry::Live(live)) => Some(live.log.clone()),
            _ => None,
        }
    }

    pub(super) fn fence(&self, object: &ObjectId) -> Option<Fence> {
        match self.objects.get(object) {
            Some(Entry::Live(live)) => {
                let (nonce, _) = live.owner.as_ref()?;
                Some(Fence { epoch: live.epoch, nonce: *nonce })
            }
            _ => None,
        }
    }

    /// Every write but a claim answers `Fenced` on what is absent or dead.
    fn live(&mut self, object: &ObjectId) -> Result<&mut Live> {
        match self.objects.get_mut(object) {
            Some(Entry::Live(live)) => Ok(live),
            _ => Err(Error::Fenced),
        }
    }

    fn has(&self, object: &ObjectId, blob: BlobId) -> bool {
        self.blobs.contains_key(&(object.clone(), blob))
    }

    /// Moves "now" and lets go of what has ended by it.
    fn tick(&mut self, now: Millis) {
        self.now = self.now.max(now);
        let now = self.now;
        self.blobs.retain(|_, blob| blob.expires.is_none_or(|expires| expires > now));
        self.objects.retain(|_, entry| match entry {
            Entry::Live(_) => true,
            Entry::Dead { until, .. } => *until > now,
        });
    }
}
