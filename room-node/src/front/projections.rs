//! Roster projections of sleeping objects, kept once per content.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[derive(Debug)]
struct Kept {
    bytes: Arc<[u8]>,
    users: u32,
}

/// Bounded by the stubs (`stubs_max`): each uses at most one projection.
#[derive(Debug, Default)]
struct Table {
    kept: Vec<Option<Kept>>,
    free: Vec<u32>,
    by_hash: HashMap<u128, u32>,
    bytes: usize,
}

/// All projections of a host; bounded by the number of stubs, each of which uses one.
#[derive(Debug, Default)]
pub(crate) struct Projections {
    table: Mutex<Table>,
}

impl Projections {
    /// Keeps a projection for one more user and returns its number.
    pub(crate) fn keep(&self, bytes: &Arc<[u8]>) -> u32 {
        let hash = xxhash_rust::xxh3::xxh3_128(bytes);
        let mut table = self.lock();
        if let Some(number) = table.by_hash.get(&hash).copied()
            && let Some(Some(kept)) = table.kept.get_mut(number as usize)
        {
            kept.users += 1;
            return number;
        }
        table.bytes += bytes.len();
        let kept = Some(Kept { bytes: Arc::clone(bytes), users: 1 });
        let number = match table.free.pop() {
            Some(number) => {
                if let Some(slot) = table.kept.get_mut(number as usize) {
                    *slot = kept;
                }
                number
            }
            None => {
                table.kept.push(kept);
                u32::try_from(table.kept.len() - 1).unwrap_or(u32::MAX)
            }
        };
        table.by_hash.insert(hash, number);
        number
    }

    /// Reads a projection.
    pub(crate) fn get(&self, number: u32) -> Option<Arc<[u8]>> {
        let table = self.lock();
        let kept = table.kept.get(number as usize)?.as_ref()?;
        Some(Arc::clone(&kept.bytes))
    }

    /// Gives one use up; the last one frees the projection.
    pub(crate) fn leave(&self, number: u32) {
        let mut table = self.lock();
        let Some(slot) = table.kept.get_mut(number as usize) else { return };
        let Some(kept) = slot else { return };
        kept.users -= 1;
        if kept.users > 0 {
            return;
        }
        let bytes = Arc::clone(&kept.bytes);
        *slot = None;
        table.free.push(number);
        table.bytes -= bytes.len();
        table.by_hash.remove(&xxhash_rust::xxh3::xxh3_128(&bytes));
    }

    /// Bytes of all projections.
    pub(crate) fn bytes(&self) -> usize {
        self.lock().bytes
    }

    fn lock(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_projections_are_one_and_go_with_their_last_user() {
        let all = Projections::default();
        let roster: Arc<[u8]> = Arc::from(&b"roster"[..]);
        let other: Arc<[u8]> = Arc::from(&b"other"[..]);
        let (a, b, c) = (all.keep(&roster), all.keep(&roster), all.keep(&other));
        assert!(a == b && a != c);
        assert_eq!(all.bytes(), 11);
        all.leave(a);
        assert_eq!(all.get(b).as_deref(), Some(&b"roster"[..]));
        all.leave(b);
        assert_eq!((all.get(b), all.bytes()), (None, 5));
        assert_eq!(all.keep(&roster), a);
    }
}
