//! Load shedding: a node that has more to do than it can refuses polls that would wake a room
//! first, then all polls and reads, and writes last (cluster 2.10).
//!
//! What is measured: how long calls waited in mailboxes, how fast the store answers, and how much
//! of its processors the process uses. A store that does not answer at all is an outage and no
//! overload: calls wait for it, bounded by their deadlines and the mailboxes.

use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use object::{Object, ParticipantId, Reject};

use super::call::Request;
use super::cpu::{self, CpuUse};
use super::directory::Shard;
use super::{Host, Inner};
use crate::clock::Mono;
use crate::config::Config;
use crate::error;
use crate::store;

/// Time between two looks at the load, and what one look covers, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// Fewer calls than this in one look are no load: one slow call must not look like one.
const CALLS_MIN: u64 = 100;
/// The node is calm again below this part of each limit, in percent.
const CALM_PERCENT: u64 = 80;
/// A poll is let through, whatever the level, once this part of its lease has gone by.
const LEASE_PART: u64 = 3;

/// What is refused. Each level refuses what those below it refuse, too.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub(crate) enum Level {
    #[default]
    None,
    /// Polls and reads of rooms that would have to be read back for them.
    Wakes,
    /// All polls and reads but those a stub answers.
    Polls,
    /// Every call, but what ends something or keeps somebody's place.
    Writes,
}

impl Level {
    const ALL: [Self; 4] = [Self::None, Self::Wakes, Self::Polls, Self::Writes];

    const fn index(self) -> u8 {
        self as u8
    }

    fn of(index: u8) -> Self {
        Self::ALL.get(usize::from(index)).copied().unwrap_or_default()
    }

    fn up(self) -> Self {
        Self::ALL.into_iter().find(|level| *level > self).unwrap_or(self)
    }

    fn down(self) -> Self {
        Self::of(self.index().saturating_sub(1))
    }

    /// How long the load stays too high at this level before the next one, in milliseconds.
    /// Writes are refused after 5 s: a failover of the store is shorter.
    const fn patience_ms(self) -> u64 {
        match self {
            Self::None | Self::Wakes => 1_000,
            Self::Polls | Self::Writes => 3_000,
        }
    }
}

/// Above what the node sheds; 0 switches a signal off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Limits {
    queue_age_ms: u64,
    cpu_percent: u64,
    store_p99_ms: u64,
}

impl Limits {
    const fn of(config: &Config) -> Self {
        Self {
            queue_age_ms: config.shed_queue_age_ms,
            cpu_percent: config.shed_cpu_percent,
            store_p99_ms: config.shed_store_p99_ms,
        }
    }
}

const fn calm_mark(limit: u64) -> u64 {
    limit.saturating_mul(CALM_PERCENT) / 100
}

/// What one look saw.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sample {
    /// Calls taken out of mailboxes.
    taken: u64,
    /// The least time one of them had waited: everybody waited that long.
    age_min_ms: u64,
    /// Part of the processors it may use; `None` where that cannot be read.
    cpu_percent: Option<u64>,
    /// Calls the store answered, those over the limit, and those over its calm mark.
    trips: u64,
    trips_over: u64,
    trips_above_calm: u64,
}

/// What one signal says.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Reading {
    Calm,
    /// Between the marks: nothing changes.
    Between,
    Over,
}

impl Reading {
    const fn of(value: u64, limit: u64) -> Self {
        if limit == 0 || value <= calm_mark(limit) {
            Self::Calm
        } else if value <= limit {
            Self::Between
        } else {
            Self::Over
        }
    }
}

/// What all signals say.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Readings {
    queue: Reading,
    cpu: Reading,
    store: Reading,
}

impl Readings {
    fn of(limits: Limits, sample: Sample) -> Self {
        let queue = if sample.taken < CALLS_MIN {
            Reading::Calm
        } else {
            Reading::of(sample.age_min_ms, limits.queue_age_ms)
        };
        let cpu = Reading::of(sample.cpu_percent.unwrap_or(0), limits.cpu_percent);
        // The 99th percentile is above a mark if more than one in a hundred was.
        let above = |count: u64| count.saturating_mul(100) > sample.trips;
        let store = if limits.store_p99_ms == 0 || sample.trips < CALLS_MIN {
            Reading::Calm
        } else if above(sample.trips_over) {
            Reading::Over
        } else if above(sample.trips_above_calm) {
            Reading::Between
        } else {
            Reading::Calm
        };
        Self { queue, cpu, store }
    }

    /// The highest level these call for; `None` if nothing is over its limit. A busy processor
    /// alone refuses no writes: as long as calls do not wait, it gets along.
    fn highest(self) -> Option<Level> {
        if self.queue == Reading::Over || self.store == Reading::Over {
            Some(Level::Writes)
        } else {
            (self.cpu == Reading::Over).then_some(Level::Polls)
        }
    }

    fn are_calm(self) -> bool {
        [self.queue, self.cpu, self.store].into_iter().all(|one| one == Reading::Calm)
    }
}

/// Decides what is refused. Pure.
#[derive(Debug, Default)]
struct Shedder {
    level: Level,
    /// Since when the load has been too high at this level.
    over_since: Option<Mono>,
}

impl Shedder {
    /// Takes a look. Up by a level when the load stays too high for long enough, down by one with
    /// each calm look.
    fn look(&mut self, now: Mono, readings: Readings) -> Level {
        match readings.highest() {
            Some(highest) => {
                let since = *self.over_since.get_or_insert(now);
                if self.level > highest {
                    self.level = self.level.down();
                } else if self.level < highest && now.since(since) >= self.level.patience_ms() {
                    self.level = self.level.up();
                    self.over_since = Some(now);
                }
            }
            None => {
                self.over_since = None;
                if readings.are_calm() {
                    self.level = self.level.down();
                }
            }
        }
        self.level
    }
}

/// The level in force, and what is measured until the next look.
#[derive(Debug)]
pub(super) struct Gate {
    limits: Limits,
    level: AtomicU8,
    taken: AtomicU64,
    age_min_ms: AtomicU64,
    trips: AtomicU64,
    trips_over: AtomicU64,
    trips_above_calm: AtomicU64,
    /// `None`: the sign is off.
    cpu: Mutex<Option<Arc<dyn CpuUse>>>,
}

impl Gate {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            limits: Limits::of(config),
            level: AtomicU8::new(Level::None.index()),
            taken: AtomicU64::new(0),
            age_min_ms: AtomicU64::new(u64::MAX),
            trips: AtomicU64::new(0),
            trips_over: AtomicU64::new(0),
            trips_above_calm: AtomicU64::new(0),
            cpu: Mutex::default(),
        }
    }

    fn usage(&self) -> Option<Arc<dyn CpuUse>> {
        self.cpu.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn level(&self) -> Level {
        Level::of(self.level.load(Ordering::Relaxed))
    }

    /// Notes calls taken out of a mailbox, and the least time one of them had waited.
    pub(super) fn took(&self, calls: u64, age_min_ms: u64) {
        self.taken.fetch_add(calls, Ordering::Relaxed);
        // Mostly it is no new minimum, and then nothing is written.
        if age_min_ms < self.age_min_ms.load(Ordering::Relaxed) {
            self.age_min_ms.fetch_min(age_min_ms, Ordering::Relaxed);
        }
    }

    /// Notes a call that the store has answered.
    fn answered(&self, took_ms: u64) {
        let limit = self.limits.store_p99_ms;
        self.trips.fetch_add(1, Ordering::Relaxed);
        if took_ms > calm_mark(limit) {
            self.trips_above_calm.fetch_add(1, Ordering::Relaxed);
        }
        if took_ms > limit {
            self.trips_over.fetch_add(1, Ordering::Relaxed);
        }
    }

    // What is noted meanwhile counts to one look or the next: no call depends on it.
    fn sample(&self, cpu_percent: Option<u64>) -> Sample {
        Sample {
            taken: self.taken.swap(0, Ordering::Relaxed),
            age_min_ms: self.age_min_ms.swap(u64::MAX, Ordering::Relaxed),
            cpu_percent,
            trips: self.trips.swap(0, Ordering::Relaxed),
            trips_over: self.trips_over.swap(0, Ordering::Relaxed),
            trips_above_calm: self.trips_above_calm.swap(0, Ordering::Relaxed),
        }
    }
}

/// Looks at the load, once a second.
#[derive(Debug)]
pub(super) struct Watch {
    shedder: Shedder,
    looked: Mono,
    cpu: cpu::Meter,
}

impl Watch {
    pub(super) fn new(now: Mono) -> Self {
        Self { shedder: Shedder::default(), looked: now, cpu: cpu::Meter::default() }
    }
}

impl<O: Object> Host<O> {
    /// Lets the use of the processors count as load for as long as the host lives.
    pub fn watch_cpu(&self, usage: Arc<dyn CpuUse>) {
        let mut cpu = self.inner.gate.cpu.lock().unwrap_or_else(PoisonError::into_inner);
        *cpu = Some(usage);
    }
}

impl<O: Object> Inner<O> {
    /// Looks at the load if it is time to.
    pub(super) fn look_at_load(&self, watch: &mut Watch) {
        let now = self.clock.mono();
        if now.since(watch.looked) < LOOK_MS {
            return;
        }
        watch.looked = now;
        let gate = &self.gate;
        let cpu = gate.usage().and_then(|usage| watch.cpu.percent(now, usage.as_ref()));
        let sample = gate.sample(cpu);
        let readings = Readings::of(gate.limits, sample);
        let (before, level) = (watch.shedder.level, watch.shedder.look(now, readings));
        if level != before {
            gate.level.store(level.index(), Ordering::Relaxed);
            self.metrics.shed_level.set(i64::from(level.index()));
            tracing::warn!(
                ?level,
                ?before,
                queue = ?readings.queue,
                cpu = ?readings.cpu,
                store = ?readings.store,
                cpu_percent = sample.cpu_percent,
                slow_store_calls = sample.trips_over,
                store_calls = sample.trips,
                "what is refused for overload has changed"
            );
        }
    }

    /// Waits for a call of the store and notes how long it took, if it was answered.
    pub(super) async fn timed<T>(
        &self,
        call: impl Future<Output = store::Result<T>>,
    ) -> store::Result<T> {
        let begun = self.clock.mono();
        let answer = call.await;
        let silent =
            matches!(answer, Err(store::Error::Unknown { .. } | store::Error::Unavailable { .. }));
        if !silent {
            self.gate.answered(self.clock.mono().since(begun));
        }
        answer
    }

    /// Whether a call may go on that is no wait of a participant. Nothing has run.
    pub(super) fn spared(&self, request: &Request) -> Result<(), Reject> {
        let level = self.gate.level();
        if level == Level::None || O::never_shed(request.op) {
            return Ok(());
        }
        if !(request.op.wait || request.op.read_only) {
            return if level < Level::Writes { Ok(()) } else { Err(self.refused("write")) };
        }
        let (shard, now) = (self.directory.shard(&request.object), self.clock.mono());
        // Known not to be there: that is said without a wake.
        if shard.absent.get(&request.object).is_some_and(|until| *until > now) {
            return Ok(());
        }
        if !shard.active.contains_key(&request.object) {
            return Err(self.refused("wake"));
        }
        if level < Level::Polls { Ok(()) } else { Err(self.refused("poll")) }
    }

    /// Whether a wait may go on that no stub can answer. One that keeps a lease does: overload
    /// costs nobody its place in a room that is in memory.
    pub(crate) fn spared_wait(
        &self,
        shard: &mut Shard,
        request: &Request,
        who: ParticipantId,
    ) -> Result<(), Reject> {
        let level = self.gate.level();
        if level == Level::None {
            return Ok(());
        }
        let (wall, now) = (self.clock.now(), self.clock.mono());
        let lease_ms = self.config.agent_lease_ms;
        if let Some(entry) = shard.active.get(&request.object) {
            if level < Level::Polls || entry.book().is_late(who, now, lease_ms / LEASE_PART) {
                return Ok(());
            }
            return Err(self.refused("poll"));
        }
        let stub = shard.stub(&request.object, wall, now);
        let end = stub.and_then(|mut stub| stub.find(who).map(|poller| poller.end));
        if end.is_some_and(|end| end.since(wall) <= lease_ms - lease_ms / LEASE_PART) {
            return Ok(());
        }
        Err(self.refused("wake"))
    }

    fn refused(&self, kind: &str) -> Reject {
        self.metrics.shed_calls.with_label_values(&[kind]).inc();
        error::shedding()
    }
}

#[cfg(test)]
mod tests;
