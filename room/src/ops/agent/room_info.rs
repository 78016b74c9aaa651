//! `room_info`: who is in a room, without joining it (rooms 6.1).

use object::{Activation, Address, Audience, Guard, Minted, OpMeta, Reject};
use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::catalog::Annotations;
use crate::limits;
use crate::ops::{
    Ask, Op, Step, ToolText, Verdict, json, no_replay, output_schema, unknown_handle,
};
use crate::spec::{self, Field};
use crate::state::{AgentVoice, State};
use crate::view::{HostsView, ParticipantView, SegmentView, TranscriptView, Uuid};

pub static META: OpMeta = OpMeta {
    name: "room_info",
    address: Address::Argument("roomId"),
    activation: Activation::Peek,
    audience: Audience::Agent,
    read_only: true,
    minted: Minted::Nothing,
    guard: Guard::Info,
    wait: false,
    park_ms: 0,
    client_request_id: false,
    blob: None,
};

pub static INPUT: &[Field] = &[Field::required(
    "roomId",
    spec::trimmed(1, limits::ROOM_ID_UTF16_MAX),
    "Only the id, such as quasar-void-975e6jd7ga3x: in an invite's address what follows `id=`.",
)];

pub static TOOL: ToolText = ToolText {
    title: "Look at a room",
    description: "Purpose: shows who is connected to a room, what they advertise, and its committed live transcript, without joining. \
Use: before join_room, or to find participant ids; for messages join and use read_room_context or wait_for_events instead. \
Side effects: none; an unknown room is answered with exists:false and is not created. \
Limits: 60 calls a minute from one address; never shows messages, handles or media. \
Errors: rate_limited, invalid_arguments, room_unavailable.",
    annotations: Annotations {
        read_only: true,
        destructive: false,
        idempotent: true,
        open_world: true,
    },
    input: INPUT,
    output: output_schema::<Output<'static>>,
};

pub static OP: Op = Op {
    meta: &META,
    check: |args, blob| spec::check(INPUT, args, blob),
    decide,
    gone: unknown_handle,
    replay: no_replay,
    tool: Some(&TOOL),
};

/// The answer.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Output<'a> {
    pub exists: bool,
    /// Unix milliseconds; null for an unknown room.
    pub expires_at: Option<u64>,
    /// Connected ones only.
    pub participants: Vec<ParticipantView<'a>>,
    pub runtime_hosts: HostsView<'a>,
    pub live_transcript: TranscriptView<'a>,
    pub live_transcript_segments: Vec<SegmentView<'a>>,
    pub capabilities: RoomCapabilities,
    pub meeting_notes: MeetingNotesView,
    pub meeting_notes_media_available: bool,
    pub agent_voice: VoiceView<'a>,
    pub agent_voice_media_available: bool,
    pub media_permissions: MediaPermissions,
}

/// What a room of this server supports.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct RoomCapabilities {
    pub text: bool,
    pub audio: bool,
    pub screen_share: bool,
    pub files: bool,
    pub agent_text: bool,
    pub agent_images: bool,
    pub agent_targeting: bool,
}

/// The listening grant.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct MeetingNotesView {
    pub active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub agent_participant_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub started_at: Option<u64>,
}

/// The speaking grants by participant id, written as one object.
#[derive(Debug)]
pub struct VoiceView<'a>(&'a [AgentVoice]);

#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct VoiceEntry {
    enabled: bool,
    enabled_at: u64,
}

impl Serialize for VoiceView<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|grant| {
            (Uuid::from(grant.agent), VoiceEntry { enabled: true, enabled_at: grant.enabled_at.0 })
        }))
    }
}

impl JsonSchema for VoiceView<'_> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "voice".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let entry = VoiceEntry::json_schema(generator);
        schemars::json_schema!({"type": "object", "additionalProperties": entry})
    }
}

/// What an agent may do with media; nothing without a human's grant.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct MediaPermissions {
    pub can_subscribe_human_audio: bool,
    pub can_publish_voice: bool,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    Step::reply(&output(ask.state, true))
}

/// The answer for a room that does not exist.
pub(crate) fn nobody() -> Result<Vec<u8>, Reject> {
    let Ok(id) = object::ObjectId::new(crate::KIND, "-") else {
        return Err(spec::invalid(Vec::new()));
    };
    json(&output(&State::fresh(&id), false))
}

fn output(state: &State, exists: bool) -> Output<'_> {
    let exists = exists && state.created_at.is_some();
    Output {
        exists,
        expires_at: exists.then_some(state.expires_at.0),
        participants: ParticipantView::connected(state),
        runtime_hosts: HostsView(&state.hosts),
        live_transcript: TranscriptView::of(&state.transcript),
        live_transcript_segments: state.transcript.segments.iter().map(SegmentView::of).collect(),
        capabilities: RoomCapabilities {
            text: true,
            audio: true,
            screen_share: true,
            files: true,
            agent_text: true,
            agent_images: true,
            agent_targeting: true,
        },
        meeting_notes: MeetingNotesView {
            active: state.meeting_notes.is_some(),
            agent_participant_id: state.meeting_notes.map(|notes| notes.agent.into()),
            started_at: state.meeting_notes.map(|notes| notes.started_at.0),
        },
        // This server relays no media; grants are state that a media server may read.
        meeting_notes_media_available: false,
        agent_voice: VoiceView(&state.agent_voice),
        agent_voice_media_available: false,
        media_permissions: MediaPermissions {
            can_subscribe_human_audio: false,
            can_publish_voice: false,
        },
    }
}
