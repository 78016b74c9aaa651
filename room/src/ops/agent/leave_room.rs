//! `leave_room`: an agent goes (rooms 6.19).

use object::{Activation, Address, Audience, Guard, Minted, OpMeta};
use schemars::JsonSchema;
use serde::Serialize;

use crate::catalog::Annotations;
use crate::dedup::{CLIENT_REQUEST_ID, HANDLE};
use crate::event::Cause;
use crate::ops::{Ask, Op, Step, ToolText, Verdict, no_replay, output_schema};
use crate::reject::Code;
use crate::roster;
use crate::spec::{self, Field};

pub static META: OpMeta = OpMeta {
    name: "leave_room",
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

pub static INPUT: &[Field] = &[HANDLE, CLIENT_REQUEST_ID];

pub static TOOL: ToolText = ToolText {
    title: "Leave the room",
    description: "Purpose: leaves the room and ends this participantHandle. \
Use: when you are done; to stay, keep calling wait_for_events instead. \
Side effects: removes you, your workspace snapshot and your grants at once; what you wrote and uploaded stays. The last to leave starts the room's 30-minute end. \
Limits: a handle cannot be revived; join again for a new one. \
Errors: already_left, room_expired, invalid_participant_handle, rate_limited, invalid_arguments, room_unavailable.",
    annotations: Annotations {
        read_only: false,
        destructive: true,
        idempotent: true,
        open_world: true,
    },
    input: INPUT,
    output: output_schema::<Output>,
};

pub static OP: Op = Op {
    meta: &META,
    check: |args, blob| spec::check(INPUT, args, blob),
    decide,
    gone,
    replay: no_replay,
    tool: Some(&TOOL),
};

/// The answer's bytes.
pub(crate) const DONE: &[u8] = b"{\"ok\":true}";

/// The answer.
#[derive(Serialize, JsonSchema, Debug)]
pub struct Output {
    pub ok: bool,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let me = ask.me()?;
    let departure = roster::depart(ask.state, ask.settings, ask.now, &[(me.id, Cause::Left)]);
    let mut step = Step::body(DONE.to_vec()).events(departure.events);
    step.decision.drop_blobs = departure.drop_blobs;
    step.decision.drop_leases = departure.drop_leases;
    Ok(step)
}

/// A repeat by the edge met its own first attempt: a success (ours 11).
fn gone(ask: &Ask<'_>) -> Verdict {
    if ask.call.attempt > 1 {
        Ok(Step::body(DONE.to_vec()))
    } else {
        Err(Code::AlreadyLeft.reject())
    }
}
