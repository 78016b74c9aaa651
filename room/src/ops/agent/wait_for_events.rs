//! `wait_for_events`: what is new, and the agent's sign of life (rooms 6.7, 9, 10; ours 7-10).

use object::{Activation, Address, Audience, Guard, Minted, OpMeta, Parked, Poll};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::Annotations;
use crate::dedup::HANDLE;
use crate::limits;
use crate::ops::unknown_handle;
use crate::ops::{Ask, Op, Step, ToolText, Verdict, no_replay, output_schema};
use crate::spec::{self, Field};
use crate::view::{EventView, HostsView, RoomAppView, RosterEntry};
use crate::wait::{self, News, Served};

pub static META: OpMeta = OpMeta {
    name: "wait_for_events",
    address: Address::Handle,
    activation: Activation::MustExist,
    audience: Audience::Agent,
    read_only: true,
    minted: Minted::Nothing,
    guard: Guard::Call(1),
    wait: true,
    park_ms: 0,
    client_request_id: false,
    blob: None,
};

pub static INPUT: &[Field] = &[
    HANDLE,
    Field::optional(
        "cursor",
        spec::int(0, limits::SAFE_INTEGER_MAX, 0),
        "The `cursor` of your last answer, or of join_room's; not an event's sequence.",
    ),
    Field::optional(
        "timeoutSeconds",
        spec::int(0, limits::WAIT_SECONDS_MAX, limits::WAIT_SECONDS_DEFAULT),
        "How long you would hold; only used where the server has holding switched on.",
    ),
];

pub static TOOL: ToolText = ToolText {
    title: "Wait for events",
    description: "Purpose: returns the events after your cursor with the present roster, and keeps you in the room. \
Use: in a loop, always with the cursor of the last answer; events with addressed:true are meant for you, left:true or expired:true ends the loop; for older history use read_room_context instead. \
Side effects: renews your lease; stores nothing else and sends nothing. \
Limits: call again after retryAfterMs, not earlier; 100 messages and 8 files are kept, truncated:true says that something you would have seen is gone; your own events are not repeated. \
Errors: wait_rate_limited (come back after retryAfterMs), wait_already_pending, invalid_participant_handle, agent_only, room_expired, rate_limited, invalid_arguments, room_unavailable.",
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
    gone,
    replay: no_replay,
    tool: Some(&TOOL),
};

/// The checked arguments.
#[derive(Deserialize, Debug)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Input {
    pub cursor: u64,
    pub timeout_seconds: u64,
}

/// The answer's shape; built as bytes in `wait::answer`, `retryAfterMs` is added by the host.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Output<'a> {
    /// Ascending by sequence.
    pub events: Vec<EventView<'a>>,
    /// Use this one next time, not the last event's sequence.
    pub cursor: u64,
    /// Unix milliseconds.
    pub expires_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub room_apps: Option<Vec<RoomAppView<'a>>>,
    /// Connected participants, you included.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub participants: Option<Vec<RosterEntry<'a>>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub runtime_hosts: Option<HostsView<'a>>,
    /// `immediate` or `held`; absent if a hold was ended by news.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub long_poll: Option<&'static str>,
    /// Something you would have seen is no longer kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub truncated: Option<bool>,
    /// The next wait is admitted after this many milliseconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub retry_after_ms: Option<u64>,
    /// You left, or your lease ended, while the call was held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub left: Option<bool>,
    /// The room ended while the call was held.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expired: Option<bool>,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let me = ask.me()?;
    let input: Input = ask.input(INPUT)?;
    let state = ask.state;
    let held = ask.call.parked;
    let news = News::after(state, me, input.cursor);
    let visible = !news.events.is_empty() || news.truncated;
    // Moved without anything to show: reported at once, but no reason to end a hold.
    let moved = input.cursor != state.sequence;
    let fresh = visible || (moved && held.is_none());
    if !fresh {
        let until = wait::hold_until(ask.settings, ask.call.since, input.timeout_seconds);
        if let Some(until) = until
            && ask.now < until
            && !matches!(held, Some(Parked::TimedOut | Parked::Cancelled))
        {
            return Ok(if held.is_none() {
                Step::park(until).renewing()
            } else {
                Step::park(until)
            });
        }
    }
    let served = match (held, visible) {
        (None, _) => Served::Immediate,
        (Some(_), true) => Served::Woken,
        (Some(_), false) => Served::Held,
    };
    let events = crate::ops::json(&news.events)?;
    let projection = wait::projection(state, ask.settings);
    let body = wait::answer(&events, state.sequence, &projection, news.truncated, served);
    Ok(Step::body(body).poll(if fresh { Poll::News } else { Poll::Quiet }).renewing())
}

/// The caller left, or its lease ended, while it was held (rooms 10.3).
fn gone(ask: &Ask<'_>) -> Verdict {
    if ask.call.parked.is_none() {
        return unknown_handle(ask);
    }
    let ended = ask.state.expires_at <= ask.now;
    let output = Output {
        events: Vec::new(),
        cursor: ask.state.sequence,
        expires_at: ask.state.expires_at.0,
        room_apps: None,
        participants: None,
        runtime_hosts: None,
        long_poll: None,
        truncated: None,
        retry_after_ms: None,
        left: (!ended).then_some(true),
        expired: ended.then_some(true),
    };
    Step::reply(&output).map(|step| step.poll(Poll::Terminal))
}
