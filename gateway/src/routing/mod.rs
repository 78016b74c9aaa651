//! Which node a room's calls go to. In one process there is one answer; the ring over a view of
//! the cluster takes its place here.

use object::ObjectId;

use crate::upstream::Upstream;

/// The nodes this gateway knows.
#[derive(Clone, Debug)]
pub struct Routes {
    only: Upstream,
}

impl Routes {
    /// Everything goes to one node.
    #[must_use]
    pub const fn single(node: Upstream) -> Self {
        Self { only: node }
    }

    /// The node to ask for an object.
    #[must_use]
    pub const fn node(&self, _object: &ObjectId) -> &Upstream {
        &self.only
    }

    /// Whether calls can be sent at all.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.only.is_open()
    }
}
