//! Whether a node whose streams are open answers at all. One that does not is suspect: calls to its
//! rooms are kept back, but for a probe now and then. Its rooms stay its own: suspicion shortens no
//! lease, and the next node would have to refuse them (cluster 2.3).

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;

use crate::clock::Instant;

/// Sendings in a row without any answer of the node that make it suspect.
const FAILURES_MIN: u32 = 3;
/// Failures closer together than this are one: the end of a stream loses all its calls at once.
const APART: Duration = Duration::from_millis(100);
/// In a row means within this time: calls that nobody answers last ten seconds each.
const WINDOW: Duration = Duration::from_secs(30);
/// How often a call goes to a suspect node, to see whether it is back.
const PROBE_EVERY: Duration = Duration::from_secs(2);
/// A call with less time than this says nothing of the node that has not answered it.
pub(super) const PATIENCE: Duration = Duration::from_secs(1);

/// Whether a call may be sent to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Leave {
    Send,
    /// The node is suspect, and this call finds out whether it still is.
    Probe,
    KeepBack,
}

/// The rule. Pure.
#[derive(Debug, Default)]
struct Silence {
    failures: u32,
    first: Option<Instant>,
    last: Option<Instant>,
    /// When the next probe may go; set while the node is suspect.
    probe_at: Option<Instant>,
}

impl Silence {
    /// A sending got no answer; true if that makes the node suspect.
    fn failed(&mut self, now: Instant) -> bool {
        if self.last.is_some_and(|last| now.duration_since(last) < APART) {
            return false;
        }
        if self.first.is_none_or(|first| now.duration_since(first) > WINDOW) {
            (self.first, self.failures) = (Some(now), 0);
        }
        self.last = Some(now);
        self.failures = self.failures.saturating_add(1);
        let suspect = self.failures >= FAILURES_MIN && self.probe_at.is_none();
        if suspect {
            self.probe_at = Some(now + PROBE_EVERY);
        }
        suspect
    }

    fn leave(&mut self, now: Instant) -> Leave {
        match &mut self.probe_at {
            None => Leave::Send,
            Some(at) if *at <= now => {
                *at = now + PROBE_EVERY;
                Leave::Probe
            }
            Some(_) => Leave::KeepBack,
        }
    }
}

/// What is known of one node.
#[derive(Debug, Default)]
pub(super) struct Health {
    silence: Mutex<Silence>,
    /// Failures noted since the last answer: as long as it is 0, nothing is locked.
    noted: AtomicU32,
    heard: Notify,
}

impl Health {
    /// Whether a call may be sent now.
    pub(super) fn leave(&self, now: Instant) -> Leave {
        if self.noted.load(Ordering::Relaxed) == 0 {
            return Leave::Send;
        }
        self.lock().leave(now)
    }

    /// A sending got no answer though the streams are open; true if the node is suspect from now
    /// on.
    pub(super) fn failed(&self, now: Instant) -> bool {
        let mut silence = self.lock();
        self.noted.store(1, Ordering::Relaxed);
        silence.failed(now)
    }

    /// The node has answered, whatever it said; true if it was suspect.
    pub(super) fn answered(&self) -> bool {
        if self.noted.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let mut silence = self.lock();
        self.noted.store(0, Ordering::Relaxed);
        let before = std::mem::take(&mut *silence);
        drop(silence);
        self.heard.notify_waiters();
        before.probe_at.is_some()
    }

    /// Resolves once the node is not suspect.
    pub(super) async fn heard(&self) {
        let mut heard = std::pin::pin!(self.heard.notified());
        // Listens before it looks: no answer is missed between the two.
        heard.as_mut().enable();
        let suspect = self.lock().probe_at.is_some();
        if suspect {
            heard.await;
        }
    }

    fn lock(&self) -> MutexGuard<'_, Silence> {
        self.silence.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock;

    #[test]
    fn three_failures_in_a_row_and_apart_make_a_node_suspect() {
        let begun = clock::now();
        for (failures_ms, suspect) in [
            (&[0, 100][..], false),
            (&[0, 100, 200], true),
            // The end of one stream.
            (&[0, 1, 2, 3, 4, 99], false),
            (&[0, 50, 100, 150, 200], true),
            (&[0, 10_000, 20_000], true),
            (&[0, 10_000, 30_001], false),
            (&[0, 10_000, 30_001, 31_000, 32_000], true),
        ] {
            let mut silence = Silence::default();
            let mut told = 0;
            for ms in failures_ms {
                told += u32::from(silence.failed(begun + Duration::from_millis(*ms)));
            }
            assert_eq!(told, u32::from(suspect), "{failures_ms:?}");
        }
    }

    #[test]
    fn a_suspect_node_is_probed_until_it_answers() {
        let (health, begun) = (Health::default(), clock::now());
        let at = |ms| begun + Duration::from_millis(ms);
        assert_eq!(health.leave(at(0)), Leave::Send);
        for (ms, suspect) in [(0, false), (200, false), (400, true), (600, false)] {
            assert_eq!(health.leave(at(ms)), if ms > 400 { Leave::KeepBack } else { Leave::Send });
            assert_eq!(health.failed(at(ms)), suspect, "told once");
        }
        for (ms, leave) in [
            (2_399, Leave::KeepBack),
            (2_400, Leave::Probe),
            (2_401, Leave::KeepBack),
            (4_399, Leave::KeepBack),
            (9_000, Leave::Probe),
        ] {
            assert_eq!(health.leave(at(ms)), leave, "{ms}");
        }
        assert!(health.answered() && !health.answered());
        assert_eq!(health.leave(at(9_001)), Leave::Send);
        assert!(!health.failed(at(9_002)), "an answer begins a new row");
    }
}
