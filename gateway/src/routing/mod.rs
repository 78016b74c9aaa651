//! Which node a room's calls go to, and what becomes of a call whose room is elsewhere.
//!
//! In one process there is one node. In a cluster the owner of the room's bucket in the present
//! view is asked; the view is a hint, and the node that is asked says so if it does not own the
//! room (cluster 2.10).

mod abroad;
mod course;
mod health;
mod held;
mod view;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use membership::Now;
use object::ObjectId;
use tokio::sync::watch;

pub(crate) use self::abroad::Abroad;
pub use self::abroad::Peers;
pub use self::held::HELD_PER_ROOM_MAX;
pub use self::view::{Dial, Refresh, Suspect};

use self::course::Course;
use self::held::Holds;
use self::view::{Followed, Node, Target};
use crate::error::Refusal;
use crate::metrics::Metrics;
use crate::upstream::retry::Budget;
use crate::upstream::{Reply, Request, Upstream};

/// The nodes this gateway knows, and the calls on their way to them.
#[derive(Clone, Debug)]
pub struct Routes {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    nodes: Nodes,
    inflight: AtomicUsize,
    inflight_max: usize,
    /// One for all nodes: the load of a dying one must not be multiplied onto the others.
    budget: Budget,
    holds: Holds,
    metrics: Arc<Metrics>,
}

#[derive(Debug)]
enum Nodes {
    One(Arc<Node>),
    View(Followed),
}

impl Routes {
    /// Everything goes to one node, `inflight_max` calls at a time.
    #[must_use]
    pub fn single(node: Upstream, inflight_max: usize, metrics: Arc<Metrics>) -> Self {
        Self::new(Nodes::One(Arc::new(Node::only(node))), inflight_max, metrics)
    }

    /// Everything goes to the owner of its bucket in the view that `views` shows at the time.
    /// `dial` opens the streams to a member, `refresh` is told of a view that somebody has seen
    /// and `views` has not shown yet, `suspect` of nodes that do not answer. Must be called within a tokio runtime.
    #[must_use]
    pub fn follow(
        views: watch::Receiver<Arc<Now>>,
        refresh: Refresh,
        suspect: Suspect,
        dial: Dial,
        inflight_max: usize,
        metrics: Arc<Metrics>,
    ) -> Self {
        let followed = Followed::start(views, refresh, suspect, dial);
        Self::new(Nodes::View(followed), inflight_max, metrics)
    }

    fn new(nodes: Nodes, inflight_max: usize, metrics: Arc<Metrics>) -> Self {
        let inner = Inner {
            nodes,
            inflight: AtomicUsize::new(0),
            inflight_max,
            budget: Budget::full(),
            holds: Holds::new(metrics.held.clone()),
            metrics,
        };
        Self { inner: Arc::new(inner) }
    }

    /// Sends a call to whoever owns its room, repeats it where that is safe, and says what came
    /// of it before the deadline. Dropping the future cancels the call at the node.
    pub async fn call(&self, request: &Request) -> Reply {
        let Some(_slot) = self.enter() else {
            return Reply { result: Err(Refusal::overloaded()), next_wait_ms: None };
        };
        self.inner.budget.earn();
        Course::new(&self.inner, request).run().await
    }

    /// A place among the calls on their way, until it is dropped.
    pub(crate) fn enter(&self) -> Option<Slot<'_>> {
        let slot = Slot::take(&self.inner);
        if slot.is_none() {
            self.inner.metrics.overloaded.inc();
        }
        slot
    }

    /// Whether calls can be sent at all: some node takes them.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.inner.nodes.upstreams().iter().any(Upstream::is_open)
    }

    /// Waits a moment for a node to take calls.
    pub async fn wait_open(&self) {
        match &self.inner.nodes {
            Nodes::One(node) => node.upstream.wait_open().await,
            Nodes::View(followed) => followed.wait_open().await,
        }
    }

    /// Calls on their way, held ones and held waits included.
    #[must_use]
    pub fn inflight(&self) -> usize {
        self.inner.inflight.load(Ordering::Relaxed)
    }

    /// Brings the gauges that are costly to keep up to date.
    pub fn refresh_gauges(&self) {
        let (nodes, metrics) = (&self.inner.nodes, &self.inner.metrics);
        let upstreams = nodes.upstreams();
        for (state, gauge) in &metrics.upstreams {
            let count = upstreams.iter().filter(|upstream| upstream.state() == *state).count();
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let queued: usize = upstreams.iter().map(Upstream::queued).sum();
        metrics.link_queued.set(i64::try_from(queued).unwrap_or(i64::MAX));
        let view = match nodes {
            Nodes::One(_) => 0,
            Nodes::View(followed) => followed.view(),
        };
        metrics.view.set(i64::try_from(view).unwrap_or(i64::MAX));
    }
}

impl Nodes {
    fn upstreams(&self) -> Vec<Upstream> {
        match self {
            Self::One(node) => vec![node.upstream.clone()],
            Self::View(followed) => followed.upstreams(),
        }
    }

    /// The node to ask for an object, by the table alone.
    fn owner(&self, object: &ObjectId) -> Option<Target> {
        match self {
            Self::One(node) => Some(Target { node: Arc::clone(node), view: 0 }),
            Self::View(followed) => followed.owner(object),
        }
    }
}

/// One of the calls in flight.
pub(crate) struct Slot<'a>(&'a Inner);

impl<'a> Slot<'a> {
    fn take(inner: &'a Inner) -> Option<Self> {
        let slot = Self(inner);
        let before = inner.inflight.fetch_add(1, Ordering::Relaxed);
        inner.metrics.inflight.inc();
        (before < inner.inflight_max).then_some(slot)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.inflight.fetch_sub(1, Ordering::Relaxed);
        self.0.metrics.inflight.dec();
    }
}

#[cfg(test)]
mod tests;
