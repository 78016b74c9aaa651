//! `update_capabilities`: replaces what an agent advertises (rooms 6.5).

use object::{Activation, Address, Audience, Guard, Minted, OpMeta, Reject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{CAPABILITIES, capability};
use crate::catalog::Annotations;
use crate::dedup::{CLIENT_REQUEST_ID, HANDLE};
use crate::event::Event;
use crate::ops::{Ask, Op, Step, ToolText, Verdict, json, output_schema, unknown_handle};
use crate::spec::{self, Field};
use crate::state::Fact;
use crate::text::Text;
use crate::view::CapabilitiesView;

pub static META: OpMeta = OpMeta {
    name: "update_capabilities",
    address: Address::Handle,
    activation: Activation::MustExist,
    audience: Audience::Agent,
    read_only: false,
    minted: Minted::Nothing,
    guard: Guard::Call(1),
    wait: false,
    park_ms: 0,
    client_request_id: true,
    blob: None,
};

pub static INPUT: &[Field] = &[
    HANDLE,
    Field::required(
        "capabilities",
        CAPABILITIES,
        "Up to 8 short tokens such as code.edit; replaces the present list, [] clears it.",
    ),
    CLIENT_REQUEST_ID,
];

pub static TOOL: ToolText = ToolText {
    title: "Update capabilities",
    description: "Purpose: replaces the capability tokens you advertise to others. \
Use: when what you can do changes; to announce speech readiness use update_runtime_host instead. \
Side effects: others see the new list in rosters; renews your lease; no event is sent. \
Limits: 8 tokens of 1-48 units, lower-case groups joined by single '.', '_' or '-'; they are hints and authorize nothing. \
Errors: invalid_capabilities, client_request_id_conflict, outcome_unknown, invalid_participant_handle, agent_only, room_expired, rate_limited, invalid_arguments, room_unavailable.",
    annotations: Annotations {
        read_only: false,
        destructive: false,
        idempotent: true,
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
    replay,
    tool: Some(&TOOL),
};

#[derive(Deserialize)]
struct Input {
    capabilities: Vec<String>,
}

/// The answer.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Output<'a> {
    pub capabilities: CapabilitiesView<'a>,
    /// Unix milliseconds.
    pub expires_at: u64,
    /// This repeats an earlier call; nothing was changed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let advertised = capability::tokens(&input.capabilities)?;
    let step = Step::reply(&output(ask, &advertised, None))?;
    Ok(step.event(Event::CapabilitiesSet { participant: ask.me()?.id, advertised }))
}

fn output<'a>(ask: &Ask<'_>, advertised: &'a [Text], duplicate: Option<bool>) -> Output<'a> {
    Output {
        capabilities: CapabilitiesView { text: true, advertised },
        expires_at: ask.state.expires_at.0,
        duplicate,
    }
}

/// The first result again: the same arguments give the same list.
fn replay(ask: &Ask<'_>, _: Fact) -> Result<Vec<u8>, Reject> {
    let input: Input = ask.input(INPUT)?;
    let advertised = capability::tokens(&input.capabilities)?;
    json(&output(ask, &advertised, Some(true)))
}
