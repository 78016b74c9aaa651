//! Records of many lengths, kept by length in chunks: no record has a pointer, an allocation or
//! an allocator's rounding of its own.
//!
//! A record is filled up with zeros to a multiple of 8 bytes; its first byte is never 0. A chunk
//! whose records are all gone is given back.

/// Where a record is: its class in the upper bits, its slot in the lower ones.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) struct At(pub(super) u32);

/// Four million records of one length in one slab: more than a node's memory holds.
const SLOT_BITS: u32 = 22;
const SLOTS_MAX: usize = 1 << SLOT_BITS;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;
const CLASSES_MAX: usize = 1 << (u32::BITS - SLOT_BITS);
/// Lengths of a class differ by less.
const UNIT_BYTES: usize = 8;
/// Few, so that a class with one record is small; many, so that a chunk's own cost is not felt.
const CHUNK_RECORDS: usize = 64;

impl At {
    fn new(class: usize, slot: usize) -> Option<Self> {
        if class >= CLASSES_MAX || slot >= SLOTS_MAX {
            return None;
        }
        u32::try_from(class << SLOT_BITS | slot).ok().map(Self)
    }

    const fn class(self) -> usize {
        (self.0 >> SLOT_BITS) as usize
    }

    const fn slot(self) -> usize {
        (self.0 & SLOT_MASK) as usize
    }
}

#[derive(Debug, Default)]
struct Chunk {
    /// Empty while none of its records lives.
    bytes: Box<[u8]>,
    live: usize,
}

/// Records of one length.
#[derive(Debug, Default)]
struct Class {
    /// Bounded by the slots.
    chunks: Vec<Chunk>,
    /// Slots that were ever used, at most `SLOTS_MAX`.
    slots: usize,
    /// Bounded by the slots.
    free: Vec<u32>,
}

/// Records of all lengths.
#[derive(Debug, Default)]
pub(super) struct Slab {
    classes: Vec<Class>,
}

impl Slab {
    /// Keeps a record; `None` if there is no place for one so long, or for one more.
    pub(super) fn insert(&mut self, record: &[u8]) -> Option<At> {
        let number = class_of(record.len());
        At::new(number, 0)?;
        if self.classes.len() <= number {
            self.classes.resize_with(number + 1, Class::default);
        }
        let class = self.classes.get_mut(number)?;
        let at = match class.free.pop() {
            Some(slot) => At::new(number, slot as usize)?,
            None => {
                let at = At::new(number, class.slots)?;
                class.slots += 1;
                if class.chunks.len() * CHUNK_RECORDS < class.slots {
                    class.chunks.push(Chunk::default());
                }
                at
            }
        };
        let chunk = class.chunks.get_mut(at.slot() / CHUNK_RECORDS)?;
        if chunk.live == 0 {
            chunk.bytes = vec![0; number * UNIT_BYTES * CHUNK_RECORDS].into_boxed_slice();
        }
        chunk.live += 1;
        write(self.get_mut(at), record);
        Some(at)
    }

    /// Writes a record anew, which moves it if its length is another.
    pub(super) fn replace(&mut self, at: At, record: &[u8]) -> Option<At> {
        if at.class() == class_of(record.len()) {
            write(self.get_mut(at), record);
            return Some(at);
        }
        self.remove(at);
        self.insert(record)
    }

    /// A record, filled up with zeros; empty if there is none.
    pub(super) fn get(&self, at: At) -> &[u8] {
        let class = self.classes.get(at.class());
        let chunk = class.and_then(|class| class.chunks.get(at.slot() / CHUNK_RECORDS));
        chunk.and_then(|chunk| chunk.bytes.get(range(at))).filter(|it| lives(it)).unwrap_or(&[])
    }

    /// Takes a record out.
    pub(super) fn remove(&mut self, at: At) {
        if self.get(at).is_empty() {
            return;
        }
        self.get_mut(at).fill(0);
        let Some(class) = self.classes.get_mut(at.class()) else { return };
        let Some(chunk) = class.chunks.get_mut(at.slot() / CHUNK_RECORDS) else { return };
        chunk.live -= 1;
        if chunk.live == 0 {
            chunk.bytes = Box::default();
        }
        class.free.push(at.0 & SLOT_MASK);
    }

    /// Every record, to be changed in place.
    pub(super) fn each(&mut self, mut change: impl FnMut(&mut [u8])) {
        for (number, class) in self.classes.iter_mut().enumerate() {
            let stride = (number * UNIT_BYTES).max(1);
            let chunks = class.chunks.iter_mut();
            chunks
                .flat_map(|chunk| chunk.bytes.chunks_exact_mut(stride))
                .filter(|record| lives(record))
                .for_each(&mut change);
        }
    }

    /// Slots, used or free.
    pub(super) fn slots(&self) -> usize {
        self.classes.iter().map(|class| class.slots).sum()
    }

    /// The place of a slot counted over all classes.
    pub(super) fn nth(&self, mut slot: usize) -> Option<At> {
        for (number, class) in self.classes.iter().enumerate() {
            if slot < class.slots {
                return At::new(number, slot);
            }
            slot -= class.slots;
        }
        None
    }

    /// The first place whose number is `number` or more. A record that stays where it is is met
    /// once on the way from 0 on, whatever else is kept or taken out meanwhile.
    pub(super) fn from(&self, number: u32) -> Option<At> {
        let asked = At(number);
        let class = self.classes.get(asked.class());
        if class.is_some_and(|class| asked.slot() < class.slots) {
            return Some(asked);
        }
        let mut later = self.classes.iter().enumerate().skip(asked.class() + 1);
        later.find(|(_, class)| class.slots > 0).and_then(|(number, _)| At::new(number, 0))
    }

    /// Heap bytes, slack included.
    #[cfg(test)]
    pub(super) fn heap_bytes(&self) -> usize {
        let of = |class: &Class| {
            let chunks = class.chunks.iter().map(|chunk| chunk.bytes.len()).sum::<usize>();
            chunks + class.chunks.capacity() * size_of::<Chunk>() + class.free.capacity() * 4
        };
        let classes = self.classes.capacity() * size_of::<Class>();
        classes + self.classes.iter().map(of).sum::<usize>()
    }

    fn get_mut(&mut self, at: At) -> &mut [u8] {
        let class = self.classes.get_mut(at.class());
        let chunk = class.and_then(|class| class.chunks.get_mut(at.slot() / CHUNK_RECORDS));
        chunk.and_then(|chunk| chunk.bytes.get_mut(range(at))).unwrap_or_default()
    }
}

const fn class_of(len: usize) -> usize {
    len.div_ceil(UNIT_BYTES)
}

fn lives(record: &[u8]) -> bool {
    record.first().is_some_and(|first| *first != 0)
}

const fn range(at: At) -> std::ops::Range<usize> {
    let stride = at.class() * UNIT_BYTES;
    let from = at.slot() % CHUNK_RECORDS * stride;
    from..from + stride
}

fn write(place: &mut [u8], record: &[u8]) {
    for (at, byte) in place.iter_mut().enumerate() {
        *byte = record.get(at).copied().unwrap_or(0);
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    fn record(number: usize, len: usize) -> Vec<u8> {
        (0..len).map(|at| u8::try_from((number * 31 + at) % 255 + 1).unwrap()).collect()
    }

    fn all(slab: &Slab) -> Vec<At> {
        let mut found: Vec<At> =
            std::iter::successors(slab.from(0), |at| slab.from(at.0 + 1)).collect();
        found.retain(|at| !slab.get(*at).is_empty());
        found
    }

    #[test]
    fn records_of_all_lengths_are_kept_moved_and_taken_out() {
        let (mut slab, mut model) = (Slab::default(), BTreeMap::new());
        let mut random = fastrand::Rng::with_seed(7);
        for number in 0..20_000 {
            let new = record(number, random.usize(1..=40) * 7);
            let known: Option<At> = model.keys().nth(random.usize(0..400)).copied();
            match (random.u8(0..4), known) {
                (0 | 1, _) | (_, None) => {
                    let at = slab.insert(&new).unwrap();
                    assert_eq!(model.insert(at, new), None);
                }
                (2, Some(at)) => {
                    model.remove(&at);
                    let moved = slab.replace(at, &new).unwrap();
                    assert_eq!(model.insert(moved, new), None);
                }
                (_, Some(at)) => {
                    slab.remove(at);
                    slab.remove(at);
                    model.remove(&at);
                    assert!(slab.get(at).is_empty());
                }
            }
            if number % 500 == 0 || number > 19_990 {
                assert_eq!(all(&slab), model.keys().copied().collect::<Vec<_>>());
            }
        }
        for (at, kept) in &model {
            let found = slab.get(*at);
            assert_eq!(&found[..kept.len()], kept);
            assert!(found[kept.len()..].iter().all(|fill| *fill == 0));
        }
        let mut changed = 0;
        slab.each(|record| changed += record.len().min(1));
        assert_eq!(changed, model.len());
        let full = slab.heap_bytes();
        model.keys().for_each(|at| slab.remove(*at));
        assert_eq!(all(&slab), []);
        assert!(slab.heap_bytes() < full / 5, "{} of {full}", slab.heap_bytes());
        assert!(slab.insert(&vec![1; CLASSES_MAX * UNIT_BYTES]).is_none());
    }

    #[test]
    fn a_class_without_a_free_slot_takes_no_record_and_others_do() {
        let mut slab = Slab::default();
        let kept = slab.insert(&record(1, 8)).unwrap();
        slab.classes[1].slots = SLOTS_MAX;
        assert_eq!(slab.insert(&record(2, 8)), None);
        assert!(slab.insert(&record(3, 16)).is_some());
        slab.remove(kept);
        assert_eq!(slab.insert(&record(4, 8)), Some(kept), "a freed slot is used again");
    }

    #[test]
    fn slots_are_counted_over_all_classes() {
        let mut slab = Slab::default();
        let places: Vec<At> =
            [9, 30, 10, 31].map(|len| slab.insert(&record(1, len)).unwrap()).to_vec();
        let order: Vec<At> = (0..slab.slots()).map(|slot| slab.nth(slot).unwrap()).collect();
        assert_eq!(order, [places[0], places[2], places[1], places[3]]);
        assert_eq!((slab.nth(4), slab.from(0)), (None, Some(places[0])));
    }
}
