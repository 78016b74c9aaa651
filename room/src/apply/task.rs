//! Folds of Task records.

use object::ParticipantId;

use crate::limits;
use crate::state::{Collab, CollabKind, Kind, Message, State, Task};

pub(super) fn collab_sent(state: &mut State, message: &Message, collab: &Collab) {
    let Some(reference) = &message.task else { return };
    if matches!(collab.kind, CollabKind::Request) {
        if state.tasks.len() >= limits::TASKS_MAX
            && let Some(victim) = crate::task::victim(state)
        {
            drop_task(state, victim);
        }
        let target_kind = state.participant(collab.target).map_or(Kind::Agent, |p| p.kind);
        state.tasks.push_back(Task {
            request_id: reference.request_id.clone(),
            sequence: message.sequence,
            requester: (message.author.id, message.author.kind),
            target: (collab.target, target_kind),
            accepted: 0,
            declined: 0,
            completed: 0,
            failed: 0,
            admitted: Vec::new(),
            evicted: 0,
        });
        return;
    }
    if let Some(task) = task_mut(state, reference.sequence) {
        let slot = match collab.kind {
            CollabKind::Request => return,
            CollabKind::Accepted => &mut task.accepted,
            CollabKind::Declined => &mut task.declined,
            CollabKind::Completed => &mut task.completed,
            CollabKind::Failed => &mut task.failed,
        };
        *slot = message.sequence;
    }
}

/// An agent explicitly targeted in a Task takes part from that message on.
pub(super) fn admit_targets(state: &mut State, message: &Message) {
    let Some(reference) = &message.task else { return };
    for target in &message.targets {
        admit(state, reference.sequence, *target, message.sequence);
    }
}

fn admit(state: &mut State, task: u64, agent: ParticipantId, from: u64) {
    let Some(participant) = state.participants.iter_mut().find(|p| p.id == agent) else { return };
    let Ok(at) = state.tasks.binary_search_by_key(&task, |t| t.sequence) else { return };
    let Some(task) = state.tasks.get_mut(at) else { return };
    if participant.is_agent() && task.takes_part_from(agent).is_none() {
        task.admitted.push((agent, from));
        // Its history now includes the Task's lost part.
        participant.lost_history = participant.lost_history.max(task.evicted);
    }
}

pub(super) fn note_eviction(state: &mut State, task: u64, sequence: u64) {
    if let Some(task) = task_mut(state, task) {
        task.evicted = task.evicted.max(sequence);
    }
}

fn task_mut(state: &mut State, sequence: u64) -> Option<&mut Task> {
    let at = state.tasks.binary_search_by_key(&sequence, |task| task.sequence).ok()?;
    state.tasks.get_mut(at)
}

fn drop_task(state: &mut State, sequence: u64) {
    state.tasks.retain(|task| task.sequence != sequence);
    state.live_views.retain(|view| view.task != sequence);
    state.apps.retain(|app| app.task != sequence);
}
