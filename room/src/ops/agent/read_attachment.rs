//! `read_attachment`: the bytes of a kept file (rooms 6.13; ours 2).

use object::{Activation, Address, Attached, Audience, BlobId, Guard, Minted, OpMeta};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::catalog::Annotations;
use crate::dedup::HANDLE;
use crate::ops::{Ask, Op, Step, ToolText, Verdict, no_replay, output_schema, unknown_handle};
use crate::reject::Code;
use crate::spec::{self, Field, Kind};
use crate::view::{self, FileView};

pub static META: OpMeta = OpMeta {
    name: "read_attachment",
    address: Address::Handle,
    activation: Activation::MustExist,
    audience: Audience::Agent,
    read_only: true,
    minted: Minted::Nothing,
    guard: Guard::Call(8),
    wait: false,
    park_ms: 0,
    client_request_id: false,
    blob: None,
};

pub static INPUT: &[Field] = &[
    HANDLE,
    Field::required(
        "attachmentId",
        Kind::Uuid,
        "The attachment.id of an image event or of send_attachment's answer.",
    ),
];

pub static TOOL: ToolText = ToolText {
    title: "Read an attachment",
    description: "Purpose: returns a kept file: images as an image block, text as UTF-8 text. \
Use: for files of events; for a participant's workspace snapshot use read_surface instead. \
Side effects: renews your lease; stores nothing else. \
Limits: the 8 newest files of a room are kept; Task files only for those who take part in the Task. \
Errors: attachment_unavailable, invalid_participant_handle, agent_only, room_expired, rate_limited, invalid_arguments, room_unavailable.",
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
    gone: unknown_handle,
    replay: no_replay,
    tool: Some(&TOOL),
};

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Input {
    attachment_id: String,
}

/// The answer; the edge adds the image block, or `text`, from the attached blob.
#[derive(Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Output<'a> {
    pub attachment: FileView<'a>,
    /// Text files: their content as UTF-8, undecodable bytes replaced.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

crate::view::opaque_debug!(Output);

fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let me = ask.me()?;
    let id = BlobId::parse(&input.attachment_id);
    // Unknown, pushed out and somebody else's Task look alike on purpose.
    let file = ask
        .state
        .attachments
        .iter()
        .find(|file| Some(file.id) == id)
        .filter(|file| view::may_read(ask.state, me, file))
        .ok_or_else(|| Code::AttachmentUnavailable.reject())?;
    let attached = if file.mime.starts_with("image/") {
        Attached::Image { blob: file.id, mime: file.mime.as_str().to_owned() }
    } else {
        Attached::Text { blob: file.id }
    };
    let output = Output { attachment: FileView::of(file), text: None };
    Ok(Step::reply(&output)?.attach(attached).renewing())
}
