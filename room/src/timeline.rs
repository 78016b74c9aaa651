//! New entries of the shared sequence, and what they push out (rooms 7, 19).

use object::{BlobId, Millis, ParticipantId, Reject};

use crate::limits;
use crate::reject::Code;
use crate::state::{Author, Body, Message, PermissionKind, State, TaskRef};
use crate::text::Text;

/// Bytes of a message's fixed keys and numbers as JSON, about.
const FRAME_BYTES: usize = 200;
/// Bytes of an id as JSON.
const ID_BYTES: usize = 39;

/// Makes a message, weighed.
pub(crate) fn message(
    sequence: u64,
    at: Millis,
    author: Author,
    task: Option<TaskRef>,
    targets: Vec<ParticipantId>,
    body: Body,
) -> Message {
    let bytes = FRAME_BYTES
        + author.name.len()
        + task.as_ref().map_or(0, |task| task.request_id.len() + 20)
        + targets.len() * ID_BYTES
        + body_bytes(&body);
    let weight = u32::try_from(bytes).unwrap_or(u32::MAX);
    Message { sequence, at, author, task, targets, body, weight }
}

/// Refuses a message that the ring could not keep even alone.
pub(crate) fn fits(message: &Message) -> Result<(), Reject> {
    if message.weight as usize > limits::MESSAGES_BYTES_MAX {
        return Err(Code::RoomStateBudgetExceeded
            .reject()
            .limit(limits::MESSAGES_BYTES_MAX as u64));
    }
    Ok(())
}

fn body_bytes(body: &Body) -> usize {
    match body {
        Body::Text(text) => text.len(),
        Body::Action { name, payload } => name.len() + pairs_bytes(payload),
        Body::Collab(collab) => {
            2 * ID_BYTES
                + collab.summary.as_ref().map_or(0, |s| s.len())
                + pairs_bytes(&collab.details)
                + collab.attachments.len() * ID_BYTES
        }
        Body::Permission(note) => {
            note.request_id.len()
                + match &note.kind {
                    PermissionKind::Requested { tool, options, .. } => {
                        tool.title.len()
                            + optional(tool.kind.as_ref())
                            + optional(tool.summary.as_ref())
                            + pairs_bytes(&tool.details)
                            + options
                                .iter()
                                .map(|o| 40 + o.id.len() + o.name.len() + optional(o.kind.as_ref()))
                                .sum::<usize>()
                    }
                    PermissionKind::Resolved { option, human_name, .. } => {
                        option.len() + human_name.len() + ID_BYTES
                    }
                    PermissionKind::Expired => 0,
                }
        }
    }
}

fn optional(text: Option<&Text>) -> usize {
    text.map_or(0, |text| text.len())
}

fn pairs_bytes(pairs: &[(Text, Text)]) -> usize {
    pairs.iter().map(|(k, v)| k.len() + v.len() + 6).sum()
}

/// The blob that the next attachment pushes out of the ring.
pub(crate) fn pushed_out(state: &State) -> Option<BlobId> {
    let full = state.attachments.len() >= limits::ATTACHMENTS_MAX;
    state.attachments.front().filter(|_| full).map(|file| file.id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::state::Kind;

    fn said(text: &str) -> Message {
        let author = Author { id: ParticipantId(1), name: "A".into(), kind: Kind::Human };
        message(1, Millis(1), author, None, Vec::new(), Body::Text(text.into()))
    }

    #[test]
    fn a_message_that_can_never_be_kept_is_refused() {
        assert_eq!(fits(&said("x")), Ok(()));
        let room = limits::MESSAGES_BYTES_MAX - said("").weight as usize;
        assert_eq!(fits(&said(&"x".repeat(room))), Ok(()));
        let refused = fits(&said(&"x".repeat(room + 1))).unwrap_err();
        assert_eq!(refused.code, "room_state_budget_exceeded");
        assert_eq!(refused.limit, Some(81_920));
    }
}
