//! Participant handles: sealed here, opened here, meaningless everywhere else (ours 5, 6).
//!
//! The seal proves that a gateway with our keys minted the handle; whether the participant is
//! still there is the room's answer. Nothing in this module prints a handle or a key.

mod keyring;
mod seal;

pub use keyring::{KeyFileError, KeyRing, LineProblem, RELOAD_PERIOD, watch};
pub use seal::{Handle, OpenError, Opened, RegionError, Sealer};
