//! Approvals, the transcript and grants as stored.

use object::Millis;

use super::{Pair, Result, id_bytes, load_pairs, pairs, participant, some, text};
use crate::state;

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Choice {
    #[prost(string, tag = "1")]
    pub id: String,
    #[prost(string, tag = "2")]
    pub name: String,
    #[prost(string, optional, tag = "3")]
    pub kind: Option<String>,
}

impl Choice {
    fn store(option: &state::PermissionOption) -> Self {
        Self {
            id: text(&option.id),
            name: text(&option.name),
            kind: option.kind.as_ref().map(text),
        }
    }

    fn load(self) -> state::PermissionOption {
        state::PermissionOption {
            id: self.id.into(),
            name: self.name.into(),
            kind: self.kind.map(Into::into),
        }
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Note {
    #[prost(string, tag = "1")]
    pub request_id: String,
    #[prost(bytes = "vec", tag = "2")]
    pub agent: Vec<u8>,
    #[prost(oneof = "NoteKind", tags = "3, 4, 5")]
    pub kind: Option<NoteKind>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
pub(super) enum NoteKind {
    #[prost(message, tag = "3")]
    Requested(Requested),
    #[prost(message, tag = "4")]
    Resolved(Resolved),
    #[prost(bool, tag = "5")]
    Expired(bool),
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Requested {
    #[prost(string, tag = "1")]
    pub title: String,
    #[prost(string, optional, tag = "2")]
    pub kind: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub summary: Option<String>,
    #[prost(message, repeated, tag = "4")]
    pub details: Vec<Pair>,
    #[prost(message, repeated, tag = "5")]
    pub options: Vec<Choice>,
    #[prost(uint64, tag = "6")]
    pub expires_at: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Resolved {
    #[prost(string, tag = "1")]
    pub option: String,
    #[prost(bytes = "vec", tag = "2")]
    pub human: Vec<u8>,
    #[prost(string, tag = "3")]
    pub human_name: String,
}

impl Note {
    pub(super) fn store(note: &state::PermissionNote) -> Self {
        let kind = match &note.kind {
            state::PermissionKind::Requested { tool, options, expires_at } => {
                NoteKind::Requested(Requested {
                    title: text(&tool.title),
                    kind: tool.kind.as_ref().map(text),
                    summary: tool.summary.as_ref().map(text),
                    details: pairs(&tool.details),
                    options: options.iter().map(Choice::store).collect(),
                    expires_at: expires_at.0,
                })
            }
            state::PermissionKind::Resolved { option, human, human_name } => {
                NoteKind::Resolved(Resolved {
                    option: text(option),
                    human: id_bytes(human.0),
                    human_name: text(human_name),
                })
            }
            state::PermissionKind::Expired => NoteKind::Expired(true),
        };
        Self { request_id: text(&note.request_id), agent: id_bytes(note.agent.0), kind: Some(kind) }
    }

    pub(super) fn load(self) -> Result<state::PermissionNote> {
        let kind = match some(self.kind, "approval")? {
            NoteKind::Requested(asked) => state::PermissionKind::Requested {
                tool: state::ToolCall {
                    title: asked.title.into(),
                    kind: asked.kind.map(Into::into),
                    summary: asked.summary.map(Into::into),
                    details: load_pairs(asked.details),
                },
                options: asked.options.into_iter().map(Choice::load).collect(),
                expires_at: Millis(asked.expires_at),
            },
            NoteKind::Resolved(resolved) => state::PermissionKind::Resolved {
                option: resolved.option.into(),
                human: participant(&resolved.human)?,
                human_name: resolved.human_name.into(),
            },
            NoteKind::Expired(_) => state::PermissionKind::Expired,
        };
        Ok(state::PermissionNote {
            request_id: self.request_id.into(),
            agent: participant(&self.agent)?,
            kind,
        })
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Permission {
    #[prost(string, tag = "1")]
    pub request_id: String,
    #[prost(bytes = "vec", tag = "2")]
    pub agent: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub sequence: u64,
    #[prost(message, repeated, tag = "4")]
    pub options: Vec<Choice>,
    #[prost(uint64, tag = "5")]
    pub expires_at: u64,
}

impl Permission {
    pub(super) fn store(pending: &state::Permission) -> Self {
        Self {
            request_id: text(&pending.request_id),
            agent: id_bytes(pending.agent.0),
            sequence: pending.sequence,
            options: pending.options.iter().map(Choice::store).collect(),
            expires_at: pending.expires_at.0,
        }
    }

    pub(super) fn load(self) -> Result<state::Permission> {
        Ok(state::Permission {
            request_id: self.request_id.into(),
            agent: participant(&self.agent)?,
            sequence: self.sequence,
            options: self.options.into_iter().map(Choice::load).collect(),
            expires_at: Millis(self.expires_at),
        })
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Segment {
    #[prost(string, tag = "1")]
    pub segment_id: String,
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    #[prost(uint64, tag = "3")]
    pub sequence: u64,
    #[prost(bytes = "vec", tag = "4")]
    pub participant: Vec<u8>,
    #[prost(string, tag = "5")]
    pub speaker: String,
    #[prost(string, tag = "6")]
    pub text: String,
    #[prost(uint64, tag = "7")]
    pub at: u64,
    #[prost(uint32, tag = "8")]
    pub weight: u32,
}

impl Segment {
    pub(super) fn store(segment: &state::Segment) -> Self {
        Self {
            segment_id: text(&segment.segment_id),
            epoch: segment.epoch,
            sequence: segment.sequence,
            participant: id_bytes(segment.participant.0),
            speaker: text(&segment.speaker),
            text: text(&segment.text),
            at: segment.at.0,
            weight: segment.weight,
        }
    }

    pub(super) fn load(self) -> Result<state::Segment> {
        Ok(state::Segment {
            segment_id: self.segment_id.into(),
            epoch: self.epoch,
            sequence: self.sequence,
            participant: participant(&self.participant)?,
            speaker: self.speaker.into(),
            text: self.text.into(),
            at: Millis(self.at),
            weight: self.weight,
        })
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Producer {
    #[prost(string, tag = "1")]
    pub host: String,
    #[prost(bytes = "vec", tag = "2")]
    pub started_by: Vec<u8>,
    #[prost(uint64, tag = "3")]
    pub started_at: u64,
}

impl Producer {
    pub(super) fn store(producer: &state::Producer) -> Self {
        Self {
            host: text(&producer.host),
            started_by: id_bytes(producer.started_by.0),
            started_at: producer.started_at.0,
        }
    }

    pub(super) fn load(self) -> Result<state::Producer> {
        Ok(state::Producer {
            host: self.host.into(),
            started_by: participant(&self.started_by)?,
            started_at: Millis(self.started_at),
        })
    }
}

#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Transcript {
    #[prost(message, optional, tag = "1")]
    pub active: Option<Producer>,
    #[prost(uint64, tag = "2")]
    pub epoch: u64,
    #[prost(uint64, tag = "3")]
    pub sequence: u64,
    #[prost(message, repeated, tag = "4")]
    pub segments: Vec<Segment>,
    #[prost(uint64, tag = "5")]
    pub evicted: u64,
}

impl Transcript {
    pub(super) fn store(transcript: &state::Transcript) -> Self {
        Self {
            active: transcript.active.as_ref().map(Producer::store),
            epoch: transcript.epoch,
            sequence: transcript.sequence,
            segments: transcript.segments.iter().map(Segment::store).collect(),
            evicted: transcript.evicted,
        }
    }

    pub(super) fn load(self) -> Result<state::Transcript> {
        let segments: Result<std::collections::VecDeque<_>> =
            self.segments.into_iter().map(Segment::load).collect();
        let segments = segments?;
        Ok(state::Transcript {
            active: self.active.map(Producer::load).transpose()?,
            epoch: self.epoch,
            sequence: self.sequence,
            bytes: segments.iter().map(|s| s.weight as usize).sum(),
            segments,
            evicted: self.evicted,
        })
    }
}

/// An agent and a time: who may listen, who may speak.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Grant {
    #[prost(bytes = "vec", tag = "1")]
    pub agent: Vec<u8>,
    #[prost(uint64, tag = "2")]
    pub at: u64,
}
