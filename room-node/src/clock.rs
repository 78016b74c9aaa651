//! Time: the only place of this crate that reads a clock.
//!
//! Wall time is what objects see and what is stored; monotonic time is what cadence, deadlines and
//! idleness are measured by, so that a step of the wall clock changes neither.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use object::Millis;
use tokio::time::Instant;

/// Milliseconds since this clock was made; never goes back.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Debug)]
pub struct Mono(pub u64);

impl Mono {
    /// This moment plus a number of milliseconds; saturates.
    #[must_use]
    pub const fn plus(self, ms: u64) -> Self {
        Self(self.0.saturating_add(ms))
    }

    /// Milliseconds from `earlier` to this moment; 0 if `earlier` is later.
    #[must_use]
    pub const fn since(self, earlier: Self) -> u64 {
        self.0.saturating_sub(earlier.0)
    }
}

/// A clock that is not this machine's: that of the store, as estimated here.
pub trait WallSource: Send + Sync + std::fmt::Debug {
    /// Its time, Unix milliseconds. Never goes back, and does not follow the steps of the machine's
    /// own wall clock.
    fn now_ms(&self) -> u64;
}

/// Where wall time comes from.
#[derive(Clone, Copy, Debug)]
enum Wall {
    System,
    /// Another clock's. It lives as long as the process, as the clocks that follow it do.
    Following(&'static dyn WallSource),
    /// Begins at this time and runs with the monotonic clock: paused tokio time steers both.
    From(Millis),
}

/// Both clocks and the sleeps that go with them. Cheap to clone.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    wall: Wall,
    base: Instant,
}

/// Monotonic time begins here, so that "one hour ago" can be written at the start.
const MONO_BASE_MS: u64 = 86_400_000;

#[expect(clippy::disallowed_methods, reason = "this is where time is read")]
impl Clock {
    /// The clocks of the machine.
    #[must_use]
    pub fn system() -> Self {
        Self { wall: Wall::System, base: Instant::now() }
    }

    /// Wall time begins at `start` and follows the runtime's clock; with paused time a test moves
    /// it by `tokio::time::advance`.
    #[must_use]
    pub fn starting_at(start: Millis) -> Self {
        Self { wall: Wall::From(start), base: Instant::now() }
    }

    /// Wall time is that of another clock, monotonic time the machine's.
    #[must_use]
    pub fn following(source: &'static dyn WallSource) -> Self {
        Self { wall: Wall::Following(source), base: Instant::now() }
    }

    /// Wall time, Unix milliseconds.
    #[must_use]
    pub fn now(&self) -> Millis {
        match self.wall {
            Wall::System => {
                Millis(SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, whole_ms))
            }
            Wall::Following(source) => Millis(source.now_ms()),
            Wall::From(start) => start.plus(whole_ms(self.base.elapsed())),
        }
    }

    /// Monotonic time.
    #[must_use]
    pub fn mono(&self) -> Mono {
        Mono(MONO_BASE_MS + whole_ms(self.base.elapsed()))
    }

    /// Sleeps until a monotonic moment; returns at once if it has come.
    pub async fn sleep_until(&self, at: Mono) {
        tokio::time::sleep_until(self.instant(at)).await;
    }

    /// The runtime's name of a monotonic moment.
    #[must_use]
    pub fn instant(&self, at: Mono) -> Instant {
        // A far moment is as good as never; tokio's own arithmetic must not overflow.
        const FAR_MS: u64 = 365 * 86_400_000;
        let ms = at.0.saturating_sub(MONO_BASE_MS).min(FAR_MS);
        self.base + Duration::from_millis(ms)
    }

    /// The monotonic moment at which wall time will read `at`, if the wall clock does not step.
    #[must_use]
    pub fn when(&self, at: Millis) -> Mono {
        self.mono().plus(at.since(self.now()))
    }
}

fn whole_ms(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    struct Away;

    impl WallSource for Away {
        fn now_ms(&self) -> u64 {
            1_700_000_000_000
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_clock_follows_another_and_measures_by_its_own() {
        let clock = Clock::following(&Away);
        let mono = clock.mono();
        clock.sleep_until(mono.plus(250)).await;
        assert_eq!(clock.now(), Millis(1_700_000_000_000));
        assert_eq!(clock.mono(), mono.plus(250));
        assert_eq!(clock.when(Millis(1_700_000_001_000)), mono.plus(1_250));
    }

    #[tokio::test(start_paused = true)]
    async fn paused_time_moves_both_clocks_together() {
        let clock = Clock::starting_at(Millis(1_000));
        let (wall, mono) = (clock.now(), clock.mono());
        clock.sleep_until(mono.plus(250)).await;
        assert_eq!(clock.now(), wall.plus(250));
        assert_eq!(clock.mono(), mono.plus(250));
        assert_eq!(clock.when(Millis(2_250)), mono.plus(1_250));
    }
}
