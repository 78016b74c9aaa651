//! Participants and hosts as stored.

use std::collections::VecDeque;

use object::{Millis, ParticipantId};

use super::artifact::Surface;
use super::{Result, id, id_bytes, kind, kind_number, participant, text};
use crate::state;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Host {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(bool, tag = "2")]
    pub stt: bool,
    #[prost(bool, tag = "3")]
    pub tts: bool,
}

impl Host {
    pub(super) fn store(host: &state::RuntimeHost) -> Self {
        Self { id: text(&host.id), stt: host.stt, tts: host.tts }
    }

    pub(super) fn load(self) -> state::RuntimeHost {
        state::RuntimeHost { id: self.id.into(), stt: self.stt, tts: self.tts }
    }
}

#[derive(Clone, Copy, PartialEq, prost::Message)]
pub(super) struct Features {
    #[prost(bool, optional, tag = "1")]
    pub continuation: Option<bool>,
    #[prost(bool, optional, tag = "2")]
    pub reconciliation: Option<bool>,
}

impl Features {
    pub(super) fn store(features: state::Features) -> Option<Self> {
        (!features.is_empty()).then_some(Self {
            continuation: features.task_session_continuation,
            reconciliation: features.task_execution_reconciliation,
        })
    }

    pub(super) fn load(stored: Option<Self>) -> state::Features {
        let stored = stored.unwrap_or_default();
        state::Features {
            task_session_continuation: stored.continuation,
            task_execution_reconciliation: stored.reconciliation,
        }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Entry {
    #[prost(fixed64, tag = "1")]
    pub id_hash: u64,
    #[prost(fixed64, tag = "2")]
    pub args_hash: u64,
    #[prost(uint64, tag = "3")]
    pub at: u64,
    #[prost(uint64, tag = "4")]
    pub sequence: u64,
    /// Empty for none.
    #[prost(bytes = "vec", tag = "5")]
    pub id: Vec<u8>,
}

impl Entry {
    pub(super) fn store(entry: &state::Entry) -> Self {
        Self {
            id_hash: entry.id_hash,
            args_hash: entry.args_hash,
            at: entry.at.0,
            sequence: entry.fact.sequence,
            id: if entry.fact.id == 0 { Vec::new() } else { id_bytes(entry.fact.id) },
        }
    }

    pub(super) fn load(&self) -> Result<state::Entry> {
        let id = if self.id.is_empty() { 0 } else { id(&self.id)? };
        Ok(state::Entry {
            id_hash: self.id_hash,
            args_hash: self.args_hash,
            at: Millis(self.at),
            fact: state::Fact { sequence: self.sequence, id },
        })
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Participant {
    #[prost(bytes = "vec", tag = "1")]
    pub id: Vec<u8>,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(uint32, tag = "3")]
    pub kind: u32,
    #[prost(bool, tag = "4")]
    pub connected: bool,
    #[prost(uint64, tag = "5")]
    pub joined_at: u64,
    /// Humans only; an agent's is beside the log.
    #[prost(uint64, tag = "6")]
    pub last_seen: u64,
    #[prost(uint64, tag = "7")]
    pub lease_ms: u64,
    #[prost(string, repeated, tag = "8")]
    pub advertised: Vec<String>,
    #[prost(string, optional, tag = "9")]
    pub host: Option<String>,
    #[prost(message, optional, tag = "10")]
    pub features: Option<Features>,
    #[prost(message, optional, tag = "11")]
    pub surface: Option<Surface>,
    #[prost(uint64, tag = "12")]
    pub lost_live: u64,
    #[prost(uint64, tag = "13")]
    pub lost_history: u64,
    #[prost(message, repeated, tag = "14")]
    pub memory: Vec<Entry>,
    #[prost(uint64, tag = "15")]
    pub memory_dropped_at: u64,
}

impl Participant {
    pub(super) fn store(p: &state::Participant) -> Self {
        Self {
            id: id_bytes(p.id.0),
            name: text(&p.name),
            kind: kind_number(p.kind),
            connected: p.connected,
            joined_at: p.joined_at.0,
            last_seen: if p.is_agent() { 0 } else { p.last_seen.0 },
            lease_ms: p.lease_ms,
            advertised: p.advertised.iter().map(text).collect(),
            host: p.host.as_ref().map(text),
            features: Features::store(p.features),
            surface: p.surface.as_ref().map(Surface::store),
            lost_live: p.lost_live,
            lost_history: p.lost_history,
            memory: p.memory.entries.iter().map(Entry::store).collect(),
            memory_dropped_at: p.memory.dropped_at.0,
        }
    }

    pub(super) fn load(self) -> Result<state::Participant> {
        let kind = kind(self.kind)?;
        let joined_at = Millis(self.joined_at);
        let agent = matches!(kind, state::Kind::Agent);
        let id: ParticipantId = participant(&self.id)?;
        let entries: Result<VecDeque<_>> = self.memory.iter().map(Entry::load).collect();
        Ok(state::Participant {
            id,
            name: self.name.into(),
            kind,
            connected: self.connected,
            joined_at,
            last_seen: if agent { joined_at } else { Millis(self.last_seen) },
            lease_end: if agent { joined_at.plus(self.lease_ms) } else { Millis(0) },
            lease_ms: self.lease_ms,
            advertised: self.advertised.into_iter().map(Into::into).collect(),
            host: self.host.map(Into::into),
            features: Features::load(self.features),
            surface: self.surface.map(Surface::load).transpose()?,
            lost_live: self.lost_live,
            lost_history: self.lost_history,
            memory: state::Memory { entries: entries?, dropped_at: Millis(self.memory_dropped_at) },
        })
    }
}
