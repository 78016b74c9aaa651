//! Redis's clock as this process estimates it: pure, time is an argument.
//!
//! Due times are milliseconds of Redis's clock. Every answer of the node table carries it; the
//! middle between sending and answer is when it was read, give or take half the way. What comes out
//! never goes back, and moves to a better estimate in bounded steps.

use crate::clock::Mono;

/// A later sample moves the estimate by no more than this, ms: a clock that was set, or another
/// primary's, is followed over several answers.
pub(crate) const STEP_MS_MAX: i64 = 500;

/// Samples that took longer than this say too little, ms; the first one counts however slow.
const WAY_MS_MAX: u64 = 1_000;

/// The estimate.
#[derive(Clone, Copy, Default, Debug)]
pub struct RedisClock {
    /// Redis's time minus monotonic time, ms.
    offset: Option<i64>,
    floor: u64,
}

impl RedisClock {
    /// An answer that said `time_ms` came at `now` to what was sent at `sent`.
    pub fn sample(&mut self, sent: Mono, now: Mono, time_ms: u64) {
        let way = now.since(sent);
        let middle = sent.plus(way / 2);
        let seen = signed(time_ms) - signed(middle.0);
        self.offset = match self.offset {
            None => Some(seen),
            Some(was) if way > WAY_MS_MAX => Some(was),
            Some(was) => Some(was + (seen - was).clamp(-STEP_MS_MAX, STEP_MS_MAX)),
        };
    }

    /// Redis's time minus monotonic time, ms; `None` before the first answer.
    #[must_use]
    pub const fn offset_ms(&self) -> Option<i64> {
        self.offset
    }

    /// Redis's time at `now`, ms; `None` before the first answer. Never less than before.
    pub fn read(&mut self, now: Mono) -> Option<u64> {
        let estimate = (signed(now.0) + self.offset?).max(0).unsigned_abs();
        self.floor = self.floor.max(estimate);
        Some(self.floor)
    }
}

fn signed(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX / 4).min(i64::MAX / 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_of_the_way_is_when_it_was_read() {
        let mut clock = RedisClock::default();
        assert_eq!(clock.read(Mono(5)), None);
        clock.sample(Mono(1_000), Mono(1_020), 500_010);
        assert_eq!(clock.offset_ms(), Some(499_000));
        assert_eq!(clock.read(Mono(1_020)), Some(500_020));
        assert_eq!(clock.read(Mono(2_020)), Some(501_020));
    }

    #[test]
    fn steps_are_bounded_and_it_never_goes_back() {
        let mut clock = RedisClock::default();
        clock.sample(Mono(0), Mono(0), 1_000_000);
        clock.sample(Mono(10), Mono(10), 1_300_010);
        assert_eq!(clock.offset_ms(), Some(1_000_500));
        assert_eq!(clock.read(Mono(20)), Some(1_000_520));
        for _ in 0..2 {
            clock.sample(Mono(30), Mono(30), 900_030);
        }
        assert_eq!(clock.offset_ms(), Some(999_500));
        assert_eq!(clock.read(Mono(40)), Some(1_000_520), "it stands still rather than go back");
        assert_eq!(clock.read(Mono(1_100)), Some(1_000_600));
    }

    #[test]
    fn slow_answers_count_only_if_there_is_no_better() {
        let mut clock = RedisClock::default();
        clock.sample(Mono(0), Mono(4_000), 100_000);
        assert_eq!(clock.offset_ms(), Some(98_000));
        clock.sample(Mono(5_000), Mono(9_000), 109_000);
        assert_eq!(clock.offset_ms(), Some(98_000));
    }

    #[test]
    fn whatever_the_samples_it_runs_forward_and_ends_near_the_truth() {
        for seed in 0..200 {
            let mut random = fastrand::Rng::with_seed(seed);
            let (mut clock, mut now, mut last) = (RedisClock::default(), 0, 0);
            let mut truth = 1_000_000;
            for round in 0..200 {
                if random.u64(0..40) == 0 && round < 150 {
                    truth = random.u64(995_000..1_005_000);
                }
                let way = random.u64(0..200);
                clock.sample(Mono(now), Mono(now + way), now + way / 2 + truth);
                now += way + random.u64(0..1_500);
                let read = clock.read(Mono(now)).unwrap();
                assert!(read >= last, "seed {seed}");
                last = read;
            }
            assert_eq!(clock.offset_ms(), Some(i64::try_from(truth).unwrap()), "seed {seed}");
        }
    }
}
