//! The transcript as readers see it (rooms 9.3).

use schemars::JsonSchema;
use serde::Serialize;

use super::Uuid;
use crate::state::{Segment, Transcript};

/// Whether a transcript is running, and whose.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct TranscriptView<'a> {
    pub active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub producer_runtime_host_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_by_human_participant_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<u64>,
}

crate::view::opaque_debug!(TranscriptView);

impl<'a> TranscriptView<'a> {
    pub(crate) fn of(transcript: &'a Transcript) -> Self {
        let active = transcript.active.as_ref();
        Self {
            active: active.is_some(),
            producer_runtime_host_id: active.map(|producer| producer.host.as_str()),
            started_by_human_participant_id: active.map(|producer| producer.started_by.into()),
            epoch: active.map(|_| transcript.epoch),
            started_at: active.map(|producer| producer.started_at.0),
        }
    }
}

/// One committed piece of speech.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct SegmentView<'a> {
    pub segment_id: &'a str,
    pub epoch: u64,
    /// In the transcript's own counter.
    pub sequence: u64,
    pub participant_id: Uuid,
    pub speaker: &'a str,
    pub text: &'a str,
    /// Unix milliseconds.
    pub created_at: u64,
}

impl<'a> SegmentView<'a> {
    pub(crate) fn of(segment: &'a Segment) -> Self {
        Self {
            segment_id: &segment.segment_id,
            epoch: segment.epoch,
            sequence: segment.sequence,
            participant_id: segment.participant.into(),
            speaker: &segment.speaker,
            text: &segment.text,
            created_at: segment.at.0,
        }
    }
}

super::opaque_debug!(SegmentView);
