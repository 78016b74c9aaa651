//! The bounded queue in front of the writer: callers wait for room, the writer takes all at once.

use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Semaphore;

/// Calls that may stand in one queue. A caller over it waits: each object has at most one append
/// in flight, so those who wait are bounded by the activations, and a call given up while it waits
/// has certainly not happened.
pub(super) const QUEUE_CALLS_MAX: usize = 4_096;

#[derive(Debug)]
pub(super) struct Queue<T> {
    state: Mutex<State<T>>,
    /// Wakes the writer.
    filled: Condvar,
    /// Wakes the ticker when the queue closes.
    closed: Condvar,
    room: Semaphore,
}

#[derive(Debug)]
struct State<T> {
    /// At most [`QUEUE_CALLS_MAX`].
    calls: VecDeque<T>,
    tick: bool,
    closed: bool,
}

/// What the writer found in the queue.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// Calls were moved out, or a tick is due.
    Work { tick: bool },
    /// The queue is closed and empty.
    Closed,
}

impl<T> Queue<T> {
    pub(super) fn new() -> Self {
        Self {
            state: Mutex::new(State { calls: VecDeque::new(), tick: false, closed: false }),
            filled: Condvar::new(),
            closed: Condvar::new(),
            room: Semaphore::new(QUEUE_CALLS_MAX),
        }
    }

    /// Enqueues a call, waiting for room; gives it back if the queue is closed.
    pub(super) async fn push(&self, call: T) -> Result<(), T> {
        let Ok(permit) = self.room.acquire().await else { return Err(call) };
        let mut state = self.state();
        if state.closed {
            return Err(call);
        }
        permit.forget();
        state.calls.push_back(call);
        drop(state);
        self.filled.notify_one();
        Ok(())
    }

    /// Moves at most `max` calls into `into`; sleeps while there is nothing to do.
    pub(super) fn take(&self, into: &mut VecDeque<T>, max: usize) -> Taken {
        let mut state = self.state();
        loop {
            if !state.calls.is_empty() || state.tick {
                let count = state.calls.len().min(max);
                into.extend(state.calls.drain(..count));
                let tick = std::mem::take(&mut state.tick);
                drop(state);
                self.room.add_permits(count);
                return Taken::Work { tick };
            }
            if state.closed {
                return Taken::Closed;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Moves at most `max` further calls into `into`, without waiting.
    pub(super) fn take_more(&self, into: &mut VecDeque<T>, max: usize) {
        let mut state = self.state();
        let count = state.calls.len().min(max);
        into.extend(state.calls.drain(..count));
        drop(state);
        self.room.add_permits(count);
    }

    /// Asks the writer for a tick at each period in which one is needed, until the queue closes.
    pub(super) fn tick_every(&self, period: Duration, needed: impl Fn() -> bool) {
        let mut state = self.state();
        while !state.closed {
            let waited = self.closed.wait_timeout(state, period);
            let (next, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
            state = next;
            if timeout.timed_out() && needed() {
                state.tick = true;
                self.filled.notify_one();
            }
        }
    }

    /// Refuses new calls; those already queued are still taken.
    pub(super) fn close(&self) {
        self.state().closed = true;
        self.room.close();
        self.filled.notify_all();
        self.closed.notify_all();
    }

    /// Calls that stand in the queue now.
    pub(super) fn len(&self) -> usize {
        self.state().calls.len()
    }

    fn state(&self) -> MutexGuard<'_, State<T>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
