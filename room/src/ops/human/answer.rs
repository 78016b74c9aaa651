//! What a human's sent entry is answered with, and how it is sent.

use object::{ParticipantId, Reject};
use serde::Serialize;

use crate::event::Event;
use crate::ops::{Ask, Step, Verdict, json};
use crate::state::{Body, Fact, TaskRef};
use crate::timeline;

/// Where an entry stands.
#[derive(Serialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Sent<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub request_id: Option<&'a str>,
    /// Absent for an empty message, which is ignored.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
    pub expires_at: u64,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub duplicate: bool,
}

/// The answer for an entry with this sequence.
pub(crate) const fn sent<'a>(ask: &Ask<'_>, sequence: u64, id: Option<&'a str>) -> Sent<'a> {
    Sent {
        request_id: id,
        sequence: Some(sequence),
        expires_at: ask.state.expires_at.0,
        duplicate: false,
    }
}

/// Sends one message of the caller and answers with its sequence; `id` is the collaboration's.
pub(crate) fn send(
    ask: &Ask<'_>,
    task: Option<TaskRef>,
    targets: Vec<ParticipantId>,
    body: Body,
    id: Option<&str>,
) -> Verdict {
    let sequence = ask.next_sequence();
    let message = timeline::message(sequence, ask.now, ask.author()?, task, targets, body);
    timeline::fits(&message)?;
    let step = Step::reply(&sent(ask, sequence, id))?.fact(sequence, 0);
    Ok(step.event(Event::MessageSent(message)))
}

/// Rebuilds the answer of a message that was sent.
pub(crate) fn replay(ask: &Ask<'_>, fact: Fact) -> Result<Vec<u8>, Reject> {
    json(&Sent { duplicate: true, ..sent(ask, fact.sequence, None) })
}
