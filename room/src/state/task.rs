//! The record of one collaboration request, kept apart from the message ring (ours 14).

use object::ParticipantId;

use super::Kind;
use crate::text::Text;

/// Where a Task stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Phase {
    Open,
    Accepted,
    Declined,
    Completed,
    Failed,
}

/// One Task.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Task {
    pub request_id: Text,
    /// Sequence of the request: the record's key.
    pub sequence: u64,
    pub requester: (ParticipantId, Kind),
    pub target: (ParticipantId, Kind),
    /// Sequences of the answers that were given, 0 where none was.
    pub accepted: u64,
    pub declined: u64,
    pub completed: u64,
    pub failed: u64,
    /// Agents taken in by being targeted in the Task, with the sequence from which on.
    pub admitted: Vec<(ParticipantId, u64)>,
    /// Highest evicted sequence of this Task.
    pub evicted: u64,
}

impl Task {
    /// Where the Task stands.
    #[must_use]
    pub const fn phase(&self) -> Phase {
        if self.completed > 0 {
            Phase::Completed
        } else if self.failed > 0 {
            Phase::Failed
        } else if self.declined > 0 {
            Phase::Declined
        } else if self.accepted > 0 {
            Phase::Accepted
        } else {
            Phase::Open
        }
    }

    /// True after a terminal answer.
    #[must_use]
    pub const fn settled(&self) -> bool {
        matches!(self.phase(), Phase::Completed | Phase::Failed | Phase::Declined)
    }

    /// The one agent that may publish the Live View and the App: the target if it is an agent,
    /// else the requester if that is one. Leaving does not transfer it.
    #[must_use]
    pub const fn primary(&self) -> Option<ParticipantId> {
        match (self.target, self.requester) {
            ((id, Kind::Agent), _) | (_, (id, Kind::Agent)) => Some(id),
            _ => None,
        }
    }

    /// From which sequence on an agent takes part; `None` if it does not.
    #[must_use]
    pub fn takes_part_from(&self, agent: ParticipantId) -> Option<u64> {
        if self.requester == (agent, Kind::Agent) || self.target == (agent, Kind::Agent) {
            return Some(self.sequence);
        }
        self.admitted.iter().find(|(id, _)| *id == agent).map(|(_, from)| *from)
    }
}
