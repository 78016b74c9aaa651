//! What the parts of a link share, and the way of one call through it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::Value;
use tokio::sync::{Notify, oneshot, watch};
use tokio::time::{Instant, timeout_at};

use crate::lane::{Body, Item, Missed, Outcome};
use crate::library::Shelf;
use crate::metrics::Metrics;
use crate::primary::Map;
use crate::random::random;
use crate::retry::{Again, Detour, pause};
use crate::socket::Login;
use crate::{Doubt, Failure, Settings, Unsent, clock, slot};

/// Shared by the link, its lanes and its keeper.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) settings: Settings,
    pub(crate) login: Login,
    pub(crate) shelf: Shelf,
    pub(crate) metrics: Metrics,
    /// The verified primaries, drawn by the keeper.
    pub(crate) map: watch::Sender<Arc<Map>>,
    pub(crate) changes: watch::Sender<u64>,
    /// Asks the keeper to look again now.
    pub(crate) nudge: Arc<Notify>,
    /// The store is not the one it was.
    pub(crate) closed: AtomicBool,
}

impl Core {
    /// What was read before may have been true of another primary.
    pub(crate) fn changed(&self) {
        self.changes.send_modify(|count| *count += 1);
    }

    pub(crate) fn is_closed(&self) -> bool {
        self.closed.load(Ordering::Acquire)
    }

    /// Runs on the primary of the key, again while nothing ran and there is time.
    pub(crate) async fn run(
        &self,
        key: &[u8],
        body: Body,
        deadline: Instant,
    ) -> Result<Value, Failure> {
        let (slot, body) = (slot(key), Arc::new(body));
        let mut turns = Turns::new(self, deadline);
        let mut detour = None;
        loop {
            match self.once(slot, &body, detour.take(), deadline).await {
                Ok(value) => return Ok(value),
                Err(Missed::Final(failure)) => return Err(turns.end(failure)),
                Err(Missed::Again(again)) => {
                    detour = again.detour();
                    turns.next(again).await?;
                }
            }
        }
    }

    async fn once(
        &self,
        slot: u16,
        body: &Arc<Body>,
        detour: Option<Detour>,
        deadline: Instant,
    ) -> Outcome {
        if self.is_closed() {
            return Err(Missed::Final(Failure::not_sent(Unsent::Closed)));
        }
        let map = Arc::clone(&self.map.borrow());
        let asking = detour.as_ref().is_some_and(|detour| detour.asking);
        let primary = map.way(slot, detour.as_ref());
        let lane = primary.and_then(|primary| primary.lane(slot));
        let lane = lane.ok_or(Missed::Again(Again::NoPrimary))?;
        let (reply, heard) = oneshot::channel();
        let taken = Arc::new(AtomicBool::new(false));
        let item =
            Item { body: Arc::clone(body), asking, deadline, taken: Arc::clone(&taken), reply };
        lane.push(item)?;
        let heard = timeout_at(deadline, heard).await;
        if let Ok(Ok(outcome)) = heard {
            return outcome;
        }
        // No answer. If it was not taken from the queue so far, now it never will be.
        let was_sent = taken.swap(true, Ordering::AcqRel);
        let is_late = heard.is_err();
        Err(match (was_sent, is_late) {
            (true, true) => Missed::Final(Failure::unknown(Doubt::Timeout)),
            (true, false) => Missed::Final(Failure::unknown(Doubt::LinkLost)),
            (false, true) => Missed::Final(Failure::not_sent(Unsent::Deadline)),
            (false, false) => Missed::Again(Again::NoPrimary),
        })
    }
}

/// The attempts of one call.
pub(crate) struct Turns<'a> {
    core: &'a Core,
    deadline: Instant,
    attempt: u32,
    last: Option<Again>,
    map: watch::Receiver<Arc<Map>>,
}

impl<'a> Turns<'a> {
    pub(crate) fn new(core: &'a Core, deadline: Instant) -> Self {
        Self { core, deadline, attempt: 0, last: None, map: core.map.subscribe() }
    }

    /// Waits before the next attempt: a pause, or until the map of primaries is drawn anew.
    pub(crate) async fn next(&mut self, again: Again) -> Result<(), Failure> {
        self.core.metrics.retried(again.label());
        if again.redraws() {
            self.core.nudge.notify_one();
        }
        self.attempt = self.attempt.saturating_add(1);
        let until = clock::now() + pause(self.attempt, random());
        if until >= self.deadline {
            return Err(again.failure());
        }
        self.last = Some(again);
        // Either end of the wait is good, and a link that is closing answers the next attempt.
        drop(timeout_at(until, self.map.changed()).await);
        Ok(())
    }

    /// A deadline that ended the last attempt before it was sent is less telling than what the
    /// attempt before it met.
    fn end(self, failure: Failure) -> Failure {
        match self.last {
            Some(again) if failure == Failure::not_sent(Unsent::Deadline) => again.failure(),
            _ => failure,
        }
    }
}
