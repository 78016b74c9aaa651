//! The one place of this crate that reads the clock.

use std::time::{Duration, Instant};

/// Runs `work` and tells how long it took.
pub(crate) fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    #[expect(clippy::disallowed_methods, reason = "this is the crate's clock.rs")]
    let start = Instant::now();
    let done = work();
    (done, start.elapsed())
}
