//! The ring: consistent hashing over virtual nodes.
//!
//! `hashring` sorts and searches; where things stand on the ring is ours. Its own positions come
//! from `std::hash::Hash` of whatever is inserted, which is promised neither across Rust releases
//! nor across machines, so what we insert hashes to 8 bytes computed here, and the ring's hasher
//! hands them through. It is asked only for single positions: its replicas clone the whole ring and
//! repeat nodes.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, Hash, Hasher};

use hashring::HashRing;
use xxhash_rust::xxh3::xxh3_64;

use crate::bucket::Bucket;
use crate::table::{CHOICES, Choices, NOBODY, Placement, Table};
use crate::view::{MEMBERS_MAX, Member, State, View, WEIGHT_MAX};

/// Virtual nodes per unit of weight: fewer leave the fullest of 50 nodes a fifth above the mean.
pub const VNODES: u32 = 256;

const _: () = assert!(MEMBERS_MAX < NOBODY as usize);

/// Consistent hashing with [`VNODES`] virtual nodes per unit of weight.
///
/// A node's places depend on its id alone, so it gets its old buckets back after a restart. Only
/// active members own anything.
#[derive(Clone, Copy, Default, Debug)]
pub struct Ring;

impl Placement for Ring {
    fn table(&self, view: &View) -> Table {
        let owners = owners(view);
        if owners.is_empty() {
            return Table::empty();
        }
        let circle = Circle::new(&owners);
        let rows = Bucket::all().map(|bucket| circle.choices(bucket)).collect();
        Table::new(owners, rows)
    }
}

/// Who may own buckets, in an order that the order of the view does not change. Of two active
/// incarnations of one node, which the node table never has, the one with the lower boot number.
fn owners(view: &View) -> Vec<Member> {
    let may_own = |member: &&Member| member.state == State::Active && member.weight > 0;
    let mut owners: Vec<Member> = view.members.iter().filter(may_own).cloned().collect();
    owners.sort_by(|a, b| a.incarnation.cmp(&b.incarnation));
    owners.dedup_by(|later, first| later.incarnation.node == first.incarnation.node);
    owners.truncate(MEMBERS_MAX);
    owners
}

/// A virtual node: where it stands, and which owner it belongs to.
#[derive(Clone, Copy, Debug)]
struct Vnode {
    position: u64,
    owner: u16,
}

impl Hash for Vnode {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.position);
    }
}

/// Hands through the one number it is given.
#[derive(Clone, Copy, Default, Debug)]
struct Identity(u64);

impl BuildHasher for Identity {
    type Hasher = Self;

    fn build_hasher(&self) -> Self {
        Self(0)
    }
}

impl Hasher for Identity {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = number;
    }

    /// Not reached: [`Vnode`] and `u64` write one number. Folded all the same, so that a mistake
    /// would spread over the ring and be found by the golden digest.
    fn write(&mut self, bytes: &[u8]) {
        self.0 = xxh3_64(bytes);
    }
}

/// A row that is being filled.
struct Row {
    places: Choices,
    len: usize,
}

impl Default for Row {
    fn default() -> Self {
        Self { places: [NOBODY; CHOICES], len: 0 }
    }
}

impl Row {
    /// Adds an owner, if there is room and none like it.
    fn add(&mut self, owner: u16, is_alike: impl Fn(u16) -> bool) {
        if self.places.iter().take(self.len).any(|other| is_alike(*other)) {
            return;
        }
        if let Some(place) = self.places.get_mut(self.len) {
            *place = owner;
            self.len += 1;
        }
    }
}

struct Circle {
    ring: HashRing<Vnode, Identity>,
    /// The zone of each owner, as the place of the first owner in the same zone.
    zones: Vec<u16>,
    /// How many different zones can stand in one row.
    zones_wanted: usize,
    nodes_wanted: usize,
}

impl Circle {
    fn new(owners: &[Member]) -> Self {
        let mut ring = HashRing::with_hasher(Identity(0));
        let places = || (0_u16..).zip(owners);
        let vnodes = places().flat_map(|(owner, member)| {
            let count = member.weight.min(WEIGHT_MAX) * VNODES;
            (0..count)
                .map(move |i| Vnode { position: position(&member.incarnation.node, i), owner })
        });
        ring.batch_add(vnodes.collect());
        let first_of = |zone: &str| places().find(|(_, other)| other.zone == zone);
        let zones: Vec<u16> = places()
            .map(|(owner, m)| first_of(&m.zone).map_or(owner, |(first, _)| first))
            .collect();
        let zones_wanted = zones.iter().collect::<BTreeSet<_>>().len().min(CHOICES);
        Self { ring, zones, zones_wanted, nodes_wanted: owners.len().min(CHOICES) }
    }

    /// Walks the ring from the bucket's place: the first node owns it. Behind it stand the nearest
    /// nodes of other zones, and if there are too few zones, the nearest other nodes.
    fn choices(&self, bucket: Bucket) -> Choices {
        let (mut spread, mut near) = (Row::default(), Row::default());
        let mut at = place_of(bucket);
        for _ in 0..self.ring.len() {
            let Some(vnode) = self.ring.get(&at) else { break };
            at = vnode.position.wrapping_add(1);
            near.add(vnode.owner, |other| other == vnode.owner);
            let zone = self.zone(vnode.owner);
            spread.add(vnode.owner, |other| self.zone(other) == zone);
            if near.len == self.nodes_wanted && spread.len == self.zones_wanted {
                break;
            }
        }
        for owner in near.places.into_iter().filter(|owner| *owner != NOBODY) {
            spread.add(owner, |other| other == owner);
        }
        spread.places
    }

    fn zone(&self, owner: u16) -> u16 {
        self.zones.get(usize::from(owner)).copied().unwrap_or(owner)
    }
}

/// Where the virtual node of a node stands: the xxh3 of its id, a zero byte and its number.
fn position(node: &str, number: u32) -> u64 {
    let mut bytes = Vec::with_capacity(node.len() + 5);
    bytes.extend_from_slice(node.as_bytes());
    bytes.push(0);
    bytes.extend_from_slice(&number.to_be_bytes());
    xxh3_64(&bytes)
}

/// Where a bucket stands: in the middle of its own 4,096th part of the ring.
const fn place_of(bucket: Bucket) -> u64 {
    ((bucket.0 as u64) << 52) | (1 << 51)
}

#[cfg(test)]
mod tests;
