//! The cluster as a member of it sees it: places from the view, the lease from its own clock.

use std::sync::Arc;

use membership::{Membership, bucket};
use object::ObjectId;
use redis_link::RedisLink;
use tokio::sync::watch;

use super::{Cluster, Place};
use crate::store::Incarnation;

/// A node that is a member of a region.
#[derive(Debug)]
pub struct Member {
    membership: Arc<Membership>,
    link: Arc<RedisLink>,
}

impl Member {
    /// The cluster of a member whose rooms are behind `link`.
    #[must_use]
    pub const fn new(membership: Arc<Membership>, link: Arc<RedisLink>) -> Self {
        Self { membership, link }
    }
}

fn known(owner: &Incarnation) -> membership::Incarnation {
    membership::Incarnation { node: Arc::clone(&owner.node), boot: owner.boot }
}

impl Cluster for Member {
    fn place(&self, object: &ObjectId) -> Place {
        let now = self.membership.now();
        match now.table.owner(bucket(object.name().as_bytes())) {
            Some(owner) if owner.incarnation == *self.membership.me() => Place::Here,
            owner => Place::There {
                hint: owner.map(|owner| owner.address.clone()),
                view: now.view.number,
            },
        }
    }

    fn is_leased(&self) -> bool {
        self.membership.is_leased()
    }

    fn ended(&self, owner: &Incarnation) -> bool {
        self.membership.ended(&known(owner))
    }

    fn address(&self, owner: &Incarnation) -> Option<String> {
        let now = self.membership.now();
        now.view.member(&known(owner)).map(|member| member.address.clone())
    }

    fn others(&self) -> usize {
        let now = self.membership.now();
        let me = self.membership.me();
        now.view.members.iter().filter(|member| member.incarnation != *me).count()
    }

    fn view(&self) -> u64 {
        self.membership.now().view.number
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.membership.changes()
    }

    fn refresh(&self, at_least: u64) {
        self.membership.refresh(at_least);
    }

    fn primaries(&self) -> watch::Receiver<u64> {
        self.link.changes()
    }
}
