//! The argument `taskRequestId` and what it resolves to (rooms 13.1).

use object::Reject;

use crate::limits;
use crate::reject::Code;
use crate::spec::{self, Field};
use crate::state::{Participant, State, TaskRef};
use crate::text::Text;

/// The optional Task of a message or file.
pub(crate) const FIELD: Field = Field::optional(
    "taskRequestId",
    spec::text(1, limits::REQUEST_ID_UTF16_MAX),
    "The exact collab.requestId of the Task this belongs to; leave it out for the room.",
);

/// A letter or digit, then letters, digits and `._:-`: 4 to 64 in all.
pub(crate) fn well_formed(id: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"._:-".contains(&b);
    (limits::REQUEST_ID_UTF16_MIN..=limits::REQUEST_ID_UTF16_MAX).contains(&id.len())
        && id.bytes().next().is_some_and(|b| b.is_ascii_alphanumeric())
        && id.bytes().all(inner)
}

/// The kept Task that a participant takes part in; `outsider` is the code if it does not.
pub(crate) fn resolve(
    state: &State,
    me: &Participant,
    id: &str,
    outsider: Code,
) -> Result<TaskRef, Reject> {
    if !well_formed(id) {
        return Err(Code::InvalidTaskRequest.reject().field("taskRequestId"));
    }
    let task =
        state.task(id).ok_or_else(|| Code::UnknownTaskRequest.reject().field("taskRequestId"))?;
    // An agent takes part while it is connected (rooms 13.1); people always do.
    if me.is_agent() && !(me.connected && task.takes_part_from(me.id).is_some()) {
        return Err(outsider.reject());
    }
    Ok(TaskRef { sequence: task.sequence, request_id: Text::clone(&task.request_id) })
}
