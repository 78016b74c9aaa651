//! Time: the only place of this crate that reads a clock, and it reads the monotonic one alone. A
//! step of a node's wall clock changes nothing here.

use std::time::Duration;

use tokio::time::Instant;

/// Milliseconds since a clock of this process was made; never goes back.
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

/// The monotonic clock of the machine; paused tokio time steers it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    base: Instant,
}

/// Where the count begins: zero stays free for "never".
const BASE_MS: u64 = 1_000;

/// A far moment is as good as never; tokio's own arithmetic must not overflow.
const FAR_MS: u64 = 365 * 86_400_000;

impl Clock {
    #[expect(clippy::disallowed_methods, reason = "this is where time is read")]
    pub(crate) fn system() -> Self {
        Self { base: Instant::now() }
    }

    pub(crate) fn now(&self) -> Mono {
        Mono(u64::try_from(self.base.elapsed().as_millis()).unwrap_or(u64::MAX)).plus(BASE_MS)
    }

    pub(crate) fn instant(&self, at: Mono) -> Instant {
        self.base + Duration::from_millis(at.0.saturating_sub(BASE_MS).min(FAR_MS))
    }

    pub(crate) async fn sleep_until(&self, at: Mono) {
        tokio::time::sleep_until(self.instant(at)).await;
    }
}
