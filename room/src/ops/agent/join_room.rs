//! `join_room`: an agent becomes a participant (rooms 6.3).

use object::{Activation, Address, Audience, Guard, Minted, OpMeta, Reject, Renewal};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CAPABILITIES, FEATURES, HOST, HostInput, capability};
use crate::catalog::Annotations;
use crate::event::{AgentJoined, Event};
use crate::grant::{self, Change};
use crate::limits;
use crate::ops::{Ask, Op, Step, ToolText, Verdict, no_replay, output_schema, unknown_handle};
use crate::reject::Code;
use crate::spec::{self, Field};
use crate::state::{Features, Kind, Participant, RuntimeHost};
use crate::text::Text;
use crate::view::ParticipantView;

pub static META: OpMeta = OpMeta {
    name: "join_room",
    address: Address::Argument("roomId"),
    activation: Activation::MayCreate,
    audience: Audience::Agent,
    read_only: false,
    minted: Minted::Handle,
    guard: Guard::Join,
    wait: false,
    park_ms: 0,
    client_request_id: false,
    blob: None,
};

pub(crate) const NAME: Field = Field::required(
    "name",
    spec::trimmed(1, limits::NAME_UTF16_MAX),
    "The name others see; names need not be unique.",
);

pub static INPUT: &[Field] = &[
    Field::required(
        "roomId",
        spec::trimmed(1, limits::ROOM_ID_UTF16_MAX),
        "Only the id, such as quasar-void-975e6jd7ga3x: in an invite's address what follows `id=`, never the address itself. An id nobody used yet makes a new room.",
    ),
    NAME,
    Field::optional(
        "capabilities",
        CAPABILITIES,
        "Up to 8 short tokens such as code.edit that say what you may be able to do; hints only.",
    ),
    Field::optional("runtimeHost", HOST, "The projection of the host you run on."),
    Field::optional("runtimeFeatures", FEATURES, "What your runtime can do."),
];

pub static TOOL: ToolText = ToolText {
    title: "Join a room",
    description: "Purpose: joins a room as an agent and returns the private participantHandle that all other tools need. \
Use: when you have a room id; to open a fresh room use create_room, to look before joining use room_info. \
Side effects: creates the room if it does not exist and adds a new participant on every call; no event is sent. \
Limits: 32 participants a room, 10 joins a minute from one address; you stay as long as you call wait_for_events or change something at least every agentLeaseMs. \
Errors: room_full, invalid_capabilities, room_expired, rate_limited, invalid_arguments, room_unavailable.",
    annotations: Annotations {
        read_only: false,
        destructive: false,
        idempotent: false,
        open_world: true,
    },
    input: INPUT,
    output: output_schema::<Output<'static>>,
};

pub static OP: Op = Op {
    meta: &META,
    check: |args, blob| {
        spec::check(INPUT, args, blob)?;
        capability::check(args)
    },
    decide,
    gone: unknown_handle,
    replay: no_replay,
    tool: Some(&TOOL),
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    name: Text,
    #[serde(default)]
    capabilities: Vec<String>,
    runtime_host: Option<HostInput>,
    #[serde(default)]
    runtime_features: Features,
}

/// The answer; `participantHandle` is added by the edge.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output<'a> {
    pub participant: ParticipantView<'a>,
    /// The private capability for all further calls. Keep it secret.
    #[schemars(required)]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participant_handle: Option<String>,
    /// Where waiting starts: nothing before it is reported by wait_for_events.
    pub cursor: u64,
    /// Unix milliseconds.
    pub expires_at: u64,
    /// How long you stay without a call, in milliseconds.
    pub agent_lease_ms: u64,
}

crate::view::opaque_debug!(Output);

fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let host = input.runtime_host.map(RuntimeHost::from);
    join(ask, input.name, &input.capabilities, host, input.runtime_features)
}

/// Shared with `create_room`.
pub(crate) fn join(
    ask: &Ask<'_>,
    name: Text,
    capabilities: &[String],
    host: Option<RuntimeHost>,
    features: Features,
) -> Verdict {
    let advertised = capability::tokens(capabilities)?;
    let id = ask.call.caller.participant().ok_or_else(|| Code::InvalidRequest.reject())?;
    if let Some(known) = ask.state.participant(id) {
        // The edge's own repeat: the same minted id, the same answer.
        return if known.is_agent() && ask.call.attempt > 1 {
            let mut step = Step::reply(&answer(ask, known))?;
            step.decision.renewal = Some(renewal(ask, id));
            Ok(step)
        } else {
            Err(Code::ParticipantExists.reject())
        };
    }
    if ask.state.participants.len() >= limits::PARTICIPANTS_MAX {
        return Err(full());
    }
    let joined = AgentJoined {
        participant: id,
        name,
        advertised,
        host,
        features,
        at: ask.now,
        lease_ms: ask.settings.agent_lease_ms,
    };
    let newcomer = newcomer(&joined);
    let mut step = Step::reply(&answer(ask, &newcomer))?;
    step.decision.renewal = Some(renewal(ask, id));
    // The newcomer's projection is its host's now: what that host can no longer do ends.
    let lost = joined.host.as_ref().map_or_else(Vec::new, |host| {
        grant::consequences(ask.state, Change::Host(id, host), ask.now)
    });
    Ok(step.event(Event::AgentJoined(joined)).events(lost))
}

/// The lease that the answer promises, from now on.
const fn renewal(ask: &Ask<'_>, id: object::ParticipantId) -> Renewal {
    Renewal { participant: id, end: ask.now.plus(ask.settings.agent_lease_ms) }
}

fn full() -> Reject {
    Code::RoomFull.reject().limit(limits::PARTICIPANTS_MAX as u64)
}

/// The participant as it will be after the fact; only for the answer.
fn newcomer(joined: &AgentJoined) -> Participant {
    Participant {
        id: joined.participant,
        name: joined.name.clone(),
        kind: Kind::Agent,
        connected: true,
        joined_at: joined.at,
        last_seen: joined.at,
        lease_end: joined.at.plus(joined.lease_ms),
        lease_ms: joined.lease_ms,
        advertised: joined.advertised.clone(),
        host: joined.host.as_ref().map(|host| host.id.clone()),
        features: joined.features,
        surface: None,
        lost_live: 0,
        lost_history: 0,
        memory: crate::state::Memory::default(),
    }
}

fn answer<'a>(ask: &Ask<'_>, participant: &'a Participant) -> Output<'a> {
    Output {
        participant: ParticipantView::of(participant),
        participant_handle: None,
        cursor: ask.state.sequence,
        expires_at: object::Millis::FAR_FUTURE.0,
        agent_lease_ms: participant.lease_ms,
    }
}
