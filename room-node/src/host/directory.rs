//! Which objects are in memory: a sharded map with one entry per object, and at most one
//! activation behind each entry. Every change of an entry happens under its shard's lock.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object::{Millis, ObjectId, ParticipantId, Poll, Reply};

use super::activation::Exact;
use super::call::Pending;
use super::entrance::Away;
use super::mailbox::Mailbox;
use super::trouble::Trouble;
use crate::clock::Mono;
use crate::front::book::Book;
use crate::front::cadence::Rule;
use crate::front::stub::{self, NameHash, Stub, Stubs};

/// Why an activation begins; the label of the wakes counter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cause {
    Call,
    Poll,
    Timer,
    Disconnect,
}

impl Cause {
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Call => "call",
            Self::Poll => "poll",
            Self::Timer => "timer",
            Self::Disconnect => "disconnect",
        }
    }
}

/// An object with an activation, loading or loaded.
#[derive(Debug)]
pub(crate) struct Active {
    pub(crate) id: ObjectId,
    pub(super) mailbox: Mailbox,
    /// The cadence of its participants.
    pub(crate) book: Mutex<Book>,
    pub(super) cause: Cause,
    /// Whether a stub went before.
    pub(super) was_stub: bool,
    /// Lease ends the stub kept, for the activation that follows it.
    from_stub: Mutex<Option<Box<Exact>>>,
    /// Milliseconds of the last command.
    touched: AtomicU64,
    /// By when it has to leave the node, in milliseconds; 0 if it may stay.
    leave_by: AtomicU64,
}

impl Active {
    pub(crate) fn new(id: ObjectId, cause: Cause, book: Book, from_stub: Option<Exact>) -> Self {
        Self {
            id,
            mailbox: Mailbox::default(),
            book: Mutex::new(book),
            cause,
            was_stub: from_stub.is_some(),
            from_stub: Mutex::new(from_stub.map(Box::new)),
            touched: AtomicU64::new(0),
            leave_by: AtomicU64::new(0),
        }
    }

    /// When the last command was decided.
    pub(super) fn touched(&self) -> Mono {
        Mono(self.touched.load(Ordering::Relaxed))
    }

    pub(super) fn touch(&self, now: Mono) {
        self.touched.store(now.0, Ordering::Relaxed);
    }

    /// Asks the activation to leave the node, by `at` at the latest. An earlier wish stays.
    pub(super) fn leave_by(&self, at: Mono) {
        let asked =
            self.leave_by.compare_exchange(0, at.0.max(1), Ordering::Relaxed, Ordering::Relaxed);
        if asked.is_ok() {
            self.mailbox.nudge();
        }
    }

    /// By when it was asked to leave, if it was.
    pub(super) fn leaves(&self) -> Option<Mono> {
        Some(self.leave_by.load(Ordering::Relaxed)).filter(|by| *by != 0).map(Mono)
    }

    /// It may stay after all.
    pub(super) fn stay(&self) {
        self.leave_by.store(0, Ordering::Relaxed);
    }

    /// Takes the lease ends a stub has kept; later loads of this entry trust the store.
    pub(super) fn take_from_stub(&self) -> Box<Exact> {
        let mut kept = self.from_stub.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take().unwrap_or_default()
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A wait held beside a stub.
#[derive(Debug)]
pub(crate) struct Held {
    pub(crate) call: Box<Pending>,
    pub(crate) until: Millis,
    /// What it is told at `until` if the object still sleeps.
    pub(crate) timeout: Reply,
}

/// One part of the directory.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    /// At most `objects_active_max` over all shards.
    pub(crate) active: HashMap<ObjectId, Arc<Active>>,
    pub(crate) stubs: Stubs,
    /// Waits held beside stubs.
    /// At most `parked_calls_max` an object, and `link_calls_max` a link.
    pub(crate) held: HashMap<ObjectId, Vec<Held>>,
    /// Objects that were absent when last asked for, and until when that is believed.
    /// At most `absent_max` over all shards.
    pub(crate) absent: HashMap<ObjectId, Mono>,
    /// At most `troubled_max` over all shards.
    pub(crate) trouble: HashMap<ObjectId, Trouble>,
    /// Objects that another live incarnation owned when they were last claimed.
    /// At most `away_max` over all shards.
    pub(crate) away: HashMap<ObjectId, Away>,
    /// Former stubs whose release is not durable yet. Bounded by one batch of releases.
    pub(crate) leaving: HashSet<ObjectId>,
    /// The store's primary under which unmarked stubs are known to be ours.
    primary: u64,
}

impl Shard {
    /// Settles a wait's answer; the milliseconds until the next, or `None` if the object is gone.
    pub(crate) fn settle(
        &mut self,
        rule: Rule,
        id: &ObjectId,
        pass: &PassKey,
        poll: Option<Poll>,
        wall: Millis,
        now: Mono,
    ) -> Option<u64> {
        if let Some(entry) = self.active.get(id) {
            return Some(entry.book().settle(rule, pass.who, pass.ticket, poll, now));
        }
        let mut stub = self.stub(id, wall, now)?;
        let poller = stub.find(pass.who)?;
        let mut cadence = poller.cadence(now);
        (cadence.start, cadence.charged) = (pass.start, false);
        let ms = cadence.settle(rule, pass.ticket, poll, now);
        poller.t = cadence.t;
        self.stubs.put(hash(id), id.name(), &stub);
        Some(ms)
    }

    /// Forgets a wait that ended without an answer.
    pub(crate) fn abandon(&self, id: &ObjectId, pass: &PassKey) {
        if let Some(entry) = self.active.get(id) {
            entry.book().abandon(pass.who, pass.ticket);
        }
    }

    /// After a change of the primary every stub is in doubt until its fence has been checked.
    pub(crate) fn note_primary(&mut self, primary: u64) {
        if self.primary != primary {
            self.primary = primary;
            self.stubs.doubt_all();
        }
    }

    /// True if there is a stub.
    pub(crate) fn has_stub(&self, id: &ObjectId) -> bool {
        self.stubs.has(hash(id), id.name())
    }

    /// Reads a stub.
    pub(crate) fn stub(&self, id: &ObjectId, wall: Millis, now: Mono) -> Option<Stub> {
        self.stubs.get(hash(id), id.name(), wall, now)
    }

    /// Writes a stub that is already here.
    pub(crate) fn put_stub(&mut self, id: &ObjectId, stub: &Stub) {
        self.stubs.put(hash(id), id.name(), stub);
    }

    /// The wait of a participant that is held beside a stub.
    pub(crate) fn held_pass(&self, id: &ObjectId, who: ParticipantId) -> Option<PassKey> {
        let held = self.held.get(id)?.iter().filter(|held| !held.call.is_abandoned());
        held.filter_map(|held| held.call.pass).rfind(|pass| pass.who == who)
    }

    /// How many waits are held beside a stub.
    pub(crate) fn held_count(&self, id: &ObjectId) -> usize {
        self.held.get(id).map_or(0, Vec::len)
    }

    /// Holds a wait beside a stub.
    pub(crate) fn hold(&mut self, id: &ObjectId, held: Held) {
        self.held.entry(id.clone()).or_default().push(held);
    }

    /// Tells held waits whose time has come; returns how many.
    pub(crate) fn answer_held(&mut self, id: &ObjectId, wall: Millis) -> usize {
        let Some(held) = self.held.remove(id) else { return 0 };
        let before = held.len();
        let mut rest = Vec::new();
        for held in held {
            if held.until <= wall {
                held.call.answer(Ok(held.timeout));
            } else if !held.call.is_abandoned() {
                rest.push(held);
            }
        }
        let answered = before - rest.len();
        if !rest.is_empty() {
            self.held.insert(id.clone(), rest);
        }
        answered
    }

    /// Forgets held waits whose callers are gone; returns how many.
    pub(crate) fn forget_abandoned(&mut self, id: &ObjectId) -> usize {
        let Some(held) = self.held.get_mut(id) else { return 0 };
        let before = held.len();
        held.retain(|held| !held.call.is_abandoned());
        let gone = before - held.len();
        if held.is_empty() {
            self.held.remove(id);
        }
        gone
    }

    /// When the first held wait of an object ends.
    pub(crate) fn held_until(&self, id: &ObjectId) -> Option<Millis> {
        self.held.get(id)?.iter().map(|held| held.until).min()
    }
}

/// An admitted wait: whose, which, since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PassKey {
    pub(crate) who: ParticipantId,
    pub(crate) ticket: u16,
    pub(crate) start: Mono,
}

/// Shards: enough that two cores rarely meet, few enough that a sweep is short.
const SHARDS: usize = 64;

#[derive(Debug)]
pub(crate) struct Directory {
    shards: Vec<Mutex<Shard>>,
    active: AtomicUsize,
    stubs: AtomicUsize,
}

impl Directory {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        Self { shards, active: AtomicUsize::new(0), stubs: AtomicUsize::new(0) }
    }

    /// The shard of an object, locked.
    pub(crate) fn shard(&self, id: &ObjectId) -> MutexGuard<'_, Shard> {
        self.shard_of(hash(id))
    }

    /// The shard of a name's hash, locked.
    pub(crate) fn shard_of(&self, hash: NameHash) -> MutexGuard<'_, Shard> {
        let count = self.shards.len() as u64;
        let at = usize::try_from((hash >> 32) % count).unwrap_or(0);
        let Some(shard) = self.shard_at(at) else {
            unreachable!("a remainder is below the number of shards");
        };
        shard
    }

    /// The shard of a number, locked.
    pub(crate) fn shard_at(&self, at: usize) -> Option<MutexGuard<'_, Shard>> {
        let shard = self.shards.get(at)?;
        Some(shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn shard_count(&self) -> usize {
        self.shards.len()
    }

    /// Every shard in turn.
    pub(crate) fn shards(&self) -> impl Iterator<Item = MutexGuard<'_, Shard>> {
        self.shards.iter().map(|shard| shard.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reserves room for one more activation.
    pub(crate) fn reserve(&self, objects_active_max: usize) -> bool {
        let grown = self.active.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |active| {
            (active < objects_active_max).then_some(active + 1)
        });
        grown.is_ok()
    }

    /// Gives the room of one activation back.
    pub(crate) fn unreserve(&self) {
        self.active.fetch_sub(1, Ordering::Relaxed);
    }

    /// One shard's share of a bound of the whole directory.
    pub(crate) fn share(&self, all_max: usize) -> usize {
        all_max.div_ceil(self.shards.len()).max(1)
    }

    pub(crate) fn stubs_grew(&self, by: usize) {
        self.stubs.fetch_add(by, Ordering::Relaxed);
    }

    pub(crate) fn stubs_shrank(&self, by: usize) {
        self.stubs.fetch_sub(by, Ordering::Relaxed);
    }

    pub(crate) fn stub_count(&self) -> usize {
        self.stubs.load(Ordering::Relaxed)
    }

    pub(crate) fn active_count(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }
}

/// The hash of an object's name; a host has objects of one kind.
pub(crate) fn hash(id: &ObjectId) -> NameHash {
    stub::hash_of(id.name().as_bytes())
}
