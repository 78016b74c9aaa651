//! Who is in the room.

use object::{Millis, ParticipantId};

use super::{Memory, Surface};
use crate::text::Text;

/// What kind of participant.
#[derive(Clone, Copy, PartialEq, Eq, Debug, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    Human,
    Agent,
}

/// Optional abilities of an agent's runtime, exactly as announced.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Debug,
    Default,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Features {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_session_continuation: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_execution_reconciliation: Option<bool>,
}

impl Features {
    /// True if nothing was announced.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.task_session_continuation.is_none() && self.task_execution_reconciliation.is_none()
    }
}

/// A runtime host's projection, shared by all agents that name it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RuntimeHost {
    pub id: Text,
    pub stt: bool,
    pub tts: bool,
}

/// One participant.
#[derive(Clone, PartialEq, Debug)]
pub struct Participant {
    pub id: ParticipantId,
    pub name: Text,
    pub kind: Kind,
    pub connected: bool,
    pub joined_at: Millis,
    /// Agents: beside the log. Humans: set by their events.
    pub last_seen: Millis,
    /// Agents only, beside the log: when a silent agent stops being a participant.
    pub lease_end: Millis,
    /// Agents only: the lease's length when it joined, in milliseconds.
    pub lease_ms: u64,
    pub advertised: Vec<Text>,
    /// The id of its projection in [`super::State::hosts`].
    pub host: Option<Text>,
    pub features: Features,
    pub surface: Option<Surface>,
    /// Highest evicted sequence that a wait of this participant would have shown.
    pub lost_live: u64,
    /// Highest evicted sequence that a context read of this participant would have shown.
    pub lost_history: u64,
    pub memory: Memory,
}

impl Participant {
    /// True for agents.
    #[must_use]
    pub const fn is_agent(&self) -> bool {
        matches!(self.kind, Kind::Agent)
    }
}
