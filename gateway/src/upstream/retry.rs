//! Whether a call that failed on its way may be sent again (cluster 2.10). Pure: time and the
//! state of the budget come in as arguments.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use object::Class;

/// Most times one call is sent, the first included.
pub(super) const ATTEMPTS_MAX: u32 = 5;
/// Most times one call follows `not owner`.
pub(super) const HOPS_MAX: u32 = 3;
/// Longest time from the first failure to the last repeat.
pub(super) const RETRY_WINDOW: Duration = Duration::from_secs(10);
/// The first back-off's upper end; doubles with each repeat, drawn with full jitter.
pub(super) const BACKOFF_FIRST: Duration = Duration::from_millis(25);
/// Repeats per hundred first attempts that the budget refills.
pub(super) const BUDGET_PERCENT: u32 = 20;
/// Repeats a quiet gateway has in hand.
pub(super) const BUDGET_REPEATS_MAX: u32 = 64;

/// How an attempt failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Failure {
    /// Nothing left this process: no stream, or it was closing.
    NotSent,
    /// Sent, and the stream ended before an answer.
    Lost,
    /// The caller's time is over.
    TimedOut,
    /// The node answered with this class.
    Refused(Class),
}

/// What is known of the call that makes repeating it safe or not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Safety {
    /// The room recognises the request id: a second run changes nothing.
    pub(super) repeatable: bool,
}

/// What to do about a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Next {
    /// Send again after a random part of this time.
    Repeat {
        backoff_max: Duration,
    },
    GiveUp,
}

/// The rule table of cluster 2.10. `attempts` were made so far (at least 1), `since_failure` has
/// passed since the first of them failed, `remaining` is left until the caller's deadline.
pub(super) fn next(
    failure: Failure,
    safety: Safety,
    attempts: u32,
    since_failure: Duration,
    remaining: Duration,
) -> Next {
    let may = match failure {
        Failure::NotSent => true,
        Failure::Lost => safety.repeatable,
        Failure::TimedOut => false,
        Failure::Refused(class) => match class {
            // Nothing ran there; a hop is an attempt, and hops have their own bound.
            Class::NotOwner | Class::Fenced => attempts <= HOPS_MAX,
            Class::OutcomeUnknown => safety.repeatable,
            // Never on the caller's behalf: it would make an overload worse.
            Class::Overloaded | Class::TooFast => false,
            Class::Invalid
            | Class::Unauthenticated
            | Class::Forbidden
            | Class::NotFound
            | Class::Conflict
            | Class::Gone
            | Class::Limit
            | Class::WrongRegion
            | Class::Deadline
            | Class::Unavailable
            | Class::Internal => false,
        },
    };
    let backoff_max = BACKOFF_FIRST.saturating_mul(1 << attempts.clamp(1, 16).saturating_sub(1));
    if !may
        || attempts >= ATTEMPTS_MAX
        || since_failure.saturating_add(backoff_max) > RETRY_WINDOW
        || backoff_max >= remaining
    {
        return Next::GiveUp;
    }
    Next::Repeat { backoff_max }
}

/// A part of a duration chosen by a random number: full jitter.
pub(super) fn jitter(backoff_max: Duration, random: u32) -> Duration {
    backoff_max.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// The retry budget: a fifth of the traffic, and a few in hand, so that a dying node does not
/// see its load multiplied.
#[derive(Debug)]
pub(super) struct Budget {
    /// In hundredths of a repeat.
    level: AtomicU32,
}

impl Budget {
    const FULL: u32 = BUDGET_REPEATS_MAX * 100;

    pub(super) const fn full() -> Self {
        Self { level: AtomicU32::new(Self::FULL) }
    }

    /// A first attempt was made.
    pub(super) fn earn(&self) {
        let add =
            |level: u32| (level < Self::FULL).then(|| (level + BUDGET_PERCENT).min(Self::FULL));
        // Err means that the budget is full already.
        let _full = self.level.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Takes one repeat, if there is one.
    pub(super) fn spend(&self) -> bool {
        let take = |level: u32| level.checked_sub(100);
        self.level.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests;
