//! What the host remembers of objects that are not there or not well, within bounds.

use std::panic::{AssertUnwindSafe, catch_unwind};

use object::{Activation, Cx, Object, ObjectId};

use super::call::{Pending, Verdict};
use super::directory::Shard;
use super::trouble::Trouble;
use super::{Inner, gauge, random_u64, random_u128};
use crate::clock::Mono;
use crate::error;

impl<O: Object> Inner<O> {
    pub(super) fn is_aside(&self, id: &ObjectId) -> bool {
        let now = self.clock.mono();
        self.directory.shard(id).trouble.get(id).is_some_and(|trouble| trouble.is_aside(now))
    }

    /// The answer to a call of an object that was absent a moment ago.
    pub(crate) fn known_absent(&self, shard: &mut Shard, call: &Pending) -> Option<Verdict> {
        let until = shard.absent.get(&call.request.object)?;
        if !self.cluster.is_leased() {
            return None;
        }
        let reads = match call.request.op.activation {
            Activation::Peek | Activation::MustExist => true,
            Activation::MayCreate | Activation::MustCreate => false,
        };
        if !reads || *until <= self.clock.mono() {
            shard.absent.remove(&call.request.object);
            self.metrics.absent.dec();
            return None;
        }
        Some(self.absent_verdict(call))
    }

    /// What an object that does not exist says to a call. A panic ends here: it is no object's,
    /// and the caller may hold a lock.
    pub(super) fn absent_verdict(&self, call: &Pending) -> Verdict {
        let now = self.clock.now();
        let cx = Cx { now, random: random_u128(), settings: &self.settings };
        let asked = catch_unwind(AssertUnwindSafe(|| O::absent(&cx, &call.as_call(None, now))));
        asked.unwrap_or_else(|_panic| {
            self.metrics.panics.inc();
            Err(error::internal())
        })
    }

    /// An object has just been created: nobody who knows may be told that it is absent.
    pub(super) fn forget_absent(&self, id: &ObjectId) {
        if self.directory.shard(id).absent.remove(id).is_some() {
            self.metrics.absent.dec();
        }
    }

    pub(super) fn note_absent(&self, id: &ObjectId) {
        let now = self.clock.mono();
        let mut shard = self.directory.shard(id);
        let before = shard.absent.len();
        if before >= self.directory.share(self.config.absent_max) {
            shard.absent.retain(|_, until| *until > now);
            if shard.absent.len() >= self.directory.share(self.config.absent_max) {
                shard.absent.clear();
            }
        }
        shard.absent.insert(id.clone(), now.plus(self.config.absent_ms));
        self.metrics.absent.add(gauge(shard.absent.len()) - gauge(before));
    }

    // Returns how long the object's timer should wait before it is tried again.
    pub(super) fn note_panic(&self, id: &ObjectId) -> u64 {
        let now = self.clock.mono();
        let mut shard = self.directory.shard(id);
        let trouble = self.trouble(&mut shard, id, now);
        if trouble.panicked(&self.config, now) {
            self.metrics.quarantines.inc();
            tracing::error!("object set aside because it panics again and again");
        }
        trouble.retry_ms(now, random_u64())
    }

    pub(super) fn note_damage(&self, id: &ObjectId) {
        let now = self.clock.mono();
        let mut shard = self.directory.shard(id);
        self.trouble(&mut shard, id, now).damaged();
        self.metrics.quarantines.inc();
    }

    fn trouble<'a>(&self, shard: &'a mut Shard, id: &ObjectId, now: Mono) -> &'a mut Trouble {
        let share = self.directory.share(self.config.troubled_max);
        if !shard.trouble.contains_key(id) && shard.trouble.len() >= share {
            let before = shard.trouble.len();
            shard.trouble.retain(|_, trouble| !trouble.is_over(&self.config, now));
            if shard.trouble.len() >= share {
                // Full of live records: the one that ends first makes room.
                let first = shard.trouble.iter().min_by_key(|(_, trouble)| trouble.until);
                if let Some(first) = first.map(|(id, _)| id.clone()) {
                    shard.trouble.remove(&first);
                }
            }
            self.metrics.troubled.sub(gauge(before - shard.trouble.len()));
        }
        let metrics = &self.metrics;
        shard.trouble.entry(id.clone()).or_insert_with(|| {
            metrics.troubled.inc();
            Trouble::new(now)
        })
    }
}
