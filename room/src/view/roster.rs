//! Participants, hosts and apps as others see them.

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use super::Uuid;
use crate::settings::Settings;
use crate::state::{Author, Features, Kind, Participant, RuntimeHost, State, Surface};
use crate::text::Text;

/// The author of an event.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AuthorView<'a> {
    pub id: Uuid,
    pub name: &'a str,
    pub kind: Kind,
}

impl<'a> AuthorView<'a> {
    pub(crate) fn of(author: &'a Author) -> Self {
        Self { id: author.id.into(), name: &author.name, kind: author.kind }
    }
}

/// A participant as everybody sees it.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParticipantView<'a> {
    pub id: Uuid,
    pub name: &'a str,
    pub kind: Kind,
    pub connected: bool,
    /// Unix milliseconds.
    pub joined_at: u64,
    /// Unix milliseconds.
    pub last_seen_at: u64,
    pub capabilities: CapabilitiesView<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub surface: Option<SurfaceView<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_host_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Features::is_empty")]
    pub runtime_features: Features,
}

/// What a participant can do, as far as it says.
#[derive(Serialize, JsonSchema, Debug)]
pub struct CapabilitiesView<'a> {
    pub text: bool,
    #[serde(skip_serializing_if = "<[Text]>::is_empty")]
    pub advertised: &'a [Text],
}

/// A workspace snapshot's description.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct SurfaceView<'a> {
    pub kind: &'static str,
    pub snapshot_id: Uuid,
    pub mime_type: &'a str,
    /// Bytes.
    pub size: u64,
    /// Unix milliseconds.
    pub updated_at: u64,
}

impl<'a> SurfaceView<'a> {
    pub(crate) fn of(surface: &'a Surface) -> Self {
        Self {
            kind: "workspace-snapshot",
            snapshot_id: surface.snapshot.into(),
            mime_type: &surface.mime,
            size: surface.size,
            updated_at: surface.updated_at.0,
        }
    }
}

impl<'a> ParticipantView<'a> {
    pub(crate) fn of(participant: &'a Participant) -> Self {
        Self {
            id: participant.id.into(),
            name: &participant.name,
            kind: participant.kind,
            connected: participant.connected,
            joined_at: participant.joined_at.0,
            last_seen_at: participant.last_seen.0,
            capabilities: CapabilitiesView::of(participant),
            surface: participant.surface.as_ref().map(SurfaceView::of),
            runtime_host_id: participant.host.as_deref(),
            runtime_features: participant.features,
        }
    }

    /// The connected ones, in order of arrival.
    pub(crate) fn connected(state: &'a State) -> Vec<Self> {
        state.participants.iter().filter(|p| p.connected).map(Self::of).collect()
    }
}

impl<'a> CapabilitiesView<'a> {
    pub(crate) fn of(participant: &'a Participant) -> Self {
        Self { text: true, advertised: &participant.advertised }
    }
}

/// One line of the roster in a wait's answer.
#[derive(Serialize, JsonSchema)]
pub struct RosterEntry<'a> {
    pub id: Uuid,
    pub name: &'a str,
    pub kind: Kind,
    #[serde(skip_serializing_if = "<[Text]>::is_empty")]
    pub advertised: &'a [Text],
}

impl<'a> RosterEntry<'a> {
    pub(crate) fn connected(state: &'a State) -> Vec<Self> {
        let connected = state.participants.iter().filter(|p| p.connected);
        connected
            .map(|p| Self {
                id: p.id.into(),
                name: &p.name,
                kind: p.kind,
                advertised: &p.advertised,
            })
            .collect()
    }
}

/// A runtime host's projection.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct HostView<'a> {
    pub runtime_host_id: &'a str,
    pub speech: SpeechView,
}

crate::view::opaque_debug!(HostView);

/// Coarse speech readiness.
#[derive(Clone, Copy, Serialize, JsonSchema, Debug)]
pub struct SpeechView {
    pub stt: bool,
    pub tts: bool,
}

impl<'a> HostView<'a> {
    pub(crate) fn of(host: &'a RuntimeHost) -> Self {
        Self { runtime_host_id: &host.id, speech: SpeechView { stt: host.stt, tts: host.tts } }
    }
}

/// All projections by host id, written as one object.
#[derive(Clone, Copy, Debug)]
pub struct HostsView<'a>(pub &'a [RuntimeHost]);

impl Serialize for HostsView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|host| (&host.id, HostView::of(host))))
    }
}

impl JsonSchema for HostsView<'_> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "hosts".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let host = HostView::json_schema(generator);
        schemars::json_schema!({"type": "object", "additionalProperties": host})
    }
}

/// A curated app of the room.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct RoomAppView<'a> {
    pub app_instance_id: String,
    pub app_id: &'a str,
    pub title: &'a str,
    pub source: &'static str,
    /// Whether a connected browser hosts it now.
    pub callable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub unavailable_reason: Option<&'static str>,
}

impl<'a> RoomAppView<'a> {
    /// The operator's catalog as instances of this room.
    pub(crate) fn all(state: &State, settings: &'a Settings) -> Vec<Self> {
        if !settings.room_apps_enabled {
            return Vec::new();
        }
        let instances = settings.room_apps.iter().map(|app| {
            let instance = crate::names::app_instance_id(state.id.name(), &app.app_id);
            let hosts = |c: &crate::live::Connection| {
                c.hosts.iter().any(|hosted| hosted.as_str() == instance)
            };
            let callable = state.live.connections.iter().any(hosts);
            Self {
                app_instance_id: instance,
                app_id: &app.app_id,
                title: &app.title,
                source: "curated",
                callable,
                unavailable_reason: (!callable).then_some("host_unavailable"),
            }
        });
        instances.collect()
    }
}

super::opaque_debug!(AuthorView, ParticipantView, RosterEntry);
