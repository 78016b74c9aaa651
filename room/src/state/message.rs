//! What is on the timeline besides files.

use object::{Millis, ParticipantId};

use super::Kind;
use crate::text::Text;

/// Who wrote something, with the name of that moment.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Author {
    pub id: ParticipantId,
    pub name: Text,
    pub kind: Kind,
}

/// The Task something belongs to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct TaskRef {
    /// Sequence of the request: the key of the Task record.
    pub sequence: u64,
    /// The public id of the Task.
    pub request_id: Text,
}

/// One entry of the message ring.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Message {
    pub sequence: u64,
    pub at: Millis,
    pub author: Author,
    pub task: Option<TaskRef>,
    /// Who gets it as an addressed turn; for collaboration the single counterpart.
    pub targets: Vec<ParticipantId>,
    pub body: Body,
    /// About its size as UTF-8 JSON, fixed when it was made so that replay evicts alike.
    pub weight: u32,
}

/// What a message says.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Body {
    Text(Text),
    /// A human's room action.
    Action {
        name: Text,
        payload: Vec<(Text, Text)>,
    },
    Collab(Collab),
    Permission(PermissionNote),
}

/// Where in its lifecycle a collaboration message stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CollabKind {
    Request,
    Accepted,
    Declined,
    Completed,
    Failed,
}

/// A collaboration message; its request id is its Task's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Collab {
    pub kind: CollabKind,
    pub target: ParticipantId,
    pub summary: Option<Text>,
    pub details: Vec<(Text, Text)>,
    pub attachments: Vec<object::BlobId>,
    /// A result without a prior decision implies acceptance (ours 13).
    pub implied_acceptance: bool,
}

/// A private approval card; only the agent that asked sees it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PermissionNote {
    pub request_id: Text,
    pub agent: ParticipantId,
    pub kind: PermissionKind,
}

/// Where an approval stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PermissionKind {
    Requested { tool: ToolCall, options: Vec<PermissionOption>, expires_at: Millis },
    Resolved { option: Text, human: ParticipantId, human_name: Text },
    Expired,
}

/// What an agent wants to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ToolCall {
    pub title: Text,
    pub kind: Option<Text>,
    pub summary: Option<Text>,
    pub details: Vec<(Text, Text)>,
}

/// One answer a human may pick.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PermissionOption {
    pub id: Text,
    pub name: Text,
    pub kind: Option<Text>,
}
