//! The guard: how many calls an address or a handle may make a minute (ours 19).
//!
//! Three fixed tables of cells, one per budget, indexed by a keyed hash: bounded by construction
//! however many addresses appear. Two keys may share a cell; the key of the hash is random per
//! process, so nobody can choose whom to share with.

use std::fmt;
use std::num::NonZeroU32;
use std::sync::atomic::{AtomicU64, Ordering};

use governor::middleware::NoOpMiddleware;
use governor::nanos::Nanos;
use governor::state::StateStore;
use governor::state::keyed::ShrinkableKeyedStateStore;
use governor::{Quota, RateLimiter};
use object::ParticipantId;
use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::client_addr::ClientAddr;
use crate::clock::{Clock, Tick, ms_ceil, nanos};
use crate::config::Config;

/// Cells of each table.
pub const GUARD_CELLS: usize = 65_536;

/// Whom a call is charged to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Payer {
    Address(ClientAddr),
    Handle(ParticipantId),
}

/// A call over its payer's budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refused {
    /// Until the very same call fits, in milliseconds, rounded up.
    pub retry_after_ms: u64,
}

/// The three budgets of one gateway process.
pub struct Guard {
    join: Limiter,
    info: Limiter,
    call: Limiter,
    clock: Clock,
    seed: u64,
}

struct Limiter {
    cells: RateLimiter<u64, Cells, Clock, NoOpMiddleware<Tick>>,
    /// The budget of a minute; also the largest weight, or a heavy call could never pass.
    per_minute: NonZeroU32,
}

impl Guard {
    /// Full budgets for everybody. `seed` must be random and secret.
    #[must_use]
    pub fn new(config: &Config, clock: &Clock, seed: u64) -> Self {
        let limiter = |per_minute| Limiter {
            cells: RateLimiter::new(Quota::per_minute(per_minute), Cells::new(), clock.clone()),
            per_minute,
        };
        Self {
            join: limiter(config.guard_join_per_minute),
            info: limiter(config.guard_info_per_minute),
            call: limiter(config.guard_call_per_minute),
            clock: clock.clone(),
            seed,
        }
    }

    /// Charges a call to its payer, or refuses it and charges nothing.
    pub fn admit(&self, guard: object::Guard, payer: Payer) -> Result<(), Refused> {
        let (limiter, weight) = match guard {
            object::Guard::Join => (&self.join, 1),
            object::Guard::Info => (&self.info, 1),
            object::Guard::Call(weight) => (&self.call, weight),
        };
        let weight = NonZeroU32::new(weight).unwrap_or(NonZeroU32::MIN).min(limiter.per_minute);
        match limiter.cells.check_key_n(&self.key(payer), weight) {
            Ok(Ok(())) => Ok(()),
            Ok(Err(not_until)) => {
                let wait = not_until.wait_time_from(self.clock.tick());
                Err(Refused { retry_after_ms: ms_ceil(nanos(wait)).max(1) })
            }
            // Cannot be: the weight is at most the burst. A refusal is the safe side.
            Err(_too_heavy) => Err(Refused { retry_after_ms: 60_000 }),
        }
    }

    /// Cells of all tables whose payers have not got their whole budget back yet. Walks the
    /// tables: for the gauge.
    #[must_use]
    pub fn used_cells(&self) -> usize {
        let tables = [&self.join, &self.info, &self.call];
        let used = tables.into_iter().map(|limiter| {
            limiter.cells.retain_recent();
            limiter.cells.len()
        });
        used.sum()
    }

    fn key(&self, payer: Payer) -> u64 {
        let (tag, bits) = match payer {
            Payer::Address(address) => (0, address.bits()),
            Payer::Handle(participant) => (1, participant.0),
        };
        xxh3_64_with_seed(&bits.to_be_bytes(), self.seed ^ tag)
    }
}

impl fmt::Debug for Guard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Guard").finish_non_exhaustive()
    }
}

/// One word per cell: the limiter's theoretical arrival time, 0 for a fresh cell.
struct Cells(Box<[AtomicU64]>);

impl Cells {
    fn new() -> Self {
        Self((0..GUARD_CELLS).map(|_| AtomicU64::new(0)).collect())
    }
}

impl StateStore for Cells {
    type Key = u64;

    fn measure_and_replace<T, F, E>(&self, key: &u64, f: F) -> Result<T, E>
    where
        F: Fn(Option<Nanos>) -> Result<(T, Nanos), E>,
    {
        let index = usize::try_from(key % self.0.len() as u64).unwrap_or(0);
        let Some(cell) = self.0.get(index) else {
            // Cannot be: the index is a remainder of the length.
            return f(None).map(|(outcome, _)| outcome);
        };
        let mut seen = cell.load(Ordering::Acquire);
        loop {
            let (outcome, next) = f((seen != 0).then(|| Nanos::from(seen)))?;
            match cell.compare_exchange_weak(
                seen,
                next.as_u64(),
                Ordering::Release,
                Ordering::Acquire,
            ) {
                Ok(_) => return Ok(outcome),
                Err(other) => seen = other,
            }
        }
    }
}

/// A cell that is full again is as good as a fresh one.
impl ShrinkableKeyedStateStore<u64> for Cells {
    fn retain_recent(&self, drop_below: Nanos) {
        for cell in &self.0 {
            let seen = cell.load(Ordering::Acquire);
            if seen != 0 && seen < drop_below.as_u64() {
                // A cell that has been charged meanwhile stays.
                let _charged = cell.compare_exchange(seen, 0, Ordering::Release, Ordering::Relaxed);
            }
        }
    }

    fn len(&self) -> usize {
        self.0.iter().filter(|cell| cell.load(Ordering::Relaxed) != 0).count()
    }

    fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests;
