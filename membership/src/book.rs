//! What a process knows of the region, kept for many readers: the view with its table, who ended,
//! Redis's clock.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::sync::watch;

use crate::clock::Mono;
use crate::metrics::ViewMetrics;
use crate::nodes::{Answer, Roster, Seen};
use crate::redis_clock::RedisClock;
use crate::ring::Ring;
use crate::table::Now;
use crate::view::Incarnation;

#[derive(Debug)]
pub(crate) struct Book {
    /// Held while an answer is taken in, so that views come out in order. Readers do not wait for
    /// the table to be computed.
    taking: Mutex<()>,
    roster: RwLock<Roster>,
    redis: Mutex<RedisClock>,
    now: watch::Sender<Arc<Now>>,
    numbers: watch::Sender<u64>,
    pub(crate) metrics: ViewMetrics,
}

impl Book {
    pub(crate) fn new(metrics: ViewMetrics) -> Self {
        let now = Now::nobody();
        metrics.show(&now);
        Self {
            taking: Mutex::default(),
            roster: RwLock::default(),
            redis: Mutex::default(),
            now: watch::Sender::new(Arc::new(now)),
            numbers: watch::Sender::new(0),
            metrics,
        }
    }

    /// Nobody is there, until the next answer is taken in.
    pub(crate) fn forget(&self) {
        let taking = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        *self.roster.write().unwrap_or_else(PoisonError::into_inner) = Roster::default();
        let nobody = Now::nobody();
        self.metrics.show(&nobody);
        self.now.send_replace(Arc::new(nobody));
        self.numbers.send_replace(0);
        drop(taking);
    }

    /// Takes in what came at `now` to what was sent at `sent`. Says whether the view changed.
    pub(crate) fn take(&self, answer: &Answer, sent: Mono, now: Mono) -> bool {
        let taking = self.taking.lock().unwrap_or_else(PoisonError::into_inner);
        self.metrics.tombstones.inc_by(answer.tombstones);
        self.redis.lock().unwrap_or_else(PoisonError::into_inner).sample(sent, now, answer.time_ms);
        let view = {
            let mut roster = self.roster.write().unwrap_or_else(PoisonError::into_inner);
            roster.fold(answer).then(|| roster.view.clone())
        };
        let Some(view) = view else { return false };
        let number = view.number;
        let made = Arc::new(Now::new(view, &Ring));
        self.metrics.show(&made);
        self.now.send_replace(made);
        self.numbers.send_replace(number);
        drop(taking);
        true
    }

    pub(crate) fn seen(&self) -> Seen {
        self.read(|roster| roster.seen.clone())
    }

    pub(crate) fn number(&self) -> u64 {
        *self.numbers.borrow()
    }

    pub(crate) fn now(&self) -> Arc<Now> {
        Arc::clone(&self.now.borrow())
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<Arc<Now>> {
        self.now.subscribe()
    }

    pub(crate) fn numbers(&self) -> watch::Receiver<u64> {
        self.numbers.subscribe()
    }

    pub(crate) fn has_ended(&self, incarnation: &Incarnation) -> bool {
        self.read(|roster| roster.has_ended(incarnation))
    }

    pub(crate) fn risen(&self) -> Vec<Incarnation> {
        self.read(Roster::risen)
    }

    pub(crate) fn up_since_ms(&self) -> u64 {
        self.read(|roster| roster.up_since_ms)
    }

    pub(crate) fn redis_now_ms(&self, now: Mono) -> Option<u64> {
        self.redis.lock().unwrap_or_else(PoisonError::into_inner).read(now)
    }

    pub(crate) fn redis_offset_ms(&self) -> Option<i64> {
        self.redis.lock().unwrap_or_else(PoisonError::into_inner).offset_ms()
    }

    fn read<T>(&self, ask: impl FnOnce(&Roster) -> T) -> T {
        ask(&self.roster.read().unwrap_or_else(PoisonError::into_inner))
    }
}
