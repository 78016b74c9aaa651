//! Faults a test plants in the reference store.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::Semaphore;

use super::super::Error;

/// Faults planted in one method at a time; further ones are not planted.
pub const FAULTS_PLANTED_MAX: usize = 1_024;

/// The methods of the store that a fault can be planted in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Method {
    Claim,
    Refence,
    Check,
    Append,
    Lease,
    Snapshot,
    Release,
    Destroy,
    Due,
    SetDue,
    PutBlob,
    GetBlob,
}

/// What the next call of a method meets.
#[derive(Clone, Debug)]
pub enum Fault {
    /// Nothing happens and this error is the answer: [`Error::Unavailable`], [`Error::Fenced`],
    /// [`Error::Full`], or [`Error::Unknown`] for a write that was lost with its answer.
    Refuse(Error),
    /// The call takes effect, the answer is [`Error::Unknown`].
    ApplyThenUnknown,
    /// The call waits until the test lets it through, then happens.
    HoldCall(Hold),
    /// The call happens at once; its answer waits until the test lets it through.
    HoldAnswer(Hold),
}

/// A gate in the hands of the test.
#[derive(Clone, Debug)]
pub struct Hold {
    reached: Arc<Semaphore>,
    open: Arc<Semaphore>,
}

impl Default for Hold {
    fn default() -> Self {
        Self { reached: Arc::new(Semaphore::new(0)), open: Arc::new(Semaphore::new(0)) }
    }
}

impl Hold {
    /// A closed gate.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Resolves when one call stands at the gate (once per such call).
    pub async fn reached(&self) {
        take(&self.reached).await;
    }

    /// Lets one call through, the one that waits or the next that comes.
    pub fn release(&self) {
        self.open.add_permits(1);
    }

    pub(super) async fn pass(&self) {
        self.reached.add_permits(1);
        take(&self.open).await;
    }
}

async fn take(semaphore: &Semaphore) {
    // The semaphores are never closed, so an error cannot occur: there is nothing else to wait for.
    if let Ok(permit) = semaphore.acquire().await {
        permit.forget();
    }
}

/// Planted faults and call counts.
#[derive(Debug, Default)]
pub(super) struct Faults {
    /// Bounded by the methods.
    planted: Mutex<HashMap<Method, Planted>>,
}

#[derive(Debug, Default)]
struct Planted {
    /// At most [`FAULTS_PLANTED_MAX`].
    queue: VecDeque<Fault>,
    calls: u64,
}

impl Faults {
    pub(super) fn push(&self, method: Method, fault: Fault) -> bool {
        let mut all = self.planted();
        let queue = &mut all.entry(method).or_default().queue;
        let room = queue.len() < FAULTS_PLANTED_MAX;
        if room {
            queue.push_back(fault);
        }
        room
    }

    pub(super) fn calls(&self, method: Method) -> u64 {
        self.planted().get(&method).map_or(0, |planted| planted.calls)
    }

    pub(super) fn next(&self, method: Method) -> Option<Fault> {
        let mut all = self.planted();
        let planted = all.entry(method).or_default();
        planted.calls += 1;
        planted.queue.pop_front()
    }

    fn planted(&self) -> MutexGuard<'_, HashMap<Method, Planted>> {
        self.planted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
