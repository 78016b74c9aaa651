//! The protocol of a room in the cluster as a model (cluster 2.3, 2.5, 2.7; 4.2).
//!
//! One room. A primary and one replica that lags; a failover promotes the replica as it stands.
//! Two nodes that claim, append, resolve, release, are killed, or lose their node lease. Two
//! clients with keyed appends that they may send again, to either node. The network delays, drops
//! and doubles: a request once sent may arrive late, again, or never; at a new primary only if its
//! answer has not arrived, since then no link has it any more.
//!
//! The rules of the protocol are in [`store`] (the scripts) and [`step`] (the nodes); what must
//! always hold is in [`property`]. [`Mutant`] breaks one rule at a time, and each must be caught.
//! [`Weakening`] takes away one assumption, to show that it is needed.
//!
//! Left out, and why that is sound or what it assumes:
//! - Time. A node lease ends by the action [`Action::Lapse`]: the node answers nothing from memory
//!   from then on, and only then others see it ended. That is the rule `TTL - 1 s on the own clock`.
//! - The node table. A tombstone is taken to survive a failover (it is confirmed by a replica).
//! - An old primary that lives on beside the new one: `min-replicas-to-write` bounds it, no model.
//! - Replication one write at a time. [`Action::Replicate`] copies all; every prefix the replica
//!   can hold is reached by copying after that write.
//! - Snapshots, blobs, leases of agents, destroy.

pub mod node;
pub mod property;
pub mod search;
pub mod step;
pub mod store;

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};

use node::{Node, Phase, Sight};
use stateright::{Model, Property};
use store::{Batch, Disk, Fence, Incarnation, Reply, Request};

/// What an acknowledgement waits for (cluster 2.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// The primary only, as D1 and D2: a failover may lose what the replica has not yet.
    Window,
    /// The replica that will be promoted, as D4 on all replicas: nothing is lost.
    Replica,
}

/// One rule broken: the checker must find a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// The scripts compare the epoch alone.
    NonceRemoved,
    /// The scripts let a higher epoch in: `>=` where `==` belongs.
    AtLeast,
    /// In doubt, the log is read under the old fence: the lost append may still land after it.
    NoRefence,
    /// The reply leaves when the change is applied in memory.
    ReplyBeforeGate,
    /// A release clears the owner but not the nonce.
    ReleaseKeepsNonce,
    /// The due entry is moved later by a write of its own before the append.
    DueBeforeCommit,
}

impl Mutant {
    pub const ALL: [Self; 6] = [
        Self::NonceRemoved,
        Self::AtLeast,
        Self::NoRefence,
        Self::ReplyBeforeGate,
        Self::ReleaseKeepsNonce,
        Self::DueBeforeCommit,
    ];
}

/// One assumption taken away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakening {
    /// A node goes on answering from memory until it happens to learn of the new primary.
    LateNotice,
    /// A claim from an incarnation of the own node passes without the observed fence.
    OwnClaimsUnchecked,
    /// After a failover an owner compares only the length of the log with its last ack.
    LossByLengthOnly,
    /// `Fenced`, answered to an append, is told to the client as "certainly not stored".
    FencedMeansFailed,
    /// A repeat of an acknowledged key is answered from memory without a node lease.
    RepeatsWithoutLease,
}

impl Weakening {
    pub const ALL: [Self; 5] = [
        Self::LateNotice,
        Self::OwnClaimsUnchecked,
        Self::LossByLengthOnly,
        Self::FencedMeansFailed,
        Self::RepeatsWithoutLease,
    ];
}

/// Which protocol is checked.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    pub level: Level,
    pub mutant: Option<Mutant>,
    pub weakening: Option<Weakening>,
}

/// How far it is searched: the search is whole within these.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Keyed appends of each client.
    pub keys: [u8; 2],
    /// Attempts at each key.
    pub attempts: u8,
    /// Claims and refences together.
    pub nonces: u8,
    pub failovers: u8,
    pub lapses: u8,
    pub crashes: u8,
    /// Actions in a row at most, if the search is not to end by itself.
    pub depth: Option<usize>,
}

/// What became of an acknowledged append.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Fate {
    Kept,
    /// A failover went back behind it.
    Lost,
    /// Its owner has seen that and said so (`lost_acked`).
    Reported,
}

/// An acknowledgement that has left a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ack {
    pub key: u8,
    pub lsn: u8,
    pub batch: Batch,
    pub fence: Fence,
    pub by: Incarnation,
    pub fate: Fate,
}

/// A client with its keys in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Client {
    pub done: u8,
    pub attempt: u8,
    /// The node that has its call.
    pub at: Option<u8>,
}

/// An answer on its way; `confirmed` once the replica has all that it shows.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Answer {
    pub to: Request,
    pub reply: Reply,
    pub confirmed: bool,
}

/// Everything.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    pub primary: Disk,
    pub replica: Disk,
    pub nodes: [Node; 2],
    pub clients: [Client; 2],
    pub requests: BTreeSet<Request>,
    /// Requests whose answer has arrived: to another primary nobody sends them again.
    pub settled: BTreeSet<Request>,
    pub answers: BTreeSet<Answer>,
    pub acks: BTreeSet<Ack>,
    /// Batches whose client was told that they are certainly not stored.
    pub failed: BTreeSet<Batch>,
    /// An entry was stored in a room that nobody owned.
    pub grew_unowned: bool,
    /// Nonces handed out.
    pub nonces: u8,
    pub failovers: u8,
    pub lapses: u8,
    pub crashes: u8,
}

/// Everything that can happen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// The node asks for the room; it states the fence it has observed.
    Claim(u8),
    /// The client hands its append, or its repeat, to the node.
    Call {
        client: u8,
        node: u8,
    },
    /// The client has waited long enough and may ask again elsewhere.
    ClientGivesUp(u8),
    /// The request arrives at the primary.
    Deliver(Request),
    /// The answer arrives at the node.
    Receive(Answer),
    /// The node has waited long enough for its append: it takes a new fence.
    Refence(u8),
    /// The node stops waiting and drops the activation.
    GiveUp(u8),
    Release(u8),
    /// The replica has everything now; what waited for it is confirmed.
    Replicate,
    /// The replica becomes the primary; links to the old one are cut.
    Failover,
    /// The node learns of the new primary (only of [`Weakening::LateNotice`]).
    Notice(u8),
    /// The node compares its fence and what it acknowledged with the new primary.
    Recheck(u8),
    /// The node lease ends; the process runs on and does not know.
    Lapse(u8),
    /// kill -9 and a new start.
    Crash(u8),
}

/// How often something worth reaching was reached.
#[derive(Debug, Default)]
pub struct Seen {
    pub takeover: AtomicU64,
    pub resolved_present: AtomicU64,
    pub resolved_absent: AtomicU64,
    pub epoch_collision: AtomicU64,
    pub fenced_append: AtomicU64,
    pub duplicate_append: AtomicU64,
    pub lost_reported: AtomicU64,
}

impl Seen {
    pub fn count(counter: &AtomicU64) {
        counter.fetch_add(1, Ordering::Relaxed);
    }

    /// Names and counts.
    pub fn counts(&self) -> [(&'static str, u64); 7] {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            ("takeover of a lapsed owner", of(&self.takeover)),
            ("in doubt, found", of(&self.resolved_present)),
            ("in doubt, not found and sent again", of(&self.resolved_absent)),
            ("epoch given twice after a failover", of(&self.epoch_collision)),
            ("append fenced", of(&self.fenced_append)),
            ("append answered as a duplicate", of(&self.duplicate_append)),
            ("loss reported", of(&self.lost_reported)),
        ]
    }
}

/// The model: rules, bounds, and what the search has met.
#[derive(Debug)]
pub struct Protocol {
    pub rules: Rules,
    pub bounds: Bounds,
    pub seen: Seen,
}

impl Protocol {
    pub fn new(rules: Rules, bounds: Bounds) -> Self {
        Self { rules, bounds, seen: Seen::default() }
    }

    /// Whether a failover can still come: until then what the replica lacks matters.
    pub(crate) const fn may_fail_over(&self, state: &State) -> bool {
        state.failovers < self.bounds.failovers
    }
}

impl Model for Protocol {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        let node = || Node { boot: 0, leased: true, sight: Sight::Current, phase: Node::cold() };
        vec![State {
            primary: Disk::default(),
            replica: Disk::default(),
            nodes: [node(), node()],
            clients: [Client::default(); 2],
            requests: BTreeSet::new(),
            settled: BTreeSet::new(),
            answers: BTreeSet::new(),
            acks: BTreeSet::new(),
            failed: BTreeSet::new(),
            grew_unowned: false,
            nonces: 0,
            failovers: 0,
            lapses: 0,
            crashes: 0,
        }]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        let fresh = state.nonces < self.bounds.nonces;
        // Nodes are alike and clients are alike: which of two begins makes no difference.
        let begun = state.nonces > 0;
        let called = state.clients != [Client::default(); 2];
        for (n, node) in (0..).zip(&state.nodes) {
            let cold = matches!(node.phase, Phase::Cold { .. });
            if cold && node.leased && fresh && (begun || n == 0) && state.observed(n).is_some() {
                actions.push(Action::Claim(n));
            }
            if fresh && matches!(node.phase, Phase::Live { flight: Some(_), .. }) {
                actions.push(Action::Refence(n));
            }
            let waits = !cold && !matches!(node.phase, Phase::Live { .. });
            if waits {
                actions.push(Action::GiveUp(n));
            }
            let idle = matches!(
                node.phase,
                Phase::Live { flight: None, .. } | Phase::Cold { dropped: Some(_) }
            );
            if idle {
                actions.push(Action::Release(n));
            }
            match node.sight {
                Sight::Current => {}
                Sight::Recheck => actions.push(Action::Recheck(n)),
                Sight::Unnoticed => actions.push(Action::Notice(n)),
            }
            if node.leased && state.lapses < self.bounds.lapses {
                actions.push(Action::Lapse(n));
            }
            if state.crashes < self.bounds.crashes && (!cold || !node.leased) {
                actions.push(Action::Crash(n));
            }
        }
        for (c, client) in (0..).zip(&state.clients) {
            match client.at {
                Some(_) if client.attempt < self.bounds.attempts => {
                    actions.push(Action::ClientGivesUp(c));
                }
                None if (called || c == 0)
                    && client.attempt < self.bounds.attempts
                    && self.has_key(c, client) =>
                {
                    actions.extend((0..2).map(|node| Action::Call { client: c, node }));
                }
                Some(_) | None => {}
            }
        }
        actions.extend(state.requests.iter().copied().map(Action::Deliver));
        let confirmed = state.answers.iter().filter(|answer| answer.confirmed);
        actions.extend(confirmed.cloned().map(Action::Receive));
        if self.may_fail_over(state) {
            actions.push(Action::Replicate);
            actions.push(Action::Failover);
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.step(&mut state, action)?;
        self.forget(&mut state);
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        property::all()
    }
}
