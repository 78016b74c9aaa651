//! The gateway's tier of the cadence (ours 8): a poll that its room's owner would refuse is
//! refused here, without touching node, room or store.
//!
//! Two rules, both per participant. The owner's last answer said when it admits the next poll;
//! until then this tier refuses. And a flood cell counts every attempt, refused ones too: four
//! per active period, in bursts of four times the owner's burst. A refusal names the larger of
//! the two remainders, so a caller that honours it is not refused again.
//!
//! Entries live in a table of fixed size and are exact (the whole participant id is compared): a
//! lost entry only means that the owner decides, never that a poll is refused wrongly.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::{Quota, RateLimiter};
use object::ParticipantId;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::clock::{Clock, Tick, ms_ceil, nanos};
use crate::config::Config;

/// Participants remembered at most; 48 bytes each.
pub const CADENCE_ENTRIES_MAX: usize = SHARDS * SETS_PER_SHARD * WAYS;
/// Attempts the flood cell admits per active period.
pub const FLOOD_PER_ACTIVE_PERIOD: u32 = 4;
/// The flood cell's burst, as a multiple of the owner's.
pub const FLOOD_BURST_FACTOR: u32 = 4;

const SHARDS: usize = 64;
const SETS_PER_SHARD: usize = 256;
const WAYS: usize = 4;

/// A poll that came too early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Until the next poll is admitted here, in milliseconds, rounded up; at least 1.
    pub retry_after_ms: u64,
}

/// The cadence as this gateway remembers it.
pub struct Cadence {
    table: Arc<Table>,
    flood: RateLimiter<u128, Flood, Clock, NoOpMiddleware<Tick>>,
    clock: Clock,
}

impl Cadence {
    /// Remembers nothing yet. `seed` must be random.
    #[must_use]
    pub fn new(config: &Config, clock: &Clock, seed: u64) -> Self {
        let table = Arc::new(Table::new(seed));
        let step = config.wait_active_period / FLOOD_PER_ACTIVE_PERIOD;
        let burst = config
            .wait_burst
            .saturating_mul(NonZeroU32::new(FLOOD_BURST_FACTOR).unwrap_or(NonZeroU32::MIN));
        // A period of nothing means no cadence at all: the smallest step there is.
        let quota = Quota::with_period(step.max(Duration::from_nanos(1)))
            .unwrap_or_else(|| Quota::per_second(NonZeroU32::MAX))
            .allow_burst(burst);
        let flood = RateLimiter::new(quota, Flood(Arc::clone(&table)), clock.clone());
        Self { table, flood, clock: clock.clone() }
    }

    /// Admits a poll or says how long to wait. Ask once per client call: a gateway's own repeats
    /// of an admitted poll are not asked again.
    pub fn admit(&self, participant: ParticipantId) -> Result<(), Refused> {
        let flood = self.flood.check_key(&participant.0);
        let now = self.clock.tick();
        let flooded = match flood {
            Ok(()) => 0,
            Err(not_until) => nanos(not_until.wait_time_from(now)).max(1),
        };
        let early = self.table.next_allowed(participant).map_or(0, |next| next.since(now));
        match ms_ceil(flooded.max(early)) {
            0 => Ok(()),
            retry_after_ms => Err(Refused { retry_after_ms }),
        }
    }

    /// Takes the owner's word: the next poll is admitted in so many milliseconds from now.
    pub fn remember(&self, participant: ParticipantId, next_wait_ms: u64) {
        let next = self.clock.tick().plus(Duration::from_millis(next_wait_ms));
        self.table.update(participant.0, |entry| entry.next_allowed = next);
    }

    /// Participants whose next poll is remembered, for the gauge; goes over the whole table.
    #[must_use]
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl fmt::Debug for Cadence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cadence").finish_non_exhaustive()
    }
}

/// One participant. All zero: unused.
#[derive(Clone, Copy, Default)]
struct Entry {
    participant: u128,
    next_allowed: Tick,
    /// The flood cell's theoretical arrival time since its limiter's start; 0 for fresh.
    flood: u64,
}

impl Entry {
    /// Which entry of a full set matters least: the one whose both rules lie farthest back.
    const fn worth(&self) -> u64 {
        if self.next_allowed.0 > self.flood { self.next_allowed.0 } else { self.flood }
    }
}

type Set = [Entry; WAYS];

struct Table {
    shards: Box<[Mutex<Box<[Set]>>]>,
    seed: u64,
}

impl Table {
    fn new(seed: u64) -> Self {
        let shard = |_| Mutex::new(vec![Set::default(); SETS_PER_SHARD].into_boxed_slice());
        Self { shards: (0..SHARDS).map(shard).collect(), seed }
    }

    fn next_allowed(&self, participant: ParticipantId) -> Option<Tick> {
        self.with_set(participant.0, |set| {
            set.iter()
                .find(|entry| entry.participant == participant.0)
                .map(|entry| entry.next_allowed)
        })
        .flatten()
    }

    /// Changes a participant's entry, making one in place of the least worth one.
    fn update<T>(&self, participant: u128, change: impl FnOnce(&mut Entry) -> T) -> Option<T> {
        self.with_set(participant, |set| {
            let known = set.iter().position(|entry| entry.participant == participant);
            let entry = match known {
                Some(way) => set.get_mut(way)?,
                None => {
                    let entry = set.iter_mut().min_by_key(|entry| entry.worth())?;
                    *entry = Entry { participant, ..Entry::default() };
                    entry
                }
            };
            Some(change(entry))
        })
        .flatten()
    }

    fn with_set<T>(&self, participant: u128, work: impl FnOnce(&mut Set) -> T) -> Option<T> {
        let hash = xxh3_64_with_seed(&participant.to_be_bytes(), self.seed);
        let shard = usize::try_from(hash % SHARDS as u64).ok()?;
        let set = usize::try_from((hash / SHARDS as u64) % SETS_PER_SHARD as u64).ok()?;
        let mut sets = self.shards.get(shard)?.lock().unwrap_or_else(PoisonError::into_inner);
        sets.get_mut(set).map(work)
    }

    fn len(&self) -> usize {
        let used = |shard: &Mutex<Box<[Set]>>| {
            let sets = shard.lock().unwrap_or_else(PoisonError::into_inner);
            sets.iter().flatten().filter(|entry| entry.participant != 0).count()
        };
        self.shards.iter().map(used).sum()
    }
}

/// The flood cells: a view of the table that the limiter writes to.
struct Flood(Arc<Table>);

impl StateStore for Flood {
    type Key = u128;

    fn measure_and_replace<T, F, E>(&self, key: &u128, f: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let decide = |entry: &mut Entry| {
            let (outcome, next) = f((entry.flood != 0).then(|| Nanos::from(entry.flood)))?;
            entry.flood = next.as_u64();
            Ok(outcome)
        };
        // Without an entry (which cannot be) the attempt counts as a first one.
        self.0.update(*key, decide).unwrap_or_else(|| f(None).map(|(outcome, _)| outcome))
    }
}

#[cfg(test)]
mod tests;
