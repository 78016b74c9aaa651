//! Giving objects up because they belong elsewhere, or because the node stops (cluster 2.9).
//!
//! Whoever waits is told only after the release is durable: the node that is asked next can claim
//! at once. Nothing depends on this path for safety; what is left behind is found by the fence.

use std::sync::Arc;

use futures_util::future::join_all;
use object::{Object, ObjectId};

use super::actor::End;
use super::directory::{Active, Held};
use super::live::Live;
use super::{Inner, activation, commit, rest};
use crate::clock::Mono;
use crate::cluster::handoff::{HOT_MS_MAX, Next, PACE_MS, Queue};
use crate::error;
use crate::store::{self, ClaimRequest, Fence};

/// Activations that snapshot and release at the same time.
pub(super) const LEAVES_MAX: usize = 256;
/// Stubs released at the same time.
pub(super) const RELEASES_MAX: usize = 256;
/// Slots looked at under one lock.
const PAGE_SLOTS_MAX: usize = 256;
/// Pause between two batches of stubs, so that calls of others get through the store's lanes.
const STUB_PAUSE_MS: u64 = 5;

/// Longest time a drain takes, in milliseconds (cluster 2.9).
pub const DRAIN_MS: u64 = 20_000;
/// What is kept of it for the releases themselves.
pub const DRAIN_RELEASE_MS: u64 = 4_000;
/// Longest time an op may park a call that is no wait, so that a drain can let it end.
pub const PARK_MS_MAX: u64 = 15_000;

const _: () = assert!(
    PARK_MS_MAX + DRAIN_RELEASE_MS <= DRAIN_MS,
    "a call that is parked when a drain begins can end within it"
);
const _: () = assert!(
    room::limits::APP_REQUEST_MS_MAX <= PARK_MS_MAX,
    "no op of a room parks longer than a drain can wait"
);

/// What is taken out of memory and still to be released.
pub(super) struct Leaver {
    id: ObjectId,
    fence: Fence,
    held: Vec<Held>,
}

impl<O: Object> Inner<O> {
    /// Hands over what belongs elsewhere after each change of the view, until the host ends.
    pub(super) async fn run_handoff(self: Arc<Self>) {
        let mut changes = self.cluster.changes();
        loop {
            tokio::select! {
                () = self.dead.cancelled() => return,
                changed = changes.changed() => if changed.is_err() {
                    // No more views: the cluster is gone, so is the process soon.
                    self.dead.cancelled().await;
                    return;
                }
            }
            self.forget_hearsay();
            self.hand_off_active(&mut changes).await;
            self.hand_off_stubs().await;
        }
    }

    // Another view in between begins anew: what has been asked to leave leaves if it still must.
    async fn hand_off_active(&self, changes: &mut tokio::sync::watch::Receiver<u64>) {
        let began = self.clock.mono();
        let mut queue = Queue::new(began, self.moved());
        self.metrics.handoffs_waiting.set(super::gauge(queue.len()));
        while !self.is_dead() && !changes.has_changed().unwrap_or(true) {
            let now = self.clock.mono();
            let until = queue.hot_until();
            let pause = match queue.next(now, |entry: &Arc<Active>| entry.touched()) {
                Next::Go(entry) if self.must_leave(&entry.id) => {
                    entry.leave_by(until.max(now));
                    now.plus(PACE_MS)
                }
                Next::Go(_) => continue,
                Next::Wait(at) => at,
                Next::Done => break,
            };
            self.metrics.handoffs_waiting.set(super::gauge(queue.len()));
            self.clock.sleep_until(pause).await;
        }
        self.metrics.handoffs_waiting.set(0);
    }

    // Activations that belong elsewhere. One that is made or falls asleep later sees to itself.
    fn moved(&self) -> Vec<(Mono, Arc<Active>)> {
        let mut moved = Vec::new();
        for shard in self.directory.shards() {
            let leave = shard.active.values().filter(|entry| self.must_leave(&entry.id));
            moved.extend(leave.map(|entry| (entry.touched(), Arc::clone(entry))));
        }
        moved
    }

    /// Asks every activation to leave by `at`.
    pub(super) fn all_leave(&self, at: Mono) {
        for shard in self.directory.shards() {
            for entry in shard.active.values() {
                entry.leave_by(at);
            }
        }
    }

    /// Releases every stub that has to leave, and then tells the waits held beside them.
    pub(super) async fn hand_off_stubs(&self) {
        for shard in 0..self.directory.shard_count() {
            let mut from = Some(0);
            while let Some(slot) = from {
                let (leavers, next) = self.take_leavers(shard, slot);
                from = next;
                if leavers.is_empty() {
                    tokio::task::yield_now().await;
                    continue;
                }
                self.release_leavers(leavers).await;
                if !self.is_draining() {
                    self.clock.sleep_until(self.clock.mono().plus(STUB_PAUSE_MS)).await;
                }
            }
        }
    }

    fn take_leavers(&self, shard: usize, slot: u32) -> (Vec<Leaver>, Option<u32>) {
        let (wall, now) = (self.clock.now(), self.clock.mono());
        let Some(mut shard) = self.directory.shard_at(shard) else { return (Vec::new(), None) };
        let (page, next) = shard.stubs.page(slot, PAGE_SLOTS_MAX, wall, now);
        if next.is_some() {
            self.metrics.bound_hit("page_slots_max");
        }
        let mut leavers = Vec::new();
        for (name, stub) in page {
            let Ok(id) = ObjectId::new(O::KIND, &name) else { continue };
            if self.must_leave(&id) && self.take_stub(&mut shard, &id).is_some() {
                let held = shard.held.remove(&id).unwrap_or_default();
                shard.leaving.insert(id.clone());
                leavers.push(Leaver { id, fence: stub.fence, held });
            }
        }
        (leavers, next)
    }

    async fn release_leavers(&self, leavers: Vec<Leaver>) {
        let all = leavers.iter().map(|leaver| (leaver.id.clone(), leaver.fence)).collect();
        self.release(all).await;
        for Leaver { id, held, .. } in leavers {
            self.directory.shard(&id).leaving.remove(&id);
            self.metrics.handoffs.with_label_values(&["stub"]).inc();
            for held in held {
                self.metrics.parked_calls.dec();
                held.call.answer(Err(error::not_owner()));
            }
        }
    }

    /// Releases stubs that are out of memory already.
    pub(super) async fn release(&self, stubs: Vec<(ObjectId, Fence)>) {
        let mut stubs = stubs.into_iter().peekable();
        while stubs.peek().is_some() {
            let some = stubs.by_ref().take(RELEASES_MAX);
            let released = join_all(some.map(|(id, fence)| async move {
                let _in_flight = self.metrics.in_flight("releases");
                self.store.release(id, fence).await
            }))
            .await;
            if stubs.peek().is_some() {
                self.metrics.bound_hit("releases_max");
            }
            for reason in released.into_iter().filter_map(Result::err) {
                // Still owned by this node, which gives it back to whoever asks.
                tracing::debug!(%reason, "stub was not released");
            }
        }
    }

    // A release is repeated until it is known to have happened, or time is over.
    async fn release_one(&self, id: &ObjectId, fence: Fence) -> bool {
        let give_up = self.clock.mono().plus(self.config.in_doubt_ms_max);
        loop {
            let released = commit::repeat(self, || self.store.release(id.clone(), fence)).await;
            match released {
                // Fenced: somebody else owns it, which is as good.
                Ok(()) | Err(store::Error::Fenced | store::Error::Absent) => return true,
                Err(store::Error::Unavailable { .. }) if self.clock.mono() < give_up => {
                    let at = self.clock.mono().plus(commit::RESOLVE_PAUSE_MS);
                    self.clock.sleep_until(at).await;
                }
                Err(reason) => {
                    tracing::warn!(%reason, "object was not released");
                    return false;
                }
            }
        }
    }
}

/// True if an activation that was asked to leave should do so now. One with work that nobody can
/// repeat may stay until its time is over.
pub(super) fn is_time<O: Object>(host: &Inner<O>, entry: &Active, live: &Live<O>) -> bool {
    let Some(by) = entry.leaves() else { return false };
    if !host.must_leave(&entry.id) {
        entry.stay();
        return false;
    }
    let works = live.parked.iter().any(|one| !one.call.request.op.wait);
    // Who is here already is answered here, unless there is no end to them.
    (!works && entry.mailbox.is_empty()) || host.clock.mono() >= by
}

/// Gives a loaded object up: what is due and a long tail are stored, the release is durable, and
/// only then everybody who is parked is told. What waits in the mailbox is seen to after it.
pub(super) async fn leave<O: Object>(host: &Inner<O>, entry: &Active, live: &mut Live<O>) -> End {
    let _permit = host.turn(&host.leaves, "leaves_max").await;
    let _in_flight = host.metrics.in_flight("leaves");
    let released = if live.lsn == 0 {
        let (id, fence, at) = (&entry.id, live.fence, host.clock.now());
        commit::repeat(host, || host.store.destroy(id.clone(), fence, 0, at)).await.is_ok()
    } else {
        let worth = rest::is_long(live);
        if let Err(reason) = rest::settle_down(host, entry, live, worth).await {
            tracing::debug!(%reason, "object was not put in order before it left");
        }
        host.release_one(&entry.id, live.fence).await
    };
    let_go(host, entry, live);
    if released { End::Left } else { End::Over }
}

/// Everybody who waits on an activation that ends without having answered is told to go elsewhere.
pub(super) fn let_go<O: Object>(host: &Inner<O>, entry: &Active, live: &mut Live<O>) {
    host.subscribers.close_all(&entry.id);
    for parked in live.parked.drain(..) {
        host.metrics.parked_calls.dec();
        // A wait may be held elsewhere; other work may have begun and is not repeated.
        let told = match parked.call.request.op.wait {
            true => error::not_owner(),
            false => error::unavailable(),
        };
        parked.call.answer(Err(told));
    }
}

/// An object that belongs elsewhere, has no memory here, and may still be ours in the store: it is
/// claimed and released. True if it is certainly not ours afterwards.
pub(super) async fn give_back<O: Object>(host: &Inner<O>, entry: &Active) -> bool {
    let mut request = ClaimRequest {
        object: entry.id.clone(),
        me: host.me.clone(),
        nonce: super::random_u64(),
        may_create: false,
        observed: None,
    };
    let mut answer = host.store.claim(request.clone(), host.clock.now()).await;
    if let Err(store::Error::Owned { fence, owner }) = &answer
        && activation::may_take(host, owner)
    {
        request.observed = Some(*fence);
        answer = host.store.claim(request, host.clock.now()).await;
    }
    match answer {
        Ok(claimed) => {
            host.metrics.handoffs.with_label_values(&["given_back"]).inc();
            host.release_one(&entry.id, claimed.fence).await
        }
        Err(store::Error::Owned { owner, .. }) => {
            host.note_away(&entry.id, &owner);
            true
        }
        Err(store::Error::Absent) => true,
        Err(reason) => {
            tracing::warn!(%reason, "object could not be given back");
            false
        }
    }
}

/// By when an activation of an object that belongs elsewhere, woken from its stub, has to leave.
pub(super) const fn soon(now: Mono) -> Mono {
    now.plus(HOT_MS_MAX)
}
