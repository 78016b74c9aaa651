//! `--sync`: when a write counts as done.

use process::flags::value::{self, Limits};

/// When a write counts as done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sync {
    /// Before each answer.
    Always,
    /// In the background, at least this often, in milliseconds.
    EveryMs(u64),
}

/// Longest interval of background syncing, in milliseconds.
const SYNC_MS_MAX: u64 = 60_000;

pub(super) fn sync(text: &str) -> Result<Sync, String> {
    if text == "always" {
        return Ok(Sync::Always);
    }
    let Some(every) = text.strip_prefix("every-ms=") else {
        return Err("expected always or every-ms=N".to_owned());
    };
    value::number(every, Limits { min: 1, max: SYNC_MS_MAX }).map(Sync::EveryMs)
}
