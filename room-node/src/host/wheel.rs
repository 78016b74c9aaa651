//! Timers of stubs: ticks of 100 ms in order, eight bytes an entry.
//!
//! A stub has one valid entry, whose tick it remembers; an entry of another tick is stale and is
//! dropped when it comes up. A due time that moves later is noticed then, so that polls which
//! renew a lease leave the timers alone.

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;

use crate::clock::{Clock, Mono};
use crate::front::stub::NameHash;

/// Milliseconds of one tick.
const TICK_MS: u64 = 100;
/// Entries taken in one go, so that the lock is never held long.
pub(super) const TAKE_MAX: usize = 1_024;

#[derive(Debug, Default)]
pub(crate) struct Wheel {
    /// Bounded by the stubs, and by how often objects fall asleep before their last entry comes up.
    ticks: Mutex<BTreeMap<u32, Vec<NameHash>>>,
    earlier: Notify,
}

impl Wheel {
    /// The first tick at or after a moment.
    pub(crate) fn tick(at: Mono) -> u32 {
        u32::try_from(at.0.div_ceil(TICK_MS)).unwrap_or(u32::MAX)
    }

    /// Enters a timer.
    pub(crate) fn insert(&self, tick: u32, hash: NameHash) {
        let mut ticks = self.lock();
        let first = ticks.first_key_value().is_none_or(|(first, _)| tick < *first);
        ticks.entry(tick).or_default().push(hash);
        drop(ticks);
        if first {
            self.earlier.notify_one();
        }
    }

    /// Takes entries that are due, with their ticks.
    pub(crate) fn take(&self, now: Mono) -> Vec<(u32, NameHash)> {
        let mut due = Vec::new();
        let mut ticks = self.lock();
        while let Some(mut entry) = ticks.first_entry() {
            let tick = *entry.key();
            if u64::from(tick) * TICK_MS > now.0 || due.len() >= TAKE_MAX {
                break;
            }
            let room = TAKE_MAX - due.len();
            let hashes = entry.get_mut();
            let rest = hashes.split_off(room.min(hashes.len()));
            due.extend(std::mem::replace(hashes, rest).into_iter().map(|hash| (tick, hash)));
            if entry.get().is_empty() {
                entry.remove();
            }
        }
        due
    }

    /// Waits until the next entry is due.
    pub(crate) async fn next(&self, clock: &Clock) {
        loop {
            let first = self.lock().first_key_value().map(|(tick, _)| *tick);
            let Some(first) = first else {
                self.earlier.notified().await;
                continue;
            };
            let at = Mono(u64::from(first) * TICK_MS);
            tokio::select! {
                () = clock.sleep_until(at) => return,
                () = self.earlier.notified() => {}
            }
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<u32, Vec<NameHash>>> {
        self.ticks.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_come_in_order_and_in_bounded_portions() {
        let wheel = Wheel::default();
        for hash in 0..2_000 {
            wheel.insert(Wheel::tick(Mono(950)), hash);
        }
        wheel.insert(Wheel::tick(Mono(1_001)), 9_999);
        assert!(wheel.take(Mono(999)).is_empty());
        let first = wheel.take(Mono(1_000));
        let second = wheel.take(Mono(1_000));
        assert_eq!((first.len(), second.len()), (TAKE_MAX, 2_000 - TAKE_MAX));
        assert!(wheel.take(Mono(1_099)).is_empty());
        assert_eq!(wheel.take(Mono(1_100)), [(11, 9_999)]);
    }
}
