//! One verified primary, and the map of all.

use std::sync::Arc;

use crate::core::Core;
use crate::identity::Identity;
use crate::lane::Lane;
use crate::library::Form;
use crate::pool::Pool;
use crate::retry::Detour;
use crate::{Address, SLOTS};

/// A slot that nobody owns.
const NOBODY: u16 = u16::MAX;

/// One life of one primary.
#[derive(Debug)]
pub(crate) struct Primary {
    pub(crate) address: Address,
    pub(crate) identity: Identity,
    pub(crate) form: Form,
    lanes: Vec<Lane>,
    pub(crate) pool: Pool,
}

impl Primary {
    pub(crate) fn new(core: &Arc<Core>, address: Address, identity: Identity, form: Form) -> Self {
        let lane = |_| Lane::start(core, address.clone(), identity.clone(), form);
        let lanes = (0..core.settings.lanes.max(1)).map(lane).collect();
        let pool = Pool::new(core, address.clone(), identity.clone());
        Self { address, identity, form, lanes, pool }
    }

    /// The lane of a slot: always the same one.
    pub(crate) fn lane(&self, slot: u16) -> Option<&Lane> {
        self.lanes.get(usize::from(slot) % self.lanes.len().max(1))
    }
}

/// Slots from the first to the last, both included.
pub(crate) type Range = (u16, u16);

/// A primary and what it owns.
pub(crate) type Owner = (Arc<Primary>, Vec<Range>);

/// Which primary owns which slot.
#[derive(Debug, Default)]
pub(crate) struct Map {
    primaries: Vec<Arc<Primary>>,
    /// Index into `primaries` by slot.
    slots: Vec<u16>,
}

impl Map {
    pub(crate) fn new(parts: &[Owner]) -> Self {
        let mut slots = vec![NOBODY; usize::from(SLOTS)];
        for (index, (_, ranges)) in parts.iter().enumerate() {
            let index = u16::try_from(index).unwrap_or(NOBODY);
            for (first, last) in ranges {
                let owned = slots.get_mut(usize::from(*first)..=usize::from(*last));
                owned.into_iter().flatten().for_each(|slot| *slot = index);
            }
        }
        Self { primaries: parts.iter().map(|(primary, _)| Arc::clone(primary)).collect(), slots }
    }

    /// Where a call goes; none if nobody verified serves there.
    pub(crate) fn way(&self, slot: u16, detour: Option<&Detour>) -> Option<&Arc<Primary>> {
        match detour {
            Some(detour) => self.at(&detour.to),
            None => self.owner(slot),
        }
    }

    fn owner(&self, slot: u16) -> Option<&Arc<Primary>> {
        self.primaries.get(usize::from(*self.slots.get(usize::from(slot))?))
    }

    fn at(&self, address: &Address) -> Option<&Arc<Primary>> {
        self.primaries.iter().find(|primary| primary.address == *address)
    }

    /// Whether both lead every slot to the same life of the same primary.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        self.slots == other.slots
            && self.primaries.len() == other.primaries.len()
            && self.primaries.iter().zip(&other.primaries).all(|(a, b)| Arc::ptr_eq(a, b))
    }
}
