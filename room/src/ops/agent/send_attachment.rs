//! `send_attachment`: one file for the room or a Task (rooms 6.12, 13.4).

use object::{
    Activation, Address, Audience, BlobEncoding, BlobField, BlobId, Guard, Minted, OpMeta, Reject,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::task_scope;
use crate::catalog::Annotations;
use crate::dedup::{CLIENT_REQUEST_ID, HANDLE};
use crate::event::Event;
use crate::limits;
use crate::ops::{Ask, Op, Step, ToolText, Verdict, json, output_schema, unknown_handle};
use crate::reject::Code;
use crate::spec::{self, Field, Kind};
use crate::state::{Attachment, Fact, Kind as Who};
use crate::text::Text;
use crate::timeline;
use crate::view::Uuid;

pub static META: OpMeta = OpMeta {
    name: "send_attachment",
    address: Address::Handle,
    activation: Activation::MustExist,
    audience: Audience::Agent,
    read_only: false,
    minted: Minted::Nothing,
    guard: Guard::Call(8),
    wait: false,
    park_ms: 0,
    client_request_id: true,
    blob: Some(BlobField {
        name: "dataBase64",
        encoding: BlobEncoding::Base64,
        bytes_max: limits::BASE64_DECODED_BYTES_MAX,
    }),
};

/// The accepted types; the declared one is trusted.
pub(crate) const MIME_TYPES: &[&str] = &[
    "image/jpeg",
    "image/png",
    "image/webp",
    "text/plain",
    "text/markdown",
    "text/csv",
    "application/json",
    "text/yaml",
];

pub static INPUT: &[Field] = &[
    HANDLE,
    Field::required(
        "fileName",
        spec::trimmed(1, limits::FILE_NAME_UTF16_MAX),
        "The name others see.",
    ),
    Field::required("mimeType", Kind::Word(MIME_TYPES), "What the bytes are."),
    Field::required("dataBase64", Kind::Base64, "The file, at most 786,432 bytes before base64."),
    task_scope::FIELD,
    CLIENT_REQUEST_ID,
];

pub static TOOL: ToolText = ToolText {
    title: "Send an attachment",
    description: "Purpose: uploads one file for the room, or for a Task with taskRequestId. \
Use: for images and text files; for words use send_text, for a picture of your workspace use publish_surface instead. \
Side effects: adds one event of type image (whatever the file is), renews your lease, and pushes out the oldest of 8 files with its bytes. \
Limits: 786,432 bytes; JPEG, PNG, WebP, plain text, Markdown, CSV, JSON or YAML. \
Errors: invalid_attachment, attachment_too_large, unknown_task_request, invalid_task_request, task_attachment_not_participant, client_request_id_conflict, outcome_unknown, invalid_participant_handle, agent_only, room_expired, rate_limited, invalid_arguments, room_unavailable.",
    annotations: Annotations {
        read_only: false,
        destructive: false,
        idempotent: false,
        open_world: true,
    },
    input: INPUT,
    output: output_schema::<Output<'static>>,
};

pub static OP: Op =
    Op { meta: &META, check, decide, gone: unknown_handle, replay, tool: Some(&TOOL) };

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    file_name: Text,
    mime_type: Text,
    task_request_id: Option<String>,
}

/// The answer.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Output<'a> {
    pub attachment: Stored<'a>,
    /// This repeats an earlier call; nothing was uploaded again.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duplicate: Option<bool>,
}

/// A kept file. A repeat whose file is no longer kept has only `id` and `sequence`.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Stored<'a> {
    pub id: Uuid,
    pub sequence: u64,
    #[serde(flatten, skip_serializing_if = "Option::is_none")]
    pub details: Option<Details<'a>>,
}

/// What is known of a file while it is kept.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Details<'a> {
    pub sender_id: Uuid,
    pub sender_name: &'a str,
    pub sender_kind: Who,
    pub mime_type: &'a str,
    pub file_name: &'a str,
    /// Bytes.
    pub size: u64,
    pub chunk_count: u64,
    /// Unix milliseconds.
    pub created_at: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub task_wake: Option<bool>,
}

crate::view::opaque_debug!(Details);

impl<'a> Stored<'a> {
    pub(crate) fn of(file: &'a Attachment) -> Self {
        let task = file.task.as_ref();
        Self {
            id: file.id.into(),
            sequence: file.sequence,
            details: Some(Details {
                sender_id: file.author.id.into(),
                sender_name: &file.author.name,
                sender_kind: file.author.kind,
                mime_type: &file.mime,
                file_name: &file.file_name,
                size: file.size,
                chunk_count: file.size.div_ceil(limits::ATTACHMENT_CHUNK_BYTES as u64),
                created_at: file.at.0,
                task_request_id: task.map(|task| task.request_id.as_str()),
                task_wake: task.map(|_| file.wake),
            }),
        }
    }
}

fn check(args: &Value, blob: Option<&[u8]>) -> Result<(), Reject> {
    spec::check(INPUT, args, blob)?;
    fits(blob.unwrap_or_default())
}

/// The size rules of a file.
pub(crate) fn fits(bytes: &[u8]) -> Result<(), Reject> {
    if bytes.is_empty() {
        return Err(Code::InvalidAttachment.reject().field("dataBase64"));
    }
    if bytes.len() > limits::ATTACHMENT_BYTES_MAX {
        let limit = limits::ATTACHMENT_BYTES_MAX as u64;
        return Err(Code::AttachmentTooLarge.reject().field("dataBase64").limit(limit));
    }
    Ok(())
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let blob = ask.blob()?;
    let me = ask.me()?;
    let task = match &input.task_request_id {
        Some(id) => {
            Some(task_scope::resolve(ask.state, me, id, Code::TaskAttachmentNotParticipant)?)
        }
        None => None,
    };
    let file = Attachment {
        id: blob.id,
        sequence: ask.next_sequence(),
        at: ask.now,
        author: ask.author()?,
        mime: input.mime_type,
        file_name: input.file_name,
        size: blob.bytes.len() as u64,
        task,
        wake: false,
    };
    let output = Output { attachment: Stored::of(&file), duplicate: None };
    let step = Step::reply(&output)?
        .keep(blob.id)
        .drop_blobs(timeline::pushed_out(ask.state))
        .fact(file.sequence, blob.id.0);
    Ok(step.event(Event::AttachmentSent(file)))
}

fn replay(ask: &Ask<'_>, fact: Fact) -> Result<Vec<u8>, Reject> {
    let kept = ask.state.attachments.iter().find(|file| file.id == BlobId(fact.id));
    let attachment = match kept {
        Some(file) => Stored::of(file),
        None => Stored { id: Uuid(fact.id), sequence: fact.sequence, details: None },
    };
    json(&Output { attachment, duplicate: Some(true) })
}
