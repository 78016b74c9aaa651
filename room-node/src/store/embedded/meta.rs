//! The record of one object, its rules, and the bounded cache of records.

use std::collections::HashMap;

use object::{Millis, ObjectId, ParticipantId};

use super::super::{Error, Fence, Incarnation, Result};
use super::record::Entry;

/// Records kept in memory at most; the least recently used half is let go at once.
pub(super) const METAS_CACHED_MAX: usize = 32_768;
/// Batch ids kept per object for duplicate detection.
const BATCHES_KEPT: usize = 2;

#[derive(Clone, Debug)]
pub(super) struct Meta {
    pub(super) epoch: u64,
    pub(super) owner: Option<(u64, Incarnation)>,
    /// The nonce under which the object was released or destroyed.
    pub(super) ended: Option<u64>,
    /// The nonce of the claim that started this generation.
    pub(super) created: u64,
    pub(super) lsn: u64,
    pub(super) snapshot_lsn: u64,
    /// Ordered by participant.
    /// Bounded by the object's participants.
    pub(super) leases: Vec<(ParticipantId, Millis)>,
    pub(super) due: Option<Millis>,
    pub(super) written: Millis,
    /// Newest last.
    /// Bounded by [`BATCHES_KEPT`].
    pub(super) batches: Vec<u128>,
    /// Set when the object is destroyed: it refuses everything until then.
    pub(super) dead_until: Option<Millis>,
}

impl Meta {
    /// A new generation, not owned yet.
    pub(super) fn new(epoch: u64, nonce: u64, now: Millis) -> Self {
        Self {
            epoch,
            owner: None,
            ended: None,
            created: nonce,
            lsn: 0,
            snapshot_lsn: 0,
            leases: Vec::new(),
            due: None,
            written: now,
            batches: Vec::new(),
            dead_until: None,
        }
    }

    /// What a destroyed object leaves behind.
    pub(super) fn dead(epoch: u64, ended: u64, until: Millis) -> Self {
        let mut mark = Self::new(epoch, 0, Millis(0));
        mark.ended = Some(ended);
        mark.dead_until = Some(until);
        mark
    }

    /// Whether the object lives and is owned under exactly this fence.
    pub(super) fn check(&self, fence: Fence) -> Result<()> {
        match &self.owner {
            Some((nonce, _))
                if self.dead_until.is_none()
                    && self.epoch == fence.epoch
                    && *nonce == fence.nonce =>
            {
                Ok(())
            }
            _ => Err(Error::Fenced),
        }
    }

    pub(super) fn own(&mut self, nonce: u64, owner: Incarnation) {
        self.epoch += 1;
        self.owner = Some((nonce, owner));
        self.ended = None;
    }

    /// Raises lease ends, never lowers one.
    pub(super) fn raise(&mut self, leases: &[(ParticipantId, Millis)]) {
        for (who, end) in leases {
            match self.leases.binary_search_by_key(who, |(stored, _)| *stored) {
                Ok(at) => {
                    if let Some((_, stored)) = self.leases.get_mut(at) {
                        *stored = (*stored).max(*end);
                    }
                }
                Err(at) => self.leases.insert(at, (*who, *end)),
            }
        }
    }

    /// Takes in one log entry: what an append does to the record.
    pub(super) fn fold(&mut self, entry: &Entry) {
        self.raise(&entry.raised);
        self.leases.retain(|(who, _)| !entry.dropped.contains(who));
        self.due = entry.due;
        self.lsn = entry.frame.last_lsn();
        self.written = entry.now;
        self.batches.push(entry.frame.batch);
        if self.batches.len() > BATCHES_KEPT {
            self.batches.remove(0);
        }
    }
}

/// Two generations of records: a hit in the old one moves it to the young one; when the young one
/// is full, the old one is let go and the young one grows old.
///
/// At most [`METAS_CACHED_MAX`] records in both.
#[derive(Debug, Default)]
pub(super) struct Cache {
    young: HashMap<ObjectId, Meta>,
    old: HashMap<ObjectId, Meta>,
}

impl Cache {
    pub(super) fn get(&mut self, object: &ObjectId) -> Option<&mut Meta> {
        if let Some(meta) = self.old.remove(object) {
            self.young.insert(object.clone(), meta);
        }
        self.young.get_mut(object)
    }

    pub(super) fn put(&mut self, object: ObjectId, meta: Meta) {
        self.old.remove(&object);
        self.young.insert(object, meta);
    }

    pub(super) fn remove(&mut self, object: &ObjectId) {
        self.young.remove(object);
        self.old.remove(object);
    }

    /// Called between commits only: what a running commit has changed must stay.
    pub(super) fn age(&mut self) {
        if self.young.len() > METAS_CACHED_MAX / 2 {
            self.old = std::mem::take(&mut self.young);
        }
    }

    pub(super) fn len(&self) -> usize {
        self.young.len() + self.old.len()
    }
}
