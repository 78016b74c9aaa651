//! What this node was told is stored, so that a store that went back is found out. No IO.
//!
//! For each object owned here: the lsn of the last acknowledged event, and the acknowledged frames
//! of the last minute. Both are bounded; what no longer fits is forgotten, oldest first, and then
//! a loss may be found without the bytes that were lost.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
use object::ObjectId;

use super::super::{Fence, Frame};
use crate::clock::Mono;

/// Acknowledged frames are kept for so long, in milliseconds.
const TAIL_MS: u64 = 60_000;
/// Objects without a call for so long are forgotten, in milliseconds: a failover takes what is
/// recent. A restore of an old copy is found by the link's store generation instead.
const OBJECT_MS: u64 = 600_000;
/// Bytes of frames kept in all.
const TAIL_BYTES_MAX: usize = 64 * 1024 * 1024;
/// Frames kept in all.
const FRAMES_MAX: usize = 262_144;
/// Objects kept in all; one more is not followed.
const OBJECTS_MAX: usize = 262_144;

/// The last frames of a log that a judgement asks for.
pub(super) const LOOK_FRAMES: u64 = 64;

/// One acknowledged frame.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub(super) first_lsn: u64,
    pub(super) last_lsn: u64,
    pub(super) batch: u128,
    pub(super) bytes: Bytes,
}

/// What is known of one object.
#[derive(Clone, Debug)]
pub(super) struct Known {
    pub(super) fence: Fence,
    /// The nonce that began the object's generation.
    pub(super) generation: u64,
    pub(super) lsn: u64,
    /// At most `FRAMES_MAX` over all objects.
    pub(super) frames: VecDeque<Kept>,
    touched: Mono,
}

/// The present head of an object in the store.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Head {
    pub(super) epoch: u64,
    pub(super) nonce: Option<u64>,
    pub(super) generation: Option<u64>,
    pub(super) lsn: u64,
    pub(super) dead: bool,
    /// Its last frames: first lsn and batch.
    pub(super) frames: Vec<(u64, u128)>,
}

/// What became of acknowledged events.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Whole,
    /// Events after this lsn are not there.
    Lost {
        kept_lsn: u64,
    },
    /// Another owner has gone on and trimmed the place where they would stand.
    Unverified,
}

/// Compares what is known with what is there; `None` if nothing is.
pub(super) fn judge(known: &Known, found: Option<&Head>) -> Verdict {
    let Some(found) = found else { return Verdict::Lost { kept_lsn: 0 } };
    let other = found.dead || found.generation != Some(known.generation);
    if other {
        // Ended by a later owner; a generation of no higher epoch began on a store that went back.
        let ended = found.epoch > known.fence.epoch;
        return if ended { Verdict::Whole } else { Verdict::Lost { kept_lsn: 0 } };
    }
    if found.lsn < known.lsn {
        return Verdict::Lost { kept_lsn: found.lsn };
    }
    let same = found.epoch == known.fence.epoch && found.nonce == Some(known.fence.nonce);
    let Some(last) = known.frames.back().filter(|_| !same) else { return Verdict::Whole };
    match found.frames.iter().find(|(first, _)| *first == last.first_lsn) {
        Some((_, batch)) if *batch == last.batch => Verdict::Whole,
        Some(_) => Verdict::Lost { kept_lsn: shared(known, found) },
        // Where a frame of ours would stand there is one that begins elsewhere.
        None if found.frames.iter().any(|(first, _)| *first < last.first_lsn) => {
            Verdict::Lost { kept_lsn: shared(known, found) }
        }
        None => Verdict::Unverified,
    }
}

/// The last lsn up to which both logs are the same.
fn shared(known: &Known, found: &Head) -> u64 {
    let same = |kept: &&Kept| found.frames.contains(&(kept.first_lsn, kept.batch));
    let last = known.frames.iter().rev().find(same).map(|kept| kept.last_lsn);
    let first = known.frames.front().map_or(known.lsn, |kept| kept.first_lsn - 1);
    last.unwrap_or_else(|| first.min(found.lsn))
}

/// Everything that is known.
#[derive(Debug, Default)]
pub(super) struct Ledger {
    /// At most `OBJECTS_MAX`.
    objects: HashMap<ObjectId, Known>,
    /// Every kept frame, oldest first: when, whose, and its last lsn.
    /// At most `FRAMES_MAX`.
    order: VecDeque<(Mono, ObjectId, u64)>,
    bytes: usize,
}

impl Ledger {
    /// An object was claimed: what it holds now is what its owner must find again.
    pub(super) fn claimed(
        &mut self,
        object: &ObjectId,
        fence: Fence,
        generation: u64,
        lsn: u64,
        now: Mono,
    ) {
        match self.objects.get_mut(object) {
            Some(known) if known.generation == generation => {
                known.fence = fence;
                known.lsn = lsn;
                known.touched = now;
                while let Some(kept) = known.frames.pop_back_if(|kept| kept.last_lsn > lsn) {
                    self.bytes -= kept.bytes.len();
                }
            }
            _ => {
                self.forget(object);
                if self.objects.len() < OBJECTS_MAX {
                    let frames = VecDeque::new();
                    let known = Known { fence, generation, lsn, frames, touched: now };
                    self.objects.insert(object.clone(), known);
                }
            }
        }
    }

    /// A frame was acknowledged.
    pub(super) fn acknowledged(
        &mut self,
        object: &ObjectId,
        frame: &Frame,
        bytes: Bytes,
        now: Mono,
    ) {
        let Some(known) = self.objects.get_mut(object) else { return };
        let last_lsn = frame.last_lsn();
        known.touched = now;
        if last_lsn <= known.lsn && known.frames.back().is_some_and(|k| k.last_lsn >= last_lsn) {
            return;
        }
        known.lsn = known.lsn.max(last_lsn);
        self.bytes += bytes.len();
        let (first_lsn, batch) = (frame.first_lsn, frame.batch);
        known.frames.push_back(Kept { first_lsn, last_lsn, batch, bytes });
        self.order.push_back((now, object.clone(), last_lsn));
        while self.bytes > TAIL_BYTES_MAX || self.order.len() > FRAMES_MAX {
            self.drop_oldest();
        }
    }

    /// The object is no longer owned here.
    pub(super) fn forget(&mut self, object: &ObjectId) {
        if let Some(known) = self.objects.remove(object) {
            self.bytes -= known.frames.iter().map(|kept| kept.bytes.len()).sum::<usize>();
        }
    }

    /// Lets go of what is too old.
    pub(super) fn sweep(&mut self, now: Mono) {
        while self.order.front().is_some_and(|(at, ..)| now.since(*at) > TAIL_MS) {
            self.drop_oldest();
        }
        self.objects
            .retain(|_, known| !known.frames.is_empty() || now.since(known.touched) <= OBJECT_MS);
    }

    fn drop_oldest(&mut self) {
        let Some((_, object, last_lsn)) = self.order.pop_front() else { return };
        let Some(known) = self.objects.get_mut(&object) else { return };
        // Forgotten and claimed again since, its frames are others.
        if known.frames.front().is_some_and(|kept| kept.last_lsn == last_lsn)
            && let Some(kept) = known.frames.pop_front()
        {
            self.bytes -= kept.bytes.len();
        }
    }

    pub(super) fn get(&self, object: &ObjectId) -> Option<&Known> {
        self.objects.get(object)
    }

    pub(super) fn objects(&self) -> Vec<ObjectId> {
        self.objects.keys().cloned().collect()
    }

    pub(super) fn len(&self) -> usize {
        self.objects.len()
    }

    pub(super) fn frames(&self) -> usize {
        self.order.len()
    }

    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use object::KindTag;

    use super::super::super::Record;
    use super::*;

    const FENCE: Fence = Fence { epoch: 5, nonce: 50 };
    const T0: Mono = Mono(1_000_000);

    fn object() -> ObjectId {
        ObjectId::new(KindTag(b'r'), "ledger").unwrap()
    }

    fn frame(lsn: u64, batch: u128) -> Frame {
        let records = vec![Record { bytes: Bytes::from_static(b"event") }];
        Frame { first_lsn: lsn, fence: FENCE, batch, schema: 1, records }
    }

    fn ledger(frames: u64) -> Ledger {
        let mut ledger = Ledger::default();
        ledger.claimed(&object(), FENCE, 9, 10, T0);
        for lsn in 11..11 + frames {
            let frame = frame(lsn, u128::from(lsn));
            ledger.acknowledged(&object(), &frame, frame.encode(), T0);
        }
        ledger
    }

    fn head() -> Head {
        Head {
            epoch: 5,
            nonce: Some(50),
            generation: Some(9),
            lsn: 13,
            dead: false,
            frames: vec![(11, 11), (12, 12), (13, 13)],
        }
    }

    #[test]
    fn what_went_back_is_told_from_what_went_on() {
        let later = || Head { epoch: 6, nonce: Some(60), ..head() };
        let rows = [
            ("untouched", Some(head()), Verdict::Whole),
            ("empty", None, Verdict::Lost { kept_lsn: 0 }),
            ("shorter", Some(Head { lsn: 11, ..head() }), Verdict::Lost { kept_lsn: 11 }),
            ("claimed by another", Some(Head { lsn: 20, ..later() }), Verdict::Whole),
            ("released", Some(Head { nonce: None, ..head() }), Verdict::Whole),
            (
                "rewritten under an equal epoch",
                Some(Head {
                    nonce: Some(51),
                    frames: vec![(11, 11), (12, 77), (13, 78)],
                    ..head()
                }),
                Verdict::Lost { kept_lsn: 11 },
            ),
            (
                "rewritten in other batches",
                Some(Head { lsn: 14, frames: vec![(11, 11), (12, 77)], ..later() }),
                Verdict::Lost { kept_lsn: 11 },
            ),
            (
                "trimmed by another",
                Some(Head { lsn: 30, frames: vec![(30, 1)], ..later() }),
                Verdict::Unverified,
            ),
            (
                "destroyed by another",
                Some(Head { epoch: 7, lsn: 0, dead: true, generation: None, ..later() }),
                Verdict::Whole,
            ),
            (
                "begun anew by another after a destroy",
                Some(Head { epoch: 8, lsn: 0, generation: Some(1), ..later() }),
                Verdict::Whole,
            ),
            (
                "begun anew on an empty store",
                Some(Head { epoch: 1, lsn: 0, generation: Some(1), ..later() }),
                Verdict::Lost { kept_lsn: 0 },
            ),
        ];
        let ledger = ledger(3);
        let known = ledger.get(&object()).unwrap();
        for (row, found, verdict) in rows {
            assert_eq!(judge(known, found.as_ref()), verdict, "{row}");
        }
    }

    #[test]
    fn frames_are_kept_for_a_minute_and_within_the_bound() {
        let mut ledger = ledger(3);
        assert_eq!(ledger.get(&object()).unwrap().frames.len(), 3);
        ledger.sweep(T0.plus(TAIL_MS));
        assert_eq!(ledger.get(&object()).unwrap().frames.len(), 3);
        ledger.sweep(T0.plus(TAIL_MS + 1));
        let known = ledger.get(&object()).unwrap();
        assert!(known.frames.is_empty() && known.lsn == 13 && ledger.bytes() == 0);
        ledger.sweep(T0.plus(OBJECT_MS + 1));
        assert_eq!(ledger.len(), 0);

        let big = Bytes::from(vec![0; 4 * 1024 * 1024]);
        ledger.claimed(&object(), FENCE, 9, 0, T0);
        for lsn in 1..40 {
            ledger.acknowledged(&object(), &frame(lsn, u128::from(lsn)), big.clone(), T0);
            assert!(ledger.bytes() <= TAIL_BYTES_MAX);
        }
        let known = ledger.get(&object()).unwrap();
        assert!(known.frames.len() == 16 && known.frames[0].first_lsn == 24 && known.lsn == 39);
        ledger.forget(&object());
        assert!(ledger.len() == 0 && ledger.bytes() == 0);
        ledger.sweep(T0.plus(TAIL_MS + 1));
        assert!(ledger.order.is_empty());
    }

    #[test]
    fn so_many_frames_are_kept_and_the_oldest_forgotten() {
        let mut ledger = Ledger::default();
        ledger.claimed(&object(), FENCE, 9, 0, T0);
        let last = FRAMES_MAX as u64 + 5;
        for lsn in 1..=last {
            let frame = frame(lsn, u128::from(lsn));
            ledger.acknowledged(&object(), &frame, Bytes::from_static(b"x"), T0);
        }
        assert_eq!((ledger.frames(), ledger.bytes()), (FRAMES_MAX, FRAMES_MAX));
        let known = ledger.get(&object()).unwrap();
        assert_eq!((known.frames[0].first_lsn, known.lsn), (6, last));
    }

    #[test]
    fn one_object_more_is_not_followed_until_another_is_forgotten() {
        let name = |number: usize| ObjectId::new(KindTag(b'r'), &number.to_string()).unwrap();
        let mut ledger = Ledger::default();
        for number in 0..=OBJECTS_MAX {
            ledger.claimed(&name(number), FENCE, 9, 10, T0);
        }
        let last = name(OBJECTS_MAX);
        assert!(ledger.len() == OBJECTS_MAX && ledger.get(&last).is_none());
        // Its frames are not kept either, and those who are followed stay so.
        let frame = frame(11, 11);
        ledger.acknowledged(&last, &frame, frame.encode(), T0);
        assert_eq!(ledger.frames(), 0);
        ledger.claimed(&name(0), FENCE, 9, 11, T0);
        assert_eq!(ledger.get(&name(0)).unwrap().lsn, 11);
        ledger.forget(&name(1));
        ledger.claimed(&last, FENCE, 9, 10, T0);
        assert!(ledger.len() == OBJECTS_MAX && ledger.get(&last).is_some());
    }

    #[test]
    fn a_repeat_is_kept_once_and_a_new_generation_begins_anew() {
        let mut ledger = ledger(2);
        let again = frame(12, 12);
        ledger.acknowledged(&object(), &again, again.encode(), T0);
        assert_eq!(ledger.get(&object()).unwrap().frames.len(), 2);
        let next = Fence { epoch: 6, nonce: 60 };
        ledger.claimed(&object(), next, 9, 12, T0);
        assert_eq!(ledger.get(&object()).unwrap().frames.len(), 2);
        ledger.claimed(&object(), next, 10, 0, T0);
        assert!(ledger.get(&object()).unwrap().frames.is_empty() && ledger.bytes() == 0);
    }
}
