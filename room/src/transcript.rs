//! The Live Transcript: committed speech of humans, written by one runtime host (rooms 9.3,
//! humans A6).
//!
//! It has its own counter, causes no event and wakes nobody. Segments survive a stop; each real
//! start has the next epoch, and an append must name the running one.

use std::collections::VecDeque;
use std::sync::Arc;

use object::{Millis, ParticipantId};
use serde_json::{Value, json};

/// Most kept segments.
pub const SEGMENTS_MAX: usize = 500;
/// Largest kept transcript, in bytes of its serialized segments.
pub const TRANSCRIPT_BYTES_MAX: usize = 98_304;
/// Longest segment text after trimming, in UTF-16 units.
pub const TEXT_UTF16_MAX: usize = 4_000;
/// Longest segment id, in characters (all ASCII).
pub const SEGMENT_ID_CHARS_MAX: usize = 128;
/// Longest kept speaker name, in UTF-16 units.
pub const SPEAKER_UTF16_MAX: usize = 256;

// One segment always fits: 4,000 units are at most 12,000 bytes of UTF-8, and each may be written
// as a six-byte escape.
const _: () = assert!(TEXT_UTF16_MAX * 6 + 2_048 < TRANSCRIPT_BYTES_MAX);

/// Who produces the transcript now.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Producer {
    pub host: Arc<str>,
    pub started_by: ParticipantId,
    /// At least 1; the next at each real start.
    pub epoch: u64,
    pub started_at: Millis,
}

/// One committed piece of speech.
#[derive(Clone, PartialEq, Eq)]
pub struct Segment {
    pub segment_id: Arc<str>,
    pub epoch: u64,
    /// Position in the transcript's own counter, from 1.
    pub sequence: u64,
    /// The human who spoke.
    pub participant: ParticipantId,
    pub speaker: Arc<str>,
    pub text: Arc<str>,
    pub created_at: Millis,
}

// What people said is never printed.
impl std::fmt::Debug for Segment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Segment")
            .field("epoch", &self.epoch)
            .field("sequence", &self.sequence)
            .finish_non_exhaustive()
    }
}

impl Segment {
    /// The segment as rooms 9.3 writes it.
    #[must_use]
    pub fn to_json(&self) -> Value {
        json!({
            "segmentId": &*self.segment_id,
            "epoch": self.epoch,
            "sequence": self.sequence,
            "participantId": self.participant.to_string(),
            "speaker": &*self.speaker,
            "text": &*self.text,
            "createdAt": self.created_at.0,
        })
    }

    /// Bytes this segment takes of [`TRANSCRIPT_BYTES_MAX`]: its JSON and a separator.
    fn bytes(&self) -> usize {
        self.to_json().to_string().len() + 1
    }
}

/// Why an append is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AppendError {
    #[error("no transcript is running")]
    Inactive,
    #[error("another epoch is running")]
    EpochMismatch,
}

/// What a well-formed append comes to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Append {
    /// A new segment with this sequence.
    New { sequence: u64 },
    /// (epoch, segmentId) is kept already.
    Duplicate,
}

/// The transcript of one room.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Transcript {
    producer: Option<Producer>,
    last_epoch: u64,
    last_sequence: u64,
    segments: VecDeque<Segment>,
    /// Sum of the kept segments' sizes.
    bytes: usize,
}

impl Transcript {
    /// Puts a stored transcript together again. Bounds are kept even if the stored one breaks
    /// them.
    #[must_use]
    pub fn restore(
        producer: Option<Producer>,
        last_epoch: u64,
        last_sequence: u64,
        segments: impl IntoIterator<Item = Segment>,
    ) -> Self {
        let mut transcript =
            Self { producer, last_epoch, last_sequence, segments: VecDeque::new(), bytes: 0 };
        for segment in segments {
            transcript.push(segment);
        }
        transcript
    }

    /// Who produces now, if anybody.
    #[must_use]
    pub const fn producer(&self) -> Option<&Producer> {
        self.producer.as_ref()
    }

    /// The epoch of the last start; 0 before the first.
    #[must_use]
    pub const fn last_epoch(&self) -> u64 {
        self.last_epoch
    }

    /// The last assigned sequence; 0 before the first.
    #[must_use]
    pub const fn last_sequence(&self) -> u64 {
        self.last_sequence
    }

    /// The kept segments, oldest first.
    pub fn segments(&self) -> impl ExactSizeIterator<Item = &Segment> + DoubleEndedIterator {
        self.segments.iter()
    }

    /// `{active:false}`, or `{active:true, producerRuntimeHostId, startedByHumanParticipantId,
    /// epoch, startedAt}`.
    #[must_use]
    pub fn to_json(&self) -> Value {
        self.producer.as_ref().map_or_else(
            || json!({"active": false}),
            |producer| {
                json!({
                    "active": true,
                    "producerRuntimeHostId": &*producer.host,
                    "startedByHumanParticipantId": producer.started_by.to_string(),
                    "epoch": producer.epoch,
                    "startedAt": producer.started_at.0,
                })
            },
        )
    }

    /// Checks an append against the running epoch and what is kept.
    pub fn admit(&self, epoch: u64, segment_id: &str) -> Result<Append, AppendError> {
        let producer = self.producer.as_ref().ok_or(AppendError::Inactive)?;
        if producer.epoch != epoch {
            return Err(AppendError::EpochMismatch);
        }
        // Newest first: a retry is nearly always about the last one.
        let same = |s: &Segment| s.epoch == epoch && &*s.segment_id == segment_id;
        if self.segments.iter().rev().any(same) {
            return Ok(Append::Duplicate);
        }
        Ok(Append::New { sequence: self.last_sequence + 1 })
    }

    /// Starts a producer.
    pub fn start(&mut self, producer: Producer) {
        self.last_epoch = self.last_epoch.max(producer.epoch);
        self.producer = Some(producer);
    }

    /// Stops the producer; the segments stay.
    pub fn stop(&mut self) {
        self.producer = None;
    }

    /// Keeps a segment, and drops the oldest until both bounds hold; the newest always stays.
    pub fn push(&mut self, segment: Segment) {
        self.last_sequence = self.last_sequence.max(segment.sequence);
        self.bytes += segment.bytes();
        self.segments.push_back(segment);
        while self.segments.len() > 1
            && (self.segments.len() > SEGMENTS_MAX || self.bytes > TRANSCRIPT_BYTES_MAX)
        {
            if let Some(oldest) = self.segments.pop_front() {
                self.bytes = self.bytes.saturating_sub(oldest.bytes());
            }
        }
    }
}

/// True for a segment id: 1 to 128 letters, digits, `. _ : -`.
#[must_use]
pub fn is_segment_id(text: &str) -> bool {
    (1..=SEGMENT_ID_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-'))
}

#[cfg(test)]
mod tests;
