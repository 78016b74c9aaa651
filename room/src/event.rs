//! The facts of a room, one variant each. Replaying them gives the state; nothing else changes it.

use object::{BlobId, Millis, ParticipantId};

use crate::state::{
    Attachment, Entry, Features, LiveView, Message, Producer, RuntimeHost, Segment, Surface,
};
use crate::text::Text;

/// Why a participant is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    Left,
    LeaseEnded,
    /// A human whose connection did not come back in time.
    GraceEnded,
}

/// One fact.
#[derive(Clone, PartialEq, Debug)]
pub enum Event {
    AgentJoined(AgentJoined),
    HumanJoined {
        participant: ParticipantId,
        name: Text,
        at: Millis,
    },
    /// A human's control connection or a resident's stream opened.
    Connected {
        participant: ParticipantId,
        at: Millis,
    },
    Disconnected {
        participant: ParticipantId,
        at: Millis,
    },
    /// Also ends its surface, its grants and its place in Tasks.
    Left {
        participant: ParticipantId,
        cause: Cause,
        at: Millis,
        /// Set when nobody is left: when the empty room dies.
        empty_until: Option<Millis>,
    },
    CapabilitiesSet {
        participant: ParticipantId,
        advertised: Vec<Text>,
    },
    HostSet {
        participant: ParticipantId,
        host: RuntimeHost,
    },

    /// Text, action, collaboration or approval card: the next sequence is its own.
    MessageSent(Message),
    AttachmentSent(Attachment),

    SurfacePublished {
        participant: ParticipantId,
        surface: Surface,
    },
    SurfaceCleared {
        participant: ParticipantId,
    },
    LiveViewPublished(LiveView),
    AppPublished(AppPublished),
    AppUpdated(AppUpdated),
    AppStateSet {
        instance: u128,
        state: Text,
        revision: u64,
        at: Millis,
    },

    TranscriptStarted {
        producer: Producer,
        epoch: u64,
    },
    TranscriptStopped {
        at: Millis,
    },
    TranscriptAppended(Segment),
    MeetingNotesStarted {
        agent: ParticipantId,
        at: Millis,
    },
    MeetingNotesStopped {
        at: Millis,
    },
    AgentVoiceGranted {
        agent: ParticipantId,
        at: Millis,
    },
    AgentVoiceRevoked {
        agent: ParticipantId,
        at: Millis,
    },

    /// A committed change and the request that made it (ours 11).
    Remembered {
        participant: ParticipantId,
        entry: Entry,
    },
}

/// An agent came.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AgentJoined {
    pub participant: ParticipantId,
    pub name: Text,
    pub advertised: Vec<Text>,
    pub host: Option<RuntimeHost>,
    pub features: Features,
    pub at: Millis,
    /// The lease's length, in milliseconds.
    pub lease_ms: u64,
}

/// A Task got its app.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppPublished {
    pub instance: u128,
    pub task: u64,
    pub title: Text,
    pub bundle: BlobId,
    pub bundle_bytes: u64,
    pub digest: u128,
    pub state: Text,
    pub at: Millis,
}

/// An app's bundle changed; its state stays.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AppUpdated {
    pub instance: u128,
    pub title: Text,
    pub bundle: BlobId,
    pub bundle_bytes: u64,
    pub digest: u128,
    pub at: Millis,
}
