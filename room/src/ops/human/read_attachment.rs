//! `human_read_attachment`: a human reads a kept file, a Task's or the room's (humans A5).

use object::{Attached, BlobId, OpMeta};
use serde::Serialize;
use serde_json::Value;

use super::{internal, reading};
use crate::ops::{Ask, Op, Step, Verdict, no_replay};
use crate::reject::Code;
use crate::spec::{self, Field, text};
use crate::view::FileView;

pub static META: OpMeta = reading("human_read_attachment");

pub static INPUT: &[Field] = &[Field::required("attachmentId", text(1, 64), "The file's id.")];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, no_replay);

#[derive(Serialize)]
struct Output<'a> {
    attachment: FileView<'a>,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let id = ask.args.get("attachmentId").and_then(Value::as_str).and_then(BlobId::parse);
    let file = ask.state.attachments.iter().find(|file| Some(file.id) == id);
    let file = file.ok_or_else(|| Code::AttachmentUnavailable.reject().field("attachmentId"))?;
    let attached = if file.mime.starts_with("image/") {
        Attached::Image { blob: file.id, mime: file.mime.as_str().to_owned() }
    } else {
        Attached::Text { blob: file.id }
    };
    Ok(Step::reply(&Output { attachment: FileView::of(file) })?.attach(attached))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn humans_read_whatever_is_kept() {
        let mut scene = Scene::new();
        let (ana, ben, agent) = (scene.human("Ana"), scene.human("Ben"), scene.agent("a"));
        scene.task(ana, agent, "plan-0001");
        for (mime, image) in [("image/webp", true), ("text/csv", false)] {
            let args = json!({"mimeType": mime, "taskRequestId": "plan-0001"});
            let sent = scene.blob("human_send_attachment", ana, args, b"12").unwrap();
            let id = sent["attachment"]["id"].clone();
            let read = scene.call(META.name, ben, json!({"attachmentId": id})).unwrap();
            assert_eq!(read["attachment"]["size"], json!(2));
            assert_eq!(matches!(scene.attached(), Some(Attached::Image { .. })), image);
        }
        for id in ["nonsense", "00000000-0000-0000-0000-000000000001"] {
            let reject = scene.call(META.name, ben, json!({"attachmentId": id})).unwrap_err();
            assert_eq!(reject.code, "attachment_unavailable");
        }
    }
}
