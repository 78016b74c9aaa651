//! Falling asleep: from an activation to a stub or to nothing, and back to an activation.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use object::{IdleView, Millis, Object, ObjectId, Outcome, Parked as Why, Poll};
use tokio::sync::OwnedSemaphorePermit;

use super::actor::End;
use super::batch::Parked;
use super::directory::{Held, Shard};
use super::live::Live;
use super::{Active, Inner, leave};
use crate::clock::Mono;
use crate::error;
use crate::front::stub::{self, Stub};
use crate::store::Fence;

impl<O: Object> Inner<O> {
    /// Gives an activation up, after its snapshot and due time are stored. `None` if a call came
    /// in between or the object cannot sleep now.
    pub(super) async fn sleep(
        self: &Arc<Self>,
        entry: &Arc<Active>,
        live: &mut Live<O>,
    ) -> Option<End> {
        if !self.must_leave(&entry.id)
            && let Some(done) = self.become_stub(entry, live)
        {
            return done;
        }
        if !entry.mailbox.is_empty() {
            return None;
        }
        Some(Box::pin(leave::leave(self, entry, live)).await)
    }

    // `None` if the object has to go cold instead.
    fn become_stub(
        self: &Arc<Self>,
        entry: &Arc<Active>,
        live: &mut Live<O>,
    ) -> Option<Option<End>> {
        let settings = &self.settings;
        let view = catch_unwind(AssertUnwindSafe(|| live.object.idle_view(settings))).ok()?;
        let name = entry.id.name();
        if !Stub::fits(name, live.fence, view.sequence, view.pollers.len()) {
            return None;
        }
        let Some(timeouts) = self.timeouts(live) else {
            // A held wait would end otherwise than by silence: the object stays for it.
            live.commanded = self.clock.mono();
            return Some(None);
        };
        let mut shard = self.directory.shard(&entry.id);
        if !entry.mailbox.is_empty() {
            return Some(None);
        }
        shard.note_primary(self.primary());
        let (wall, now) = (self.clock.now(), self.clock.mono());
        let hash = stub::hash_of(name.as_bytes());
        // Timers know stubs by their hash alone, so a second one of the same hash goes cold.
        if shard.stubs.by_hash(hash, wall, now).is_some() {
            return None;
        }
        let held: Vec<_> = std::mem::take(&mut live.parked)
            .into_iter()
            .zip(timeouts)
            .map(|(Parked { call, until }, timeout)| Held { call, until, timeout })
            .collect();
        let mut made = self.stub_of(entry, live, &view, wall, now);
        made.unchecked = live.primary != self.primary();
        let until = held.iter().map(|held| held.until).chain(made.next_due()).min();
        if let Some(until) = until {
            made.tick = self.enter_timer(self.clock.when(until), hash);
        }
        let evicted = self.make_room(&mut shard);
        shard.stubs.put(hash, name, &made);
        self.directory.stubs_grew(1);
        self.metrics.stubs.inc();
        if !held.is_empty() {
            shard.held.insert(entry.id.clone(), held);
        }
        self.leave(&mut shard, entry);
        drop(shard);
        if let Some((place, gone)) = evicted {
            tokio::spawn(Arc::clone(self).evict(place, gone));
        }
        Some(Some(End::Over))
    }

    // What each parked wait will be told if nothing happens; `None` if one of them would not
    // simply end without news.
    fn timeouts(&self, live: &Live<O>) -> Option<Vec<object::Reply>> {
        let decide = |parked: &Parked| {
            let random = super::random_u128();
            let cx = object::Cx { now: parked.until, random, settings: &self.settings };
            let call = parked.call.as_call(Some(Why::TimedOut), parked.until);
            let decision = live.object.decide(&cx, &call);
            let silent = decision.events.is_empty() && decision.signals.is_empty();
            match decision.outcome {
                Outcome::Reply(reply) if silent && reply.poll == Some(Poll::Quiet) => Some(reply),
                Outcome::Reply(_) | Outcome::Refuse(_) | Outcome::Park { .. } => None,
            }
        };
        catch_unwind(AssertUnwindSafe(|| live.parked.iter().map(decide).collect())).ok()?
    }

    fn stub_of(
        &self,
        entry: &Active,
        live: &mut Live<O>,
        view: &IdleView,
        wall: Millis,
        now: Mono,
    ) -> Stub {
        let book = entry.book();
        let cadence = |who| {
            let known = book.entries().iter().find(|(known, _)| *known == who);
            known.map(|(_, cadence)| cadence)
        };
        let stored = |who, end: Millis| {
            let known = live.stored.iter().find(|(known, _)| *known == who);
            known.map_or(end, |(_, stored)| *stored)
        };
        let pollers = view.pollers.iter().map(|(who, end)| {
            // The record keeps times near to now; the activation that follows knows better.
            let longest = wall.plus(LEASE_MS_MAX);
            if *end > longest {
                self.metrics.bound_hit("lease_ms_max");
            }
            let end = (*end).min(longest);
            let stored = stored(*who, end).min(longest);
            stub::poller(*who, end, stored, cadence(*who), self.rule, now)
        });
        let pollers = pollers.collect();
        // With every lease out of the way, what is left is the due time of everything else. The
        // object is dropped right after, so it may be told so.
        for (who, _) in &view.pollers {
            live.object.renew(*who, Millis::FAR_FUTURE, wall);
        }
        let due = live.object.next_due().filter(|due| *due < Millis::FAR_FUTURE);
        let projection = self.projections.keep(&view.projection);
        self.metrics.projection_bytes.set(super::gauge(self.projections.bytes()));
        Stub {
            fence: live.fence,
            sequence: u32::try_from(view.sequence).unwrap_or(u32::MAX),
            due,
            touched: now,
            projection,
            tick: 0,
            unchecked: false,
            pollers,
        }
    }

    // Over the bound, the stalest of a few stubs of this shard goes. While the store is slow to
    // release those before it, it stays: whoever gets an answer first comes back for it.
    fn make_room(&self, shard: &mut Shard) -> Option<(OwnedSemaphorePermit, Owned)> {
        if self.directory.stub_count() < self.config.stubs_max {
            return None;
        }
        let Ok(place) = Arc::clone(&self.evictions).try_acquire_owned() else {
            self.metrics.bound_hit("evictions_max");
            return None;
        };
        Some((place, self.stalest(shard)?))
    }

    // Releases a stub that is out of memory, and then others for as long as there are too many.
    async fn evict(self: Arc<Self>, _place: OwnedSemaphorePermit, gone: Owned) {
        let _in_flight = self.metrics.in_flight("evictions");
        let mut gone = Some(gone);
        while let Some(one) = gone {
            self.release(vec![one]).await;
            gone = if self.is_dead() { None } else { self.one_too_many() };
        }
    }

    // Shards are looked at from a random one on: one of them may have no stub that can go.
    fn one_too_many(&self) -> Option<Owned> {
        let count = self.directory.shard_count();
        let from = usize::try_from(super::random_u64() >> 32).unwrap_or(0);
        (0..count).find_map(|step| {
            if self.directory.stub_count() <= self.config.stubs_max {
                return None;
            }
            let mut shard = self.directory.shard_at((from + step) % count.max(1))?;
            self.stalest(&mut shard)
        })
    }

    // Takes the stalest of a few stubs of a shard out of memory.
    fn stalest(&self, shard: &mut Shard) -> Option<Owned> {
        const LOOKED_AT: usize = 8;
        let (wall, now) = (self.clock.now(), self.clock.mono());
        let from = shard.stubs.somewhere(super::random_u64());
        let (mut page, _) = shard.stubs.page(from, LOOKED_AT, wall, now);
        if page.is_empty() {
            (page, _) = shard.stubs.page(0, usize::MAX, wall, now);
        }
        let (id, fence) = page
            .into_iter()
            .filter_map(|(name, stub)| {
                let id = ObjectId::new(O::KIND, &name).ok()?;
                (!shard.held.contains_key(&id)).then_some((stub.touched, id, stub.fence))
            })
            .min_by_key(|(touched, _, _)| *touched)
            .map(|(_, id, fence)| (id, fence))?;
        self.forget_stub(shard, &id);
        Some((id, fence))
    }

    /// Takes all stubs of a shard out of memory; nothing is released.
    pub(super) fn forget_stubs(&self, shard: &mut Shard) {
        let (wall, now) = (self.clock.now(), self.clock.mono());
        let mut from = Some(0);
        while let Some(slot) = from {
            let (page, next) = shard.stubs.page(slot, FORGET_SLOTS, wall, now);
            for (name, _) in page {
                if let Ok(id) = ObjectId::new(O::KIND, &name) {
                    self.forget_stub(shard, &id);
                }
            }
            from = next;
        }
    }

    /// Takes a stub out of memory; held waits of it are refused.
    pub(crate) fn forget_stub(&self, shard: &mut Shard, id: &ObjectId) -> Option<Stub> {
        let stub = self.take_stub(shard, id)?;
        for held in shard.held.remove(id).into_iter().flatten() {
            self.metrics.parked_calls.dec();
            held.call.answer(Err(error::not_owner()));
        }
        Some(stub)
    }

    /// Takes a stub out of memory and leaves what is held beside it.
    pub(super) fn take_stub(&self, shard: &mut Shard, id: &ObjectId) -> Option<Stub> {
        let (wall, now) = (self.clock.now(), self.clock.mono());
        let name = id.name();
        let stub = shard.stubs.remove(stub::hash_of(name.as_bytes()), name, wall, now)?;
        self.projections.leave(stub.projection);
        self.directory.stubs_shrank(1);
        self.metrics.stubs.dec();
        self.metrics.projection_bytes.set(super::gauge(self.projections.bytes()));
        Some(stub)
    }
}

/// An object and the fence it is owned under.
type Owned = (ObjectId, Fence);

/// Stubs released at the same time because there are too many. Over it they stay, and go when the
/// store has answered: their number is then bounded by the slots of the shards.
pub(super) const EVICTIONS_MAX: usize = 256;
/// Slots forgotten in one go.
const FORGET_SLOTS: usize = 4_096;
/// Longest lease a stub can keep (12 days); leases are minutes.
const LEASE_MS_MAX: u64 = 1 << 30;
