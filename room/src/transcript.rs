//! The Live Transcript: committed speech of humans, written by one runtime host (rooms 9.3,
//! humans A6).
//!
//! It has its own counter, causes no event of the timeline and wakes nobody. Segments survive a
//! stop; each real start has the next epoch, and an append must name the running one.

use object::ParticipantId;

use crate::limits::SEGMENT_ID_UTF16_MAX;
use crate::state::{Participant, Segment, State, Transcript};
use crate::view::SegmentView;

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

/// Checks an append against the running epoch and what is kept.
pub fn admit(transcript: &Transcript, epoch: u64, segment_id: &str) -> Result<Append, AppendError> {
    if transcript.active.is_none() {
        return Err(AppendError::Inactive);
    }
    if transcript.epoch != epoch {
        return Err(AppendError::EpochMismatch);
    }
    // Newest first: a retry is nearly always about the last one.
    let same = |s: &Segment| s.epoch == epoch && s.segment_id.as_str() == segment_id;
    if transcript.segments.iter().rev().any(same) {
        return Ok(Append::Duplicate);
    }
    Ok(Append::New { sequence: transcript.sequence + 1 })
}

/// True while a host may produce: it hears, and a connected agent other than `without` is on it.
#[must_use]
pub fn can_produce(state: &State, host: &str, without: Option<ParticipantId>) -> bool {
    let hears = state.host(host).is_some_and(|host| host.stt);
    let on_it = |p: &&Participant| {
        p.is_agent()
            && p.connected
            && Some(p.id) != without
            && p.host.as_ref().is_some_and(|named| named.as_str() == host)
    };
    hears && state.participants.iter().any(|p| on_it(&p))
}

/// What a segment weighs against the transcript's bound: its JSON and a separator, in bytes.
#[must_use]
pub fn weight(segment: &Segment) -> u32 {
    let bytes = serde_json::to_vec(&SegmentView::of(segment)).map_or(0, |json| json.len() + 1);
    u32::try_from(bytes).unwrap_or(u32::MAX)
}

/// True for a segment id: 1 to 128 letters, digits, `. _ : -`.
#[must_use]
pub fn is_segment_id(text: &str) -> bool {
    let plain = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b':' | b'-');
    (1..=SEGMENT_ID_UTF16_MAX).contains(&text.len()) && text.bytes().all(plain)
}

#[cfg(test)]
mod tests;
