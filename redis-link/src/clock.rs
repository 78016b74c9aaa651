//! Time: the only place of this crate that reads a clock.

use tokio::time::Instant;

/// This moment on the monotonic clock; tests that pause tokio's time steer it.
pub(crate) fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "this file is where the crate reads its clock")]
    Instant::now()
}
