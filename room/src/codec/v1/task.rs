//! Task records as stored.

use object::ParticipantId;

use super::{Result, id_bytes, kind, kind_number, participant, some, text};
use crate::state;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Party {
    #[prost(bytes = "vec", tag = "1")]
    pub id: Vec<u8>,
    #[prost(uint32, tag = "2")]
    pub kind: u32,
}

impl Party {
    fn store((id, kind): (ParticipantId, state::Kind)) -> Self {
        Self { id: id_bytes(id.0), kind: kind_number(kind) }
    }

    fn load(stored: Option<Self>) -> Result<(ParticipantId, state::Kind)> {
        let stored = some(stored, "party")?;
        Ok((participant(&stored.id)?, kind(stored.kind)?))
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Admitted {
    #[prost(bytes = "vec", tag = "1")]
    pub agent: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub from: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Task {
    #[prost(string, tag = "1")]
    pub request_id: String,
    #[prost(uint64, tag = "2")]
    pub sequence: u64,
    #[prost(message, optional, tag = "3")]
    pub requester: Option<Party>,
    #[prost(message, optional, tag = "4")]
    pub target: Option<Party>,
    #[prost(uint64, tag = "5")]
    pub accepted: u64,
    #[prost(uint64, tag = "6")]
    pub declined: u64,
    #[prost(uint64, tag = "7")]
    pub completed: u64,
    #[prost(uint64, tag = "8")]
    pub failed: u64,
    #[prost(message, repeated, tag = "9")]
    pub admitted: Vec<Admitted>,
    #[prost(uint64, tag = "10")]
    pub evicted: u64,
}

impl Task {
    pub(super) fn store(task: &state::Task) -> Self {
        let admitted = task.admitted.iter();
        Self {
            request_id: text(&task.request_id),
            sequence: task.sequence,
            requester: Some(Party::store(task.requester)),
            target: Some(Party::store(task.target)),
            accepted: task.accepted,
            declined: task.declined,
            completed: task.completed,
            failed: task.failed,
            admitted: admitted
                .map(|(agent, from)| Admitted { agent: id_bytes(agent.0), from: *from })
                .collect(),
            evicted: task.evicted,
        }
    }

    pub(super) fn load(self) -> Result<state::Task> {
        let admitted: Result<Vec<_>> =
            self.admitted.iter().map(|a| Ok((participant(&a.agent)?, a.from))).collect();
        Ok(state::Task {
            request_id: self.request_id.into(),
            sequence: self.sequence,
            requester: Party::load(self.requester)?,
            target: Party::load(self.target)?,
            accepted: self.accepted,
            declined: self.declined,
            completed: self.completed,
            failed: self.failed,
            admitted: admitted?,
            evicted: self.evicted,
        })
    }
}
