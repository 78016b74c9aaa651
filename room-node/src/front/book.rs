//! The cadence of one object's participants, bounded.

use object::{ParticipantId, Poll};
use prometheus::IntGauge;

use super::cadence::{Admission, Asked, Cadence, Rule};
use super::stub::{Poller, Stub};
use crate::clock::Mono;
use crate::host::{Held, PassKey, gauge};

/// Cadences of the participants an owner has heard of. Small: rooms hold few participants.
#[derive(Debug)]
pub(crate) struct Book {
    /// At most `cadence_entries_max`.
    entries: Vec<(ParticipantId, Cadence)>,
    /// Counts the entries of all books.
    gauge: IntGauge,
}

impl Drop for Book {
    fn drop(&mut self) {
        self.gauge.sub(gauge(self.entries.len()));
    }
}

impl Book {
    /// An empty book whose entries are counted by `gauge`.
    pub(crate) const fn new(gauge: IntGauge) -> Self {
        Self { entries: Vec::new(), gauge }
    }

    /// The cadences a stub kept, with the waits held beside it still pending.
    pub(crate) fn of(stub: &Stub, held: &[Held], now: Mono, counted: IntGauge) -> Self {
        let passes = || held.iter().filter_map(|held| held.call.pass);
        let restore = |poller: &Poller| {
            let mut cadence = poller.cadence(now);
            if let Some(pass) = passes().rfind(|pass| pass.who == poller.who) {
                cadence.hold(pass.ticket, pass.start);
            }
            (poller.who, cadence)
        };
        counted.add(gauge(stub.pollers.len()));
        Self { entries: stub.pollers.iter().map(restore).collect(), gauge: counted }
    }

    pub(crate) fn entries(&self) -> &[(ParticipantId, Cadence)] {
        &self.entries
    }

    /// A participant has joined: it may burst.
    pub(crate) fn join(&mut self, who: ParticipantId, now: Mono, entries_max: usize) {
        *self.entry(who, entries_max, || Cadence::joined(now)) = Cadence::joined(now);
    }

    /// Decides a wait.
    pub(crate) fn admit(
        &mut self,
        rule: Rule,
        who: ParticipantId,
        asked: impl Into<Asked>,
        now: Mono,
        entries_max: usize,
    ) -> (Admission, PassKey) {
        let cadence = self.entry(who, entries_max, || Cadence::new_owner(rule, now));
        let admission = cadence.admit(rule, asked, now);
        (admission, PassKey { who, ticket: cadence.ticket, start: cadence.start })
    }

    /// Settles an answer; returns the milliseconds until the next wait is admitted.
    pub(crate) fn settle(
        &mut self,
        rule: Rule,
        who: ParticipantId,
        ticket: u16,
        poll: Option<Poll>,
        now: Mono,
    ) -> u64 {
        self.find(who).map_or(0, |cadence| cadence.settle(rule, ticket, poll, now))
    }

    /// Forgets a wait that ended without an answer.
    pub(crate) fn abandon(&mut self, who: ParticipantId, ticket: u16) {
        if let Some(cadence) = self.find(who) {
            cadence.abandon(ticket);
        }
    }

    /// Whether a participant has not begun a wait for so long, or was never heard of.
    pub(crate) fn is_late(&mut self, who: ParticipantId, now: Mono, ms: u64) -> bool {
        let late = |cadence: &mut Cadence| cadence.pending == 0 && now.since(cadence.start) >= ms;
        self.find(who).is_none_or(late)
    }

    fn find(&mut self, who: ParticipantId) -> Option<&mut Cadence> {
        self.entries.iter_mut().find(|(known, _)| *known == who).map(|(_, cadence)| cadence)
    }

    fn entry(
        &mut self,
        who: ParticipantId,
        entries_max: usize,
        fresh: impl FnOnce() -> Cadence,
    ) -> &mut Cadence {
        let at = match self.entries.iter().position(|(known, _)| *known == who) {
            Some(at) => at,
            None => {
                if self.entries.len() >= entries_max {
                    self.forget_stalest();
                }
                self.gauge.inc();
                self.entries.push((who, fresh()));
                self.entries.len() - 1
            }
        };
        let Some((_, cadence)) = self.entries.get_mut(at) else {
            unreachable!("the entry was found or pushed just now");
        };
        cadence
    }

    fn forget_stalest(&mut self) {
        let stalest = self
            .entries
            .iter()
            .enumerate()
            .filter(|(_, (_, cadence))| cadence.pending == 0)
            .min_by_key(|(_, (_, cadence))| cadence.t)
            .map_or(0, |(at, _)| at);
        if stalest < self.entries.len() {
            self.gauge.dec();
            self.entries.swap_remove(stalest);
        }
    }
}

#[cfg(test)]
mod tests {
    use object::RequestId;

    use super::*;

    #[test]
    fn the_stalest_entry_makes_room_and_its_owner_gets_one_token() {
        let rule = Rule { active_period_ms: 2_000, period_ms: 10_000, burst: 3 };
        let gauge = IntGauge::new("a", "b").unwrap();
        let mut book = Book::new(gauge.clone());
        for who in 1..=3u128 {
            book.join(ParticipantId(who), Mono(1_000 * u64::try_from(who).unwrap()), 2);
        }
        let known: Vec<u128> = book.entries().iter().map(|(who, _)| who.0).collect();
        assert_eq!((known.as_slice(), gauge.get()), (&[2, 3][..], 2));
        let now = Mono(100_000);
        let (admission, pass) = book.admit(rule, ParticipantId(1), RequestId(1), now, 2);
        assert_eq!(admission, Admission::Admitted);
        assert_eq!(book.settle(rule, ParticipantId(1), pass.ticket, Some(Poll::News), now), 2_000);
    }

    #[test]
    fn who_has_not_waited_for_long_is_late_and_so_is_a_stranger() {
        let rule = Rule { active_period_ms: 2_000, period_ms: 10_000, burst: 3 };
        let mut book = Book::new(IntGauge::new("a", "b").unwrap());
        let one = ParticipantId(1);
        assert!(book.is_late(one, Mono(1_000), 30_000));
        book.join(one, Mono(1_000), 2);
        assert!(!book.is_late(one, Mono(30_999), 30_000));
        assert!(book.is_late(one, Mono(31_000), 30_000));
        let (_, pass) = book.admit(rule, one, RequestId(1), Mono(31_000), 2);
        assert!(!book.is_late(one, Mono(90_000), 30_000), "it is being held");
        book.settle(rule, one, pass.ticket, Some(Poll::Quiet), Mono(90_000));
        assert!(book.is_late(one, Mono(90_000), 30_000));
    }
}
