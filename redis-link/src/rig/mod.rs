//! Redis servers as child processes, for tests: each in a directory of its own, killed when
//! dropped. The calls block; they take milliseconds, starting a cluster a few seconds.

mod cluster;
mod process;
mod proxy;
mod sentinel;
mod server;

pub use cluster::Cluster;
pub use proxy::{Mode, Proxy};
pub use sentinel::Sentinel;
pub use server::Server;

use std::io::Error;
use std::time::Duration;

/// Looks until something becomes true, every 20 ms, for at most 20 s.
///
/// # Errors
/// That it did not become true, or what `look` fails with.
pub fn until(what: &str, mut look: impl FnMut() -> Result<bool, Error>) -> Result<(), Error> {
    for _ in 0..1_000 {
        if look()? {
            return Ok(());
        }
        #[expect(clippy::disallowed_methods, reason = "a server of a test says nothing by itself")]
        std::thread::sleep(Duration::from_millis(20));
    }
    Err(Error::other(format!("still not so after 20 s: {what}")))
}
