//! The lifecycle of a Task and its place in memory (ours 12-14).

use object::Reject;

use crate::reject::Code;
use crate::state::{CollabKind, State, Task};

/// What a further answer to a Task means.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    /// A new fact; a result that comes without a decision implies acceptance.
    New { implied_acceptance: bool },
    /// The same kind came before, with this sequence.
    Repeat { sequence: u64 },
}

/// Judges an answer against the lifecycle (ours 13).
pub(crate) fn judge(task: &Task, kind: CollabKind) -> Result<Answer, Reject> {
    let given = match kind {
        CollabKind::Request => task.sequence,
        CollabKind::Accepted => task.accepted,
        CollabKind::Declined => task.declined,
        CollabKind::Completed => task.completed,
        CollabKind::Failed => task.failed,
    };
    if given > 0 {
        return Ok(Answer::Repeat { sequence: given });
    }
    if task.completed > 0 || task.failed > 0 {
        return Err(Code::RequestAlreadySettled.reject());
    }
    if task.declined > 0 {
        return Err(Code::RequestDeclined.reject());
    }
    match kind {
        CollabKind::Declined if task.accepted > 0 => Err(Code::RequestAlreadyAccepted.reject()),
        CollabKind::Completed | CollabKind::Failed => {
            Ok(Answer::New { implied_acceptance: task.accepted == 0 })
        }
        CollabKind::Request | CollabKind::Accepted | CollabKind::Declined => {
            Ok(Answer::New { implied_acceptance: false })
        }
    }
}

/// The record that the next request drops: the oldest settled one, else the oldest.
#[must_use]
pub(crate) fn victim(state: &State) -> Option<u64> {
    let settled = state.tasks.iter().find(|task| task.settled());
    settled.or_else(|| state.tasks.front()).map(|task| task.sequence)
}
