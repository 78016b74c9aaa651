//! Short-term limits on what humans send: frames, and writes of an app's shared state
//! (rooms 2, 15.2).
//!
//! A budget is a fixed window of 10 seconds that begins with its first use. It is volatile: a
//! restart forgives, and a window that is over is dropped at the next use of any.

use object::{Millis, ParticipantId};

/// Length of a window, in milliseconds.
pub const WINDOW_MS: u64 = 10_000;
/// Frames of one human in a window.
pub const FRAMES_MAX: u32 = 300;
/// Writes of one app's state by one human in a window.
pub const APP_WRITES_MAX: u32 = 40;
/// Bytes of those writes in a window.
pub const APP_WRITE_BYTES_MAX: u32 = 65_536;

/// What a budget is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Purpose {
    /// Any frame of the human.
    Frames,
    /// State writes of the app with this id.
    AppState(u128),
}

impl Purpose {
    const fn bounds(self) -> (u32, u32) {
        match self {
            Self::Frames => (FRAMES_MAX, u32::MAX),
            Self::AppState(_) => (APP_WRITES_MAX, APP_WRITE_BYTES_MAX),
        }
    }
}

/// One use of a budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Use {
    pub participant: ParticipantId,
    pub purpose: Purpose,
    pub bytes: u32,
    pub at: Millis,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Window {
    participant: ParticipantId,
    purpose: Purpose,
    started: Millis,
    count: u32,
    bytes: u32,
}

/// The running windows of one room. Bounded by participants times (apps + 1): a window belongs to
/// somebody who is or was there within 10 seconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Budgets {
    windows: Vec<Window>,
}

impl Budgets {
    /// Whether a use fits; if not, after how many milliseconds it will.
    pub fn admit(&self, wanted: &Use) -> Result<(), u64> {
        let Some(window) = self.running(wanted) else { return Ok(()) };
        let (count_max, bytes_max) = wanted.purpose.bounds();
        let fits =
            window.count < count_max && window.bytes.saturating_add(wanted.bytes) <= bytes_max;
        if fits { Ok(()) } else { Err(window.started.plus(WINDOW_MS).since(wanted.at).max(1)) }
    }

    /// Counts a use.
    pub(crate) fn spend(&mut self, used: &Use) {
        self.windows.retain(|window| window.runs(used.at));
        let known = self
            .windows
            .iter_mut()
            .find(|w| w.participant == used.participant && w.purpose == used.purpose);
        match known {
            Some(window) => {
                window.count += 1;
                window.bytes = window.bytes.saturating_add(used.bytes);
            }
            None => self.windows.push(Window {
                participant: used.participant,
                purpose: used.purpose,
                started: used.at,
                count: 1,
                bytes: used.bytes,
            }),
        }
    }

    fn running(&self, wanted: &Use) -> Option<&Window> {
        self.windows.iter().find(|w| {
            w.participant == wanted.participant && w.purpose == wanted.purpose && w.runs(wanted.at)
        })
    }
}

impl Window {
    const fn runs(&self, now: Millis) -> bool {
        now.since(self.started) < WINDOW_MS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn wanted(who: u128, purpose: Purpose, bytes: u32, at: u64) -> Use {
        Use { participant: ParticipantId(who), purpose, bytes, at: Millis(at) }
    }

    fn spent(uses: u32, one: Use) -> Budgets {
        let mut budgets = Budgets::default();
        for _ in 0..uses {
            assert_eq!(budgets.admit(&one), Ok(()));
            budgets.spend(&one);
        }
        budgets
    }

    #[test]
    fn a_window_counts_and_weighs_per_human_and_app() {
        let (app, other) = (Purpose::AppState(1), Purpose::AppState(2));
        let writes = spent(40, wanted(1, app, 1, 1_000));
        let heavy = spent(2, wanted(1, app, 32_000, 1_000));
        let frames = spent(300, wanted(1, Purpose::Frames, 5_000, 1_000));
        let rows = [
            (&writes, wanted(1, app, 1, 1_000), Err(10_000)),
            (&writes, wanted(1, app, 1, 10_999), Err(1)),
            (&writes, wanted(1, app, 1, 11_000), Ok(())),
            (&writes, wanted(2, app, 1, 1_000), Ok(())),
            (&writes, wanted(1, other, 1, 1_000), Ok(())),
            (&heavy, wanted(1, app, 1_536, 1_000), Ok(())),
            (&heavy, wanted(1, app, 1_537, 1_000), Err(10_000)),
            (&frames, wanted(1, Purpose::Frames, 0, 2_000), Err(9_000)),
            (&frames, wanted(2, Purpose::Frames, 0, 2_000), Ok(())),
        ];
        for (budgets, wanted, expected) in rows {
            assert_eq!(budgets.admit(&wanted), expected, "{wanted:?}");
        }
    }

    #[test]
    fn windows_that_are_over_are_dropped() {
        let mut budgets = Budgets::default();
        for who in 0..100 {
            budgets.spend(&wanted(who, Purpose::Frames, 0, 1_000));
        }
        budgets.spend(&wanted(1, Purpose::Frames, 0, 11_000));
        assert_eq!(budgets.windows.len(), 1);
    }
}
