//! Files and what is shown on the side. The bytes are blobs; only what describes them is here.

use object::{BlobId, Millis, ParticipantId};

use super::{Author, TaskRef};
use crate::text::Text;

/// One file of the attachment ring; its id is its blob's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Attachment {
    pub id: BlobId,
    pub sequence: u64,
    pub at: Millis,
    pub author: Author,
    pub mime: Text,
    pub file_name: Text,
    pub size: u64,
    pub task: Option<TaskRef>,
    /// A human's Task upload that wakes the Task's agents.
    pub wake: bool,
}

/// An agent's single workspace snapshot; its id is its blob's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Surface {
    pub snapshot: BlobId,
    pub mime: Text,
    pub size: u64,
    pub updated_at: Millis,
}

/// The current Live View of one Task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LiveView {
    /// Sequence of the Task's request.
    pub task: u64,
    pub surface_id: Text,
    pub revision: u64,
    pub authority: ParticipantId,
    /// Validated JSON of the component tree and of the data object.
    pub root: Text,
    pub data: Text,
}

/// The generated app of one Task; the bundle's bytes are a blob.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct App {
    /// The UUID of `generated:<uuid>`.
    pub instance: u128,
    /// Sequence of the Task's request.
    pub task: u64,
    pub title: Text,
    pub bundle: BlobId,
    pub bundle_bytes: u64,
    /// xxh3-128 of the bundle's text as received.
    pub digest: u128,
    pub bundle_revision: u64,
    /// Validated JSON object of the shared state.
    pub state: Text,
    pub state_revision: u64,
    pub created_at: Millis,
    pub updated_at: Millis,
}
