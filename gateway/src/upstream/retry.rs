//! Whether a call that failed on its way may be sent again (cluster 2.10). Pure: time and the
//! state of the budget come in as arguments.
//!
//! Two kinds of failure are kept apart. Where nothing ran, asking again changes nothing, and the
//! only question is how long a room may take to arrive at its new owner: such a call is held.
//! Where something may have run, only a call that the room recognises is repeated, and few times.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use object::Class;

/// Most times one call is sent that may have run before, the first time included.
pub(crate) const ATTEMPTS_MAX: u32 = 5;
/// Most times in a row one call goes where a node says that the object is.
pub(crate) const HOPS_MAX: u32 = 3;
/// Longest time from the first failure to the last repeat.
pub(crate) const RETRY_WINDOW: Duration = Duration::from_secs(10);
/// The first back-off's upper end; doubles with each repeat, drawn with full jitter.
pub(crate) const BACKOFF_FIRST: Duration = Duration::from_millis(25);
/// The upper end that the back-off of a held call stops at. A change of the view wakes it earlier.
pub(crate) const HOLD_BACKOFF_MAX: Duration = Duration::from_millis(250);
/// Repeats per hundred first attempts that the budget refills.
pub(crate) const BUDGET_PERCENT: u32 = 20;
/// Repeats a quiet gateway has in hand.
pub(crate) const BUDGET_REPEATS_MAX: u32 = 64;

/// How an attempt failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Failure {
    /// Nothing left this process: no stream, or it was closing.
    NotSent,
    /// Sent, and the stream ended before an answer.
    Lost,
    /// The caller's time is over.
    TimedOut,
    /// The node answered with this class.
    Refused(Class),
}

impl Failure {
    /// Whether the call may have run all the same.
    pub(crate) const fn in_doubt(self) -> bool {
        matches!(
            self,
            Self::Lost | Self::TimedOut | Self::Refused(Class::OutcomeUnknown | Class::Deadline)
        )
    }

    /// Whether this answers the call for good when `doubts` sendings, itself included, may have
    /// run. What the object decided does: it recognises a call that has run. What a node says
    /// without asking the object does so only where no sending is in doubt.
    pub(crate) const fn settles(self, doubts: u32) -> bool {
        let Self::Refused(class) = self else { return false };
        match class {
            Class::Invalid
            | Class::Unauthenticated
            | Class::Forbidden
            | Class::NotFound
            | Class::Conflict
            | Class::Gone
            | Class::Limit
            | Class::OutcomeUnknown => true,
            Class::TooFast
            | Class::Overloaded
            | Class::WrongRegion
            | Class::Unavailable
            | Class::Internal => doubts == 0,
            Class::NotOwner | Class::Fenced | Class::Deadline => false,
        }
    }
}

/// What is known of the call and its ways that decides what can be done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Options {
    /// The room recognises the request id: a second run changes nothing.
    pub(crate) repeatable: bool,
    /// A node has named another one that the view knows.
    pub(crate) hinted: bool,
    /// There is a view that can change: waiting for it makes sense.
    pub(crate) can_move: bool,
}

/// How far the call has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Progress {
    /// Times it was sent and may have run, the failure at hand included.
    pub(crate) doubts: u32,
    /// Hints followed under the present view.
    pub(crate) hops: u32,
    /// Pauses made under the present view since it was last sent.
    pub(crate) pauses: u32,
    /// Since the first failure.
    pub(crate) since_failure: Duration,
    /// Until the caller's deadline.
    pub(crate) remaining: Duration,
}

/// What to do about a failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Next {
    /// Nothing ran: ask the node that was named, at once.
    Follow,
    /// Nothing ran: pick again after a random part of this time, or when the view changes.
    Hold {
        backoff_max: Duration,
    },
    /// It may have run: send the same again after a random part of this time.
    Repeat {
        backoff_max: Duration,
    },
    GiveUp,
}

/// The rule table of cluster 2.10.
pub(crate) fn next(failure: Failure, options: Options, progress: Progress) -> Next {
    let late = |pause: Duration| {
        progress.since_failure.saturating_add(pause) > RETRY_WINDOW || progress.remaining.is_zero()
    };
    match failure {
        Failure::NotSent | Failure::Refused(Class::NotOwner | Class::Fenced) => {
            let hops_left = failure != Failure::NotSent && progress.hops < HOPS_MAX;
            // Without a view there is nothing to wait for but the node itself.
            let tried = !options.can_move && progress.pauses + 1 >= ATTEMPTS_MAX;
            if options.hinted && hops_left && !late(Duration::ZERO) {
                return Next::Follow;
            }
            let backoff_max =
                doubled(progress.pauses).min(HOLD_BACKOFF_MAX).min(progress.remaining);
            if tried || late(backoff_max) { Next::GiveUp } else { Next::Hold { backoff_max } }
        }
        Failure::Lost | Failure::Refused(Class::OutcomeUnknown) => {
            let backoff_max = doubled(progress.doubts.saturating_sub(1));
            let over = progress.doubts >= ATTEMPTS_MAX
                || late(backoff_max)
                || backoff_max >= progress.remaining;
            if !options.repeatable || over { Next::GiveUp } else { Next::Repeat { backoff_max } }
        }
        Failure::TimedOut => Next::GiveUp,
        Failure::Refused(class) => match class {
            Class::NotOwner | Class::Fenced | Class::OutcomeUnknown => Next::GiveUp,
            // Never on the caller's behalf: it would make an overload worse.
            Class::Overloaded | Class::TooFast => Next::GiveUp,
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
            | Class::Internal => Next::GiveUp,
        },
    }
}

fn doubled(times: u32) -> Duration {
    BACKOFF_FIRST.saturating_mul(1 << times.min(16))
}

/// A part of a duration chosen by a random number: full jitter.
pub(crate) fn jitter(backoff_max: Duration, random: u32) -> Duration {
    backoff_max.mul_f64(f64::from(random) / f64::from(u32::MAX))
}

/// A duration below `backoff_max`, drawn now; the whole of it if the system gives no random
/// numbers.
pub(crate) fn drawn(backoff_max: Duration) -> Duration {
    jitter(backoff_max, getrandom::u32().unwrap_or(u32::MAX))
}

/// The retry budget: a fifth of the traffic, and a few in hand, so that a dying node does not
/// see its load multiplied.
#[derive(Debug)]
pub(crate) struct Budget {
    /// In hundredths of a repeat.
    level: AtomicU32,
}

impl Budget {
    const FULL: u32 = BUDGET_REPEATS_MAX * 100;

    pub(crate) const fn full() -> Self {
        Self { level: AtomicU32::new(Self::FULL) }
    }

    /// A first attempt was made.
    pub(crate) fn earn(&self) {
        let add =
            |level: u32| (level < Self::FULL).then(|| (level + BUDGET_PERCENT).min(Self::FULL));
        // Err means that the budget is full already.
        let _full = self.level.fetch_update(Ordering::Relaxed, Ordering::Relaxed, add);
    }

    /// Takes one repeat, if there is one.
    pub(crate) fn spend(&self) -> bool {
        let take = |level: u32| level.checked_sub(100);
        self.level.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }
}

#[cfg(test)]
mod tests;
