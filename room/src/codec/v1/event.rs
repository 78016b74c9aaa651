//! Events as stored.

use object::Millis;

use super::artifact::{Bundle, LiveView, Surface};
use super::grant::{Grant, Producer, Segment};
use super::roster::{Entry, Features, Host};
use super::timeline::{Attachment, Message};
use super::{Result, damaged, id, id_bytes, participant, some, text};
use crate::event::{AgentJoined, Cause, Event as Fact};

#[derive(Clone, PartialEq, prost::Message)]
pub(in crate::codec) struct Event {
    #[prost(
        oneof = "What",
        tags = "1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23"
    )]
    what: Option<What>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum What {
    #[prost(message, tag = "1")]
    AgentJoined(Joined),
    #[prost(message, tag = "2")]
    HumanJoined(Joined),
    #[prost(message, tag = "3")]
    Connected(Grant),
    #[prost(message, tag = "4")]
    Disconnected(Grant),
    #[prost(message, tag = "5")]
    Left(Left),
    #[prost(message, tag = "6")]
    CapabilitiesSet(Capabilities),
    #[prost(message, tag = "7")]
    HostSet(HostSet),
    #[prost(message, tag = "8")]
    MessageSent(Box<Message>),
    #[prost(message, tag = "9")]
    AttachmentSent(Box<Attachment>),
    #[prost(message, tag = "10")]
    SurfacePublished(SurfaceSet),
    #[prost(message, tag = "11")]
    SurfaceCleared(SurfaceSet),
    #[prost(message, tag = "12")]
    LiveViewPublished(LiveView),
    #[prost(message, tag = "13")]
    AppPublished(Box<Bundle>),
    #[prost(message, tag = "14")]
    AppUpdated(Box<Bundle>),
    #[prost(message, tag = "15")]
    AppStateSet(AppState),
    #[prost(message, tag = "16")]
    TranscriptStarted(Started),
    #[prost(uint64, tag = "17")]
    TranscriptStopped(u64),
    #[prost(message, tag = "18")]
    TranscriptAppended(Box<Segment>),
    #[prost(message, tag = "19")]
    MeetingNotesStarted(Grant),
    #[prost(uint64, tag = "20")]
    MeetingNotesStopped(u64),
    #[prost(message, tag = "21")]
    AgentVoiceGranted(Grant),
    #[prost(message, tag = "22")]
    AgentVoiceRevoked(Grant),
    #[prost(message, tag = "23")]
    Remembered(Remembered),
}

#[derive(Clone, PartialEq, prost::Message)]
struct Joined {
    #[prost(bytes = "vec", tag = "1")]
    participant: Vec<u8>,
    #[prost(string, tag = "2")]
    name: String,
    #[prost(string, repeated, tag = "3")]
    advertised: Vec<String>,
    #[prost(message, optional, tag = "4")]
    host: Option<Host>,
    #[prost(message, optional, tag = "5")]
    features: Option<Features>,
    #[prost(uint64, tag = "6")]
    at: u64,
    #[prost(uint64, tag = "7")]
    lease_ms: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Left {
    #[prost(bytes = "vec", tag = "1")]
    participant: Vec<u8>,
    #[prost(uint32, tag = "2")]
    cause: u32,
    #[prost(uint64, tag = "3")]
    at: u64,
    #[prost(uint64, optional, tag = "4")]
    empty_until: Option<u64>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Capabilities {
    #[prost(bytes = "vec", tag = "1")]
    participant: Vec<u8>,
    #[prost(string, repeated, tag = "2")]
    advertised: Vec<String>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct HostSet {
    #[prost(bytes = "vec", tag = "1")]
    participant: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    host: Option<Host>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct SurfaceSet {
    #[prost(bytes = "vec", tag = "1")]
    participant: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    surface: Option<Surface>,
}

#[derive(Clone, PartialEq, prost::Message)]
struct AppState {
    #[prost(bytes = "vec", tag = "1")]
    instance: Vec<u8>,
    #[prost(string, tag = "2")]
    state: String,
    #[prost(uint64, tag = "3")]
    revision: u64,
    #[prost(uint64, tag = "4")]
    at: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Started {
    #[prost(message, optional, tag = "1")]
    producer: Option<Producer>,
    #[prost(uint64, tag = "2")]
    epoch: u64,
}

#[derive(Clone, PartialEq, prost::Message)]
struct Remembered {
    #[prost(bytes = "vec", tag = "1")]
    participant: Vec<u8>,
    #[prost(message, optional, tag = "2")]
    entry: Option<Entry>,
}

pub(in crate::codec) fn store(fact: &Fact) -> Event {
    Event { what: Some(store_what(fact)) }
}

fn store_what(fact: &Fact) -> What {
    match fact {
        Fact::AgentJoined(joined) => What::AgentJoined(store_joined(joined)),
        Fact::HumanJoined { participant, name, at } => What::HumanJoined(Joined {
            participant: id_bytes(participant.0),
            name: text(name),
            at: at.0,
            ..Joined::default()
        }),
        Fact::Connected { participant, at } => What::Connected(grant(*participant, *at)),
        Fact::Disconnected { participant, at } => What::Disconnected(grant(*participant, *at)),
        Fact::Left { participant, cause, at, empty_until } => What::Left(Left {
            participant: id_bytes(participant.0),
            cause: match cause {
                Cause::Left => 1,
                Cause::LeaseEnded => 2,
                Cause::GraceEnded => 3,
            },
            at: at.0,
            empty_until: empty_until.map(|until| until.0),
        }),
        Fact::CapabilitiesSet { participant, advertised } => What::CapabilitiesSet(Capabilities {
            participant: id_bytes(participant.0),
            advertised: advertised.iter().map(text).collect(),
        }),
        Fact::HostSet { participant, host } => What::HostSet(HostSet {
            participant: id_bytes(participant.0),
            host: Some(Host::store(host)),
        }),
        Fact::MessageSent(message) => What::MessageSent(Box::new(Message::store(message))),
        Fact::AttachmentSent(file) => What::AttachmentSent(Box::new(Attachment::store(file))),
        Fact::SurfacePublished { participant, surface } => What::SurfacePublished(SurfaceSet {
            participant: id_bytes(participant.0),
            surface: Some(Surface::store(surface)),
        }),
        Fact::SurfaceCleared { participant } => {
            What::SurfaceCleared(SurfaceSet { participant: id_bytes(participant.0), surface: None })
        }
        Fact::LiveViewPublished(view) => What::LiveViewPublished(LiveView::store(view)),
        Fact::AppPublished(app) => What::AppPublished(Box::new(Bundle::store_first(app))),
        Fact::AppUpdated(app) => What::AppUpdated(Box::new(Bundle::store_update(app))),
        Fact::AppStateSet { instance, state, revision, at } => What::AppStateSet(AppState {
            instance: id_bytes(*instance),
            state: text(state),
            revision: *revision,
            at: at.0,
        }),
        Fact::TranscriptStarted { producer, epoch } => What::TranscriptStarted(Started {
            producer: Some(Producer::store(producer)),
            epoch: *epoch,
        }),
        Fact::TranscriptStopped { at } => What::TranscriptStopped(at.0),
        Fact::TranscriptAppended(segment) => {
            What::TranscriptAppended(Box::new(Segment::store(segment)))
        }
        Fact::MeetingNotesStarted { agent, at } => What::MeetingNotesStarted(grant(*agent, *at)),
        Fact::MeetingNotesStopped { at } => What::MeetingNotesStopped(at.0),
        Fact::AgentVoiceGranted { agent, at } => What::AgentVoiceGranted(grant(*agent, *at)),
        Fact::AgentVoiceRevoked { agent, at } => What::AgentVoiceRevoked(grant(*agent, *at)),
        Fact::Remembered { participant, entry } => What::Remembered(Remembered {
            participant: id_bytes(participant.0),
            entry: Some(Entry::store(entry)),
        }),
    }
}

fn store_joined(joined: &AgentJoined) -> Joined {
    Joined {
        participant: id_bytes(joined.participant.0),
        name: text(&joined.name),
        advertised: joined.advertised.iter().map(text).collect(),
        host: joined.host.as_ref().map(Host::store),
        features: Features::store(joined.features),
        at: joined.at.0,
        lease_ms: joined.lease_ms,
    }
}

fn grant(agent: object::ParticipantId, at: Millis) -> Grant {
    Grant { agent: id_bytes(agent.0), at: at.0 }
}

pub(in crate::codec) fn load(stored: Event) -> Result<Fact> {
    Ok(match some(stored.what, "event kind")? {
        What::AgentJoined(joined) => Fact::AgentJoined(load_joined(joined)?),
        What::HumanJoined(joined) => Fact::HumanJoined {
            participant: participant(&joined.participant)?,
            name: joined.name.into(),
            at: Millis(joined.at),
        },
        What::Connected(g) => {
            Fact::Connected { participant: participant(&g.agent)?, at: Millis(g.at) }
        }
        What::Disconnected(g) => {
            Fact::Disconnected { participant: participant(&g.agent)?, at: Millis(g.at) }
        }
        What::Left(left) => load_left(&left)?,
        What::CapabilitiesSet(set) => Fact::CapabilitiesSet {
            participant: participant(&set.participant)?,
            advertised: set.advertised.into_iter().map(Into::into).collect(),
        },
        What::HostSet(set) => Fact::HostSet {
            participant: participant(&set.participant)?,
            host: some(set.host, "host")?.load(),
        },
        What::MessageSent(message) => Fact::MessageSent(message.load()?),
        What::AttachmentSent(file) => Fact::AttachmentSent(file.load()?),
        What::SurfacePublished(set) => Fact::SurfacePublished {
            participant: participant(&set.participant)?,
            surface: some(set.surface, "surface")?.load()?,
        },
        What::SurfaceCleared(set) => {
            Fact::SurfaceCleared { participant: participant(&set.participant)? }
        }
        What::LiveViewPublished(view) => Fact::LiveViewPublished(view.load()?),
        What::AppPublished(bundle) => Fact::AppPublished(bundle.load_first()?),
        What::AppUpdated(bundle) => Fact::AppUpdated(bundle.load_update()?),
        What::AppStateSet(set) => Fact::AppStateSet {
            instance: id(&set.instance)?,
            state: set.state.into(),
            revision: set.revision,
            at: Millis(set.at),
        },
        What::TranscriptStarted(started) => Fact::TranscriptStarted {
            producer: some(started.producer, "producer")?.load()?,
            epoch: started.epoch,
        },
        What::TranscriptStopped(at) => Fact::TranscriptStopped { at: Millis(at) },
        What::TranscriptAppended(segment) => Fact::TranscriptAppended(segment.load()?),
        What::MeetingNotesStarted(g) => {
            Fact::MeetingNotesStarted { agent: participant(&g.agent)?, at: Millis(g.at) }
        }
        What::MeetingNotesStopped(at) => Fact::MeetingNotesStopped { at: Millis(at) },
        What::AgentVoiceGranted(g) => {
            Fact::AgentVoiceGranted { agent: participant(&g.agent)?, at: Millis(g.at) }
        }
        What::AgentVoiceRevoked(g) => {
            Fact::AgentVoiceRevoked { agent: participant(&g.agent)?, at: Millis(g.at) }
        }
        What::Remembered(remembered) => Fact::Remembered {
            participant: participant(&remembered.participant)?,
            entry: some(remembered.entry, "entry")?.load()?,
        },
    })
}

fn load_joined(joined: Joined) -> Result<AgentJoined> {
    Ok(AgentJoined {
        participant: participant(&joined.participant)?,
        name: joined.name.into(),
        advertised: joined.advertised.into_iter().map(Into::into).collect(),
        host: joined.host.map(Host::load),
        features: Features::load(joined.features),
        at: Millis(joined.at),
        lease_ms: joined.lease_ms,
    })
}

fn load_left(left: &Left) -> Result<Fact> {
    Ok(Fact::Left {
        participant: participant(&left.participant)?,
        cause: match left.cause {
            1 => Cause::Left,
            2 => Cause::LeaseEnded,
            3 => Cause::GraceEnded,
            _ => return damaged("cause"),
        },
        at: Millis(left.at),
        empty_until: left.empty_until.map(Millis),
    })
}
