//! `send_collab_request`: starts a Task (rooms 6.9, 12; ours 12, 14).

use std::collections::BTreeMap;

use object::{
    Activation, Address, Audience, BlobId, Guard, Minted, OpMeta, ParticipantId, RequestId,
};
use serde::Deserialize;

use super::collab::{self, ATTACHMENT_IDS, DETAILS, Draft, Output, REQUEST_ID};
use crate::catalog::Annotations;
use crate::dedup::{CLIENT_REQUEST_ID, HANDLE};
use crate::limits;
use crate::ops::{Ask, Op, Step, ToolText, Verdict, output_schema, unknown_handle};
use crate::reject::Code;
use crate::spec::{self, Field};
use crate::state::{CollabKind, State, TaskRef};
use crate::task;
use crate::text::Text;

pub static META: OpMeta = OpMeta {
    name: "send_collab_request",
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
        "targetParticipantId",
        spec::text(1, limits::TARGET_UTF16_MAX),
        "Id (not name) of the connected participant that should do the work, from `participants`.",
    ),
    Field::required(
        "summary",
        spec::trimmed(1, limits::SUMMARY_UTF16_MAX),
        "What is asked for, complete enough to start.",
    ),
    Field::optional(
        "requestId",
        spec::matching(limits::REQUEST_ID_UTF16_MIN, limits::REQUEST_ID_UTF16_MAX, REQUEST_ID),
        "Your own id for the Task; left out, the server makes one. Repeating it is a duplicate.",
    ),
    DETAILS,
    ATTACHMENT_IDS,
    CLIENT_REQUEST_ID,
];

pub static TOOL: ToolText = ToolText {
    title: "Send a collaboration request",
    description: "Purpose: asks one connected participant to do something and opens a Task under the returned requestId. \
Use: when you want an answer you can correlate: it comes as collab events of wait_for_events with your requestId; for a plain message use send_text with targets instead. \
Side effects: adds one event that only you, the target and humans see, and renews your lease; the target decides by itself whether to act. \
Limits: summary 1,200 UTF-16 units, 16 details, 3 attachments; 128 Tasks are kept, the oldest settled one goes first. \
Errors: target_not_in_room, self_request, unknown_attachment, attachment_task_mismatch, request_id_conflict, client_request_id_conflict, outcome_unknown, invalid_participant_handle, agent_only, room_expired, rate_limited, invalid_arguments, room_unavailable.",
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
    check: |args, blob| spec::check(INPUT, args, blob),
    decide,
    gone: unknown_handle,
    replay: collab::replay_request,
    tool: Some(&TOOL),
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    target_participant_id: String,
    summary: Text,
    request_id: Option<Text>,
    /// At most `DETAILS_MAX`, by the schema.
    details: Option<BTreeMap<Text, Text>>,
    #[serde(default)]
    attachment_ids: Vec<String>,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let me = ask.me()?;
    if let Some(id) = &input.request_id
        && let Some(known) = ask.state.task(id)
    {
        return if known.requester.0 == me.id {
            collab::repeated(ask, id, known.sequence)
        } else {
            Err(Code::RequestIdConflict.reject().field("requestId"))
        };
    }
    let target = ParticipantId::parse(&input.target_participant_id)
        .and_then(|id| ask.state.participant(id))
        .filter(|target| target.connected)
        .ok_or_else(|| Code::TargetNotInRoom.reject().field("targetParticipantId"))?;
    if target.id == me.id {
        return Err(Code::SelfRequest.reject().field("targetParticipantId"));
    }
    let attachments = collab::blob_ids(&input.attachment_ids);
    let attachments = collab::references(ask, me, &attachments, None)?;
    let fresh = RequestId::from_random(ask.random);
    let (request_id, minted) = match input.request_id {
        Some(id) => (id, 0),
        None => (Text::from(fresh.to_string()), fresh.0),
    };
    let task = TaskRef { sequence: ask.next_sequence(), request_id };
    let draft = Draft {
        kind: CollabKind::Request,
        target: target.id,
        summary: Some(input.summary),
        details: collab::pairs(input.details),
        attachments,
        implied_acceptance: false,
    };
    let step = collab::send(ask, task, draft)?.drop_blobs(dropped_bundle(ask.state));
    let sequence = step.fact.sequence;
    Ok(Step::fact(step, sequence, minted))
}

/// The app bundle that goes with the Task record that the new one pushes out.
fn dropped_bundle(state: &State) -> Option<BlobId> {
    if state.tasks.len() < limits::TASKS_MAX {
        return None;
    }
    let victim = task::victim(state)?;
    state.apps.iter().find(|app| app.task == victim).map(|app| app.bundle)
}
