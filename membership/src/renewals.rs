//! What the log says of renewals that fail: four a second would bury everything else.

use std::fmt::Display;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::clock::Mono;

/// While renewals go on failing, it is said again after this, ms.
const AGAIN_MS: u64 = 10_000;

/// Failures in a row, and when they were told last.
#[derive(Debug, Default)]
pub(crate) struct Renewals(Mutex<Row>);

#[derive(Clone, Copy, Debug, Default)]
struct Row {
    failures: u64,
    told: Option<Mono>,
}

impl Renewals {
    pub(crate) fn failed(&self, now: Mono, error: &impl Display) {
        if let Some(failures) = self.row().failed(now) {
            tracing::warn!(%error, failures, "the node lease was not renewed");
        }
    }

    pub(crate) fn succeeded(&self) {
        if let Some(failures) = self.row().succeeded() {
            tracing::info!(failures, "the node lease is renewed again");
        }
    }

    fn row(&self) -> MutexGuard<'_, Row> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Row {
    /// How many there are in a row now, if it is time to say so.
    fn failed(&mut self, now: Mono) -> Option<u64> {
        self.failures += 1;
        if self.told.is_some_and(|told| now.since(told) < AGAIN_MS) {
            return None;
        }
        self.told = Some(now);
        Some(self.failures)
    }

    /// How many there were in a row, if any.
    fn succeeded(&mut self) -> Option<u64> {
        let row = std::mem::take(self);
        (row.failures > 0).then_some(row.failures)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_are_told_at_once_then_each_ten_seconds_and_their_end_once() {
        let mut row = Row::default();
        assert_eq!(row.succeeded(), None, "nothing has failed");
        assert_eq!(row.failed(Mono(1_000)), Some(1));
        for at in 1..40 {
            assert_eq!(row.failed(Mono(1_000 + at * 250)), None);
        }
        assert_eq!(row.failed(Mono(11_000)), Some(41));
        assert_eq!(row.failed(Mono(20_999)), None);
        assert_eq!(row.succeeded(), Some(42));
        assert_eq!(row.succeeded(), None);
        assert_eq!(row.failed(Mono(21_000)), Some(1), "another row is news");
    }
}
