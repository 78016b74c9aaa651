//! `human_collab_request`: a human starts a Task with a connected agent (humans A3).

use object::{BlobId, OpMeta, ParticipantId, Reject};
use serde_json::Value;

use super::{answer, frame, internal, meta, participant};
use crate::limits::{ATTACHMENT_REFS_MAX, SUMMARY_UTF16_MAX, TASKS_MAX};
use crate::ops::agent::task_scope;
use crate::ops::{Ask, Op, Verdict, json};
use crate::reject::Code;
use crate::spec::{self, Field, text};
use crate::state::{Body, Collab, CollabKind, Fact, TaskRef};
use crate::task;
use crate::text::{trim, utf16_len};

pub static META: OpMeta = meta("human_collab_request");

/// The other arguments have codes of their own.
pub static INPUT: &[Field] =
    &[Field::required("targetParticipantId", text(0, usize::MAX), "The agent.")];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, replay);

fn decide(ask: &Ask<'_>) -> Verdict {
    let counted = frame(ask)?;
    let argument = |name: &str| ask.args.get(name).and_then(Value::as_str);
    let target = target(ask, argument("targetParticipantId").unwrap_or_default())?;
    let summary = summary(ask)?;
    let id = request_id(ask)?;
    let attachments = attachments(ask)?;
    let task = TaskRef { sequence: ask.next_sequence(), request_id: id.as_str().into() };
    let collab = Collab {
        kind: CollabKind::Request,
        target,
        summary: Some(summary.into()),
        details: Vec::new(),
        attachments,
        implied_acceptance: false,
    };
    let step = answer::send(ask, Some(task), vec![target], Body::Collab(collab), Some(&id))?;
    Ok(step.signal(counted).drop_blobs(pushed_out(ask)))
}

/// Without an id of the caller's own there is none to rebuild the answer from.
fn replay(ask: &Ask<'_>, fact: Fact) -> Result<Vec<u8>, Reject> {
    let kept = ask.state.task_at(fact.sequence).map(|task| task.request_id.clone());
    let sent = ask.args.get("requestId").and_then(Value::as_str);
    let id = kept.as_deref().or(sent);
    json(&answer::Sent { duplicate: true, ..answer::sent(ask, fact.sequence, id) })
}

fn target(ask: &Ask<'_>, id: &str) -> Result<ParticipantId, Reject> {
    let bad = |code: Code| code.reject().field("targetParticipantId");
    let target = participant(ask, id).filter(|p| p.connected);
    let target = target.ok_or_else(|| bad(Code::TargetNotInRoom))?;
    if target.id == ask.me()?.id {
        return Err(bad(Code::SelfRequest));
    }
    if target.is_agent() { Ok(target.id) } else { Err(bad(Code::TargetNotAgent)) }
}

/// The trimmed summary, 1 to 1,200 UTF-16 units.
pub(super) fn summary<'a>(ask: &Ask<'a>) -> Result<&'a str, Reject> {
    let summary = trim(ask.args.get("summary").and_then(Value::as_str).unwrap_or_default());
    match utf16_len(summary) {
        0 => Err(Code::SummaryRequired.reject().field("summary")),
        units if units > SUMMARY_UTF16_MAX => {
            let limit = SUMMARY_UTF16_MAX as u64;
            Err(Code::SummaryTooLong.reject().field("summary").limit(limit))
        }
        _ => Ok(summary),
    }
}

fn request_id(ask: &Ask<'_>) -> Result<String, Reject> {
    let bad = |code: Code| code.reject().field("requestId");
    match ask.args.get("requestId") {
        None | Some(Value::Null) => Ok(ParticipantId::from_random(ask.random).to_string()),
        Some(Value::String(id)) if !task_scope::well_formed(id) => Err(bad(Code::InvalidRequestId)),
        Some(Value::String(id)) if ask.state.task(id).is_some() => {
            Err(bad(Code::TaskRequestIdInUse))
        }
        Some(Value::String(id)) => Ok(id.clone()),
        Some(_) => Err(bad(Code::InvalidRequestId)),
    }
}

fn attachments(ask: &Ask<'_>) -> Result<Vec<BlobId>, Reject> {
    let bad = |code: Code| code.reject().field("attachmentIds");
    let Some(named) = ask.args.get("attachmentIds").filter(|named| !named.is_null()) else {
        return Ok(Vec::new());
    };
    let named = named.as_array().ok_or_else(|| bad(Code::InvalidAttachmentRefs))?;
    if named.len() > ATTACHMENT_REFS_MAX {
        return Err(bad(Code::TooManyAttachmentRefs).limit(ATTACHMENT_REFS_MAX as u64));
    }
    let kept = |id: BlobId| ask.state.attachments.iter().any(|file| file.id == id);
    let one = |id: &Value| {
        let id = id.as_str().and_then(BlobId::parse);
        let id = id.ok_or_else(|| bad(Code::InvalidAttachmentRefs))?;
        if kept(id) { Ok(id) } else { Err(bad(Code::UnknownAttachment)) }
    };
    named.iter().map(one).collect()
}

/// The bundle of the app that goes with the Task that the next request pushes out.
fn pushed_out(ask: &Ask<'_>) -> Option<BlobId> {
    let full = ask.state.tasks.len() >= TASKS_MAX;
    let victim = task::victim(ask.state).filter(|_| full)?;
    ask.state.apps.iter().find(|app| app.task == victim).map(|app| app.bundle)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn every_refusal_of_the_section() {
        let mut scene = Scene::new();
        let (ana, ben, agent) = (scene.human("Ana"), scene.human("Ben"), scene.agent("a"));
        scene.task(ana, agent, "plan-0001");
        let with = |key: &str, value: Value| {
            let mut args = json!({"targetParticipantId": agent.to_string(), "summary": "Do"});
            args[key] = value;
            args
        };
        let unknown = ParticipantId(1).to_string();
        let rows = [
            (with("targetParticipantId", json!(unknown)), "target_not_in_room"),
            (with("targetParticipantId", json!(ana.to_string())), "self_request"),
            (with("targetParticipantId", json!(ben.to_string())), "target_not_agent"),
            (with("targetParticipantId", json!(1)), "invalid_arguments"),
            (with("summary", json!("  ")), "summary_required"),
            (with("summary", json!("x".repeat(1_201))), "summary_too_long"),
            (with("requestId", json!("abc")), "invalid_request_id"),
            (with("requestId", json!(4)), "invalid_request_id"),
            (with("requestId", json!("plan-0001")), "task_request_id_in_use"),
            (with("attachmentIds", json!("x")), "invalid_attachment_refs"),
            (with("attachmentIds", json!(["x"])), "invalid_attachment_refs"),
            (
                with("attachmentIds", json!([unknown, unknown, unknown, unknown])),
                "too_many_attachment_refs",
            ),
            (with("attachmentIds", json!([unknown])), "unknown_attachment"),
        ];
        for (args, code) in rows {
            assert_eq!(scene.call(META.name, ana, args.clone()).unwrap_err().code, code, "{args}");
        }
    }

    #[test]
    fn a_request_is_a_task_and_addresses_its_agent() {
        let mut scene = Scene::new();
        let (ana, agent) = (scene.human("Ana"), scene.agent("a"));
        let args = json!({"targetParticipantId": agent.to_string(), "summary": " Do "});
        let sent = scene.call(META.name, ana, args).unwrap();
        let id = sent["requestId"].as_str().unwrap().to_owned();
        assert_eq!(scene.state().task(&id).unwrap().primary(), Some(agent));
        let seen = scene.call("wait_for_events", agent, json!({})).unwrap();
        let event = &seen["events"][0];
        assert_eq!(event["collab"]["summary"], json!("Do"));
        assert_eq!((&event["addressed"], &event["sequence"]), (&json!(true), &sent["sequence"]));
    }

    #[test]
    fn a_repeat_names_the_first_request() {
        let mut scene = Scene::new();
        let (ana, agent) = (scene.human("Ana"), scene.agent("a"));
        let args = json!({"targetParticipantId": agent.to_string(), "summary": "Do",
            "clientRequestId": "once"});
        let mut first = scene.call(META.name, ana, args.clone()).unwrap();
        first["duplicate"] = json!(true);
        assert_eq!(scene.call(META.name, ana, args).unwrap(), first);
    }
}
