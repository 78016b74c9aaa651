//! What a node holds of the room: the activation as a machine (cluster 2.5, 2.9).

use super::store::{Batch, Fence, Frame, Incarnation, Request};
use super::{Mutant, Rules};

/// A node process.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Node {
    /// Raised by every start: node and boot are the incarnation.
    pub boot: u8,
    /// Whether its node lease holds, by its own clock. Others may claim only when it does not.
    pub leased: bool,
    pub sight: Sight,
    pub phase: Phase,
}

/// What the node knows of the primary.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Sight {
    /// It is the one the node last compared with.
    Current,
    /// It is another one, and the node knows: nothing is answered from memory.
    Recheck,
    /// It is another one, and the node does not know yet.
    Unnoticed,
}

/// The life of the activation.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Phase {
    /// No activation; the fence is of one that was dropped in doubt and not released.
    Cold {
        dropped: Option<Fence>,
    },
    Claiming {
        nonce: u8,
        observed: Option<Fence>,
    },
    /// `log` is what is committed; `flight` is applied in memory ahead of it.
    Live {
        fence: Fence,
        log: Vec<Frame>,
        flight: Option<Flight>,
    },
    /// The outcome of `flight` is unknown: a new fence is being taken.
    InDoubt {
        old: Fence,
        nonce: u8,
        log: Vec<Frame>,
        flight: Flight,
    },
    Releasing {
        fence: Fence,
    },
}

/// The one append in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Flight {
    pub client: u8,
    pub batch: Batch,
    /// Sent again under a new fence.
    pub repeated: bool,
}

impl Node {
    pub const fn cold() -> Phase {
        Phase::Cold { dropped: None }
    }

    /// Whether it may answer from memory: the lease holds, the primary is the one it compared
    /// with (as far as it knows), and nothing in memory is ahead of the store.
    pub fn answers(&self) -> Option<&[Frame]> {
        match &self.phase {
            Phase::Live { log, flight: None, .. }
                if self.leased && self.sight != Sight::Recheck =>
            {
                Some(log)
            }
            _ => None,
        }
    }

    /// The request whose answer it waits for.
    pub fn awaited(&self, rules: &Rules, node: u8) -> Option<Request> {
        let me = Incarnation { node, boot: self.boot };
        match &self.phase {
            Phase::Cold { .. } | Phase::Live { flight: None, .. } => None,
            Phase::Claiming { nonce, observed } => {
                Some(Request::Claim { me, nonce: *nonce, observed: *observed })
            }
            Phase::Live { fence, log, flight: Some(flight) } => {
                let expect = u8::try_from(log.len()).unwrap_or(u8::MAX);
                Some(Request::Append { me, fence: *fence, expect, batch: flight.batch })
            }
            Phase::InDoubt { old, .. } if rules.mutant == Some(Mutant::NoRefence) => {
                Some(Request::Read { me, fence: *old })
            }
            Phase::InDoubt { old, nonce, .. } => {
                Some(Request::Refence { me, old: *old, nonce: *nonce })
            }
            Phase::Releasing { fence } => Some(Request::Release { me, fence: *fence }),
        }
    }
}
