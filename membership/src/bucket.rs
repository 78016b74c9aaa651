//! Buckets: the 4,096 parts into which objects are divided, by name, for good.

use xxhash_rust::xxh3::xxh3_64;

/// How many buckets there are. Fixed: the number is part of every stored key.
pub const BUCKETS: u16 = 4_096;

const BITS: u32 = BUCKETS.trailing_zeros();
const WORDS: usize = BUCKETS as usize / 64;

const _: () = assert!(BUCKETS.is_power_of_two() && BITS == 12 && BUCKETS.is_multiple_of(64));

/// One bucket, below [`BUCKETS`].
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Bucket(pub u16);

impl Bucket {
    /// Every bucket, in order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..BUCKETS).map(Self)
    }
}

/// The bucket of an object: the first 12 bits of the xxh3 of its whole name's bytes.
#[must_use]
pub fn bucket(object_name: &[u8]) -> Bucket {
    Bucket((xxh3_64(object_name) >> (u64::BITS - BITS)) as u16)
}

/// A set of buckets, 512 bytes whatever it holds.
#[derive(Clone, PartialEq, Eq)]
pub struct BucketSet {
    words: Box<[u64; WORDS]>,
}

impl BucketSet {
    /// No bucket.
    #[must_use]
    pub fn empty() -> Self {
        Self { words: Box::new([0; WORDS]) }
    }

    /// Every bucket.
    #[must_use]
    pub fn all() -> Self {
        Self { words: Box::new([u64::MAX; WORDS]) }
    }

    /// Adds a bucket; one past the end is no bucket and is left out.
    pub fn insert(&mut self, bucket: Bucket) {
        if let Some(word) = self.words.get_mut(usize::from(bucket.0 / 64)) {
            *word |= 1 << (bucket.0 % 64);
        }
    }

    /// Whether the bucket is in the set.
    #[must_use]
    pub fn contains(&self, bucket: Bucket) -> bool {
        let word = self.words.get(usize::from(bucket.0 / 64));
        word.is_some_and(|word| word >> (bucket.0 % 64) & 1 == 1)
    }

    /// How many buckets are in the set.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.iter().map(|word| word.count_ones() as usize).sum()
    }

    /// Whether no bucket is in the set.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.iter().all(|word| *word == 0)
    }

    /// The buckets of the set, in order.
    pub fn iter(&self) -> impl Iterator<Item = Bucket> + '_ {
        Bucket::all().filter(|bucket| self.contains(*bucket))
    }

    /// The buckets of this set that are not in `other`, such as the ones lost by a view change.
    #[must_use]
    pub fn without(&self, other: &Self) -> Self {
        let mut left = self.clone();
        for (word, out) in left.words.iter_mut().zip(other.words.iter()) {
            *word &= !out;
        }
        left
    }
}

impl FromIterator<Bucket> for BucketSet {
    fn from_iter<I: IntoIterator<Item = Bucket>>(buckets: I) -> Self {
        let mut set = Self::empty();
        buckets.into_iter().for_each(|bucket| set.insert(bucket));
        set
    }
}

impl std::fmt::Debug for BucketSet {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "BucketSet({} of {BUCKETS})", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn golden_buckets_never_change() {
        let golden: [(&str, u16); 6] = [
            ("", 720),
            ("a", 3_692),
            ("amber-otter-2f9c", 3_219),
            ("eu.amber-otter-2f9c", 254),
            ("room-1", 3_270),
            ("ß", 3_991),
        ];
        let seen = golden.map(|(name, _)| (name, bucket(name.as_bytes()).0));
        assert_eq!(seen, golden, "stored keys hold buckets: this must not change");
    }

    #[test]
    fn buckets_are_about_equally_full() {
        let mut counts = vec![0_u32; usize::from(BUCKETS)];
        for i in 0..409_600_u32 {
            counts[usize::from(bucket(format!("room-{i}").as_bytes()).0)] += 1;
        }
        let (min, max) = (counts.iter().min().unwrap(), counts.iter().max().unwrap());
        assert!(*min > 55 && *max < 150, "100 expected, {min} to {max} seen");
    }

    #[test]
    fn a_set_does_what_a_set_does() {
        let mut seen = std::collections::BTreeSet::new();
        let mut set = BucketSet::empty();
        let mut random = fastrand::Rng::with_seed(7);
        for _ in 0..2_000 {
            let bucket = Bucket(random.u16(0..BUCKETS));
            set.insert(bucket);
            seen.insert(bucket);
        }
        assert_eq!(set.len(), seen.len());
        assert_eq!(set.iter().collect::<Vec<_>>(), seen.iter().copied().collect::<Vec<_>>());
        let rest = BucketSet::all().without(&set);
        assert_eq!(rest.len() + set.len(), usize::from(BUCKETS));
        assert!(rest.iter().all(|bucket| !seen.contains(&bucket)));
        assert!(BucketSet::empty().is_empty() && !set.is_empty());
        assert_eq!(set.iter().collect::<BucketSet>(), set);
    }

    #[test]
    fn what_is_no_bucket_is_in_no_set() {
        let mut set = BucketSet::all();
        set.insert(Bucket(BUCKETS));
        assert!(!set.contains(Bucket(BUCKETS)) && !set.contains(Bucket(u16::MAX)));
        assert_eq!(set.len(), usize::from(BUCKETS));
    }
}
