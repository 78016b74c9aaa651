//! In which order objects leave a node that should no longer serve them (cluster 2.9): idle ones
//! first, hot ones last, so many a second. Pure.

use std::collections::VecDeque;

use crate::clock::Mono;

/// Activations that leave in one second at most, so that a view change is no storm of claims.
pub const HANDOFFS_PER_SECOND: u64 = 200;
/// The pause between two of them.
pub const PACE_MS: u64 = 1_000 / HANDOFFS_PER_SECOND;
/// An object without a command for so long is idle.
pub const IDLE_MS: u64 = 50;
/// A hot object leaves after this time, idle or not.
pub const HOT_MS_MAX: u64 = 5_000;

const _: () = assert!(PACE_MS * HANDOFFS_PER_SECOND == 1_000, "the pace is whole milliseconds");
const _: () = assert!(IDLE_MS < HOT_MS_MAX);

/// What to do now.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Next<T> {
    /// This one leaves now.
    Go(T),
    /// Nobody is idle: ask again then.
    Wait(Mono),
    /// Nobody is left.
    Done,
}

/// Those that have to leave because of one view change. Bounded by what the node holds.
#[derive(Debug)]
pub struct Queue<T> {
    began: Mono,
    /// The longest idle first.
    idle: VecDeque<T>,
    hot: Vec<T>,
}

impl<T> Queue<T> {
    /// A queue of everything that has to leave, each with the time of its last command.
    #[must_use]
    pub fn new(began: Mono, mut all: Vec<(Mono, T)>) -> Self {
        all.sort_by_key(|(touched, _)| *touched);
        let idle = all.into_iter().map(|(_, one)| one).collect();
        Self { began, idle, hot: Vec::new() }
    }

    /// When the last of them leaves at the latest, the pace apart.
    #[must_use]
    pub const fn hot_until(&self) -> Mono {
        self.began.plus(HOT_MS_MAX)
    }

    /// How many are left.
    #[must_use]
    pub fn len(&self) -> usize {
        self.idle.len() + self.hot.len()
    }

    /// True if nobody is left.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Who leaves next. `touched` is asked anew each time: an object may have become hot.
    pub fn next(&mut self, now: Mono, touched: impl Fn(&T) -> Mono) -> Next<T> {
        while let Some(one) = self.idle.pop_front() {
            if now.since(touched(&one)) >= IDLE_MS {
                return Next::Go(one);
            }
            self.hot.push(one);
        }
        let oldest = self.hot.iter().enumerate().min_by_key(|(_, one)| touched(one));
        let Some((at, one)) = oldest else { return Next::Done };
        let idle_at = touched(one).plus(IDLE_MS);
        if now >= idle_at || now >= self.hot_until() {
            return Next::Go(self.hot.swap_remove(at));
        }
        Next::Wait(idle_at.min(self.hot_until()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_ones_leave_first_and_hot_ones_when_they_pause_or_their_time_is_over() {
        let start = Mono(100_000);
        let all = vec![(Mono(99_990), 'h'), (Mono(10), 'a'), (Mono(50_000), 'b')];
        let mut queue = Queue::new(start, all);
        let touched = |one: &char| match one {
            'a' => Mono(10),
            'b' => Mono(50_000),
            _ => Mono(99_990),
        };
        assert_eq!(queue.next(start, touched), Next::Go('a'));
        assert_eq!(queue.next(start, touched), Next::Go('b'));
        assert_eq!(queue.next(start, touched), Next::Wait(Mono(100_040)));
        // It is touched again and again.
        let busy = |_: &char| Mono(104_990);
        assert_eq!(queue.next(Mono(104_991), busy), Next::Wait(Mono(105_000)));
        assert_eq!(queue.len(), 1);
        assert_eq!(queue.next(Mono(105_000), busy), Next::Go('h'));
        assert_eq!(queue.next(Mono(105_000), busy), Next::Done);
    }

    #[test]
    fn one_that_was_idle_in_the_list_and_is_hot_in_its_turn_goes_to_the_end() {
        let mut queue = Queue::new(Mono(1_000), vec![(Mono(1), 1), (Mono(2), 2)]);
        let touched = |one: &i32| if *one == 1 { Mono(990) } else { Mono(2) };
        assert_eq!(queue.next(Mono(1_000), touched), Next::Go(2));
        assert_eq!(queue.next(Mono(1_000), touched), Next::Wait(Mono(1_040)));
        assert_eq!(queue.next(Mono(1_040), touched), Next::Go(1));
        assert!(queue.is_empty());
    }
}
