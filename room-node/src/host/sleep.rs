//! Falling asleep and being put away.

use std::sync::Arc;

use object::Object;

use super::actor::End;
use super::live::Live;
use super::{Active, Inner, commit};

impl<O: Object> Inner<O> {
    /// Gives an activation up; `None` if a call came in between.
    pub(super) async fn sleep(
        self: &Arc<Self>,
        entry: &Active,
        live: &mut Live<O>,
        _stub: bool,
    ) -> Option<End> {
        if !entry.mailbox.is_empty() {
            return None;
        }
        let (id, fence) = (&entry.id, live.fence);
        let _tried = commit::repeat(self, || self.store.release(id.clone(), fence)).await;
        Some(End::Over)
    }
}
