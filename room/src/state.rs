//! The state of a room: plain data, changed only by `apply`.
//!
//! Agent lease ends and last-seen times live beside the log (a restart folds them in again);
//! everything under [`State::live`] is lost with the activation; the rest is the fold of the
//! events.

mod artifact;
mod memory;
mod message;
mod participant;
mod task;
mod transcript;

use std::collections::VecDeque;

use object::{Millis, ObjectId, ParticipantId};

use crate::live::Live;

pub use artifact::{App, Attachment, LiveView, Surface};
pub use memory::{Entry, Fact, Memory, Seen};
pub use message::{
    Author, Body, Collab, CollabKind, Message, PermissionKind, PermissionNote, PermissionOption,
    TaskRef, ToolCall,
};
pub use participant::{Features, Kind, Participant, RuntimeHost};
pub use task::{Phase, Task};
pub use transcript::{AgentVoice, MeetingNotes, Permission, Producer, Segment, Transcript};

/// One room.
#[derive(Clone, PartialEq, Debug)]
pub struct State {
    pub id: ObjectId,
    /// When the first participant came; `None` before the first event.
    pub created_at: Option<Millis>,
    /// [`Millis::FAR_FUTURE`] while somebody is there, else the end of the empty-room timer.
    pub expires_at: Millis,
    /// The last assigned position of the counter shared by messages and attachments.
    pub sequence: u64,
    /// In order of arrival.
    pub participants: Vec<Participant>,
    /// Projections named by at least one present agent, in order of first mention.
    pub hosts: Vec<RuntimeHost>,
    /// Ascending by sequence.
    /// At most `MESSAGES_MAX`.
    pub messages: VecDeque<Message>,
    /// Sum of the kept messages' weights.
    pub message_bytes: usize,
    /// Ascending by sequence.
    /// At most `ATTACHMENTS_MAX`.
    pub attachments: VecDeque<Attachment>,
    /// Highest evicted sequence that belonged to no Task.
    pub evicted_public: u64,
    /// Ascending by sequence of the request.
    /// At most `TASKS_MAX`.
    pub tasks: VecDeque<Task>,
    pub live_views: Vec<LiveView>,
    pub apps: Vec<App>,
    pub transcript: Transcript,
    pub meeting_notes: Option<MeetingNotes>,
    pub agent_voice: Vec<AgentVoice>,
    /// Pending approval requests.
    pub permissions: Vec<Permission>,
    /// Lost with the activation, never stored.
    pub live: Live,
}

impl State {
    /// The room before its first event.
    #[must_use]
    pub fn fresh(id: &ObjectId) -> Self {
        Self {
            id: id.clone(),
            created_at: None,
            expires_at: Millis::FAR_FUTURE,
            sequence: 0,
            participants: Vec::new(),
            hosts: Vec::new(),
            messages: VecDeque::new(),
            message_bytes: 0,
            attachments: VecDeque::new(),
            evicted_public: 0,
            tasks: VecDeque::new(),
            live_views: Vec::new(),
            apps: Vec::new(),
            transcript: Transcript::default(),
            meeting_notes: None,
            agent_voice: Vec::new(),
            permissions: Vec::new(),
            live: Live::default(),
        }
    }

    /// A present participant.
    #[must_use]
    pub fn participant(&self, id: ParticipantId) -> Option<&Participant> {
        self.participants.iter().find(|p| p.id == id)
    }

    /// A kept Task by its public id.
    #[must_use]
    pub fn task(&self, request_id: &str) -> Option<&Task> {
        self.tasks.iter().find(|task| task.request_id.as_str() == request_id)
    }

    /// A kept Task by the sequence of its request.
    #[must_use]
    pub fn task_at(&self, sequence: u64) -> Option<&Task> {
        let at = self.tasks.binary_search_by_key(&sequence, |task| task.sequence).ok()?;
        self.tasks.get(at)
    }

    /// A projection by its id.
    #[must_use]
    pub fn host(&self, id: &str) -> Option<&RuntimeHost> {
        self.hosts.iter().find(|host| host.id.as_str() == id)
    }

    /// A kept message by sequence.
    #[must_use]
    pub fn message_at(&self, sequence: u64) -> Option<&Message> {
        let at = self.messages.binary_search_by_key(&sequence, |m| m.sequence).ok()?;
        self.messages.get(at)
    }
}
