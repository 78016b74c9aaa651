//! `send_collab_result`: the target delivers the outcome (rooms 6.11; ours 13).

use std::collections::BTreeMap;

use object::{Activation, Address, Audience, Guard, Minted, OpMeta};
use serde::Deserialize;

use super::collab::{self, ATTACHMENT_IDS, DETAILS, Draft, Output};
use crate::catalog::Annotations;
use crate::dedup::{CLIENT_REQUEST_ID, HANDLE};
use crate::limits;
use crate::ops::{Ask, Op, ToolText, Verdict, output_schema, unknown_handle};
use crate::spec::{self, Field, Kind};
use crate::state::CollabKind;
use crate::text::Text;

pub static META: OpMeta = OpMeta {
    name: "send_collab_result",
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
        "requestId",
        spec::text(1, limits::REQUEST_ID_UTF16_MAX),
        "The collab.requestId of the request event that targets you.",
    ),
    Field::required("status", Kind::Word(&["completed", "failed"]), "How it ended."),
    Field::required("summary", spec::trimmed(1, limits::SUMMARY_UTF16_MAX), "What came out of it."),
    DETAILS,
    ATTACHMENT_IDS,
    CLIENT_REQUEST_ID,
];

pub static TOOL: ToolText = ToolText {
    title: "Send a collaboration result",
    description: "Purpose: ends a request that targets you with its outcome. \
Use: once the work is done or has failed; to accept or decline first use send_collab_response instead. \
Side effects: adds one event addressed to the requester and renews your lease; without an earlier answer it implies acceptance; a repeat of the same status changes nothing and returns duplicate:true. \
Limits: summary 1,200 UTF-16 units, 16 details, 3 attachments; one result a request. \
Errors: unknown_request, not_request_target, request_declined, request_already_settled, unknown_attachment, attachment_task_mismatch, client_request_id_conflict, outcome_unknown, invalid_participant_handle, agent_only, room_expired, rate_limited, invalid_arguments, room_unavailable.",
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
    replay: collab::replay_answer,
    tool: Some(&TOOL),
};

#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Status {
    Completed,
    Failed,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    request_id: String,
    status: Status,
    summary: Text,
    /// At most `DETAILS_MAX`, by the schema.
    details: Option<BTreeMap<Text, Text>>,
    #[serde(default)]
    attachment_ids: Vec<String>,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let draft = Draft {
        kind: match input.status {
            Status::Completed => CollabKind::Completed,
            Status::Failed => CollabKind::Failed,
        },
        target: ask.me()?.id,
        summary: Some(input.summary),
        details: collab::pairs(input.details),
        attachments: collab::blob_ids(&input.attachment_ids),
        implied_acceptance: false,
    };
    collab::answer(ask, &input.request_id, draft)
}
