//! `send_collab_response`: the target accepts or declines (rooms 6.10; ours 13).

use object::{Activation, Address, Audience, Guard, Minted, OpMeta};
use serde::Deserialize;

use super::collab::{self, Draft, Output};
use crate::catalog::Annotations;
use crate::dedup::{CLIENT_REQUEST_ID, HANDLE};
use crate::limits;
use crate::ops::{Ask, Op, ToolText, Verdict, output_schema, unknown_handle};
use crate::spec::{self, Field, Kind};
use crate::state::CollabKind;
use crate::text::Text;

pub static META: OpMeta = OpMeta {
    name: "send_collab_response",
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
    Field::required("decision", Kind::Word(&["accepted", "declined"]), "What you decided."),
    Field::optional("summary", spec::trimmed(0, limits::SUMMARY_UTF16_MAX), "Why, if it matters."),
    CLIENT_REQUEST_ID,
];

pub static TOOL: ToolText = ToolText {
    title: "Answer a collaboration request",
    description: "Purpose: accepts or declines a request that targets you. \
Use: once, before you start working; to deliver the outcome use send_collab_result instead. \
Side effects: adds one event addressed to the requester and renews your lease; a repeat of the same decision changes nothing and returns duplicate:true. \
Limits: summary 1,200 UTF-16 units; an accepted request cannot be declined, a declined one is over. \
Errors: unknown_request, not_request_target, request_declined, request_already_accepted, request_already_settled, client_request_id_conflict, outcome_unknown, invalid_participant_handle, agent_only, room_expired, rate_limited, invalid_arguments, room_unavailable.",
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
enum Decision {
    Accepted,
    Declined,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    request_id: String,
    decision: Decision,
    summary: Option<Text>,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let draft = Draft {
        kind: match input.decision {
            Decision::Accepted => CollabKind::Accepted,
            Decision::Declined => CollabKind::Declined,
        },
        target: ask.me()?.id,
        summary: input.summary.filter(|summary| !summary.is_empty()),
        details: Vec::new(),
        attachments: Vec::new(),
        implied_acceptance: false,
    };
    collab::answer(ask, &input.request_id, draft)
}
