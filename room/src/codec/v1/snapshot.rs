//! A whole room as stored, without agent leases and the volatile part.

use object::{Millis, ObjectId};

use super::artifact::{App, LiveView};
use super::grant::{Grant, Permission, Transcript};
use super::roster::{Host, Participant};
use super::task::Task;
use super::timeline::{Attachment, Message};
use super::{Result, id_bytes, participant};
use crate::state::{self, State};

#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::codec) struct Snapshot {
    /// Plus one; 0 for a room without any event.
    #[prost(uint64, tag = "1")]
    created_at: u64,
    #[prost(uint64, tag = "2")]
    expires_at: u64,
    #[prost(uint64, tag = "3")]
    sequence: u64,
    #[prost(message, repeated, tag = "4")]
    participants: Vec<Participant>,
    #[prost(message, repeated, tag = "5")]
    hosts: Vec<Host>,
    #[prost(message, repeated, tag = "6")]
    messages: Vec<Message>,
    #[prost(message, repeated, tag = "7")]
    attachments: Vec<Attachment>,
    #[prost(uint64, tag = "8")]
    evicted_public: u64,
    #[prost(message, repeated, tag = "9")]
    tasks: Vec<Task>,
    #[prost(message, repeated, tag = "10")]
    live_views: Vec<LiveView>,
    #[prost(message, repeated, tag = "11")]
    apps: Vec<App>,
    #[prost(message, optional, tag = "12")]
    transcript: Option<Transcript>,
    #[prost(message, optional, tag = "13")]
    meeting_notes: Option<Grant>,
    #[prost(message, repeated, tag = "14")]
    agent_voice: Vec<Grant>,
    #[prost(message, repeated, tag = "15")]
    permissions: Vec<Permission>,
}

pub(in crate::codec) fn store(state: &State) -> Snapshot {
    Snapshot {
        created_at: state.created_at.map_or(0, |at| at.0 + 1),
        expires_at: state.expires_at.0,
        sequence: state.sequence,
        participants: state.participants.iter().map(Participant::store).collect(),
        hosts: state.hosts.iter().map(Host::store).collect(),
        messages: state.messages.iter().map(Message::store).collect(),
        attachments: state.attachments.iter().map(Attachment::store).collect(),
        evicted_public: state.evicted_public,
        tasks: state.tasks.iter().map(Task::store).collect(),
        live_views: state.live_views.iter().map(LiveView::store).collect(),
        apps: state.apps.iter().map(App::store).collect(),
        transcript: Some(Transcript::store(&state.transcript)),
        meeting_notes: state
            .meeting_notes
            .map(|notes| Grant { agent: id_bytes(notes.agent.0), at: notes.started_at.0 }),
        agent_voice: state
            .agent_voice
            .iter()
            .map(|voice| Grant { agent: id_bytes(voice.agent.0), at: voice.enabled_at.0 })
            .collect(),
        permissions: state.permissions.iter().map(Permission::store).collect(),
    }
}

pub(in crate::codec) fn load(id: &ObjectId, stored: Snapshot) -> Result<State> {
    let mut state = State::fresh(id);
    state.created_at = stored.created_at.checked_sub(1).map(Millis);
    state.expires_at = Millis(stored.expires_at);
    state.sequence = stored.sequence;
    state.participants = all(stored.participants, Participant::load)?;
    state.hosts = stored.hosts.into_iter().map(Host::load).collect();
    state.messages = all(stored.messages, Message::load)?;
    state.message_bytes = state.messages.iter().map(|m| m.weight as usize).sum();
    state.attachments = all(stored.attachments, Attachment::load)?;
    state.evicted_public = stored.evicted_public;
    state.tasks = all(stored.tasks, Task::load)?;
    state.live_views = all(stored.live_views, LiveView::load)?;
    state.apps = all(stored.apps, App::load)?;
    state.transcript = stored.transcript.unwrap_or_default().load()?;
    if let Some(notes) = stored.meeting_notes {
        let agent = participant(&notes.agent)?;
        state.meeting_notes = Some(state::MeetingNotes { agent, started_at: Millis(notes.at) });
    }
    state.agent_voice = all(stored.agent_voice, |grant: Grant| {
        let agent = participant(&grant.agent)?;
        Ok(state::AgentVoice { agent, enabled_at: Millis(grant.at) })
    })?;
    state.permissions = all(stored.permissions, Permission::load)?;
    Ok(state)
}

fn all<S, T, C: FromIterator<T>>(stored: Vec<S>, load: impl Fn(S) -> Result<T>) -> Result<C> {
    stored.into_iter().map(load).collect()
}
