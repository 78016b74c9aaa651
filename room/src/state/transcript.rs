//! The committed transcript, the grants humans give, and pending approvals.

use std::collections::VecDeque;

use object::{Millis, ParticipantId};

use super::PermissionOption;
use crate::text::Text;

/// One committed piece of speech.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Segment {
    pub segment_id: Text,
    pub epoch: u64,
    /// Position in the transcript's own counter.
    pub sequence: u64,
    pub participant: ParticipantId,
    pub speaker: Text,
    pub text: Text,
    pub at: Millis,
    /// About its size as UTF-8 JSON, fixed when it was made so that replay evicts alike.
    pub weight: u32,
}

/// Who is producing the transcript now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Producer {
    pub host: Text,
    pub started_by: ParticipantId,
    pub started_at: Millis,
}

/// The transcript of the room; survives stop.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transcript {
    pub active: Option<Producer>,
    /// Number of starts so far; the current epoch while active.
    pub epoch: u64,
    /// Last assigned position of its counter.
    pub sequence: u64,
    /// At most `TRANSCRIPT_SEGMENTS_MAX`.
    pub segments: VecDeque<Segment>,
    pub bytes: usize,
    /// Highest evicted position.
    pub evicted: u64,
}

/// The one agent that listens.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeetingNotes {
    pub agent: ParticipantId,
    pub started_at: Millis,
}

/// An agent that may speak.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AgentVoice {
    pub agent: ParticipantId,
    pub enabled_at: Millis,
}

/// A pending approval request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Permission {
    pub request_id: Text,
    pub agent: ParticipantId,
    /// Sequence of its card.
    pub sequence: u64,
    pub options: Vec<PermissionOption>,
    pub expires_at: Millis,
}
