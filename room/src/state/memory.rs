//! What a participant's committed changes are remembered by, so that a repeat changes nothing
//! (ours 11).

use std::collections::VecDeque;

use object::Millis;

use crate::limits;

/// What a change made, as far as its answer needs it again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Fact {
    /// The sequence of the message or attachment, or a revision; 0 for none.
    pub sequence: u64,
    /// The id of the attachment, surface or app; 0 for none.
    pub id: u128,
}

/// One remembered change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// Hash of the request id.
    pub id_hash: u64,
    /// Hash of op, arguments and blob.
    pub args_hash: u64,
    pub at: Millis,
    pub fact: Fact,
}

const _: () = assert!(size_of::<Entry>() <= 64);

/// What the window says about a request id.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Seen {
    /// Not remembered, and certainly not forgotten.
    Never,
    /// A repeat of a committed change, made at this time.
    Repeat(Fact, Millis),
    /// The id came before with other arguments.
    Conflict,
    /// It may have been forgotten before its time.
    Unknown,
}

/// The window of one participant, oldest first.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Memory {
    /// At most `REMEMBERED_MAX`.
    pub entries: VecDeque<Entry>,
    /// When an entry was last dropped before its time was over; 0 for never.
    pub dropped_at: Millis,
}

impl Memory {
    /// What the window says. `sent` is when the first attempt was sent, for repeats.
    #[must_use]
    pub fn look(&self, id_hash: u64, args_hash: u64, now: Millis, sent: Option<Millis>) -> Seen {
        let found = self.entries.iter().rev().find(|e| e.id_hash == id_hash);
        match found {
            Some(e) if now.since(e.at) >= limits::REMEMBERED_MS_MAX => self.forgotten(now, sent),
            Some(e) if e.args_hash == args_hash => Seen::Repeat(e.fact, e.at),
            Some(_) => Seen::Conflict,
            None => self.forgotten(now, sent),
        }
    }

    fn forgotten(&self, now: Millis, sent: Option<Millis>) -> Seen {
        match sent {
            Some(sent) if sent <= self.dropped_at => Seen::Unknown,
            // Older than any entry lives: whether it was done cannot be known.
            Some(sent) if now.since(sent) >= limits::REMEMBERED_MS_MAX => Seen::Unknown,
            _ => Seen::Never,
        }
    }

    /// Remembers one change; drops the expired ones, then the oldest above the bound.
    pub(crate) fn remember(&mut self, entry: Entry) {
        while let Some(first) = self.entries.front()
            && entry.at.since(first.at) >= limits::REMEMBERED_MS_MAX
        {
            self.entries.pop_front();
        }
        if self.entries.len() >= limits::REMEMBERED_MAX {
            self.entries.pop_front();
            self.dropped_at = entry.at;
        }
        self.entries.push_back(entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(id: u64, at: u64) -> Entry {
        Entry {
            id_hash: id,
            args_hash: id * 10,
            at: Millis(at),
            fact: Fact { sequence: id, id: 0 },
        }
    }

    #[test]
    fn the_window_keeps_64_ids_and_knows_when_it_forgot() {
        let mut memory = Memory::default();
        for id in 1..=64 {
            memory.remember(entry(id, 1_000 + id));
        }
        let now = Millis(2_000);
        let repeat = Seen::Repeat(Fact { sequence: 1, id: 0 }, Millis(1_001));
        assert_eq!(memory.look(1, 10, now, Some(Millis(900))), repeat);
        assert_eq!(memory.look(1, 11, now, None), Seen::Conflict);
        assert_eq!(memory.look(99, 990, now, Some(Millis(900))), Seen::Never);
        memory.remember(entry(65, 1_500));
        assert_eq!(memory.look(1, 10, now, Some(Millis(900))), Seen::Unknown);
        assert_eq!(memory.look(1, 10, now, Some(Millis(1_501))), Seen::Never);
        assert_eq!(memory.look(1, 10, now, None), Seen::Never);
    }

    #[test]
    fn an_entry_lives_ten_minutes_and_its_end_is_no_early_drop() {
        let mut memory = Memory::default();
        memory.remember(entry(1, 1_000));
        let end = 1_000 + limits::REMEMBERED_MS_MAX;
        assert!(matches!(memory.look(1, 10, Millis(end - 1), None), Seen::Repeat(..)));
        assert_eq!(memory.look(1, 10, Millis(end), None), Seen::Never);
        // A repeat by the edge of so old a call is never executed.
        assert_eq!(memory.look(1, 10, Millis(end), Some(Millis(1_000))), Seen::Unknown);
        assert_eq!(memory.look(1, 10, Millis(end), Some(Millis(1_001))), Seen::Never);
        memory.remember(entry(2, end));
        assert_eq!(memory.entries.len(), 1);
        assert_eq!(memory.dropped_at, Millis(0));
    }
}
