//! The only place of the gateway that reads time.
//!
//! Deadlines use [`Instant`]; admission uses [`Tick`], nanoseconds since the process started its
//! clock, so that limiters keep one word per cell.

use std::ops::Add;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use governor::clock::Reference;
use governor::nanos::Nanos;

/// The instant of deadlines: tokio's, so that a paused test clock moves it too.
pub type Instant = tokio::time::Instant;

/// Nanoseconds since the clock was made. Starts at one second, so that no tick a running gateway
/// sees is near zero.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Tick(pub u64);

const TICK_START: u64 = 1_000_000_000;

impl Tick {
    /// This tick plus a duration; saturates.
    #[must_use]
    pub fn plus(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(nanos(duration)))
    }

    /// Nanoseconds from `earlier` to this tick; 0 if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

impl Add<Nanos> for Tick {
    type Output = Self;

    fn add(self, other: Nanos) -> Self {
        Self(self.0.saturating_add(other.as_u64()))
    }
}

impl Reference for Tick {
    fn duration_since(&self, earlier: Self) -> Nanos {
        Nanos::from(self.since(earlier))
    }

    fn saturating_sub(&self, duration: Nanos) -> Self {
        Self(self.0.checked_sub(duration.as_u64()).unwrap_or(self.0))
    }
}

/// A duration in nanoseconds; saturates after 584 years.
#[must_use]
pub fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// Nanoseconds as milliseconds, rounded up.
#[must_use]
pub const fn ms_ceil(nanos: u64) -> u64 {
    nanos.div_ceil(1_000_000)
}

/// A source of ticks: the machine's monotonic clock, or a hand that a test turns.
#[derive(Clone, Debug)]
pub struct Clock(Source);

#[derive(Clone, Debug)]
enum Source {
    Machine(std::time::Instant),
    Hand(Arc<AtomicU64>),
}

impl Clock {
    /// The machine's monotonic clock.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "the one place that reads the monotonic clock")]
    pub fn machine() -> Self {
        Self(Source::Machine(std::time::Instant::now()))
    }

    /// A clock that stands still until [`Clock::advance`] moves it.
    #[must_use]
    pub fn hand() -> Self {
        Self(Source::Hand(Arc::new(AtomicU64::new(TICK_START))))
    }

    /// Moves a hand clock; the machine's clock cannot be moved and stays as it is.
    pub fn advance(&self, by: Duration) {
        match &self.0 {
            Source::Machine(_) => {}
            Source::Hand(at) => {
                at.fetch_add(nanos(by), Ordering::Relaxed);
            }
        }
    }

    /// The present tick.
    #[must_use]
    pub fn tick(&self) -> Tick {
        match &self.0 {
            Source::Machine(start) => Tick(TICK_START.saturating_add(nanos(start.elapsed()))),
            Source::Hand(at) => Tick(at.load(Ordering::Relaxed)),
        }
    }
}

impl governor::clock::Clock for Clock {
    type Instant = Tick;

    fn now(&self) -> Tick {
        self.tick()
    }
}

/// The present instant, for deadlines.
#[must_use]
#[expect(clippy::disallowed_methods, reason = "the one place that reads the time of deadlines")]
pub fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hand_clock_moves_only_by_hand() {
        let clock = Clock::hand();
        let start = clock.tick();
        assert_eq!(clock.tick(), start);
        clock.advance(Duration::from_millis(3));
        assert_eq!(clock.tick().since(start), 3_000_000);
        assert_eq!(start.since(clock.tick()), 0);
        assert_eq!(clock.tick(), start.plus(Duration::from_millis(3)));
    }

    #[test]
    fn milliseconds_round_up() {
        for (nanos, ms) in [(0, 0), (1, 1), (1_000_000, 1), (1_000_001, 2)] {
            assert_eq!(ms_ceil(nanos), ms, "{nanos}");
        }
    }
}
