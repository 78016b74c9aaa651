//! Which objects are in memory: a sharded map with one entry per object, and at most one
//! activation behind each entry. Every change of an entry happens under its shard's lock.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object::{Millis, ObjectId, ParticipantId, Poll};

use super::mailbox::Mailbox;
use super::trouble::Trouble;
use crate::clock::Mono;
use crate::front::book::Book;
use crate::front::cadence::Rule;

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
    /// What a stub kept, for the activation that follows it.
    pub(super) from_stub: Mutex<Option<Vec<(ParticipantId, Millis)>>>,
}

impl Active {
    pub(crate) fn new(id: ObjectId, cause: Cause, book: Book) -> Self {
        Self {
            id,
            mailbox: Mailbox::default(),
            book: Mutex::new(book),
            cause,
            from_stub: Mutex::new(None),
        }
    }

    /// Takes the lease ends a stub has kept; later loads of this entry trust the store.
    pub(super) fn take_from_stub(&self) -> Vec<(ParticipantId, Millis)> {
        let mut kept = self.from_stub.lock().unwrap_or_else(PoisonError::into_inner);
        kept.take().unwrap_or_default()
    }

    pub(crate) fn book(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One part of the directory.
#[derive(Debug, Default)]
pub(crate) struct Shard {
    pub(crate) active: HashMap<ObjectId, Arc<Active>>,
    /// Objects that were absent when last asked for, and until when that is believed.
    pub(crate) absent: HashMap<ObjectId, Mono>,
    pub(crate) trouble: HashMap<ObjectId, Trouble>,
}

impl Shard {
    /// Settles a wait's answer; the milliseconds until the next, or `None` if the object is gone.
    pub(crate) fn settle(
        &self,
        rule: Rule,
        id: &ObjectId,
        who: ParticipantId,
        ticket: u16,
        poll: Option<Poll>,
        now: Mono,
    ) -> Option<u64> {
        let entry = self.active.get(id)?;
        Some(entry.book().settle(rule, who, ticket, poll, now))
    }

    /// Forgets a wait that ended without an answer.
    pub(crate) fn abandon(&self, id: &ObjectId, who: ParticipantId, ticket: u16) {
        if let Some(entry) = self.active.get(id) {
            entry.book().abandon(who, ticket);
        }
    }
}

/// Shards: enough that two cores rarely meet, few enough that a sweep is short.
const SHARDS: usize = 64;

#[derive(Debug)]
pub(crate) struct Directory {
    shards: Vec<Mutex<Shard>>,
    active: AtomicUsize,
}

impl Directory {
    pub(crate) fn new() -> Self {
        let shards = (0..SHARDS).map(|_| Mutex::new(Shard::default())).collect();
        Self { shards, active: AtomicUsize::new(0) }
    }

    /// The shard of an object, locked.
    pub(crate) fn shard(&self, id: &ObjectId) -> MutexGuard<'_, Shard> {
        let at = (hash(id) >> 48) as usize % self.shards.len();
        // `at` is a remainder, so the first shard is never used in place of another.
        let shard = self.shards.get(at).or_else(|| self.shards.first());
        match shard {
            Some(shard) => shard.lock().unwrap_or_else(PoisonError::into_inner),
            None => unreachable!("a directory has {SHARDS} shards"),
        }
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

    pub(crate) fn active_count(&self) -> usize {
        self.active.load(Ordering::Relaxed)
    }
}

/// The hash of an object id, the same in every part of this module.
pub(crate) fn hash(id: &ObjectId) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(id.name().as_bytes(), u64::from(id.kind().0))
}
