//! The table of owners, made once per view, read by every call.

use std::collections::BTreeMap;
use std::sync::Arc;

use xxhash_rust::xxh3::xxh3_64;

use crate::bucket::{BUCKETS, Bucket, BucketSet};
use crate::view::{Incarnation, Member, View};

/// How many nodes stand behind each bucket: its owner and the ones to ask next.
pub const CHOICES: usize = 3;

/// No node; a table never has as many members.
pub(crate) const NOBODY: u16 = u16::MAX;

/// The nodes of one bucket by their place among the owners, the owner first.
pub(crate) type Choices = [u16; CHOICES];

/// A way to give buckets to members. The same view always gives the same table.
pub trait Placement {
    /// Who owns what in a view.
    fn table(&self, view: &View) -> Table;
}

/// The owner of every bucket and the nodes to ask next. Looking up is reading an array.
#[derive(Clone, Debug)]
pub struct Table {
    owners: Vec<Member>,
    rows: Vec<Choices>,
}

impl Table {
    /// A table in which nobody owns anything.
    #[must_use]
    pub fn empty() -> Self {
        Self { owners: Vec::new(), rows: Vec::new() }
    }

    /// A table of what a placement decided: one row per bucket, places among `owners`.
    pub(crate) const fn new(owners: Vec<Member>, rows: Vec<Choices>) -> Self {
        Self { owners, rows }
    }

    /// The node that owns a bucket; none if nobody is active.
    #[must_use]
    pub fn owner(&self, bucket: Bucket) -> Option<&Member> {
        self.at(bucket, 0)
    }

    /// The nodes that would own the bucket next, nearest first, in zones of their own if there are
    /// such. They do not own it while the owner is in the view.
    pub fn next(&self, bucket: Bucket) -> impl Iterator<Item = &Member> {
        (1..CHOICES).filter_map(move |rank| self.at(bucket, rank))
    }

    /// What one incarnation owns.
    #[must_use]
    pub fn owned_by(&self, incarnation: &Incarnation) -> BucketSet {
        let is_theirs = |bucket: &Bucket| {
            self.owner(*bucket).is_some_and(|owner| owner.incarnation == *incarnation)
        };
        Bucket::all().filter(is_theirs).collect()
    }

    /// How many buckets the fullest owner has, and the mean of all owners; zeros without owners.
    #[must_use]
    pub fn load(&self) -> (usize, f64) {
        let mut counts = BTreeMap::<u16, usize>::new();
        for row in &self.rows {
            if let [owner, ..] = row
                && *owner != NOBODY
            {
                *counts.entry(*owner).or_default() += 1;
            }
        }
        let max = counts.values().copied().max().unwrap_or(0);
        let owners = u32::try_from(self.owners.len()).unwrap_or(u32::MAX);
        (max, if owners == 0 { 0.0 } else { f64::from(BUCKETS) / f64::from(owners) })
    }

    /// A digest of the whole table by node ids: equal digests are equal tables.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut bytes = Vec::new();
        for bucket in Bucket::all() {
            for rank in 0..CHOICES {
                let node = self.at(bucket, rank).map_or("", |member| &*member.incarnation.node);
                bytes.extend_from_slice(node.as_bytes());
                bytes.push(0);
            }
        }
        xxh3_64(&bytes)
    }

    fn at(&self, bucket: Bucket, rank: usize) -> Option<&Member> {
        let place = *self.rows.get(usize::from(bucket.0))?.get(rank)?;
        self.owners.get(usize::from(place))
    }
}

/// A view and the table made of it.
#[derive(Clone, Debug)]
pub struct Now {
    pub view: Arc<View>,
    pub table: Arc<Table>,
}

impl Now {
    /// A view with its table.
    #[must_use]
    pub fn new(view: View, placement: &impl Placement) -> Self {
        let table = placement.table(&view);
        Self { view: Arc::new(view), table: Arc::new(table) }
    }

    /// Before the first view: number 0, nobody there.
    #[must_use]
    pub fn nobody() -> Self {
        Self { view: Arc::default(), table: Arc::new(Table::empty()) }
    }
}
