//! The exact cadence of waits (ours 7), as a pure machine.
//!
//! The owner keeps one instant `t` per participant; `next_allowed = t - (B-1)P`. A join sets
//! `t = now`; an answer with news sets `t = max(t, now) + P`; one without news sets
//! `next_allowed = max(end, start + wait_period)`.

use object::{Poll, RequestId};

use crate::clock::Mono;
use crate::config::Config;

/// The three numbers of the cadence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Rule {
    /// P: what one answer with news costs, in milliseconds.
    pub active_period_ms: u64,
    /// Gap after an answer without news, in milliseconds.
    pub period_ms: u64,
    /// B: answers with news that may follow each other at once.
    pub burst: u32,
}

impl Rule {
    /// The rule of a configuration.
    #[must_use]
    pub fn of(config: &Config) -> Self {
        Self {
            active_period_ms: config.wait_active_period_ms,
            period_ms: config.wait_period_ms,
            burst: config.wait_burst.max(1),
        }
    }

    /// (B-1)P.
    const fn slack_ms(self) -> u64 {
        (self.burst as u64).saturating_sub(1).saturating_mul(self.active_period_ms)
    }

    const fn next_allowed(self, t: Mono) -> Mono {
        Mono(t.0.saturating_sub(self.slack_ms()))
    }
}

/// What the cadence says to a wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Admission {
    Admitted,
    /// The same request is held already: the new attempt takes its place.
    Replaces,
    /// Another request of this participant is pending.
    Pending,
    /// Too early by this many milliseconds.
    TooEarly(u64),
}

/// A wait that asks to be admitted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asked {
    pub request: RequestId,
    /// For one that comes again from another owner: how long it was held before, in milliseconds.
    pub moved_ms: Option<u64>,
}

impl From<RequestId> for Asked {
    fn from(request: RequestId) -> Self {
        Self { request, moved_ms: None }
    }
}

/// The cadence of one participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cadence {
    pub(crate) t: Mono,
    /// The request admitted last, in short; its repeats are admitted free.
    pub(crate) last: u32,
    /// When that request was first admitted: a hold counts from here.
    pub(crate) start: Mono,
    /// Number of the wait that is pending; 0 for none.
    pub(crate) pending: u16,
    /// The number given last.
    pub(crate) ticket: u16,
    /// Whether that request has been charged already.
    pub(crate) charged: bool,
}

impl Cadence {
    /// A participant this owner has not heard of: one token.
    #[must_use]
    pub fn new_owner(rule: Rule, now: Mono) -> Self {
        Self::at(now.plus(rule.slack_ms()), now)
    }

    /// A participant that joins now: a full burst.
    #[must_use]
    pub fn joined(now: Mono) -> Self {
        Self::at(now, now)
    }

    pub(crate) const fn at(t: Mono, now: Mono) -> Self {
        Self { t, last: 0, start: now, pending: 0, ticket: 0, charged: true }
    }

    /// Decides a wait before anything is touched for it. One that was admitted by another owner
    /// before is free, and counts from when it was first sent.
    pub fn admit(&mut self, rule: Rule, asked: impl Into<Asked>, now: Mono) -> Admission {
        let Asked { request, moved_ms } = asked.into();
        let short = short(request);
        if self.pending != 0 {
            if short != self.last {
                return Admission::Pending;
            }
            self.begin();
            return Admission::Replaces;
        }
        if short != self.last {
            let early = self.remaining(rule, now);
            if early > 0 && moved_ms.is_none() {
                return Admission::TooEarly(early);
            }
            self.last = short;
            self.start = Mono(now.0.saturating_sub(moved_ms.unwrap_or(0)));
            self.charged = false;
        }
        self.begin();
        Admission::Admitted
    }

    // A number per wait, so that the end of a replaced one does not end its successor.
    fn begin(&mut self) {
        self.ticket = self.ticket.checked_add(1).unwrap_or(1);
        self.pending = self.ticket;
    }

    /// Restores a wait that is held elsewhere.
    pub(crate) const fn hold(&mut self, ticket: u16, start: Mono) {
        (self.ticket, self.pending, self.start, self.charged) = (ticket, ticket, start, false);
    }

    /// Settles an answer and returns the milliseconds until the next wait is admitted.
    /// `None` stands for a refusal by the object, which costs as much as news.
    pub fn settle(&mut self, rule: Rule, ticket: u16, poll: Option<Poll>, now: Mono) -> u64 {
        self.abandon(ticket);
        match poll {
            Some(Poll::Quiet) => {
                let next = now.max(self.start.plus(rule.period_ms));
                self.t = next.plus(rule.slack_ms());
            }
            Some(Poll::News | Poll::Terminal) | None => {
                if !self.charged {
                    self.t = self.t.max(now).plus(rule.active_period_ms);
                }
            }
        }
        self.charged = true;
        self.remaining(rule, now)
    }

    /// Forgets a wait that ended without an answer; its repeat is still admitted free.
    pub const fn abandon(&mut self, ticket: u16) {
        if self.pending == ticket {
            self.pending = 0;
        }
    }

    /// Milliseconds until a wait is admitted. Times are whole milliseconds of one clock, rounded
    /// down alike, so the difference is never short for a caller that waits it out.
    #[must_use]
    pub const fn remaining(&self, rule: Rule, now: Mono) -> u64 {
        rule.next_allowed(self.t).since(now)
    }
}

/// Enough of a request id to know a repeat: of 2^31 other requests one is taken for it, and is
/// then let through early. Never 0, which stands for none.
#[must_use]
pub(crate) fn short(request: RequestId) -> u32 {
    let bytes = request.0.to_be_bytes();
    (xxhash_rust::xxh3::xxh3_64(&bytes) >> 32) as u32 | 1
}

#[cfg(test)]
mod tests {
    use super::*;

    const RULE: Rule = Rule { active_period_ms: 2_000, period_ms: 10_000, burst: 3 };

    enum Step {
        /// At this time a fresh wait gets this admission.
        Ask(u64, Admission),
        /// The same request again.
        Again(u64, Admission),
        /// At this time the answer is settled and tells this retry time.
        Settle(u64, Option<Poll>, u64),
        Abandon,
    }
    use Admission::{Admitted, Pending, Replaces, TooEarly};
    use Step::{Abandon, Again, Ask, Settle};

    fn check(name: &str, mut cadence: Cadence, steps: &[Step]) {
        let mut request = 100;
        for (at, step) in steps.iter().enumerate() {
            match *step {
                Ask(ms, expected) => {
                    request += 1;
                    let got = cadence.admit(RULE, RequestId(request), Mono(ms));
                    assert_eq!(got, expected, "{name} step {at}");
                    if matches!(got, Pending | TooEarly(_)) {
                        request -= 1;
                    }
                }
                Again(ms, expected) => {
                    let got = cadence.admit(RULE, RequestId(request), Mono(ms));
                    assert_eq!(got, expected, "{name} step {at}");
                }
                Settle(ms, poll, expected) => {
                    let got = cadence.settle(RULE, cadence.ticket, poll, Mono(ms));
                    assert_eq!(got, expected, "{name} step {at}");
                }
                Abandon => cadence.abandon(cadence.ticket),
            }
        }
    }

    #[test]
    fn the_cadence_is_the_contracts() {
        let (news, quiet) = (Some(Poll::News), Some(Poll::Quiet));
        let joined = Cadence::joined(Mono(100_000));
        let fresh = Cadence::new_owner(RULE, Mono(100_000));
        check(
            "a join may burst three answers with news",
            joined,
            &[
                Ask(100_000, Admitted),
                Settle(100_000, news, 0),
                Ask(100_000, Admitted),
                Settle(100_000, news, 0),
                Ask(100_000, Admitted),
                Settle(100_000, news, 2_000),
                Ask(101_999, TooEarly(1)),
                Ask(102_000, Admitted),
                Settle(102_000, quiet, 10_000),
            ],
        );
        check(
            "a new owner gives one token",
            fresh,
            &[Ask(100_000, Admitted), Settle(100_000, news, 2_000), Ask(100_500, TooEarly(1_500))],
        );
        check(
            "an empty answer costs the period and leaves one token",
            fresh,
            &[
                Ask(100_000, Admitted),
                Settle(100_000, quiet, 10_000),
                Ask(109_999, TooEarly(1)),
                Ask(110_000, Admitted),
                Settle(110_000, news, 2_000),
            ],
        );
        check(
            "a hold counts from its start",
            fresh,
            &[
                Ask(100_000, Admitted),
                Settle(105_000, quiet, 5_000),
                Ask(110_000, Admitted),
                Settle(135_000, quiet, 0),
                Ask(135_000, Admitted),
            ],
        );
    }

    #[test]
    fn repeats_refusals_and_lost_callers_keep_to_it() {
        let news = Some(Poll::News);
        let quiet = Some(Poll::Quiet);
        let fresh = Cadence::new_owner(RULE, Mono(100_000));
        check(
            "one wait at a time, the same request replaces",
            fresh,
            &[
                Ask(100_000, Admitted),
                Ask(100_001, Pending),
                Again(100_002, Replaces),
                Settle(103_000, news, 0),
            ],
        );
        check(
            "a repeat is admitted free and charged once",
            fresh,
            &[
                Ask(100_000, Admitted),
                Settle(100_000, news, 2_000),
                Again(100_001, Admitted),
                Settle(100_001, news, 1_999),
                Ask(100_002, TooEarly(1_998)),
            ],
        );
        check(
            "a refusal by the object costs like news",
            fresh,
            &[Ask(100_000, Admitted), Settle(100_000, None, 2_000), Ask(100_001, TooEarly(1_999))],
        );
        check(
            "an abandoned wait leaves room for its repeat",
            fresh,
            &[
                Ask(100_000, Admitted),
                Abandon,
                Again(100_050, Admitted),
                Settle(100_060, quiet, 9_940),
            ],
        );
    }

    #[test]
    fn a_wait_that_another_owner_admitted_is_free_and_keeps_its_time() {
        let now = Mono(100_000);
        let mut cadence = Cadence::new_owner(RULE, now);
        assert_eq!(cadence.admit(RULE, RequestId(1), now), Admitted);
        assert_eq!(cadence.settle(RULE, cadence.ticket, Some(Poll::News), now), 2_000);
        assert_eq!(cadence.admit(RULE, RequestId(2), now), TooEarly(2_000));
        let moved = Asked { request: RequestId(3), moved_ms: Some(4_000) };
        assert_eq!(cadence.admit(RULE, moved, now), Admitted);
        // Nothing new by its first second here: the period counts from where it began.
        assert_eq!(cadence.settle(RULE, cadence.ticket, Some(Poll::Quiet), Mono(101_000)), 5_000);
        // One at a time all the same.
        assert_eq!(cadence.admit(RULE, RequestId(4), Mono(106_000)), Admitted);
        let other = Asked { request: RequestId(5), moved_ms: Some(0) };
        assert_eq!(cadence.admit(RULE, other, Mono(106_000)), Pending);
    }

    #[test]
    fn a_caller_that_honours_the_hint_is_never_refused() {
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..200 {
            let mut now = Mono(1_000_000);
            let mut cadence = Cadence::joined(now);
            for request in 1..50 {
                assert_eq!(cadence.admit(RULE, RequestId(request), now), Admitted);
                now = now.plus(random.u64(0..6_000));
                let poll = if random.bool() { Poll::News } else { Poll::Quiet };
                now = now.plus(cadence.settle(RULE, cadence.ticket, Some(poll), now));
            }
        }
    }
}
