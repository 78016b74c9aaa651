//! Folds of the shared sequence: messages, files, and what falls out of the rings.

use super::task;
use crate::limits;
use crate::state::{Attachment, Body, Message, Permission, PermissionKind, State};
use crate::view::{self, Entry};

pub(super) fn message_sent(state: &mut State, message: &Message) {
    state.sequence = state.sequence.max(message.sequence);
    match &message.body {
        Body::Collab(collab) => task::collab_sent(state, message, collab),
        Body::Permission(note) => match &note.kind {
            PermissionKind::Requested { options, expires_at, .. } => {
                state.permissions.push(Permission {
                    request_id: note.request_id.clone(),
                    agent: note.agent,
                    sequence: message.sequence,
                    options: options.clone(),
                    expires_at: *expires_at,
                });
            }
            PermissionKind::Resolved { .. } | PermissionKind::Expired => {
                state
                    .permissions
                    .retain(|p| p.agent != note.agent || p.request_id != note.request_id);
            }
        },
        Body::Text(_) | Body::Action { .. } => task::admit_targets(state, message),
    }
    state.messages.push_back(message.clone());
    state.message_bytes += message.weight as usize;
    while state.messages.len() > limits::MESSAGES_MAX
        || (state.message_bytes > limits::MESSAGES_BYTES_MAX && state.messages.len() > 1)
    {
        let Some(gone) = state.messages.pop_front() else { break };
        state.message_bytes -= gone.weight as usize;
        note_loss(state, Entry::Message(&gone));
    }
}

pub(super) fn attachment_sent(state: &mut State, attachment: &Attachment) {
    state.sequence = state.sequence.max(attachment.sequence);
    state.attachments.push_back(attachment.clone());
    while state.attachments.len() > limits::ATTACHMENTS_MAX {
        let Some(gone) = state.attachments.pop_front() else { break };
        note_loss(state, Entry::Attachment(&gone));
    }
}

/// Remembers for whom an evicted entry is a loss, so that `truncated` is never a false alarm
/// (ours 15).
fn note_loss(state: &mut State, gone: Entry<'_>) {
    let sequence = gone.sequence();
    match gone.task() {
        // Approval cards are private: no newcomer can miss one.
        None if !gone.is_private() => {
            state.evicted_public = state.evicted_public.max(sequence);
        }
        None => {}
        Some(reference) => task::note_eviction(state, reference.sequence, sequence),
    }
    let tasks = &state.tasks;
    for participant in &mut state.participants {
        if view::shown_live(tasks, participant, gone) {
            participant.lost_live = participant.lost_live.max(sequence);
        }
        if view::shown_in_history(tasks, participant, gone) {
            participant.lost_history = participant.lost_history.max(sequence);
        }
    }
}
