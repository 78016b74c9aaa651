//! Calls that wait for their room to arrive somewhere: few per room, so that one room that does
//! not come back does not fill the gateway.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use object::ObjectId;
use prometheus::IntGauge;

/// Most calls held for one room (cluster 2.9).
pub const HELD_PER_ROOM_MAX: u32 = 64;

/// How many calls are held for which room. The sum is bounded by the calls in flight.
#[derive(Debug)]
pub(super) struct Holds {
    rooms: Mutex<HashMap<ObjectId, u32>>,
    gauge: IntGauge,
}

impl Holds {
    pub(super) fn new(gauge: IntGauge) -> Self {
        Self { rooms: Mutex::default(), gauge }
    }

    /// A place among the room's held calls, until it is dropped; `None` if all are taken.
    pub(super) fn enter<'a>(&'a self, room: &'a ObjectId) -> Option<Held<'a>> {
        let mut rooms = self.lock();
        let held = rooms.get(room).copied().unwrap_or(0);
        if held >= HELD_PER_ROOM_MAX {
            return None;
        }
        rooms.insert(room.clone(), held + 1);
        self.gauge.inc();
        Some(Held { holds: self, room })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ObjectId, u32>> {
        self.rooms.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One held call.
#[derive(Debug)]
pub(super) struct Held<'a> {
    holds: &'a Holds,
    room: &'a ObjectId,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        let mut rooms = self.holds.lock();
        match rooms.get_mut(self.room) {
            Some(held) if *held > 1 => *held -= 1,
            _ => drop(rooms.remove(self.room)),
        }
        self.holds.gauge.dec();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_room_has_its_own_places_and_gives_them_back() {
        let gauge = IntGauge::new("held", "held").unwrap();
        let holds = Holds::new(gauge.clone());
        let room = |name| ObjectId::new(room::KIND, name).unwrap();
        let (one, two) = (room("one"), room("two"));
        let mut held: Vec<_> = (0..HELD_PER_ROOM_MAX).map(|_| holds.enter(&one).unwrap()).collect();
        assert!(holds.enter(&one).is_none());
        assert!(holds.enter(&two).is_some());
        assert_eq!(gauge.get(), i64::from(HELD_PER_ROOM_MAX));
        held.pop();
        held.push(holds.enter(&one).unwrap());
        assert!(holds.enter(&one).is_none());
        held.clear();
        assert_eq!(gauge.get(), 0);
        assert!(holds.lock().is_empty());
    }
}
