//! `update_runtime_host`: projects the host an agent runs on (rooms 5.5, 6.6).

use object::{Activation, Address, Audience, Guard, Minted, OpMeta, Reject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{HOST, HostInput};
use crate::catalog::Annotations;
use crate::dedup::{CLIENT_REQUEST_ID, HANDLE};
use crate::ops::{Ask, Op, Step, ToolText, Verdict, json, output_schema, unknown_handle};
use crate::roster;
use crate::spec::{self, Field};
use crate::state::{Fact, RuntimeHost};
use crate::view::{HostView, HostsView};

pub static META: OpMeta = OpMeta {
    name: "update_runtime_host",
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
    Field::required("runtimeHost", HOST, "The projection; the last writer of a host id wins."),
    CLIENT_REQUEST_ID,
];

pub static TOOL: ToolText = ToolText {
    title: "Update the runtime host",
    description: "Purpose: publishes the opaque id of the host you run on and whether it is ready for speech. \
Use: after create_room, or when readiness changes; for what you can do use update_capabilities instead. \
Side effects: all agents naming the same host share the projection; losing tts ends voice grants on it, losing stt ends its transcript; renews your lease; no event is sent. \
Limits: the id has 8-64 letters, digits or '._:-'; never put names, addresses or credentials into it. \
Errors: client_request_id_conflict, outcome_unknown, invalid_participant_handle, agent_only, room_expired, rate_limited, invalid_arguments, room_unavailable.",
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
    check: |args, blob| spec::check(INPUT, args, blob),
    decide,
    gone: unknown_handle,
    replay,
    tool: Some(&TOOL),
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    runtime_host: HostInput,
}

/// The answer.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Output<'a> {
    pub runtime_host: HostView<'a>,
    /// All projections of the room, by host id.
    pub runtime_hosts: HostsView<'a>,
    /// Unix milliseconds.
    pub expires_at: u64,
    /// This repeats an earlier call; nothing was changed again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let me = ask.me()?;
    let host = RuntimeHost::from(input.runtime_host);
    let events = roster::project_host(ask.state, me, &host, ask.now);
    let hosts = roster::hosts_after(ask.state, me, &host);
    let step = Step::reply(&output(ask, &host, &hosts, None))?;
    Ok(step.events(events))
}

fn output<'a>(
    ask: &Ask<'_>,
    host: &'a RuntimeHost,
    hosts: &'a [RuntimeHost],
    duplicate: Option<bool>,
) -> Output<'a> {
    Output {
        runtime_host: HostView::of(host),
        runtime_hosts: HostsView(hosts),
        expires_at: ask.state.expires_at.0,
        duplicate,
    }
}

fn replay(ask: &Ask<'_>, _: Fact) -> Result<Vec<u8>, Reject> {
    let input: Input = ask.input(INPUT)?;
    let host = RuntimeHost::from(input.runtime_host);
    json(&output(ask, &host, &ask.state.hosts, Some(true)))
}
