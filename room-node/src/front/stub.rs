//! Stubs: what is kept of sleeping objects so that a poll with nothing new wakes nothing.
//!
//! One packed record per stub in a slab under an index of 4-byte places: at most 160 bytes with two
//! agents and a name of 26 bytes, index and timer included (performance.md, goal 13). Times are the low
//! 32 bits of their milliseconds and are read back as the moment nearest to now, so they hold for
//! 24 days; a stub lives far shorter unless it is polled, and polls rewrite them.

use hashbrown::HashTable;
use object::{Millis, ParticipantId};

use super::cadence::{Cadence, Rule};
use super::slab::{At, Slab};
use crate::clock::Mono;
use crate::store::Fence;

/// A sleeping object, unpacked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Stub {
    pub(crate) fence: Fence,
    pub(crate) sequence: u32,
    /// The next due time, agent leases apart.
    pub(crate) due: Option<Millis>,
    /// When it was last polled, or fell asleep.
    pub(crate) touched: Mono,
    /// Number of its roster projection.
    pub(crate) projection: u32,
    /// The tick of its one valid timer entry.
    pub(crate) tick: u32,
    /// The store's primary has changed since its fence was known to be ours.
    pub(crate) unchecked: bool,
    pub(crate) pollers: Vec<Poller>,
}

/// One agent of a sleeping object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Poller {
    pub(crate) who: ParticipantId,
    /// End of its agent lease.
    pub(crate) end: Millis,
    /// The stored end, which runs ahead of the true one. Kept to the second, rounded down: at
    /// worst the end is stored once more.
    pub(crate) stored: Millis,
    /// Its cadence instant.
    pub(crate) t: Mono,
    /// Its last admitted request, in short.
    pub(crate) last: u32,
}

impl Poller {
    /// The cadence as the pure machine knows it; a hold is restored by its own record.
    pub(crate) fn cadence(&self, now: Mono) -> Cadence {
        Cadence { last: self.last, ..Cadence::at(self.t, now) }
    }

    pub(crate) const fn new_owner(
        who: ParticipantId,
        end: Millis,
        stored: Millis,
        t: Mono,
    ) -> Self {
        Self { who, end, stored, t, last: 0 }
    }
}

impl Stub {
    /// The earliest time at which the object has something to do.
    pub(crate) fn next_due(&self) -> Option<Millis> {
        self.pollers.iter().map(|poller| poller.end).chain(self.due).min()
    }

    /// The exact lease ends, for the activation that follows.
    pub(crate) fn ends(&self) -> Vec<(ParticipantId, Millis)> {
        self.pollers.iter().map(|poller| (poller.who, poller.end)).collect()
    }

    pub(crate) fn find(&mut self, who: ParticipantId) -> Option<&mut Poller> {
        self.pollers.iter_mut().find(|poller| poller.who == who)
    }

    /// Whether these values fit a record at all; what does not fit goes cold instead.
    pub(crate) fn fits(name: &str, fence: Fence, sequence: u64, pollers: usize) -> bool {
        name.len() <= usize::from(u8::MAX)
            && u32::try_from(fence.epoch).is_ok()
            && u32::try_from(sequence).is_ok()
            && pollers <= usize::from(POLLERS_MAX)
    }
}

/// Fixed part: lengths 2, epoch 4, nonce 8, sequence 4, due 6, touched 2, projection 4, tick 4.
const HEAD_BYTES: usize = 34;
/// id 16, end 4, stored 2, cadence 4, request 4.
const POLLER_BYTES: usize = 30;
/// Unit of how far the stored end runs ahead: 16 bits of it, with a sign, are nine hours.
const AHEAD_UNIT_MS: u64 = 1_024;
/// Unit of `touched`: 16 bits of it last for six days.
const TOUCHED_UNIT_MS: u64 = 8_192;
/// The number of pollers is seven bits of a byte; the eighth says that the stub is in doubt.
const POLLERS_MAX: u8 = 0x7f;
const UNCHECKED: u8 = 0x80;
/// All ones: no due time.
const NO_DUE: u64 = (1 << 48) - 1;

/// Writes fields one after the other.
struct Writer<'a>(&'a mut Vec<u8>);

impl Writer<'_> {
    fn low(&mut self, value: u64, bytes: usize) {
        let all = value.to_be_bytes();
        self.0.extend(all.iter().skip(all.len() - bytes));
    }
}

/// Reads fields one after the other; a short record reads as zeros, which a test excludes.
struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn low(&mut self, bytes: usize) -> u64 {
        let (head, rest) = self.0.split_at_checked(bytes).unwrap_or_default();
        self.0 = rest;
        head.iter().fold(0, |value, byte| (value << 8) | u64::from(*byte))
    }

    fn wide(&mut self) -> u128 {
        u128::from(self.low(8)) << 64 | u128::from(self.low(8))
    }
}

/// The moment nearest to `now` whose low `bits` bits are `low`.
const fn nearest(low: u64, bits: u32, now: u64) -> u64 {
    let span = 1u64 << bits;
    let base = now & !(span - 1);
    let at = base | low;
    if at > now.saturating_add(span / 2) {
        at.saturating_sub(span)
    } else if at.saturating_add(span / 2) < now {
        at.saturating_add(span)
    } else {
        at
    }
}

fn pack(name: &str, stub: &Stub) -> Box<[u8]> {
    let mut bytes = Vec::with_capacity(HEAD_BYTES + name.len() + stub.pollers.len() * POLLER_BYTES);
    let mut out = Writer(&mut bytes);
    out.low(name.len() as u64, 1);
    let doubt = if stub.unchecked { u64::from(UNCHECKED) } else { 0 };
    out.low(stub.pollers.len() as u64 | doubt, 1);
    out.0.extend_from_slice(name.as_bytes());
    out.low(stub.fence.epoch, 4);
    out.low(stub.fence.nonce, 8);
    out.low(u64::from(stub.sequence), 4);
    out.low(stub.due.map_or(NO_DUE, |due| due.0.min(NO_DUE - 1)), 6);
    out.low(stub.touched.0 / TOUCHED_UNIT_MS, 2);
    out.low(u64::from(stub.projection), 4);
    out.low(u64::from(stub.tick), 4);
    for poller in &stub.pollers {
        out.0.extend_from_slice(&poller.who.0.to_be_bytes());
        out.low(poller.end.0, 4);
        out.0.extend_from_slice(&ahead(poller.end, poller.stored).to_be_bytes());
        out.low(poller.t.0, 4);
        out.low(u64::from(poller.last), 4);
    }
    bytes.into_boxed_slice()
}

#[expect(clippy::cast_possible_truncation, reason = "each field is read at its own width")]
fn unpack(record: &[u8], wall: Millis, now: Mono) -> Stub {
    let mut input = Reader(record);
    let (name_len, flags) = (input.low(1) as usize, input.low(1) as u8);
    let (unchecked, pollers) = (flags & UNCHECKED != 0, flags & POLLERS_MAX);
    input.0 = input.0.get(name_len..).unwrap_or_default();
    let fence = Fence { epoch: input.low(4), nonce: input.low(8) };
    let sequence = input.low(4) as u32;
    let due = Some(input.low(6)).filter(|due| *due != NO_DUE).map(Millis);
    let unit = now.0 / TOUCHED_UNIT_MS;
    let touched = Mono(nearest(input.low(2), 16, unit) * TOUCHED_UNIT_MS);
    let (projection, tick) = (input.low(4) as u32, input.low(4) as u32);
    let pollers = (0..pollers)
        .map(|_| {
            let who = ParticipantId(input.wide());
            let end = Millis(nearest(input.low(4), 32, wall.0));
            Poller {
                who,
                end,
                stored: stored_end(end, (input.low(2) as u16).cast_signed()),
                t: Mono(nearest(input.low(4), 32, now.0)),
                last: input.low(4) as u32,
            }
        })
        .collect();
    Stub { fence, sequence, due, touched, projection, tick, unchecked, pollers }
}

/// How far a stored end is ahead of the true one, in units, rounded towards the past. One that is
/// hours ahead is taken for less, which only stores it again sooner.
fn ahead(end: Millis, stored: Millis) -> i16 {
    if stored >= end {
        let units = stored.since(end) / AHEAD_UNIT_MS;
        i16::try_from(units).unwrap_or(i16::MAX)
    } else {
        let units = end.since(stored).div_ceil(AHEAD_UNIT_MS);
        i16::try_from(units).map_or(i16::MIN, |units| -units)
    }
}

const fn stored_end(end: Millis, ahead: i16) -> Millis {
    let ms = ahead.unsigned_abs() as u64 * AHEAD_UNIT_MS;
    if ahead >= 0 { end.plus(ms) } else { Millis(end.0.saturating_sub(ms)) }
}

fn name_of(record: &[u8]) -> &[u8] {
    let len = record.first().map_or(0, |len| usize::from(*len));
    record.get(2..2 + len).unwrap_or_default()
}

/// The stubs of one shard.
///
/// Bounded by `stubs_max` over all shards, which the host checks before it puts one in.
#[derive(Debug, Default)]
pub(crate) struct Stubs {
    /// Places in the slab.
    index: HashTable<u32>,
    records: Slab,
}

/// A hash of an object's name, as the directory computes it.
pub(crate) type NameHash = u64;

impl Stubs {
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.index.len()
    }

    /// Marks every stub as in doubt.
    pub(crate) fn doubt_all(&mut self) {
        self.records.each(|record| {
            if let Some(flags) = record.get_mut(1) {
                *flags |= UNCHECKED;
            }
        });
    }

    /// True if there is a stub of this name.
    pub(crate) fn has(&self, hash: NameHash, name: &str) -> bool {
        self.index.find(hash, |at| self.name_at(*at) == name.as_bytes()).is_some()
    }

    /// Reads a stub.
    pub(crate) fn get(&self, hash: NameHash, name: &str, wall: Millis, now: Mono) -> Option<Stub> {
        let at = self.index.find(hash, |at| self.name_at(*at) == name.as_bytes())?;
        Some(unpack(self.records.get(At(*at)), wall, now))
    }

    /// Reads the stub of a hash alone, with its name; two names of one hash are never both kept.
    pub(crate) fn by_hash(
        &self,
        hash: NameHash,
        wall: Millis,
        now: Mono,
    ) -> Option<(String, Stub)> {
        let at = self.index.find(hash, |at| hash_of(self.name_at(*at)) == hash)?;
        let record = self.records.get(At(*at));
        let name = String::from_utf8_lossy(name_of(record)).into_owned();
        Some((name, unpack(record, wall, now)))
    }

    /// Writes a stub, new or known.
    pub(crate) fn put(&mut self, hash: NameHash, name: &str, stub: &Stub) {
        let record = pack(name, stub);
        let Self { index, records } = self;
        let known = index.find_entry(hash, |at| name_of(records.get(At(*at))) == name.as_bytes());
        if let Ok(mut entry) = known {
            match records.replace(At(*entry.get()), &record) {
                Some(at) => *entry.get_mut() = at.0,
                None => drop(entry.remove()),
            }
            return;
        }
        // Without a place for it, which is beyond any memory, the object is cold here: its next
        // call claims it again.
        if let Some(at) = records.insert(&record) {
            index.insert_unique(hash, at.0, |at| hash_of(name_of(records.get(At(*at)))));
        }
    }

    /// Takes a stub out.
    pub(crate) fn remove(
        &mut self,
        hash: NameHash,
        name: &str,
        wall: Millis,
        now: Mono,
    ) -> Option<Stub> {
        let Self { index, records } = self;
        let entry = index.find_entry(hash, |at| name_of(records.get(At(*at))) == name.as_bytes());
        let (at, _) = entry.ok()?.remove();
        let stub = unpack(records.get(At(at)), wall, now);
        records.remove(At(at));
        Some(stub)
    }

    /// Names and stubs, from place `from` on, looking at no more than `max` slots; and where to go
    /// on. Everything begins at place 0.
    pub(crate) fn page(
        &self,
        from: u32,
        max: usize,
        wall: Millis,
        now: Mono,
    ) -> (Vec<(String, Stub)>, Option<u32>) {
        let mut found = Vec::new();
        let mut next = self.records.from(from);
        for _ in 0..max {
            let Some(at) = next else { break };
            let record = self.records.get(at);
            if !record.is_empty() {
                let name = String::from_utf8_lossy(name_of(record)).into_owned();
                found.push((name, unpack(record, wall, now)));
            }
            next = self.records.from(at.0.saturating_add(1));
        }
        (found, next.map(|at| at.0))
    }

    /// A place chosen by a random number, to page from.
    pub(crate) fn somewhere(&self, random: u64) -> u32 {
        let slots = u64::try_from(self.records.slots()).unwrap_or(u64::MAX).max(1);
        let slot = usize::try_from(random % slots).unwrap_or(0);
        self.records.nth(slot).map_or(0, |at| at.0)
    }

    /// Heap bytes of all stubs, index and slack included.
    #[cfg(test)]
    fn heap_bytes(&self) -> usize {
        let index = (self.index.capacity() * 8 / 7).next_power_of_two() * 5 + 16;
        self.records.heap_bytes() + index
    }

    fn name_at(&self, at: u32) -> &[u8] {
        name_of(self.records.get(At(at)))
    }
}

/// The hash of a name; the same function places objects on shards.
pub(crate) fn hash_of(name: &[u8]) -> NameHash {
    xxhash_rust::xxh3::xxh3_64(name)
}

/// A poller as a stub keeps it, from the cadence an activation kept.
pub(crate) fn poller(
    who: ParticipantId,
    end: Millis,
    stored: Millis,
    cadence: Option<&Cadence>,
    rule: Rule,
    now: Mono,
) -> Poller {
    match cadence {
        Some(cadence) => Poller { who, end, stored, t: cadence.t, last: cadence.last },
        None => Poller::new_owner(who, end, stored, Cadence::new_owner(rule, now).t),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WALL: Millis = Millis(1_700_000_000_000);
    const NOW: Mono = Mono(90_000_000);

    #[test]
    fn what_does_not_fit_a_record_goes_cold() {
        let (max, name) = (u64::from(u32::MAX), "x".repeat(255));
        let fits = |name: &str, epoch, sequence, pollers| {
            Stub::fits(name, Fence { epoch, nonce: 1 }, sequence, pollers)
        };
        assert!(fits(&name, max, max, 127) && !fits(&name, max, max, 128));
        assert!(!fits(&name, max + 1, max, 127) && !fits(&name, max, max + 1, 127));
        assert!(!fits(&(name + "x"), max, max, 127));
    }

    fn stub(number: u64) -> Stub {
        let agent = |who: u128| Poller {
            who: ParticipantId(who << 90 | u128::from(number)),
            end: WALL.plus(80_000 + number),
            stored: WALL.plus(80_000 + number + 29 * AHEAD_UNIT_MS),
            t: Mono(NOW.0 - 4_000),
            last: u32::MAX - 7,
        };
        Stub {
            fence: Fence { epoch: 3, nonce: u64::MAX - number },
            sequence: 12,
            due: (number.is_multiple_of(2)).then(|| WALL.plus(number)),
            touched: Mono(NOW.0 / TOUCHED_UNIT_MS * TOUCHED_UNIT_MS),
            projection: 9,
            tick: 900_000,
            unchecked: number.is_multiple_of(7),
            pollers: vec![agent(1), agent(2)],
        }
    }

    fn name(number: u64) -> String {
        format!("amber-falcon-{number:013x}")
    }

    #[test]
    fn stubs_are_written_read_changed_and_removed() {
        let mut stubs = Stubs::default();
        for number in 0..1_000 {
            let name = name(number);
            stubs.put(hash_of(name.as_bytes()), &name, &stub(number));
        }
        for number in 0..1_000 {
            let name = name(number);
            let hash = hash_of(name.as_bytes());
            assert_eq!(stubs.get(hash, &name, WALL, NOW), Some(stub(number)));
            assert_eq!(stubs.by_hash(hash, WALL, NOW), Some((name.clone(), stub(number))));
            if number % 3 == 0 {
                assert_eq!(stubs.remove(hash, &name, WALL, NOW), Some(stub(number)));
                assert_eq!(stubs.get(hash, &name, WALL, NOW), None);
            } else {
                let changed = Stub { sequence: 99, ..stub(number) };
                stubs.put(hash, &name, &changed);
                assert_eq!(stubs.get(hash, &name, WALL, NOW), Some(changed));
            }
        }
        stubs.doubt_all();
        assert!(stubs.get(hash_of(name(1).as_bytes()), &name(1), WALL, NOW).unwrap().unchecked);
        assert_eq!(stubs.len(), 666);
        let (mut seen, mut at) = (0, Some(0));
        while let Some(from) = at {
            let (found, next) = stubs.page(from, 64, WALL, NOW);
            (seen, at) = (seen + found.len(), next);
        }
        assert_eq!(seen, 666);
    }

    #[test]
    fn short_times_are_read_as_the_moment_nearest_to_now() {
        for (low, bits, now, expected) in [
            (5, 8, 0x1_00, 0x1_05),
            (0xff, 8, 0x1_00, 0xff),
            (0x01, 8, 0x1_ff, 0x2_01),
            (0x80, 8, 0x1_80, 0x1_80),
        ] {
            assert_eq!(nearest(low, bits, now), expected, "{low:x} near {now:x}");
        }
    }

    #[test]
    fn a_stored_end_is_read_back_as_no_later_than_it_was_and_a_second_earlier_at_most() {
        let end = Millis(1_000_000_000);
        for ms in [-40_000_i64, -1_025, -1_024, -1, 0, 1, 1_023, 1_024, 30_000, 33_000_000] {
            let stored = Millis(end.0.saturating_add_signed(ms));
            let read = stored_end(end, ahead(end, stored));
            assert!(read <= stored && stored.since(read) < AHEAD_UNIT_MS, "{ms}: {read:?}");
        }
        let days = end.plus(500_000_000);
        assert!(stored_end(end, ahead(end, days)) < days);
        assert_eq!(ahead(end, Millis(0)), i16::MIN);
    }

    #[test]
    fn a_stub_with_two_agents_costs_at_most_144_bytes_at_every_size() {
        // With 16 bytes for its timer that is 160.
        let mut stubs = Stubs::default();
        for number in 0..40_000u64 {
            let name = name(number);
            assert_eq!(name.len(), 26);
            stubs.put(hash_of(name.as_bytes()), &name, &stub(number));
            // Summing each time would be quadratic.
            if number >= 1_000 && number.is_multiple_of(997) {
                let each = stubs.heap_bytes() / stubs.len();
                assert!(each <= 144, "{each} at {number}");
            }
        }
    }

    #[test]
    fn a_stub_changes_its_length_in_place() {
        let mut stubs = Stubs::default();
        for round in 0..3 {
            for (at, number) in (0..200u64).enumerate() {
                let name = name(number);
                let mut changed = stub(number);
                changed.pollers.truncate((at + round) % 3);
                stubs.put(hash_of(name.as_bytes()), &name, &changed);
                let found = stubs.get(hash_of(name.as_bytes()), &name, WALL, NOW);
                assert_eq!(found, Some(changed));
            }
        }
        assert_eq!(stubs.len(), 200);
        assert_eq!(stubs.page(0, usize::MAX, WALL, NOW).0.len(), 200);
        let (page, _) = stubs.page(stubs.somewhere(u64::MAX - 1), 1, WALL, NOW);
        assert!(page.len() <= 1);
    }
}
