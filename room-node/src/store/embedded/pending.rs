//! Uploads that no append has kept yet: a bounded index in memory, rebuilt never, since they are
//! dropped when the store is opened.

use std::collections::{BTreeSet, HashMap};

use object::Millis;

use super::super::{Error, Result};

/// Uploads waiting to be kept, over all objects.
pub(super) const PENDING_BLOBS_MAX: usize = 4_096;
/// Their bytes.
pub(super) const PENDING_BYTES_MAX: usize = 256 * 1024 * 1024;

/// At most [`PENDING_BLOBS_MAX`] uploads of [`PENDING_BYTES_MAX`].
#[derive(Debug, Default)]
pub(super) struct Pending {
    blobs: HashMap<Vec<u8>, (Millis, usize)>,
    by_time: BTreeSet<(Millis, Vec<u8>)>,
    bytes: usize,
}

impl Pending {
    /// Whether this upload is waiting, and if so, whether it has not expired.
    pub(super) fn find(&self, key: &[u8], now: Millis) -> Option<bool> {
        self.blobs.get(key).map(|(expires, _)| *expires > now)
    }

    /// Takes an upload in, replacing one under the same key.
    pub(super) fn add(&mut self, key: Vec<u8>, expires: Millis, len: usize) -> Result<()> {
        let replaced = self.blobs.get(&key).map(|(_, len)| *len);
        if replaced.is_none() && self.blobs.len() >= PENDING_BLOBS_MAX {
            return Err(Error::Full { what: "too many uploads are waiting" });
        }
        let others = self.bytes.saturating_sub(replaced.unwrap_or(0));
        if others.saturating_add(len) > PENDING_BYTES_MAX {
            return Err(Error::Full { what: "too many bytes of uploads are waiting" });
        }
        self.remove(&key);
        self.bytes += len;
        self.by_time.insert((expires, key.clone()));
        self.blobs.insert(key, (expires, len));
        Ok(())
    }

    pub(super) fn remove(&mut self, key: &[u8]) -> bool {
        let Some((key, (expires, len))) = self.blobs.remove_entry(key) else { return false };
        self.bytes = self.bytes.saturating_sub(len);
        self.by_time.remove(&(expires, key));
        true
    }

    /// Takes out one upload that has expired.
    pub(super) fn pop_expired(&mut self, now: Millis) -> Option<Vec<u8>> {
        let (expires, key) = self.by_time.first()?;
        if *expires > now {
            return None;
        }
        let key = key.clone();
        self.remove(&key);
        Some(key)
    }

    pub(super) fn len(&self) -> usize {
        self.blobs.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}
