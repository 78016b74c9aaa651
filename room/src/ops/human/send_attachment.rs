//! `human_send_attachment`: a human uploads a file (humans A5).
//!
//! `taskWake` on a Task upload is the only thing that makes a file an addressed turn of the
//! Task's agents. Uploads ahead of their Task are sent to the room and referenced by its request.

use object::{BlobEncoding, BlobField, OpMeta, Reject};
use serde::Serialize;
use serde_json::Value;

use super::chat::find;
use super::{frame, internal, meta};
use crate::event::Event;
use crate::limits::{
    ATTACHMENT_BYTES_MAX, ATTACHMENT_CHUNK_BYTES, BASE64_DECODED_BYTES_MAX, FILE_NAME_UTF16_MAX,
};
use crate::ops::{Ask, Op, Step, Verdict, json};
use crate::reject::Code;
use crate::spec::{self, Field, Kind, text, trimmed};
use crate::state::{Attachment, Fact, TaskRef};
use crate::text::trim;
use crate::timeline;
use crate::view::Uuid;

pub static META: OpMeta = {
    let mut meta = meta("human_send_attachment");
    meta.blob = Some(BlobField {
        name: "dataBase64",
        encoding: BlobEncoding::Base64,
        bytes_max: BASE64_DECODED_BYTES_MAX,
    });
    meta
};

/// The accepted types.
const MIMES: [&str; 8] = [
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
    Field::optional("fileName", trimmed(0, FILE_NAME_UTF16_MAX), "Shown name; default image."),
    Field::required("mimeType", text(0, usize::MAX), "One of the accepted types."),
    Field::required("dataBase64", Kind::Base64, "The file."),
    Field::optional("taskRequestId", text(0, usize::MAX), "The Task it belongs to."),
    Field::optional("taskWake", Kind::Bool, "Whether it wakes the Task's agents."),
];

pub static OP: Op = internal(&META, check, decide, replay);

#[derive(Serialize)]
struct Output<'a> {
    attachment: FileOutput<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct FileOutput<'a> {
    id: Uuid,
    sender_id: Uuid,
    sender_name: &'a str,
    sender_kind: &'static str,
    mime_type: &'a str,
    file_name: &'a str,
    size: u64,
    chunk_count: u64,
    created_at: u64,
    sequence: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_request_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_wake: Option<bool>,
}

fn check(args: &Value, blob: Option<&[u8]>) -> Result<(), Reject> {
    spec::check(INPUT, args, blob)?;
    let mime = args.get("mimeType").and_then(Value::as_str).unwrap_or_default();
    if !MIMES.contains(&mime) {
        return Err(Code::UnsupportedAttachmentType.reject().field("mimeType"));
    }
    match blob.map_or(0, <[u8]>::len) {
        0 => Err(Code::InvalidAttachment.reject().field("dataBase64")),
        size if size > ATTACHMENT_BYTES_MAX => {
            let limit = ATTACHMENT_BYTES_MAX as u64;
            Err(Code::AttachmentTooLarge.reject().field("dataBase64").limit(limit))
        }
        _ => Ok(()),
    }
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let counted = frame(ask)?;
    let file = attachment(ask, ask.next_sequence())?;
    let (blob, sequence) = (file.id, file.sequence);
    let step = Step::body(output(&file)?).signal(counted).keep(blob).fact(sequence, blob.0);
    let step = step.drop_blobs(timeline::pushed_out(ask.state));
    Ok(step.event(Event::AttachmentSent(file)))
}

fn attachment(ask: &Ask<'_>, sequence: u64) -> Result<Attachment, Reject> {
    let argument = |name: &str| ask.args.get(name).and_then(Value::as_str);
    let task = argument("taskRequestId").map(|id| find(ask, id)).transpose()?;
    let task =
        task.map(|task| TaskRef { sequence: task.sequence, request_id: task.request_id.clone() });
    let wake = ask.args.get("taskWake").and_then(Value::as_bool).unwrap_or_default();
    let name = argument("fileName").map_or("", trim);
    let blob = ask.blob()?;
    Ok(Attachment {
        id: blob.id,
        sequence,
        at: ask.now,
        author: ask.author()?,
        mime: argument("mimeType").unwrap_or_default().into(),
        file_name: if name.is_empty() { "image" } else { name }.into(),
        size: blob.bytes.len() as u64,
        wake: wake && task.is_some(),
        task,
    })
}

/// The kept file, or one made of the same arguments if it has gone.
fn replay(ask: &Ask<'_>, fact: Fact) -> Result<Vec<u8>, Reject> {
    let kept = ask.state.attachments.iter().find(|file| file.id.0 == fact.id);
    if let Some(kept) = kept {
        return output(kept);
    }
    let again = attachment(ask, fact.sequence)?;
    output(&Attachment { id: object::BlobId(fact.id), ..again })
}

fn output(file: &Attachment) -> Result<Vec<u8>, Reject> {
    json(&Output {
        attachment: FileOutput {
            id: file.id.into(),
            sender_id: file.author.id.into(),
            sender_name: &file.author.name,
            sender_kind: "human",
            mime_type: &file.mime,
            file_name: &file.file_name,
            size: file.size,
            chunk_count: file.size.div_ceil(ATTACHMENT_CHUNK_BYTES as u64),
            created_at: file.at.0,
            sequence: file.sequence,
            task_request_id: file.task.as_ref().map(|task| task.request_id.as_str()),
            task_wake: file.task.as_ref().map(|_| file.wake),
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn every_refusal_of_the_section() {
        let mut scene = Scene::new();
        let ana = scene.human("Ana");
        let big = vec![0; ATTACHMENT_BYTES_MAX + 1];
        let mime = |mime: &str| json!({"mimeType": mime});
        let task = |id: &str| json!({"mimeType": "text/csv", "taskRequestId": id});
        let rows: [(Value, &[u8], &str); 7] = [
            (mime("image/gif"), b"x", "unsupported_attachment_type"),
            (mime("text/csv"), b"", "invalid_attachment"),
            (mime("text/csv"), &big, "attachment_too_large"),
            (task("?"), b"x", "invalid_task_request"),
            (task("plan-0001"), b"x", "unknown_task_request"),
            (json!({}), b"x", "invalid_arguments"),
            (
                json!({"mimeType": "text/csv", "fileName": "x".repeat(257)}),
                b"x",
                "invalid_arguments",
            ),
        ];
        for (args, bytes, code) in rows {
            let reject = scene.blob(META.name, ana, args.clone(), bytes).unwrap_err();
            assert_eq!(reject.code, code, "{args}");
        }
        let agent = scene.agent("a");
        let reject = scene.blob(META.name, agent, mime("text/csv"), b"x").unwrap_err();
        assert_eq!(reject.code, "human_only");
    }

    #[test]
    fn only_a_waking_task_upload_addresses_and_only_the_tasks_agents() {
        let mut scene = Scene::new();
        let ana = scene.human("Ana");
        let (agent, other) = (scene.agent("a"), scene.agent("b"));
        scene.task(ana, agent, "plan-0001");
        let upload = |task: bool, wake: Value| {
            let mut args = json!({"mimeType": "image/png", "taskWake": wake});
            if task {
                args["taskRequestId"] = json!("plan-0001");
            }
            args
        };
        let rows = [
            (upload(true, json!(true)), Some(true), None),
            (upload(true, json!(false)), Some(false), None),
            (upload(false, json!(true)), Some(false), Some(false)),
        ];
        for (args, for_agent, for_other) in rows {
            let sent = scene.blob(META.name, ana, args.clone(), b"png").unwrap();
            let sequence = sent["attachment"]["sequence"].as_u64().unwrap();
            for (reader, expected) in [(agent, for_agent), (other, for_other)] {
                let cursor = json!({"cursor": sequence - 1});
                let seen = scene.call("wait_for_events", reader, cursor).unwrap();
                let addressed = seen["events"].get(0).map(|e| e["addressed"].as_bool().unwrap());
                assert_eq!(addressed, expected, "{args}");
            }
        }
    }

    #[test]
    fn the_ninth_file_pushes_out_the_first_and_its_bytes() {
        let mut scene = Scene::new();
        let ana = scene.human("Ana");
        let args = json!({"mimeType": "text/plain", "fileName": " a.txt "});
        let first = scene.blob(META.name, ana, args.clone(), b"x").unwrap();
        let kept = scene.blobs().0;
        assert_eq!(first["attachment"]["fileName"], json!("a.txt"));
        assert_eq!(first["attachment"]["senderKind"], json!("human"));
        assert!(first["attachment"].get("taskWake").is_none());
        for _ in 0..8 {
            scene.blob(META.name, ana, args.clone(), b"x").unwrap();
        }
        assert_eq!(scene.blobs().1, kept);
    }
}
