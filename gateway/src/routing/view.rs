//! Nodes as the view of the cluster names them: streams to each incarnation, opened when it
//! appears in the view and dropped when it has left it.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use futures_util::future::select_all;
use membership::{Incarnation, Member, Now, bucket};
use object::ObjectId;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::health::Health;
use crate::upstream::{OPEN_WAIT, Upstream};

/// Opens the streams to a member; `None` if its address cannot be dialled.
pub type Dial = Arc<dyn Fn(&Member) -> Option<Upstream> + Send + Sync>;

/// Asks for a view of at least this number soon. Must not block.
pub type Refresh = Arc<dyn Fn(u64) + Send + Sync>;

/// Is told of a node that does not answer (true), or does again. Must not block.
pub type Suspect = Arc<dyn Fn(&Incarnation, bool) + Send + Sync>;

/// One node and the streams to it.
pub(super) struct Node {
    /// `None` for the only node of one process.
    pub(super) incarnation: Option<Incarnation>,
    /// As its hints name it.
    pub(super) address: String,
    pub(super) upstream: Upstream,
    pub(super) health: Health,
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node")
            .field("incarnation", &self.incarnation)
            .field("upstream", &self.upstream)
            .finish_non_exhaustive()
    }
}

impl Node {
    /// The only node there is.
    pub(super) fn only(upstream: Upstream) -> Self {
        let health = Health::default();
        Self { incarnation: None, address: String::new(), upstream, health }
    }
}

/// A node to ask, and the view in which it was chosen.
#[derive(Clone, Debug)]
pub(super) struct Target {
    pub(super) node: Arc<Node>,
    /// 0 where there is none.
    pub(super) view: u64,
}

/// One view with its nodes.
#[derive(Debug)]
pub(super) struct Snapshot {
    now: Arc<Now>,
    /// Bounded by the members of the view.
    nodes: HashMap<Incarnation, Arc<Node>>,
}

impl Snapshot {
    /// The view with streams to all its members; those that are open already are kept.
    fn of(now: Arc<Now>, before: &HashMap<Incarnation, Arc<Node>>, dial: &Dial) -> Self {
        let node = |member: &Member| {
            let known = before.get(&member.incarnation);
            if let Some(node) = known.filter(|node| node.address == member.address) {
                return Some((member.incarnation.clone(), Arc::clone(node)));
            }
            let node = Node {
                incarnation: Some(member.incarnation.clone()),
                address: member.address.clone(),
                upstream: dial(member)?,
                health: Health::default(),
            };
            Some((member.incarnation.clone(), Arc::new(node)))
        };
        let nodes = now.view.members.iter().filter_map(node).collect();
        Self { now, nodes }
    }

    fn number(&self) -> u64 {
        self.now.view.number
    }

    fn target(&self, node: &Arc<Node>) -> Target {
        Target { node: Arc::clone(node), view: self.number() }
    }

    fn owner(&self, object: &ObjectId) -> Option<Target> {
        let owner = self.now.table.owner(bucket(object.name().as_bytes()))?;
        self.nodes.get(&owner.incarnation).map(|node| self.target(node))
    }
}

/// The nodes of a view that is followed.
pub(super) struct Followed {
    snapshots: watch::Receiver<Arc<Snapshot>>,
    refresh: Refresh,
    suspect: Suspect,
    task: AbortHandle,
}

impl fmt::Debug for Followed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Followed").field("view", &self.view()).finish_non_exhaustive()
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Followed {
    /// Follows the views. Must be called within a tokio runtime.
    pub(super) fn start(
        mut views: watch::Receiver<Arc<Now>>,
        refresh: Refresh,
        suspect: Suspect,
        dial: Dial,
    ) -> Self {
        let first = Arc::clone(&views.borrow_and_update());
        let first = Snapshot::of(first, &HashMap::new(), &dial);
        let (sender, snapshots) = watch::channel(Arc::new(first));
        let follow = async move {
            while views.changed().await.is_ok() {
                let now = Arc::clone(&views.borrow_and_update());
                let next = Snapshot::of(now, &sender.borrow().nodes, &dial);
                tracing::info!(view = next.number(), members = next.nodes.len(), "view changed");
                sender.send_replace(Arc::new(next));
            }
            // Without its sender every waiter would be woken for ever.
            std::future::pending::<()>().await;
        };
        Self { snapshots, refresh, suspect, task: tokio::spawn(follow).abort_handle() }
    }

    fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshots.borrow())
    }

    /// Number of the present view.
    pub(super) fn view(&self) -> u64 {
        self.snapshots.borrow().number()
    }

    /// Asks for a later view if a node has seen one. True if it had.
    pub(super) fn saw(&self, view: u64) -> bool {
        let later = view > self.view();
        if later {
            (self.refresh)(view);
        }
        later
    }

    /// Says of a node that it does not answer, or does again.
    pub(super) fn suspect(&self, node: &Node, suspect: bool) {
        if let Some(incarnation) = &node.incarnation {
            (self.suspect)(incarnation, suspect);
        }
    }

    /// Resolves once the view has another number than this.
    pub(super) async fn changed_from(&self, view: u64) {
        let mut snapshots = self.snapshots.clone();
        if snapshots.wait_for(|snapshot| snapshot.number() != view).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// The owner of the object's bucket.
    pub(super) fn owner(&self, object: &ObjectId) -> Option<Target> {
        self.snapshots.borrow().owner(object)
    }

    /// The member with this address.
    pub(super) fn at(&self, address: &str) -> Option<Target> {
        let snapshot = self.snapshots.borrow();
        let node = snapshot.nodes.values().find(|node| node.address == address);
        node.map(|node| snapshot.target(node))
    }

    /// The same incarnation again, if it is still in the view.
    pub(super) fn same(&self, incarnation: &Incarnation) -> Option<Target> {
        let snapshot = self.snapshots.borrow();
        snapshot.nodes.get(incarnation).map(|node| snapshot.target(node))
    }

    pub(super) fn upstreams(&self) -> Vec<Upstream> {
        self.snapshots.borrow().nodes.values().map(|node| node.upstream.clone()).collect()
    }

    /// Waits a moment for a node to take calls.
    pub(super) async fn wait_open(&self) {
        let open = async {
            loop {
                let snapshot = self.snapshot();
                let changed = self.changed_from(snapshot.number());
                if snapshot.nodes.is_empty() {
                    changed.await;
                    continue;
                }
                let opened = snapshot.nodes.values().map(|node| Box::pin(node.upstream.opened()));
                tokio::select! {
                    _opened = select_all(opened) => return,
                    () = changed => {}
                }
            }
        };
        // Open or not, the caller looks.
        let _in_time = tokio::time::timeout(OPEN_WAIT, open).await;
    }
}
