//! The cluster as a member of it sees it: places from the view, the lease from its own clock.

use std::sync::Arc;

use membership::{Membership, Now, bucket};
use object::ObjectId;
use redis_link::RedisLink;
use tokio::sync::watch;

use super::{Cluster, Place};
use crate::clock::WallSource;
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
        place(&self.membership.now(), self.membership.me(), object)
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

fn place(now: &Now, me: &membership::Incarnation, object: &ObjectId) -> Place {
    match now.table.owner(bucket(object.name().as_bytes())) {
        Some(owner) if owner.incarnation == *me => Place::Here,
        owner => {
            Place::There { hint: owner.map(|owner| owner.address.clone()), view: now.view.number }
        }
    }
}

/// Due times are milliseconds of Redis's clock (cluster 2.11).
impl WallSource for Membership {
    fn now_ms(&self) -> u64 {
        self.redis_now_ms()
    }
}

#[cfg(test)]
mod tests {
    use membership::{Ring, State, View};
    use object::KindTag;

    use super::*;

    fn member(node: &str, boot: u64, state: State) -> membership::Member {
        membership::Member {
            incarnation: membership::Incarnation::new(node, boot).unwrap(),
            address: format!("{node}:7000"),
            zone: String::new(),
            weight: 1,
            state,
            schema: (1, 1),
            load: 0,
        }
    }

    #[test]
    fn every_object_belongs_to_one_member_and_a_former_run_of_ours_is_somebody_else() {
        let members = vec![member("a", 1, State::Active), member("b", 2, State::Active)];
        let now = Now::new(View { number: 7, members }, &Ring);
        let (a, b, before) = (("a", 1), ("b", 2), ("a", 9));
        let of = |(node, boot): (&str, u64), name: &str| {
            let me = membership::Incarnation::new(node, boot).unwrap();
            place(&now, &me, &ObjectId::new(KindTag(b'r'), name).unwrap())
        };
        let mut here = 0;
        for number in 0..200 {
            let name = format!("room-{number}");
            let hint = |node: &str| Place::There { hint: Some(format!("{node}:7000")), view: 7 };
            if of(a, &name) == Place::Here {
                here += 1;
                assert_eq!((of(b, &name), of(before, &name)), (hint("a"), hint("a")));
            } else {
                assert_eq!((of(a, &name), of(b, &name)), (hint("b"), Place::Here));
            }
        }
        assert!((60..140).contains(&here), "{here}");
    }

    #[test]
    fn nobody_owns_anything_before_the_first_view_and_in_a_region_that_drains() {
        let me = membership::Incarnation::new("a", 1).unwrap();
        let object = ObjectId::new(KindTag(b'r'), "x").unwrap();
        let nobody = Place::There { hint: None, view: 0 };
        assert_eq!(place(&Now::nobody(), &me, &object), nobody);
        let members = vec![member("a", 1, State::Draining)];
        let now = Now::new(View { number: 3, members }, &Ring);
        assert_eq!(place(&now, &me, &object), Place::There { hint: None, view: 3 });
    }
}
