//! The way of every call: who asks, what was asked before, the op, what is remembered and renewed.

use object::{Address, Audience, Call, Caller, Millis, Reject, Renewal, Reply};
use serde_json::Value;

use super::{Ask, Op, Step, Verdict};
use crate::dedup;
use crate::event::Event;
use crate::reject::Code;
use crate::room::{Cx, Decision};
use crate::settings::Settings;
use crate::spec;
use crate::state::{Entry, Kind, Seen, State};

/// Decides one call.
pub(crate) fn decide(state: &State, cx: &Cx<'_>, call: &Call<'_>) -> Decision {
    let Some(op) = super::find(call.op.name) else {
        return Decision::refuse(Code::InvalidRequest.reject());
    };
    let Ok(args) = parse(call.args) else {
        return Decision::refuse(spec::invalid(Vec::new()));
    };
    let me = match op.meta.address {
        Address::Handle => call.caller.participant().and_then(|id| state.participant(id)),
        Address::Argument(_) | Address::Fresh => None,
    };
    let ask =
        Ask { state, settings: cx.settings, now: cx.now, random: cx.random, call, args: &args, me };
    match admit(op, &ask) {
        Ok(step) => step.decision,
        Err(reject) => Decision::refuse(reject),
    }
}

fn admit(op: &Op, ask: &Ask<'_>) -> Verdict {
    if matches!(op.meta.address, Address::Handle) {
        let Some(me) = ask.me else { return (op.gone)(ask) };
        match (op.meta.audience, me.kind) {
            (Audience::Agent | Audience::Resident, Kind::Human) => {
                return Err(Code::AgentOnly.reject());
            }
            (Audience::Human, Kind::Agent) => return Err(Code::HumanOnly.reject()),
            _ => {}
        }
    }
    (op.check)(ask.args, ask.call.blob.as_ref().map(|blob| blob.bytes))?;
    let key = dedup::key(op, ask);
    if let Some(key) = key {
        match look(ask, key) {
            Seen::Never => {}
            Seen::Repeat(fact, at) => {
                // Rebuilt as of then, so that its times are those of the first answer.
                let first = Ask { now: at, ..*ask };
                return Ok(Step::body(duplicate((op.replay)(&first, fact)?)));
            }
            Seen::Conflict => {
                return Err(Code::ClientRequestIdConflict.reject().field("clientRequestId"));
            }
            Seen::Unknown => return Err(Code::OutcomeUnknown.reject()),
        }
    }
    let mut step = (op.decide)(ask)?;
    remember(ask, key, &mut step);
    Ok(step)
}

fn look(ask: &Ask<'_>, key: dedup::Key) -> Seen {
    let Some(me) = ask.me else { return Seen::Never };
    let sent = (ask.call.attempt > 1).then(|| Millis(ask.now.0.saturating_sub(ask.call.age_ms)));
    me.memory.look(key.id_hash, key.args_hash, ask.now, sent)
}

/// Adds what every change brings with it: its memory and the caller's renewed lease.
fn remember(ask: &Ask<'_>, key: Option<dedup::Key>, step: &mut Step) {
    let Some(me) = ask.me else { return };
    let changed = !step.decision.events.is_empty();
    let stays = !step.decision.drop_leases.contains(&me.id);
    if let Some(key) = key
        && changed
        && stays
    {
        let entry =
            Entry { id_hash: key.id_hash, args_hash: key.args_hash, at: ask.now, fact: step.fact };
        step.decision.events.push(Event::Remembered { participant: me.id, entry });
    }
    if me.is_agent() && stays && (changed || step.renews) && step.decision.renewal.is_none() {
        let end = ask.now.plus(ask.settings.agent_lease_ms);
        step.decision.renewal = Some(Renewal { participant: me.id, end });
    }
}

/// Marks a rebuilt answer (ours 11), unless its op has done so.
fn duplicate(mut body: Vec<u8>) -> Vec<u8> {
    // Only the members of the answer itself count: a host or a data key may have any name.
    let members: serde_json::Map<String, Value> = serde_json::from_slice(&body).unwrap_or_default();
    if !members.contains_key("duplicate") && body.ends_with(b"}") {
        body.pop();
        body.extend_from_slice(if body == b"{" {
            b"\"duplicate\":true}"
        } else {
            b",\"duplicate\":true}"
        });
    }
    body
}

fn parse(args: &[u8]) -> serde_json::Result<Value> {
    if args.is_empty() {
        Ok(Value::Object(serde_json::Map::new()))
    } else {
        serde_json::from_slice(args)
    }
}

/// Answers an op on a room that does not exist (rooms 4, 6.1).
pub(crate) fn absent(cx: &Cx<'_>, call: &Call<'_>) -> Result<Reply, Reject> {
    let Some(op) = super::find(call.op.name) else { return Err(Code::InvalidRequest.reject()) };
    let args = parse(call.args).map_err(|_| spec::invalid(Vec::new()))?;
    (op.check)(&args, call.blob.as_ref().map(|blob| blob.bytes))?;
    match op.meta.address {
        Address::Argument(_) if op.meta.read_only => match super::agent::room_info::nobody() {
            Ok(body) => Ok(Reply::new(body)),
            Err(reject) => Err(reject),
        },
        Address::Argument(_) | Address::Fresh => Err(Code::RoomExpired.reject()),
        Address::Handle => absent_handle(op, cx.settings, call),
    }
}

fn absent_handle(op: &Op, _: &Settings, call: &Call<'_>) -> Result<Reply, Reject> {
    // The edge's own repeat of a leave that emptied and ended the room.
    if op.meta.name == super::agent::leave_room::META.name
        && call.attempt > 1
        && matches!(call.caller, Caller::Participant(_))
    {
        return Ok(Reply::new(super::agent::leave_room::DONE.to_vec()));
    }
    Err(Code::RoomExpired.reject())
}

/// Answers a create-only op on a room that exists.
pub(crate) fn occupied(_: &Call<'_>) -> Reject {
    Code::RoomAlreadyExists.reject()
}
