//! What the three collaboration tools share (rooms 12; ours 12, 13).

use object::{BlobId, ParticipantId, Reject};
use schemars::JsonSchema;
use serde::Serialize;

use super::task_scope;
use crate::event::Event;
use crate::limits;
use crate::ops::{Ask, Step, Verdict, json};
use crate::reject::Code;
use crate::spec::{Field, Kind, Pattern, Text as Rule};
use crate::state::{Body, Collab, CollabKind, Fact, Participant, TaskRef};
use crate::task::{self, Answer};
use crate::text::Text;
use crate::timeline;
use crate::view;

/// The rule of request ids.
pub(crate) const REQUEST_ID: Pattern = Pattern {
    regex: "^[A-Za-z0-9][A-Za-z0-9._:-]{3,63}$",
    test: task_scope::well_formed,
    says: "Use 4 to 64 letters, digits or '._:-', starting with a letter or digit.",
};

/// Key-value notes of a request or result.
pub(crate) const DETAILS: Field = Field::optional(
    "details",
    Kind::Map {
        entries_max: limits::DETAILS_MAX,
        key: Rule { trim: false, min: 1, max: limits::DETAIL_KEY_UTF16_MAX, pattern: None },
        value: Rule { trim: false, min: 0, max: limits::DETAIL_VALUE_UTF16_MAX, pattern: None },
    },
    "Up to 16 short notes by key.",
);

/// Files a request or result refers to.
pub(crate) const ATTACHMENT_IDS: Field = Field::optional(
    "attachmentIds",
    Kind::List { item: &Kind::Uuid, items_max: limits::ATTACHMENT_REFS_MAX },
    "The attachment.id of up to 3 kept files, from send_attachment or an image event.",
);

/// The answer of all three.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Output<'a> {
    pub request_id: &'a str,
    /// Where the step stands in the room.
    pub sequence: u64,
    /// Unix milliseconds.
    pub expires_at: u64,
    /// This step was recorded before; nothing was sent again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
}

crate::view::opaque_debug!(Output);

/// The answer to a step that was recorded before, with its first sequence.
pub(crate) fn repeated(ask: &Ask<'_>, request_id: &str, sequence: u64) -> Verdict {
    Ok(Step::body(repeat_body(ask, request_id, sequence)?))
}

fn repeat_body(ask: &Ask<'_>, request_id: &str, sequence: u64) -> Result<Vec<u8>, Reject> {
    let expires_at = ask.state.expires_at.0;
    json(&Output { request_id, sequence, expires_at, duplicate: Some(true) })
}

/// A collaboration message to be sent.
pub(crate) struct Draft {
    pub kind: CollabKind,
    pub target: ParticipantId,
    pub summary: Option<Text>,
    pub details: Vec<(Text, Text)>,
    pub attachments: Vec<BlobId>,
    pub implied_acceptance: bool,
}

/// Records a step of the Task and answers with its sequence.
pub(crate) fn send(ask: &Ask<'_>, task: TaskRef, draft: Draft) -> Verdict {
    let sequence = ask.next_sequence();
    let request_id = task.request_id.clone();
    let body = Body::Collab(Collab {
        kind: draft.kind,
        target: draft.target,
        summary: draft.summary,
        details: draft.details,
        attachments: draft.attachments,
        implied_acceptance: draft.implied_acceptance,
    });
    let targets = vec![draft.target];
    let message = timeline::message(sequence, ask.now, ask.author()?, Some(task), targets, body);
    timeline::fits(&message)?;
    let output = Output {
        request_id: &request_id,
        sequence,
        expires_at: ask.state.expires_at.0,
        duplicate: None,
    };
    Ok(Step::reply(&output)?.event(Event::MessageSent(message)).fact(sequence, 0))
}

/// An answer of the request's target; `draft` gets the requester and the implied acceptance.
pub(crate) fn answer(ask: &Ask<'_>, request_id: &str, mut draft: Draft) -> Verdict {
    let me = ask.me()?;
    let known = ask
        .state
        .task(request_id)
        .ok_or_else(|| Code::UnknownRequest.reject().field("requestId"))?;
    if known.target.0 != me.id {
        return Err(Code::NotRequestTarget.reject());
    }
    match task::judge(known, draft.kind)? {
        Answer::Repeat { sequence } => repeated(ask, request_id, sequence),
        Answer::New { implied_acceptance } => {
            draft.attachments = references(ask, me, &draft.attachments, Some(known.sequence))?;
            draft.target = known.requester.0;
            draft.implied_acceptance = implied_acceptance;
            let task = TaskRef { sequence: known.sequence, request_id: known.request_id.clone() };
            send(ask, task, draft)
        }
    }
}

/// Checks references: kept, readable, and of the room or of this Task.
pub(crate) fn references(
    ask: &Ask<'_>,
    me: &Participant,
    ids: &[BlobId],
    task: Option<u64>,
) -> Result<Vec<BlobId>, Reject> {
    for id in ids {
        let file = ask.state.attachments.iter().find(|file| file.id == *id);
        let file = file
            .filter(|file| view::may_read(ask.state, me, file))
            .ok_or_else(|| Code::UnknownAttachment.reject().field("attachmentIds"))?;
        if let Some(owner) = &file.task
            && Some(owner.sequence) != task
        {
            return Err(Code::AttachmentTaskMismatch.reject().field("attachmentIds"));
        }
    }
    Ok(ids.to_vec())
}

/// A map argument as pairs, in the order of its keys.
pub(crate) fn pairs(map: Option<std::collections::BTreeMap<Text, Text>>) -> Vec<(Text, Text)> {
    map.unwrap_or_default().into_iter().collect()
}

/// Ids of the checked form.
pub(crate) fn blob_ids(ids: &[String]) -> Vec<BlobId> {
    ids.iter().filter_map(|id| BlobId::parse(id)).collect()
}

/// Rebuilds the answer to a remembered response or result.
pub(crate) fn replay_answer(ask: &Ask<'_>, fact: Fact) -> Result<Vec<u8>, Reject> {
    let id = ask.args.get("requestId").and_then(serde_json::Value::as_str);
    repeat_body(ask, id.unwrap_or_default(), fact.sequence)
}

/// Rebuilds the answer to a remembered request, whose id may be the server's own.
pub(crate) fn replay_request(ask: &Ask<'_>, fact: Fact) -> Result<Vec<u8>, Reject> {
    let given = ask.args.get("requestId").and_then(serde_json::Value::as_str);
    match given {
        Some(id) => repeat_body(ask, id, fact.sequence),
        None => repeat_body(ask, &BlobId(fact.id).to_string(), fact.sequence),
    }
}
