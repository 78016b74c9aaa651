//! What a host asks about the cluster it is part of: which objects it should serve, whether its
//! node lease holds, and who else is there.
//!
//! All of it is a hint but for the lease: the fence of the store decides who may write. The lease
//! decides who may answer from memory. Nothing here waits.

pub mod handoff;
pub mod member;

use tokio::sync::watch;

use object::ObjectId;

use crate::store::Incarnation;

/// Where an object belongs in the present view.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Place {
    Here,
    There {
        /// Address of the node that should serve it; `None` if there is none.
        hint: Option<String>,
        /// The view this was read from.
        view: u64,
    },
}

/// The cluster as one node sees it. Every method answers at once, from memory.
pub trait Cluster: Send + Sync + std::fmt::Debug + 'static {
    /// Where an object belongs.
    fn place(&self, object: &ObjectId) -> Place;

    /// Whether this node may answer from memory at this moment: its lease, measured on its own
    /// monotonic clock from before the last renewal was sent, has more than its margin left. Reads
    /// the clock at every call, so that a pause of the process is noticed by the next answer.
    fn is_leased(&self) -> bool;

    /// Whether this owner's node lease is known to have ended: a tombstone, or a released one.
    fn ended(&self, owner: &Incarnation) -> bool;

    /// Where a live incarnation is reached; `None` if it is not known.
    fn address(&self, owner: &Incarnation) -> Option<String>;

    /// How many other nodes take part.
    fn others(&self) -> usize;

    /// Number of the present view; 0 where there is no cluster.
    fn view(&self) -> u64;

    /// The view's number, whenever it changes.
    fn changes(&self) -> watch::Receiver<u64>;

    /// Somebody has seen view `at_least`: asks for it, if it is later than ours. The new view
    /// arrives by [`Self::changes`].
    fn refresh(&self, at_least: u64);

    /// A number that rises whenever the store may have gone back behind our back (another primary,
    /// another run of it, a new link): what is owned is checked before it answers from memory again.
    fn primaries(&self) -> watch::Receiver<u64>;
}

/// A cluster of one process: everything is here, for as long as it runs.
#[derive(Debug)]
pub struct Alone {
    never: watch::Sender<u64>,
}

impl Default for Alone {
    fn default() -> Self {
        Self { never: watch::Sender::new(0) }
    }
}

impl Cluster for Alone {
    fn place(&self, _object: &ObjectId) -> Place {
        Place::Here
    }

    fn is_leased(&self) -> bool {
        true
    }

    fn ended(&self, _owner: &Incarnation) -> bool {
        false
    }

    fn address(&self, _owner: &Incarnation) -> Option<String> {
        None
    }

    fn others(&self) -> usize {
        0
    }

    fn view(&self) -> u64 {
        0
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.never.subscribe()
    }

    fn refresh(&self, _at_least: u64) {}

    fn primaries(&self) -> watch::Receiver<u64> {
        self.never.subscribe()
    }
}
