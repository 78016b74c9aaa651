//! The entrance of the host: which calls go on to their object here, and where the others belong.

use object::{Class, Object, ObjectId, Reject};

use super::call::{Elsewhere, Response};
use super::directory::Shard;
use super::{Inner, gauge};
use crate::clock::Mono;
use crate::cluster::Place;
use crate::error;
use crate::store::Incarnation;

/// A call that was sent on more often than this goes round in circles (cluster 2.10).
pub(crate) const HOPS_MAX: u32 = 3;
/// How long a call waits for a view its sender knows and we do not.
const VIEW_WAIT_MS: u64 = 250;
/// How long it is believed that another incarnation owns an object of ours: its owner hands it
/// over or its lease ends, and a claim for each call until then would be a storm.
const AWAY_MS: u64 = 100;

/// An object that another live incarnation owned when it was last claimed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Away {
    since: Mono,
    address: Option<String>,
}

impl Away {
    fn holds(&self, now: Mono) -> bool {
        now < self.since.plus(AWAY_MS)
    }

    pub(crate) fn is_over(&self, now: Mono) -> bool {
        !self.holds(now)
    }
}

impl<O: Object> Inner<O> {
    /// Lets a call in, or says why it does not go on from here. Nothing has run then.
    pub(crate) async fn enter(
        &self,
        object: &ObjectId,
        view: u64,
        hops: u32,
    ) -> Result<(), Reject> {
        if hops > HOPS_MAX {
            self.metrics.bound_hit("hops_max");
            return Err(error::unavailable());
        }
        if view > self.cluster.view() {
            self.catch_up(view).await;
        }
        self.admits(object, hops)
    }

    // The sender has read the table later than we have: decide by what it saw, if it comes soon.
    async fn catch_up(&self, view: u64) {
        self.metrics.view_waits.inc();
        let mut changes = self.cluster.changes();
        self.cluster.refresh(view);
        let at = self.clock.instant(self.clock.mono().plus(VIEW_WAIT_MS));
        // Too late, or no more views: the fence decides, whatever the table says.
        let _either = tokio::time::timeout_at(at, changes.wait_for(|seen| *seen >= view)).await;
    }

    /// Whether a call of this object may go on here: the object belongs here, or is here still.
    pub(crate) fn admits(&self, object: &ObjectId, hops: u32) -> Result<(), Reject> {
        if !self.cluster.is_leased() {
            return Err(error::not_owner());
        }
        let leaves = self.must_leave(object);
        let now = self.clock.mono();
        let shard = self.directory.shard(object);
        let is_here = shard.active.contains_key(object);
        if is_here {
            return Ok(());
        }
        if leaves {
            let kept = shard.has_stub(object) || shard.leaving.contains(object);
            // Sent here by a node that found us named as the owner: it is given back then.
            return if kept || hops > 0 { Ok(()) } else { Err(self.shut()) };
        }
        let away = shard.away.get(object).filter(|away| away.holds(now));
        match away {
            // Who was sent here is believed more: the owner has given the object up since.
            Some(_) if hops == 0 => Err(error::not_owner()),
            Some(_) | None => Ok(()),
        }
    }

    fn shut(&self) -> Reject {
        if self.is_draining() { error::draining() } else { error::not_owner() }
    }

    /// True if the object should not be served by this node any more.
    pub(crate) fn must_leave(&self, object: &ObjectId) -> bool {
        self.is_draining() || self.cluster.place(object) != Place::Here
    }

    /// Remembers that a live incarnation owns an object.
    pub(super) fn note_away(&self, id: &ObjectId, owner: &Incarnation) {
        let now = self.clock.mono();
        let address = self.cluster.address(owner);
        let mut shard = self.directory.shard(id);
        let before = shard.away.len();
        let share = self.directory.share(self.config.away_max);
        if before >= share {
            self.metrics.bound_hit("away_max");
            shard.away.retain(|_, away| away.holds(now));
            if shard.away.len() >= share {
                shard.away.clear();
            }
        }
        shard.away.insert(id.clone(), Away { since: now, address });
        self.metrics.away.add(gauge(shard.away.len()) - gauge(before));
    }

    /// What was believed of objects that are not here is asked anew: the view or the store's
    /// primary has changed.
    pub(super) fn forget_hearsay(&self) {
        for mut shard in self.directory.shards() {
            let Shard { away, absent, .. } = &mut *shard;
            self.metrics.away.sub(gauge(away.len()));
            self.metrics.absent.sub(gauge(absent.len()));
            (*away, *absent) = Default::default();
        }
    }

    /// Says with a refusal where the call belongs.
    pub(super) fn direct(&self, object: &ObjectId, response: &mut Response) {
        if !response.result.as_ref().is_err_and(|reject| reject.class == Class::NotOwner) {
            return;
        }
        self.metrics.not_owner.inc();
        let now = self.clock.mono();
        let away = {
            let shard = self.directory.shard(object);
            shard.away.get(object).filter(|away| away.holds(now)).cloned()
        };
        // The store's word on the owner is fresher than the table's.
        let hint = match (away, self.cluster.place(object)) {
            (Some(away), _) => away.address,
            (None, Place::There { hint, .. }) => hint,
            (None, Place::Here) => None,
        };
        response.elsewhere = Some(Elsewhere { hint, view: self.cluster.view() });
    }
}
