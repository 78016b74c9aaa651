//! What a node must be sure of before it answers from memory: that its lease holds, and that the
//! store it relies on is still the one that knows its fences (cluster 2.3, 2.11).

use std::sync::Arc;

use object::Object;

use super::directory::Active;
use super::live::Live;
use super::{Inner, shed};
use crate::clock::Mono;
use crate::error;
use crate::store::{self, Fence};

/// How often the lease is looked at. Answers look for themselves; this only frees memory.
const LOOK_MS: u64 = 250;
/// Fences asked for at the same time after a change of the primary.
pub(super) const CHECKS_MAX: usize = 256;
/// Without a gateway's stream for so long, the node is cut off from them: an alarm (cluster 2.13).
const CUT_OFF_MS: u64 = 15_000;

/// What a check says of a fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Checked {
    /// It is the stored one: memory is the truth.
    Ours,
    /// Another claim has been made, or the claim or events were lost with an old primary.
    Lost,
    /// The store did not say in time.
    Unsure,
}

/// When streams of gateways were last there. Pure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Reached {
    /// The last moment with a stream, or the first look; `None` before that.
    last: Option<Mono>,
    cut_off: bool,
}

impl Reached {
    const fn new() -> Self {
        Self { last: None, cut_off: false }
    }

    /// Takes a look; true if the node has just been cut off. A node that no gateway has found is
    /// new at first; if that lasts, none reaches the address it advertises. One without other nodes
    /// has nobody who is better off.
    fn look(&mut self, now: Mono, links: usize, others: usize) -> bool {
        if links > 0 {
            *self = Self { last: Some(now), cut_off: false };
            return false;
        }
        let before = self.cut_off;
        let last = *self.last.get_or_insert(now);
        self.cut_off = now.since(last) >= CUT_OFF_MS && others > 0;
        self.cut_off && !before
    }
}

impl<O: Object> Inner<O> {
    /// Frees what a node without a lease may not use, until the host ends. It is dropped, not
    /// released: whoever claims it next states that our lease has ended.
    pub(super) async fn run_guard(self: Arc<Self>) {
        let mut held = true;
        let mut reached = Reached::new();
        let mut load = shed::Watch::new(self.clock.mono());
        loop {
            tokio::select! {
                () = self.dead.cancelled() => return,
                () = self.clock.sleep_until(self.clock.mono().plus(LOOK_MS)) => {}
            }
            self.look_at_load(&mut load);
            let holds = self.cluster.is_leased();
            if held && !holds {
                self.metrics.lease_lapses.inc();
                tracing::warn!("node lease lapsed; everything in memory is dropped");
            }
            self.metrics.leased.set(i64::from(holds));
            if !holds {
                self.drop_all();
            }
            held = holds;
            let links = usize::try_from(self.metrics.links.get()).unwrap_or(0);
            if reached.look(self.clock.mono(), links, self.cluster.others()) {
                tracing::error!(
                    "no gateway has a stream to this node; check --advertise and the network between"
                );
            }
            self.metrics.cut_off.set(i64::from(reached.cut_off));
        }
    }

    fn drop_all(&self) {
        self.forget_hearsay();
        for shard in 0..self.directory.shard_count() {
            let Some(mut shard) = self.directory.shard_at(shard) else { return };
            for entry in shard.active.values() {
                entry.mailbox.nudge();
            }
            self.forget_stubs(&mut shard);
        }
    }

    /// Lets every activation ask for its fence after a change of the primary, until the host ends.
    /// Stubs ask when they are polled.
    pub(super) async fn run_primaries(self: Arc<Self>) {
        let mut primaries = self.cluster.primaries();
        loop {
            tokio::select! {
                () = self.dead.cancelled() => return,
                changed = primaries.changed() => if changed.is_err() {
                    self.dead.cancelled().await;
                    return;
                }
            }
            tracing::info!("the store's primary changed; fences are checked");
            self.forget_hearsay();
            for shard in self.directory.shards() {
                for entry in shard.active.values() {
                    entry.mailbox.nudge();
                }
            }
        }
    }

    /// Number of the store's present primary.
    pub(crate) fn primary(&self) -> u64 {
        *self.primaries.borrow()
    }

    /// Asks the store whether a fence is still the stored one.
    pub(crate) async fn check(&self, id: &object::ObjectId, fence: Fence) -> Checked {
        let _permit = self.turn(&self.checks, "checks_max").await;
        let _in_flight = self.metrics.in_flight("checks");
        let answer = super::repeat(self, || self.store.check(id.clone(), fence)).await;
        let (checked, label) = match answer {
            Ok(()) => (Checked::Ours, "ours"),
            Err(
                store::Error::Fenced
                | store::Error::Absent
                | store::Error::Owned { .. }
                | store::Error::Lsn { .. },
            ) => (Checked::Lost, "lost"),
            Err(reason) => {
                tracing::warn!(%reason, "a fence could not be checked");
                (Checked::Unsure, "unsure")
            }
        };
        self.metrics.fence_checks.with_label_values(&[label]).inc();
        checked
    }
}

/// What an activation may do with memory that it has not stored anything from.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Memory {
    /// It is the truth.
    True,
    /// Nobody may be told anything from it.
    Lapsed,
    /// It has to be read again.
    Stale,
    /// It cannot be told now.
    Unsure,
}

/// Looks at lease and primary before something is answered from memory.
pub(super) async fn memory<O: Object>(
    host: &Inner<O>,
    entry: &Active,
    live: &mut Live<O>,
) -> Memory {
    let primary = host.primary();
    if live.primary != primary {
        match host.check(&entry.id, live.fence).await {
            Checked::Ours => live.primary = primary,
            Checked::Lost => return Memory::Stale,
            Checked::Unsure => return Memory::Unsure,
        }
    }
    // The clock is read last: a pause of the process is noticed here.
    if host.cluster.is_leased() { Memory::True } else { Memory::Lapsed }
}

/// What callers are told of an answer that memory cannot give.
pub(super) const fn refusal(memory: Memory) -> object::Reject {
    match memory {
        Memory::Unsure => error::unavailable(),
        Memory::True | Memory::Lapsed | Memory::Stale => error::not_owner(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_cut_off_if_it_had_a_stream_and_others_are_there() {
        let mut reached = Reached::new();
        assert!(!reached.look(Mono(100_000), 0, 3), "no gateway has found it yet");
        assert!(!reached.look(Mono(101_000), 1, 3));
        assert!(!reached.look(Mono(115_999), 0, 3));
        assert!(reached.look(Mono(116_000), 0, 3));
        assert!(reached.cut_off && !reached.look(Mono(117_000), 0, 3), "told once");
        assert!(!reached.look(Mono(118_000), 2, 3));
        assert!(!reached.cut_off);
        assert!(!reached.look(Mono(200_000), 0, 0), "the only node stays");
    }

    #[test]
    fn a_node_that_no_gateway_ever_reaches_is_told() {
        let mut reached = Reached::new();
        assert!(!reached.look(Mono(100_000), 0, 3), "it is new");
        assert!(!reached.look(Mono(114_999), 0, 3));
        assert!(reached.look(Mono(115_000), 0, 3), "its advertised address leads nowhere");
    }
}
