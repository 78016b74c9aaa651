//! Participant handles: sealed here, opened here, meaningless everywhere else (ours 5, 6).
//!
//! The seal proves that a gateway with our keys minted the handle; whether the participant is
//! still there is the room's answer. Nothing in this module prints a handle or a key.

mod keyring;
mod seal;

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

pub use keyring::{KeyFileError, KeyRing, LineProblem, RELOAD_PERIOD, watch};
pub use seal::{Handle, OpenError, Opened, RegionError, Sealer};

/// The bit of a file's mode that lets every user read it.
const READABLE_BY_OTHERS: u32 = 0o004;

/// Follows the key file of a ring from now on, for as long as the process runs, and warns if every
/// user can read it. Must be called within a tokio runtime.
pub fn follow(ring: &KeyRing, path: PathBuf) {
    warn_if_readable_by_others(&path);
    tokio::spawn(watch(ring.clone(), path, RELOAD_PERIOD));
}

/// Whoever reads the keys can make handles of any participant. Only a warning: secrets that an
/// orchestrator mounts often are readable by all inside a container.
fn warn_if_readable_by_others(path: &Path) {
    let Ok(meta) = std::fs::metadata(path) else { return };
    if meta.permissions().mode() & READABLE_BY_OTHERS != 0 {
        let path = path.display();
        tracing::warn!(%path, "handle keys can be read by every user; chmod 600 keeps them private");
    }
}
