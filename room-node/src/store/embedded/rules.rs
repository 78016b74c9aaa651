//! The rules of the store over cached records: checks first, then changes that cannot fail.

use bytes::Bytes;
use object::{BlobId, Millis, ObjectId, ParticipantId};

use super::super::sealed;
use super::super::{
    Append, Appended, BLOB_BYTES_MAX, ClaimRequest, Claimed, DEAD_MARK_MS, Error, FRAME_BYTES_MAX,
    Fence, Frame, Result, SNAPSHOT_BYTES_MAX, Snapshot,
};
use super::disk::Table;
use super::meta::Meta;
use super::record::{self, Entry};
use super::writer::{Writer, mark_key};

/// Entries of the due index looked through for an object whose record cannot be read.
pub(super) const QUARANTINE_SCAN_MAX: usize = 65_536;

impl Writer {
    pub(super) fn claim(&mut self, request: &ClaimRequest, now: Millis) -> Result<Claimed> {
        self.shared.tick(now);
        let object = &request.object;
        let meta = match self.load(object) {
            Ok(meta) => meta,
            Err(error) => return Err(self.quarantine(object, error)),
        };
        let mut meta = match meta.filter(|meta| meta.dead_until.is_none()) {
            Some(meta) => meta,
            None => {
                if !request.may_create {
                    return Err(Error::Absent);
                }
                self.new_generation(object, request.nonce, now)?
            }
        };
        if let Some((nonce, owner)) = &meta.owner {
            if *nonce == request.nonce && *owner == request.me {
                return self.claimed(object, &meta, request.nonce);
            }
            let fence = Fence { epoch: meta.epoch, nonce: *nonce };
            if request.observed != Some(fence) {
                return Err(Error::Owned { fence, owner: owner.clone() });
            }
        }
        let before = meta.clone();
        meta.own(request.nonce, request.me.clone());
        let claimed = match self.claimed(object, &meta, request.nonce) {
            Ok(claimed) => claimed,
            Err(error) => {
                self.cache.put(object.clone(), before);
                return Err(self.quarantine(object, error));
            }
        };
        self.store(object, meta);
        Ok(claimed)
    }

    pub(super) fn refence(
        &mut self,
        object: &ObjectId,
        old: Fence,
        nonce: u64,
        now: Millis,
    ) -> Result<Claimed> {
        self.shared.tick(now);
        let mut meta = self.load(object)?.ok_or(Error::Fenced)?;
        let Some((stored, owner)) = meta.owner.clone() else { return Err(Error::Fenced) };
        if stored == nonce && meta.epoch == old.epoch.saturating_add(1) {
            return self.claimed(object, &meta, nonce);
        }
        meta.check(old)?;
        meta.own(nonce, owner);
        let claimed = self.claimed(object, &meta, nonce)?;
        self.store(object, meta);
        Ok(claimed)
    }

    pub(super) fn check(&mut self, object: &ObjectId, fence: Fence) -> Result<()> {
        self.live(object, fence).map(|_| ())
    }

    pub(super) fn append(&mut self, append: Append) -> Result<Appended> {
        self.shared.tick(append.now);
        let object = &append.object;
        let meta = self.live(object, append.fence)?;
        if meta.lsn > append.expect_lsn && meta.batches.contains(&append.frame.batch) {
            return Ok(Appended::Duplicate);
        }
        if meta.lsn != append.expect_lsn || append.frame.first_lsn != append.expect_lsn + 1 {
            return Err(Error::Lsn { actual: meta.lsn });
        }
        check_frame(&append.frame)?;
        for blob in &append.keep_blobs {
            if !self.has_blob(object, *blob)? {
                return Err(Error::BlobMissing { blob: *blob });
            }
        }

        for blob in &append.keep_blobs {
            let key = record::blob_key(object, *blob);
            if self.pending.remove(&key) {
                self.changes.delete(Table::Mark, mark_key(b'p', &key));
            }
        }
        for blob in &append.drop_blobs {
            let key = record::blob_key(object, *blob);
            if self.pending.remove(&key) {
                self.changes.delete(Table::Mark, mark_key(b'p', &key));
            }
            self.changes.delete(Table::Blob, key);
        }
        let entry = Entry {
            frame: append.frame,
            now: append.now,
            due: append.due,
            raised: append.leases,
            dropped: append.drop_leases,
        };
        let key = record::frame_key(object, entry.frame.last_lsn());
        self.changes.put(Table::Log, key, entry.encode());
        if let Some(meta) = self.cache.get(object) {
            let before = meta.due;
            meta.fold(&entry);
            self.move_due(object, before, entry.due);
        }
        self.touched.insert(append.object);
        Ok(Appended::Stored)
    }

    pub(super) fn lease(
        &mut self,
        object: &ObjectId,
        fence: Fence,
        leases: &[(ParticipantId, Millis)],
        due: Option<Millis>,
    ) -> Result<()> {
        let mut meta = self.live(object, fence)?.clone();
        meta.raise(leases);
        self.move_due(object, meta.due, due);
        meta.due = due;
        self.store(object, meta);
        Ok(())
    }

    pub(super) fn snapshot(
        &mut self,
        object: &ObjectId,
        fence: Fence,
        snapshot: &Snapshot,
    ) -> Result<()> {
        let mut meta = self.live(object, fence)?.clone();
        if snapshot.bytes.len() > SNAPSHOT_BYTES_MAX {
            return Err(Error::Full { what: "a snapshot over the largest size" });
        }
        if snapshot.lsn < meta.snapshot_lsn {
            // A late repeat: the log behind the newer snapshot is gone, so it must stay.
            return Ok(());
        }
        if snapshot.lsn == 0 {
            return Err(Error::Lsn { actual: meta.lsn });
        }
        let last = record::frame_key(object, snapshot.lsn);
        self.settle(object);
        if snapshot.lsn != meta.snapshot_lsn && !self.disk.contains(Table::Log, &last)? {
            return Err(Error::Lsn { actual: meta.lsn });
        }
        let first = record::frame_key(object, meta.snapshot_lsn);
        for key in self.disk.keys(Table::Log, first..=last, usize::MAX)? {
            self.changes.delete(Table::Log, key);
        }
        let key = record::object_key(object);
        self.changes.put(Table::Snapshot, key, sealed::encode_snapshot(snapshot));
        meta.snapshot_lsn = snapshot.lsn;
        self.store(object, meta);
        Ok(())
    }

    pub(super) fn release(&mut self, object: &ObjectId, fence: Fence) -> Result<()> {
        let meta = self.load(object)?.ok_or(Error::Fenced)?;
        let repeat = meta.owner.is_none() && meta.dead_until.is_none();
        if repeat && meta.epoch == fence.epoch && meta.ended == Some(fence.nonce) {
            return Ok(());
        }
        meta.check(fence)?;
        let mut meta = meta;
        meta.owner = None;
        meta.ended = Some(fence.nonce);
        self.store(object, meta);
        Ok(())
    }

    pub(super) fn destroy(
        &mut self,
        object: &ObjectId,
        fence: Fence,
        lsn: u64,
        now: Millis,
    ) -> Result<()> {
        self.shared.tick(now);
        let meta = self.load(object)?.ok_or(Error::Fenced)?;
        if meta.dead_until.is_some()
            && meta.epoch == fence.epoch.saturating_add(1)
            && meta.ended == Some(fence.nonce)
        {
            return Ok(());
        }
        meta.check(fence)?;
        if meta.lsn != lsn {
            return Err(Error::Lsn { actual: meta.lsn });
        }
        self.settle(object);
        let key = record::object_key(object);
        let last = record::frame_key(object, u64::MAX);
        for frame in self.disk.keys(Table::Log, key.clone()..=last, usize::MAX)? {
            self.changes.delete(Table::Log, frame);
        }
        let last = record::blob_key(object, BlobId(u128::MAX));
        for blob in self.disk.keys(Table::Blob, key.clone()..=last, usize::MAX)? {
            if self.pending.find(&blob, Millis(0)).is_none() {
                self.changes.delete(Table::Blob, blob);
            }
        }
        self.changes.delete(Table::Snapshot, key);
        self.move_due(object, meta.due, None);
        let until = now.plus(DEAD_MARK_MS);
        let mark = mark_key(b'd', &record::time_key(until, object));
        self.changes.put(Table::Mark, mark, Bytes::new());
        self.dead_first = Some(self.dead_first.map_or(until, |first| first.min(until)));
        self.store(object, Meta::dead(meta.epoch + 1, fence.nonce, until));
        Ok(())
    }

    pub(super) fn set_due(
        &mut self,
        object: &ObjectId,
        fence: Fence,
        due: Option<Millis>,
    ) -> Result<()> {
        self.lease(object, fence, &[], due)
    }

    pub(super) fn put_blob(
        &mut self,
        object: &ObjectId,
        blob: BlobId,
        bytes: &Bytes,
        expires: Millis,
    ) -> Result<()> {
        if bytes.len() > BLOB_BYTES_MAX {
            return Err(Error::Full { what: "a blob over the largest size" });
        }
        let key = record::blob_key(object, blob);
        if self.pending.find(&key, Millis(0)).is_none() && self.stored(Table::Blob, &key)? {
            // Kept already: a repeat of its upload changes nothing.
            return Ok(());
        }
        self.pending.add(key.clone(), expires, bytes.len())?;
        let expires = Bytes::copy_from_slice(&expires.0.to_be_bytes());
        self.changes.put(Table::Mark, mark_key(b'p', &key), expires);
        self.changes.put(Table::Blob, key, sealed::seal(bytes));
        self.touched.insert(object.clone());
        Ok(())
    }

    /// The record of an object: from memory, or from the disk with the log folded in.
    fn load(&mut self, object: &ObjectId) -> Result<Option<Meta>> {
        Ok(self.look(object)?.map(|meta| meta.clone()))
    }

    fn look(&mut self, object: &ObjectId) -> Result<Option<&mut Meta>> {
        if self.cache.get(object).is_none() {
            let Some(meta) = self.read_meta(object)? else { return Ok(None) };
            self.cache.put(object.clone(), meta);
        }
        let now = self.shared.now();
        let gone = |meta: &Meta| meta.dead_until.is_some_and(|until| until <= now);
        Ok(self.cache.get(object).filter(|meta| !gone(meta)))
    }

    fn read_meta(&mut self, object: &ObjectId) -> Result<Option<Meta>> {
        let key = record::object_key(object);
        let Some(bytes) = self.disk.get(Table::Meta, &key)? else { return Ok(None) };
        let mut meta = record::decode_meta(bytes)?;
        if meta.dead_until.is_none() {
            let first = record::frame_key(object, meta.lsn.saturating_add(1));
            let last = record::frame_key(object, u64::MAX);
            for value in self.disk.values(Table::Log, first..=last)? {
                let entry = Entry::decode(value)?;
                if entry.frame.first_lsn != meta.lsn + 1 {
                    return Err(Error::Damaged { what: "a log with a hole" });
                }
                meta.fold(&entry);
            }
        }
        Ok(Some(meta))
    }

    fn live(&mut self, object: &ObjectId, fence: Fence) -> Result<&mut Meta> {
        let meta = self.look(object)?.ok_or(Error::Fenced)?;
        meta.check(fence)?;
        Ok(meta)
    }

    /// A record for a generation that starts now, at the epoch after that of a dead mark.
    fn new_generation(&mut self, object: &ObjectId, nonce: u64, now: Millis) -> Result<Meta> {
        let dead = self.load(object)?;
        let epoch = dead.as_ref().map_or(0, |dead| dead.epoch);
        if let Some(until) = dead.and_then(|dead| dead.dead_until) {
            let mark = mark_key(b'd', &record::time_key(until, object));
            self.changes.delete(Table::Mark, mark);
        }
        Ok(Meta::new(epoch, nonce, now))
    }

    /// What a claim returns: snapshot and tail, each verified.
    fn claimed(&mut self, object: &ObjectId, meta: &Meta, nonce: u64) -> Result<Claimed> {
        self.settle(object);
        let mut snapshot = None;
        if meta.snapshot_lsn > 0 {
            let key = record::object_key(object);
            let stored = self.disk.get(Table::Snapshot, &key)?;
            let stored = stored.ok_or(Error::Damaged { what: "a snapshot is missing" })?;
            snapshot = Some(sealed::decode_snapshot(stored)?);
        }
        let mut at = snapshot.as_ref().map_or(0, |snapshot| snapshot.lsn);
        if at != meta.snapshot_lsn {
            return Err(Error::Damaged { what: "a snapshot of another position" });
        }
        let mut tail = Vec::new();
        if meta.lsn > at {
            let first = record::frame_key(object, at + 1);
            let last = record::frame_key(object, u64::MAX);
            for value in self.disk.values(Table::Log, first..=last)? {
                let frame = Entry::decode(value)?.frame;
                if frame.first_lsn != at + 1 {
                    return Err(Error::Damaged { what: "a log with a hole" });
                }
                at = frame.last_lsn();
                tail.push(frame);
            }
        }
        if at != meta.lsn {
            return Err(Error::Damaged { what: "a log that ends too early" });
        }
        let schemas = tail.iter().map(|frame| frame.schema);
        let found = schemas.chain(snapshot.iter().map(|snapshot| snapshot.schema)).max();
        if let Some(found) = found.filter(|found| *found > self.schema_max) {
            return Err(Error::Newer { found });
        }
        Ok(Claimed {
            fence: Fence { epoch: meta.epoch, nonce },
            lsn: meta.lsn,
            snapshot,
            tail,
            leases: meta.leases.clone(),
            due: meta.due,
            written: meta.written,
            created: meta.created == nonce,
        })
    }

    /// Writes the record of an object.
    fn store(&mut self, object: &ObjectId, meta: Meta) {
        let key = record::object_key(object);
        self.changes.put(Table::Meta, key, record::encode_meta(&meta));
        self.cache.put(object.clone(), meta);
        self.touched.insert(object.clone());
    }

    fn move_due(&mut self, object: &ObjectId, from: Option<Millis>, to: Option<Millis>) {
        if from == to {
            return;
        }
        if let Some(from) = from {
            self.changes.delete(Table::Due, record::time_key(from, object));
        }
        if let Some(to) = to {
            self.changes.put(Table::Due, record::time_key(to, object), Bytes::new());
        }
    }

    fn has_blob(&self, object: &ObjectId, blob: BlobId) -> Result<bool> {
        let key = record::blob_key(object, blob);
        if let Some(unexpired) = self.pending.find(&key, self.shared.now()) {
            return Ok(unexpired);
        }
        self.stored(Table::Blob, &key)
    }

    /// Whether a key is there, the changes of the running commit included.
    fn stored(&self, table: Table, key: &[u8]) -> Result<bool> {
        match self.changes.find(table, key) {
            Some(stored) => Ok(stored),
            None => self.disk.contains(table, key),
        }
    }

    /// Nobody can own a damaged object, so nobody else could take it off the due index.
    fn quarantine(&mut self, object: &ObjectId, error: Error) -> Error {
        if !matches!(error, Error::Damaged { .. }) {
            return error;
        }
        tracing::error!(%error, "an object is damaged and stays closed");
        self.settle(object);
        if let Some(mut meta) = self.cache.get(object).cloned() {
            self.move_due(object, meta.due, None);
            meta.due = None;
            self.store(object, meta);
        } else if let Ok(keys) = self.disk.keys(Table::Due, .., self.quarantine_scan_max) {
            // An entry behind them stays: the scan meets it, and its object is set aside again.
            if keys.len() >= self.quarantine_scan_max {
                self.shared.bound_hit("quarantine_scan_max");
            }
            let of = |key: &Vec<u8>| {
                record::parse_time_key(key).is_some_and(|(_, found)| found == *object)
            };
            for key in keys.into_iter().filter(of) {
                self.changes.delete(Table::Due, key);
            }
        }
        error
    }
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
