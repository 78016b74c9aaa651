//! Rules on what the store holds, looked at again and again: who wrote what under which fence, that
//! it stays, and that nothing comes after an end.
//!
//! A look shows one generation of a room: its record and the frames that no snapshot has replaced,
//! or those of them that were not shown before. Between two looks frames may be trimmed unseen.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{Phase, Record};

/// A frame of the log.
#[derive(Clone, Debug, PartialEq, Deserialize)]
struct Frame {
    /// The lsn of its first event, and how many events it has.
    first: u64,
    count: u64,
    epoch: u64,
    nonce: u64,
    #[serde(default)]
    batch: String,
    /// The incarnation that wrote it, where that is known.
    #[serde(default)]
    node: String,
}

/// One look at a room. What is not told is not judged.
#[derive(Debug, Deserialize)]
struct Look {
    /// The claim that began the room.
    #[serde(default)]
    generation: String,
    frames: Vec<Frame>,
    /// The lsn of the record, and that of the snapshot.
    lsn: Option<u64>,
    snapshot: Option<u64>,
    /// The lsn at which the stored list begins; none of an empty list.
    begins: Option<u64>,
    /// The present epoch, and nonce and owner of the fence if there is one.
    epoch: Option<u64>,
    nonce: Option<u64>,
    #[serde(default)]
    node: String,
    /// Destroyed: only the mark is left.
    #[serde(default)]
    dead: bool,
}

/// What is known of one room.
#[derive(Default)]
struct Known {
    generation: String,
    /// Generations that are over.
    over: Vec<String>,
    /// Frames of this generation, by the lsn they begin at.
    stored: BTreeMap<u64, Frame>,
    lsn: u64,
    epoch: u64,
    /// The highest epoch of what is over: nothing of it may come later.
    ended: Option<u64>,
    dead: bool,
    owners: BTreeMap<(u64, u64), String>,
}

/// Hands every violation to `add`.
pub(super) fn check(records: &[Record], add: &mut dyn FnMut(&'static str, String)) {
    let mut rooms: BTreeMap<&str, Known> = BTreeMap::new();
    let looks = records.iter().filter(|record| record.op == "log" && record.phase == Phase::Ok);
    for record in looks {
        let here = format!("{}: the look {}", record.room, record.key);
        match serde_json::from_value::<Look>(record.detail.clone()) {
            Ok(look) => {
                let room = rooms.entry(&record.room).or_default();
                room.ends(&look, &here, add);
                room.look(&look, &here, add);
                whole(&look, &here, add);
                room.epoch = room.epoch.max(look.epoch.unwrap_or_default());
                room.lsn = look.lsn.unwrap_or_default();
            }
            Err(error) => add("well-formed", format!("{here}, {error}")),
        }
    }
}

/// The list is one piece, from the snapshot to the head.
fn whole(look: &Look, here: &str, add: &mut dyn FnMut(&'static str, String)) {
    let mut ends = None;
    for frame in &look.frames {
        if ends.is_some_and(|next| next != frame.first) {
            add("log-contiguous", format!("{here}, {frame:?} follows the lsn {ends:?}"));
        }
        ends = Some(frame.first + frame.count);
    }
    if let (Some(begins), Some(snapshot)) = (look.begins, look.snapshot)
        && begins != snapshot + 1
    {
        let from = format!("the log begins at {begins}, after a snapshot at {snapshot}");
        add("log-contiguous", format!("{here}, {from}"));
    }
    let head =
        ends.map(|next| next - 1).or_else(|| look.snapshot.filter(|_| look.begins.is_none()));
    if let (Some(head), Some(lsn)) = (head, look.lsn)
        && head != lsn
    {
        add("log-contiguous", format!("{here}, the log ends at {head}, its record says {lsn}"));
    }
}

impl Known {
    /// Whether the look shows another generation than before, or an end.
    fn ends(&mut self, look: &Look, here: &str, add: &mut dyn FnMut(&'static str, String)) {
        if look.dead {
            if !look.frames.is_empty() {
                add("nothing-after-destroy", format!("{here}, a dead room has {:?}", look.frames));
            }
            self.end();
            self.ended = self.ended.max(look.epoch);
            self.dead = true;
            return;
        }
        let same = self.generation == look.generation;
        if (same && self.dead) || self.over.contains(&look.generation) {
            let again = format!("the generation {} is there after its end", look.generation);
            add("nothing-after-destroy", format!("{here}, {again}"));
        }
        if !same {
            self.end();
            self.generation.clone_from(&look.generation);
        }
        self.dead = false;
        let late = look.frames.iter().find(|frame| Some(frame.epoch) <= self.ended);
        if let Some(frame) = late.filter(|_| self.ended.is_some()) {
            let ended = self.ended;
            add("nothing-after-destroy", format!("{here}, {frame:?} after the end at {ended:?}"));
        }
    }

    fn end(&mut self) {
        let last = self.stored.values().map(|frame| frame.epoch).max();
        self.ended = self.ended.max(last);
        self.stored.clear();
        self.lsn = 0;
        if !self.generation.is_empty() && !self.over.contains(&self.generation) {
            self.over.push(std::mem::take(&mut self.generation));
        }
    }

    fn look(&mut self, look: &Look, here: &str, add: &mut dyn FnMut(&'static str, String)) {
        for frame in &look.frames {
            self.frame(frame, here, add);
        }
        if look.lsn.is_some_and(|lsn| lsn < self.lsn) {
            let back = format!("the log went back from {} to {:?}", self.lsn, look.lsn);
            add("log-immutable", format!("{here}, {back}"));
        }
        let Some(epoch) = look.epoch else { return };
        if epoch < self.epoch {
            let back = format!("the epoch fell from {} to {epoch}", self.epoch);
            add("fence-order", format!("{here}, {back}"));
        }
        let last = self.stored.last_key_value().map(|(_, frame)| frame.clone());
        if let Some(last) = last {
            let other = look.nonce.is_some_and(|nonce| nonce != last.nonce);
            if last.epoch > epoch || (last.epoch == epoch && other) {
                add("fence-order", format!("{here}, {last:?} under the fence of epoch {epoch}"));
            }
        }
        if let Some(nonce) = look.nonce {
            self.owned(epoch, nonce, &look.node, here, add);
        }
    }

    /// One frame beside those known.
    fn frame(&mut self, frame: &Frame, here: &str, add: &mut dyn FnMut(&'static str, String)) {
        self.owned(frame.epoch, frame.nonce, &frame.node, here, add);
        if let Some(known) = self.stored.get(&frame.first) {
            let same = (known.count, known.epoch, known.nonce, &known.batch)
                == (frame.count, frame.epoch, frame.nonce, &frame.batch);
            if !same {
                add("log-immutable", format!("{here}, {frame:?} stands where {known:?} stood"));
            }
            return;
        }
        if let Some((_, before)) = self.stored.range(..frame.first).next_back() {
            if before.first + before.count > frame.first {
                add("log-immutable", format!("{here}, {frame:?} stands upon {before:?}"));
            }
            let falls = frame.epoch < before.epoch;
            if falls || (frame.epoch == before.epoch && frame.nonce != before.nonce) {
                add("fence-order", format!("{here}, {frame:?} follows {before:?}"));
            }
        }
        self.stored.insert(frame.first, frame.clone());
    }

    fn owned(
        &mut self,
        epoch: u64,
        nonce: u64,
        node: &str,
        here: &str,
        add: &mut dyn FnMut(&'static str, String),
    ) {
        if node.is_empty() {
            return;
        }
        let owner = self.owners.entry((epoch, nonce)).or_insert_with(|| node.to_owned());
        if owner != node {
            let both = format!("the fence {epoch}, {nonce} is of {node} and of {owner}");
            add("fence-owner", format!("{here}, {both}"));
        }
    }
}
