//! Time on sleeping objects: timers of stubs here, due times of cold objects in the store, and
//! the sweep that lets long unpolled stubs go.

use std::sync::Arc;

use object::{Object, ObjectId};

use super::wheel::{self, Wheel};
use super::{Cause, Inner, Shard};
use crate::clock::Mono;
use crate::front::stub::NameHash;
use crate::store::Fence;

/// Slots a sweep looks at under one lock.
const SWEEP_SLOTS_MAX: usize = 256;
/// Pause before a timer is tried again that found the node full.
const FULL_RETRY_MS: u64 = 1_000;
/// How far ahead a timer of a stub is entered at most. A stub leaves at most one entry behind for
/// each time it falls asleep or holds a poll within this time.
const AHEAD_MS_MAX: u64 = 600_000;

impl<O: Object> Inner<O> {
    /// Fires timers of stubs until the host ends.
    pub(super) async fn run_stub_timers(self: Arc<Self>) {
        loop {
            tokio::select! {
                () = self.dead.cancelled() => return,
                () = self.wheel.next(&self.clock) => {}
            }
            let due = self.wheel.take(self.clock.mono());
            self.metrics.timer_entries.sub(super::gauge(due.len()));
            if due.len() >= wheel::TAKE_MAX {
                self.metrics.bound_hit("take_max");
            }
            for (tick, hash) in due {
                self.stub_timer(tick, hash);
            }
            tokio::task::yield_now().await;
        }
    }

    fn stub_timer(self: &Arc<Self>, tick: u32, hash: NameHash) {
        let (wall, now) = (self.clock.now(), self.clock.mono());
        let mut shard = self.directory.shard_of(hash);
        let Some((name, mut stub)) = shard.stubs.by_hash(hash, wall, now) else { return };
        // Without a lease nobody is told anything, and the stub is dropped soon.
        if stub.tick != tick || self.is_draining() || !self.cluster.is_leased() {
            return;
        }
        let Ok(id) = ObjectId::new(O::KIND, &name) else { return };
        shard.note_primary(self.primary());
        if shard.stub(&id, wall, now).is_some_and(|stub| stub.unchecked) {
            let (host, fence) = (Arc::clone(self), stub.fence);
            tokio::spawn(async move { host.stub_timer_later(tick, hash, &id, fence).await });
            return;
        }
        let mut again = None;
        if let Some(due) = stub.next_due().filter(|due| *due <= wall) {
            if self.entry(&mut shard, &id, Cause::Timer).is_ok() {
                self.note_fired(wall.since(due));
                return;
            }
            again = Some(now.plus(FULL_RETRY_MS));
        }
        let held = shard.answer_held(&id, wall);
        self.metrics.parked_calls.sub(super::gauge(held));
        let next = stub.next_due().into_iter().chain(shard.held_until(&id)).min();
        let at = again.or_else(|| next.map(|at| self.clock.when(at)));
        stub.tick = 0;
        if let Some(at) = at {
            stub.tick = self.enter_timer(at.max(now.plus(1)), hash);
        }
        shard.stubs.put(hash, &name, &stub);
    }

    // After a change of the store's primary: is the stub still ours? Whoever is held beside one
    // that is lost is sent on by then.
    async fn stub_timer_later(
        self: &Arc<Self>,
        tick: u32,
        hash: NameHash,
        id: &ObjectId,
        fence: Fence,
    ) {
        if self.clear_stub(id, fence).await.is_err() {
            self.clock.sleep_until(self.clock.mono().plus(FULL_RETRY_MS)).await;
        }
        let again = self.enter_timer(self.clock.mono(), hash);
        let (wall, now) = (self.clock.now(), self.clock.mono());
        let mut shard = self.directory.shard(id);
        if let Some(mut stub) = shard.stub(id, wall, now).filter(|stub| stub.tick == tick) {
            stub.tick = again;
            shard.put_stub(id, &stub);
        }
    }

    /// Makes sure that a stub's timer comes up at `at` or before.
    pub(crate) fn stub_timer_by(&self, shard: &mut Shard, id: &ObjectId, at: object::Millis) {
        let (wall, now) = (self.clock.now(), self.clock.mono());
        let Some(mut stub) = shard.stub(id, wall, now) else { return };
        let at = self.clock.when(at).max(now.plus(1));
        // A stub that never had a timer has tick 0.
        if stub.tick == 0 || Wheel::tick(at) < stub.tick {
            stub.tick = self.enter_timer(at, super::directory::hash(id));
            shard.put_stub(id, &stub);
        }
    }

    /// Enters a stub's timer and returns its tick. A far one comes up early and is entered again:
    /// so an object that sleeps and wakes leaves few stale entries behind.
    pub(super) fn enter_timer(&self, at: Mono, hash: NameHash) -> u32 {
        let furthest = self.clock.mono().plus(AHEAD_MS_MAX);
        if at > furthest {
            self.metrics.bound_hit("ahead_ms_max");
        }
        let tick = Wheel::tick(at.min(furthest));
        self.wheel.insert(tick, hash);
        self.metrics.timer_entries.inc();
        tick
    }

    /// Wakes cold objects whose stored due time has come, until the host ends.
    pub(super) async fn run_due_scan(self: Arc<Self>) {
        let mut changes = self.cluster.changes();
        loop {
            let next = self.scan_due().await;
            let longest = self.clock.mono().plus(self.config.due_scan_ms_max);
            let at = next.map_or(longest, |next| self.clock.when(next).min(longest));
            tokio::select! {
                () = self.dead.cancelled() => return,
                () = self.draining.cancelled() => return,
                // Buckets that are ours from now on may hold what is long due.
                Ok(()) = changes.changed() => {}
                // At least one millisecond, lest an unread entry make this spin.
                () = self.clock.sleep_until(at.max(self.clock.mono().plus(1))) => {}
            }
        }
    }

    // One pass over everything due, page by page; returns the first later due time.
    async fn scan_due(self: &Arc<Self>) -> Option<object::Millis> {
        let mut after = None;
        if !self.cluster.is_leased() {
            return None;
        }
        loop {
            let now = self.clock.now();
            let page_max = self.config.due_page_max;
            let (page, next) = match self.store.due(now, after.clone(), page_max).await {
                Ok(found) => found,
                Err(reason) => {
                    tracing::warn!(%reason, "due times could not be read");
                    return None;
                }
            };
            for due in &page {
                if due.object.kind() == O::KIND {
                    self.cold_timer(&due.object, due.at);
                }
            }
            if page.len() < page_max || self.is_draining() || self.dead.is_cancelled() {
                return next;
            }
            after = page.last().cloned();
            tokio::task::yield_now().await;
        }
    }

    // Objects in memory keep their own time, those set aside are left alone, and those that belong
    // elsewhere, or are owned there still, are their owner's.
    fn cold_timer(self: &Arc<Self>, id: &ObjectId, at: object::Millis) {
        if self.admits(id, 0).is_err() || self.must_leave(id) {
            return;
        }
        let (wall, now) = (self.clock.now(), self.clock.mono());
        let mut shard = self.directory.shard(id);
        let aside = shard.trouble.get(id).is_some_and(|trouble| trouble.is_aside(now));
        if aside || shard.active.contains_key(id) || shard.stub(id, wall, now).is_some() {
            return;
        }
        if self.entry(&mut shard, id, Cause::Timer).is_ok() {
            self.note_fired(wall.since(at));
        }
    }

    #[expect(clippy::cast_precision_loss, reason = "a lateness in seconds needs no more")]
    fn note_fired(&self, late_ms: u64) {
        self.metrics.timers.inc();
        self.metrics.timer_lateness.observe(late_ms as f64 / 1_000.0);
    }

    /// Lets stubs go that nobody has polled for long, until the host ends.
    pub(super) async fn run_sweep(self: Arc<Self>) {
        let every = (self.config.stub_to_cold_ms / 4).clamp(1, 60_000);
        loop {
            tokio::select! {
                () = self.dead.cancelled() => return,
                () = self.clock.sleep_until(self.clock.mono().plus(every)) => {}
            }
            self.release_stubs(self.config.stub_to_cold_ms, usize::MAX).await;
            self.sweep_memory();
        }
    }

    /// Releases stubs untouched for so long, at most so many; one with a held wait stays.
    pub(super) async fn release_stubs(self: &Arc<Self>, untouched_ms: u64, stubs_max: usize) {
        let mut left = stubs_max;
        for shard in 0..self.directory.shard_count() {
            let mut from = Some(0);
            while let Some(slot) = from.filter(|_| left > 0) {
                let (gone, next) = self.take_stubs(shard, slot, untouched_ms, left);
                (from, left) = (next, left - gone.len());
                self.release(gone).await;
            }
        }
    }

    fn take_stubs(
        &self,
        shard: usize,
        slot: u32,
        untouched_ms: u64,
        stubs_max: usize,
    ) -> (Vec<(ObjectId, Fence)>, Option<u32>) {
        let (wall, now) = (self.clock.now(), self.clock.mono());
        let Some(mut shard) = self.directory.shard_at(shard) else { return (Vec::new(), None) };
        let (page, next) = shard.stubs.page(slot, SWEEP_SLOTS_MAX, wall, now);
        if next.is_some() {
            self.metrics.bound_hit("sweep_slots_max");
        }
        let mut gone = Vec::new();
        for (name, stub) in page {
            let Ok(id) = ObjectId::new(O::KIND, &name) else { continue };
            let old = now.since(stub.touched) >= untouched_ms;
            if old && gone.len() < stubs_max && !shard.held.contains_key(&id) {
                self.forget_stub(&mut shard, &id);
                gone.push((id, stub.fence));
            }
        }
        (gone, next)
    }

    fn sweep_memory(&self) {
        let now = self.clock.mono();
        let (mut absent, mut troubled, mut away) = (0, 0, 0);
        for mut shard in self.directory.shards() {
            shard.absent.retain(|_, until| *until > now);
            shard.away.retain(|_, away| !away.is_over(now));
            away += shard.away.len();
            shard.trouble.retain(|_, trouble| !trouble.is_over(&self.config, now));
            absent += shard.absent.len();
            troubled += shard.trouble.len();
        }
        self.metrics.absent.set(super::gauge(absent));
        self.metrics.away.set(super::gauge(away));
        self.metrics.troubled.set(super::gauge(troubled));
    }
}
