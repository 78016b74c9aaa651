//! Which buckets to look into for due times, and the order of what was found. No IO.
//!
//! For each bucket the time of its first entry is remembered, as early as it can be and never
//! later: own writes lower it, a read sets it. Entries that another node wrote are found when the
//! set of owned buckets changes, for some time after it again and again (an owner that is handing
//! over still writes), and by a full pass now and then.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use membership::{BUCKETS, Bucket, BucketSet};
use object::{Millis, ObjectId};

use super::super::Due;

/// Entries read from one bucket at once. A pass holds at most this many for each bucket.
pub(super) const BUCKET_ENTRIES_MAX: usize = 32;

/// Every owned bucket is read at least this often, in milliseconds. Only an entry that an owner from
/// before the last change wrote after `SETTLE_MS` waits for it; reading all more often would cost
/// more than polls do.
const FULL_PASS_MS: u64 = 30_000;
/// For this long after a change of the set every owned bucket is read each `SETTLE_STEP_MS`.
const SETTLE_MS: u64 = 10_000;
const SETTLE_STEP_MS: u64 = 1_000;

/// Nothing is due.
const NEVER: u64 = u64::MAX;

#[derive(Clone, Copy, Debug)]
struct Slot {
    /// Not later than the first entry; 0 if the bucket must be read.
    first: u64,
    /// Not later than the first entry after `first` that was not due when the bucket was read.
    later: u64,
    /// A read has begun. Found at the beginning of a pass, it was given up.
    reading: bool,
}

/// What is remembered of each bucket.
#[derive(Debug)]
pub(super) struct Memory {
    slots: Vec<Slot>,
    changed: Option<Millis>,
    full: Option<Millis>,
}

impl Default for Memory {
    fn default() -> Self {
        let slot = Slot { first: 0, later: NEVER, reading: false };
        Self { slots: vec![slot; usize::from(BUCKETS)], changed: None, full: None }
    }
}

impl Memory {
    /// An entry of the bucket stands at this time or later: after an own write.
    pub(super) fn lower(&mut self, bucket: Bucket, at: Millis) {
        if let Some(slot) = self.slots.get_mut(usize::from(bucket.0)) {
            slot.first = slot.first.min(at.0);
            slot.later = slot.later.min(at.0);
        }
    }

    /// The buckets to be read now, whose reads begin with it. `changed` says that the set is a new
    /// one.
    pub(super) fn begin_pass(
        &mut self,
        owned: &BucketSet,
        changed: bool,
        now: Millis,
    ) -> Vec<Bucket> {
        if changed {
            self.changed = Some(now);
        }
        let settles = self.changed.is_some_and(|at| now >= at && now.since(at) < SETTLE_MS);
        let period = if settles { SETTLE_STEP_MS } else { FULL_PASS_MS };
        let full = changed || self.full.is_none_or(|at| now < at || now.since(at) >= period);
        if full {
            self.full = Some(now);
        }
        let ready = |bucket: &Bucket| {
            let slot = self.slots.get(usize::from(bucket.0));
            full || slot.is_some_and(|slot| slot.reading || slot.first <= now.0)
        };
        let buckets: Vec<Bucket> = owned.iter().filter(ready).collect();
        for bucket in &buckets {
            self.begin_read(*bucket);
        }
        buckets
    }

    /// A read of the bucket begins: what is written from now on may be missing from its answer.
    fn begin_read(&mut self, bucket: Bucket) {
        if let Some(slot) = self.slots.get_mut(usize::from(bucket.0)) {
            *slot = Slot { first: NEVER, later: NEVER, reading: true };
        }
    }

    /// A read has ended: the first entry, and the first that was not due yet.
    pub(super) fn end_read(
        &mut self,
        bucket: Bucket,
        first: Option<Millis>,
        later: Option<Millis>,
    ) {
        if let Some(slot) = self.slots.get_mut(usize::from(bucket.0)) {
            slot.first = slot.first.min(first.map_or(NEVER, |at| at.0));
            slot.later = slot.later.min(later.map_or(NEVER, |at| at.0));
            slot.reading = false;
        }
    }

    /// When something may be due next, after what is due by `now`; may be too early.
    pub(super) fn next(&self, owned: &BucketSet, now: Millis) -> Option<Millis> {
        let slots = owned.iter().filter_map(|bucket| self.slots.get(usize::from(bucket.0)));
        let next = slots.map(|slot| if slot.first > now.0 { slot.first } else { slot.later }).min();
        next.filter(|at| *at != NEVER).map(Millis)
    }
}

/// What one read of a bucket has found.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub(super) struct Found {
    /// Due entries in order, at most [`BUCKET_ENTRIES_MAX`].
    pub(super) entries: VecDeque<Due>,
    /// Whether more due entries follow.
    pub(super) more: bool,
}

/// The due entries of all buckets, merged in order of time and object.
#[derive(Debug)]
pub(super) struct Pass {
    pub(super) now: Millis,
    /// The last entry handed out, or the one the pass began after.
    pub(super) served: Option<Due>,
    /// Bounded by the buckets, each with `BUCKET_ENTRIES_MAX` entries.
    buckets: HashMap<u16, Found>,
    /// Bounded by the buckets: the first entry of each.
    heads: BinaryHeap<Reverse<(Millis, ObjectId, u16)>>,
}

impl Pass {
    pub(super) fn new(now: Millis, served: Option<Due>) -> Self {
        Self { now, served, buckets: HashMap::new(), heads: BinaryHeap::new() }
    }

    /// Takes in what was read of a bucket, after all that it gave before.
    pub(super) fn add(&mut self, bucket: Bucket, found: Found) {
        if let Some(first) = found.entries.front() {
            self.heads.push(Reverse((first.at, first.object.clone(), bucket.0)));
            self.buckets.insert(bucket.0, found);
        }
    }

    /// The next entry. `Err` names a bucket that must be read on first, after its last entry.
    pub(super) fn take(&mut self) -> Result<Option<Due>, (Bucket, Due)> {
        let Some(Reverse((at, object, bucket))) = self.heads.pop() else { return Ok(None) };
        let due = Due { at, object };
        if let Some(found) = self.buckets.get_mut(&bucket) {
            found.entries.pop_front();
            match found.entries.front() {
                Some(next) => self.heads.push(Reverse((next.at, next.object.clone(), bucket))),
                None if found.more => {
                    // Handed out once the bucket is read on, lest an entry be overtaken.
                    found.entries.push_back(due.clone());
                    self.heads.push(Reverse((due.at, due.object.clone(), bucket)));
                    return Err((Bucket(bucket), due));
                }
                None => {
                    self.buckets.remove(&bucket);
                }
            }
        }
        self.served = Some(due.clone());
        Ok(Some(due))
    }

    /// Appends what was read on of a bucket that `take` named.
    pub(super) fn read_on(&mut self, bucket: Bucket, found: Found) {
        if let Some(waiting) = self.buckets.get_mut(&bucket.0) {
            waiting.entries.extend(found.entries);
            waiting.more = found.more;
        }
    }
}

#[cfg(test)]
mod tests {
    use object::KindTag;

    use super::*;

    const START: Millis = Millis(1_000);

    fn due(at: u64, name: &str) -> Due {
        Due { at: Millis(at), object: ObjectId::new(KindTag(b'r'), name).unwrap() }
    }

    fn read(memory: &mut Memory, bucket: Bucket, first: Option<u64>, later: Option<u64>) {
        memory.begin_read(bucket);
        memory.end_read(bucket, first.map(Millis), later.map(Millis));
    }

    /// A memory in which every bucket was read long after the set changed.
    fn settled() -> (Memory, BucketSet, Millis) {
        let (mut memory, owned) = (Memory::default(), BucketSet::all());
        memory.begin_pass(&owned, true, START);
        let now = START.plus(FULL_PASS_MS);
        assert_eq!(memory.begin_pass(&owned, false, now).len(), owned.len());
        for bucket in Bucket::all() {
            read(&mut memory, bucket, None, None);
        }
        (memory, owned, now)
    }

    #[test]
    fn only_what_may_be_due_is_read() {
        let (mut memory, owned, now) = settled();
        assert_eq!(memory.begin_pass(&owned, false, now.plus(1)), []);
        assert_eq!(memory.next(&owned, now), None);
        memory.lower(Bucket(7), now.plus(50));
        memory.lower(Bucket(7), now.plus(90));
        assert_eq!(memory.next(&owned, now), Some(now.plus(50)));
        assert_eq!(memory.begin_pass(&owned, false, now.plus(49)), []);
        assert_eq!(memory.begin_pass(&owned, false, now.plus(50)), [Bucket(7)]);
        let none = BucketSet::empty();
        assert_eq!(memory.begin_pass(&none, false, now.plus(50)), []);
        assert_eq!(memory.next(&none, now), None);
    }

    #[test]
    fn a_write_during_a_read_is_not_forgotten() {
        let (mut memory, owned, now) = settled();
        memory.begin_read(Bucket(3));
        memory.lower(Bucket(3), now.plus(5));
        memory.end_read(Bucket(3), None, None);
        assert_eq!(memory.next(&owned, now), Some(now.plus(5)));
    }

    #[test]
    fn a_read_given_up_is_done_again() {
        let (mut memory, owned, now) = settled();
        memory.begin_read(Bucket(3));
        assert_eq!(memory.begin_pass(&owned, false, now.plus(1)), [Bucket(3)]);
    }

    #[test]
    fn every_owned_bucket_is_read_after_a_change_and_now_and_then() {
        let (mut memory, owned, now) = settled();
        let mut reads = Vec::new();
        let mut at = now.plus(1);
        for step in 0..700 {
            if !memory.begin_pass(&owned, step == 0, at).is_empty() {
                reads.push(step * 100);
                for bucket in Bucket::all() {
                    read(&mut memory, bucket, None, None);
                }
            }
            at = at.plus(100);
        }
        let settle: Vec<i32> = (0..10).map(|second| second * 1_000).collect();
        assert_eq!(reads[..10], settle);
        assert_eq!(reads[10..], [39_000, 69_000]);
        // A clock that was set back must not put the next full pass off.
        assert_eq!(memory.begin_pass(&owned, false, START).len(), owned.len());
    }

    #[test]
    fn next_looks_past_what_is_due() {
        let (mut memory, owned, now) = settled();
        read(&mut memory, Bucket(1), Some(now.0), Some(now.0 + 30));
        read(&mut memory, Bucket(2), Some(now.0 + 40), Some(now.0 + 40));
        assert_eq!(memory.next(&owned, now), Some(now.plus(30)));
    }

    #[test]
    fn a_pass_hands_out_all_in_order_and_asks_before_it_overtakes() {
        let found = |entries: Vec<Due>, more| Found { entries: entries.into(), more };
        let mut pass = Pass::new(START, None);
        pass.add(Bucket(1), found(vec![due(1, "b"), due(3, "a")], true));
        pass.add(Bucket(2), found(vec![due(1, "a"), due(9, "c")], false));
        pass.add(Bucket(3), found(vec![], false));
        let mut taken = Vec::new();
        let mut asked = 0;
        loop {
            match pass.take() {
                Ok(Some(due)) => taken.push(due),
                Ok(None) => break,
                Err((bucket, after)) => {
                    asked += 1;
                    assert_eq!((bucket, &after), (Bucket(1), &due(3, "a")));
                    pass.read_on(bucket, found(vec![due(3, "z"), due(20, "d")], false));
                }
            }
        }
        let all = [due(1, "a"), due(1, "b"), due(3, "a"), due(3, "z"), due(9, "c"), due(20, "d")];
        assert_eq!((taken.as_slice(), asked), (&all[..], 1));
        assert_eq!(pass.served, Some(due(20, "d")));
    }
}
