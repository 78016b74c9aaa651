//! `send_text`: a message to the room or into a Task (rooms 6.8, 11).

use object::{Activation, Address, Audience, Guard, Minted, OpMeta, ParticipantId, Reject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::task_scope;
use crate::catalog::Annotations;
use crate::dedup::{CLIENT_REQUEST_ID, HANDLE};
use crate::event::Event;
use crate::limits;
use crate::ops::{Ask, Op, Step, ToolText, Verdict, json, output_schema, unknown_handle};
use crate::reject::Code;
use crate::spec::{self, Field, Kind, Text as Rule};
use crate::state::{Body, Fact, Participant, TaskRef};
use crate::text::Text;
use crate::timeline;

pub static META: OpMeta = OpMeta {
    name: "send_text",
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
    Field::required("text", spec::trimmed(1, limits::TEXT_UTF16_MAX), "The message."),
    Field::optional(
        "targetParticipantIds",
        Kind::List {
            item: &Kind::Text(Rule {
                trim: false,
                min: 1,
                max: limits::TARGET_UTF16_MAX,
                pattern: None,
            }),
            items_max: limits::TARGETS_MAX,
        },
        "Ids (not names) from `participants` that get this as an addressed turn; everybody still sees it.",
    ),
    task_scope::FIELD,
    CLIENT_REQUEST_ID,
];

pub static TOOL: ToolText = ToolText {
    title: "Send text",
    description: "Purpose: sends a text message to the room, or into a Task with taskRequestId. \
Use: for conversation; to hand over work with an answer use send_collab_request, for files send_attachment instead. A written @name addresses nobody: use targetParticipantIds. \
Side effects: adds one event that others see in wait_for_events, renews your lease, and takes agents targeted in a Task into it. \
Limits: 4,000 UTF-16 units, 8 targets; unknown targets of an ordinary message are ignored, those of a Task message are refused. \
Errors: unknown_task_request, invalid_task_request, task_target_not_in_room, task_target_mismatch, client_request_id_conflict, outcome_unknown, invalid_participant_handle, agent_only, room_expired, rate_limited, invalid_arguments, room_unavailable.",
    annotations: Annotations {
        read_only: false,
        destructive: false,
        idempotent: false,
        open_world: true,
    },
    input: INPUT,
    output: output_schema::<Output>,
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
    text: Text,
    #[serde(default)]
    target_participant_ids: Vec<String>,
    task_request_id: Option<String>,
}

/// The answer.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Output {
    /// The message's place in the room.
    pub sequence: u64,
    /// Unix milliseconds.
    pub expires_at: u64,
    /// This repeats an earlier call; nothing was sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let me = ask.me()?;
    let task = match &input.task_request_id {
        Some(id) => Some(task_scope::resolve(ask.state, me, id, Code::TaskTargetMismatch)?),
        None => None,
    };
    let targets = match &task {
        Some(_) => strict_targets(ask, me, &input.target_participant_ids)?,
        None => lenient_targets(ask, me, &input.target_participant_ids),
    };
    send(ask, task, targets, input.text)
}

fn send(ask: &Ask<'_>, task: Option<TaskRef>, targets: Vec<ParticipantId>, text: Text) -> Verdict {
    let sequence = ask.next_sequence();
    let message =
        timeline::message(sequence, ask.now, ask.author()?, task, targets, Body::Text(text));
    timeline::fits(&message)?;
    let output = Output { sequence, expires_at: ask.state.expires_at.0, duplicate: None };
    Ok(Step::reply(&output)?.event(Event::MessageSent(message)).fact(sequence, 0))
}

/// Ordinary targets are hints: unknown ones, repeats and the sender are left out (rooms 11.1).
fn lenient_targets(ask: &Ask<'_>, me: &Participant, ids: &[String]) -> Vec<ParticipantId> {
    let mut targets = Vec::new();
    for id in ids.iter().filter_map(|id| ParticipantId::parse(id)) {
        if id != me.id && !targets.contains(&id) && ask.state.participant(id).is_some() {
            targets.push(id);
        }
    }
    targets.truncate(limits::TARGETS_MAX);
    targets
}

/// Task targets admit agents to the Task: a wrong one is refused (rooms 11.2).
fn strict_targets(
    ask: &Ask<'_>,
    me: &Participant,
    ids: &[String],
) -> Result<Vec<ParticipantId>, Reject> {
    let mut targets = Vec::new();
    for id in ids {
        let id = ParticipantId::parse(id)
            .filter(|id| ask.state.participant(*id).is_some())
            .ok_or_else(|| Code::TaskTargetNotInRoom.reject().field("targetParticipantIds"))?;
        if id != me.id && !targets.contains(&id) {
            targets.push(id);
        }
    }
    Ok(targets)
}

fn replay(ask: &Ask<'_>, fact: Fact) -> Result<Vec<u8>, Reject> {
    json(&Output {
        sequence: fact.sequence,
        expires_at: ask.state.expires_at.0,
        duplicate: Some(true),
    })
}
