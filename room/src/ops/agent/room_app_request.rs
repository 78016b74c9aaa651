//! `room_app_request`: an agent asks a curated app in somebody's browser (rooms 6.20, 16;
//! ours 22).
//!
//! The call parks while the browser answers. The host's own word of a failure is the message of
//! `app_error`; every other failure has its own code.

use object::{
    Activation, Address, Audience, Decision, Effect, Guard, Minted, OpMeta, Parked, Reject,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::catalog::Annotations;
use crate::dedup;
use crate::limits::{APP_PAYLOAD_BYTES_MAX, APP_REQUEST_MS_MAX, APP_REQUESTS_MAX};
use crate::live::Signal;
use crate::live_view::RawJson;
use crate::ops::{Ask, Op, Step, ToolText, Verdict, no_replay, output_schema, unknown_handle};
use crate::reject::Code;
use crate::routing::{self, Failure};
use crate::spec::{self, Field, Kind, Pattern};
use crate::state::Fact;

pub static META: OpMeta = OpMeta {
    name: "room_app_request",
    address: Address::Handle,
    activation: Activation::MustExist,
    audience: Audience::Agent,
    // Nothing of it is stored, but the app may act on it: never repeated by the edge.
    read_only: false,
    minted: Minted::Nothing,
    guard: Guard::Call(1),
    wait: false,
    park_ms: APP_REQUEST_MS_MAX,
    client_request_id: false,
    blob: None,
};

pub static INPUT: &[Field] = &[
    dedup::HANDLE,
    Field::required(
        "appInstanceId",
        spec::matching(
            1,
            96,
            Pattern {
                regex: "^[a-z0-9][a-z0-9:-]{0,95}$",
                test: is_instance_id,
                says: "Use lower-case letters, digits, ':' and '-', beginning with a letter or digit.",
            },
        ),
        "An appInstanceId of wait_for_events' roomApps.",
    ),
    Field::required(
        "payload",
        Kind::Json {
            schema: r#"{"type":"object","description":"At most 16,384 bytes of JSON, without the key sourceParticipantId."}"#,
        },
        "What the app is asked; its own protocol says how.",
    ),
];

pub static TOOL: ToolText = ToolText {
    title: "Ask a room app",
    description: "Purpose: sends one request to a curated app that somebody's browser hosts in the room, and returns the app's answer. \
Use: only with an appInstanceId that roomApps lists as callable; Generated Apps cannot be asked. \
Side effects: whatever the app does; no event, nothing stored, no lease renewed; waits for the browser up to 15 seconds. \
Limits: payload and answer 16,384 bytes, four requests in flight in a room, no retry. \
Errors: app_unavailable, host_unavailable, host_disconnected, too_many_requests, timeout, invalid_request, invalid_response, agent_disconnected, app_error, invalid_participant_handle, agent_only, room_expired, rate_limited, invalid_arguments, room_unavailable.",
    annotations: Annotations {
        read_only: false,
        destructive: true,
        idempotent: false,
        open_world: true,
    },
    input: INPUT,
    output: output_schema::<Output<'static>>,
};

pub static OP: Op = Op { meta: &META, check, decide, gone, replay: no_replay, tool: Some(&TOOL) };

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    app_instance_id: String,
    payload: Map<String, Value>,
}

/// The answer.
#[derive(Serialize, JsonSchema, Debug)]
pub struct Output<'a> {
    /// Always true: failures are refusals.
    ok: bool,
    /// The app's answer, any JSON value.
    #[schemars(schema_with = "anything")]
    result: RawJson<'a>,
}

fn anything(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!(true)
}

fn is_instance_id(id: &str) -> bool {
    let plain = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit();
    id.bytes().next().is_some_and(plain) && id.bytes().all(|b| plain(b) || matches!(b, b':' | b'-'))
}

fn check(args: &Value, blob: Option<&[u8]>) -> Result<(), Reject> {
    spec::check(INPUT, args, blob)?;
    let payload = args.get("payload").and_then(Value::as_object);
    if payload.is_some_and(|payload| !routing::is_payload(payload)) {
        let limit = APP_PAYLOAD_BYTES_MAX as u64;
        return Err(Code::InvalidRequest.reject().field("payload").limit(limit));
    }
    Ok(())
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let request = ask.call.request;
    let live = &ask.state.live;
    if ask.call.parked.is_none() && !live.requests.iter().any(|open| open.request == request) {
        return open(ask);
    }
    if ask.call.parked == Some(Parked::Cancelled) {
        return Ok(close(ask, refuse(Failure::AgentDisconnected.reject())));
    }
    match routing::step(live, request, true, ask.now) {
        routing::Step::Wait(until) => Ok(Step::park(until)),
        routing::Step::Done(Ok(result)) => {
            let output = Output { ok: true, result: RawJson(&result) };
            Ok(close(ask, Step::reply(&output)?))
        }
        routing::Step::Done(Err(failure)) => Ok(close(ask, refuse(failure.reject()))),
    }
}

/// Sends the request to its host and parks the caller.
fn open(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let instance = &input.app_instance_id;
    let app = routing::curated(ask.settings, ask.state.id.name(), instance);
    let (live, me) = (&ask.state.live, ask.me()?);
    let request = routing::open(live, app, ask.call.request, me.id, instance, ask.now)
        .map_err(|failure| failure.reject())?;
    let frame = routing::frame(&request, &input.payload);
    let connection = request.connection;
    let step = Step::park(request.until).effect(Effect::Notify { connection, frame });
    Ok(step.signal(Signal::RequestOpened(request)))
}

/// The caller left while its request was parked.
fn gone(ask: &Ask<'_>) -> Verdict {
    let request = ask.call.request;
    if ask.state.live.requests.iter().any(|open| open.request == request) {
        return Ok(close(ask, refuse(Failure::AgentDisconnected.reject())));
    }
    unknown_handle(ask)
}

fn close(ask: &Ask<'_>, step: Step) -> Step {
    step.signal(Signal::RequestClosed { request: ask.call.request })
}

/// A refusal that also changes the volatile part.
const fn refuse(reject: Reject) -> Step {
    Step { decision: Decision::refuse(reject), fact: Fact { sequence: 0, id: 0 }, renews: false }
}

impl Failure {
    fn reject(self) -> Reject {
        match self {
            Self::AppUnavailable => Code::AppUnavailable.reject().field("appInstanceId"),
            Self::HostUnavailable => Code::HostUnavailable.reject(),
            Self::HostDisconnected => Code::HostDisconnected.reject(),
            Self::TooManyRequests => Code::TooManyRequests.reject().limit(APP_REQUESTS_MAX as u64),
            Self::Timeout => Code::Timeout.reject(),
            Self::AgentDisconnected => Code::AgentDisconnected.reject(),
            Self::InvalidResponse => Code::InvalidResponse.reject(),
            Self::Host(word) => {
                let mut reject = Code::AppError.reject();
                reject.message = word.as_str().to_owned().into();
                reject
            }
        }
    }
}

#[cfg(test)]
mod tests;
