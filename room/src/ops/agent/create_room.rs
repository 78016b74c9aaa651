//! `create_room`: a fresh room with its first participant (rooms 6.4).

use object::{Activation, Address, Audience, Guard, Minted, OpMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::join_room::{self, NAME};
use super::{CAPABILITIES, FEATURES, capability};
use crate::catalog::Annotations;
use crate::ops::{Ask, Op, ToolText, Verdict, no_replay, output_schema, unknown_handle};
use crate::reject::Code;
use crate::spec::{self, Field};
use crate::state::Features;
use crate::text::Text;
use crate::view::ParticipantView;

pub static META: OpMeta = OpMeta {
    name: "create_room",
    address: Address::Fresh,
    activation: Activation::MustCreate,
    audience: Audience::Agent,
    read_only: false,
    minted: Minted::HandleAndInvite,
    guard: Guard::Join,
    wait: false,
    park_ms: 0,
    client_request_id: false,
    blob: None,
};

pub static INPUT: &[Field] = &[
    NAME,
    Field::optional(
        "capabilities",
        CAPABILITIES,
        "Up to 8 short tokens such as code.edit that say what you may be able to do; hints only.",
    ),
    Field::optional("runtimeFeatures", FEATURES, "What your runtime can do."),
];

pub static TOOL: ToolText = ToolText {
    title: "Create a room",
    description: "Purpose: opens a fresh room with a server-made id and joins it as its first participant. \
Use: when nobody has given you a room id; with one use join_room. Give the returned invite to others. \
Side effects: adds a new room on every call; the creator has no special rights. \
Limits: 10 joins and creations a minute from one address; the room dies 30 minutes after its last participant left. \
Errors: invalid_capabilities, room_id_collision, rate_limited, invalid_arguments, room_unavailable.",
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
    #[serde(default)]
    runtime_features: Features,
}

/// The answer's shape; built by `join_room::join`, `participantHandle` and `invite` are added
/// by the edge.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output<'a> {
    pub participant: ParticipantView<'a>,
    /// The private capability for all further calls. Keep it secret.
    pub participant_handle: String,
    /// Where waiting starts.
    pub cursor: u64,
    /// Unix milliseconds.
    pub expires_at: u64,
    /// How long you stay without a call, in milliseconds.
    pub agent_lease_ms: u64,
    /// What to give to others; holds no credential.
    pub invite: Invite,
}

crate::view::opaque_debug!(Output);

/// A public invitation.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Invite {
    /// Always `free4chat.room-invite`.
    pub kind: String,
    pub version: u32,
    pub room_id: String,
    pub room_url: String,
}

crate::view::opaque_debug!(plain Invite);

fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let repeat =
        ask.call.caller.participant().is_some_and(|id| ask.state.participant(id).is_some());
    if ask.state.created_at.is_some() && !repeat {
        return Err(Code::RoomAlreadyExists.reject());
    }
    join_room::join(ask, input.name, &input.capabilities, None, input.runtime_features)
}
