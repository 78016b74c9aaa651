//! Decides the moment of a kill, from what passes on the clients' own connections.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use crate::http::Tap;

/// When the process is killed, seen from the call that meets its death.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Moment {
    /// The request has just left: the server has done little or nothing.
    Sent,
    /// Some microseconds later: anywhere in the work.
    Between(u64),
    /// The answer is on its way: everything is done, and the client never hears of it.
    Answered,
}

/// One kill, armed before a round of work.
pub(crate) struct Gate {
    moment: Moment,
    /// Changes still to be sent before the kill.
    left: Mutex<u32>,
    over: AtomicBool,
    kill: Box<dyn Fn() + Send + Sync>,
}

impl Gate {
    /// Kills at the `after`-th change that is sent.
    pub(crate) fn new(
        moment: Moment,
        after: u32,
        kill: impl Fn() + Send + Sync + 'static,
    ) -> Arc<Self> {
        let (left, over, kill) = (Mutex::new(after), AtomicBool::new(false), Box::new(kill));
        Arc::new(Self { moment, left, over, kill })
    }

    /// The process is dead: no further call makes sense.
    pub(crate) fn over(&self) -> bool {
        self.over.load(Ordering::SeqCst)
    }

    fn strike(&self) {
        if !self.over.swap(true, Ordering::SeqCst) {
            (self.kill)();
        }
    }

    /// True for the one change that the kill is meant for.
    fn count(&self) -> bool {
        let mut left = self.left.lock().unwrap();
        *left = left.wrapping_sub(1);
        *left == 0
    }
}

/// One client's connection to the gate.
pub(crate) struct Trigger {
    gate: Arc<Gate>,
    /// The call in flight changes something: only such calls count.
    change: AtomicBool,
    /// The kill waits for this client's answer.
    doomed: AtomicBool,
}

impl Trigger {
    pub(crate) fn new(gate: Arc<Gate>) -> Arc<Self> {
        Arc::new(Self { gate, change: AtomicBool::new(false), doomed: AtomicBool::new(false) })
    }

    /// Says what kind of call comes next on this connection.
    pub(crate) fn next_is_change(&self, change: bool) {
        self.change.store(change, Ordering::SeqCst);
    }
}

impl Tap for Trigger {
    fn sent(&self) {
        if !self.change.swap(false, Ordering::SeqCst) || !self.gate.count() {
            return;
        }
        match self.gate.moment {
            Moment::Sent => self.gate.strike(),
            Moment::Answered => self.doomed.store(true, Ordering::SeqCst),
            Moment::Between(micros) => {
                let gate = Arc::clone(&self.gate);
                let at = Instant::now() + Duration::from_micros(micros);
                std::thread::spawn(move || {
                    while Instant::now() < at {
                        std::hint::spin_loop();
                    }
                    gate.strike();
                });
            }
        }
    }

    fn deliver(&self) -> bool {
        let doomed = self.doomed.load(Ordering::SeqCst);
        if doomed {
            self.gate.strike();
        }
        !doomed
    }
}
