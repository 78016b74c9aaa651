//! `human_collab_response`: a human accepts or declines a request made to it (humans A3).

use object::{OpMeta, Reject};
use serde_json::Value;

use super::{answer, frame, internal, meta};
use crate::limits::SUMMARY_UTF16_MAX;
use crate::ops::{Ask, Op, Step, Verdict, json};
use crate::reject::Code;
use crate::spec::{self, Field, text};
use crate::state::{Body, Collab, CollabKind, Fact, Task, TaskRef};
use crate::task::{self, Answer};
use crate::text::{Text, trim, utf16_len};

pub static META: OpMeta = meta("human_collab_response");

/// The other arguments have codes of their own.
pub static INPUT: &[Field] =
    &[Field::required("requestId", text(1, 64), "The request that targeted this human.")];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, replay);

fn decide(ask: &Ask<'_>) -> Verdict {
    let counted = frame(ask)?;
    let kind = match ask.args.get("decision").and_then(Value::as_str) {
        Some("accepted") => CollabKind::Accepted,
        Some("declined") => CollabKind::Declined,
        _ => return Err(Code::InvalidCollabKind.reject().field("decision")),
    };
    let summary = trim(ask.args.get("summary").and_then(Value::as_str).unwrap_or_default());
    if utf16_len(summary) > SUMMARY_UTF16_MAX {
        let limit = SUMMARY_UTF16_MAX as u64;
        return Err(Code::SummaryTooLong.reject().field("summary").limit(limit));
    }
    let summary = (!summary.is_empty()).then(|| summary.into());
    Ok(settle(ask, kind, summary)?.signal(counted))
}

/// The Task of a request that targeted the caller.
pub(super) fn own<'a>(ask: &Ask<'a>) -> Result<&'a Task, Reject> {
    let id = ask.args.get("requestId").and_then(Value::as_str).unwrap_or_default();
    let unknown = || Code::UnknownRequest.reject().field("requestId");
    let task = ask.state.task(id).ok_or_else(unknown)?;
    if task.target.0 == ask.me()?.id { Ok(task) } else { Err(Code::NotRequestTarget.reject()) }
}

/// Records an answer of the caller, or repeats the one that was given.
pub(super) fn settle(ask: &Ask<'_>, kind: CollabKind, summary: Option<Text>) -> Verdict {
    let task = own(ask)?;
    let implied_acceptance = match task::judge(task, kind)? {
        Answer::Repeat { sequence } => {
            let sent = answer::sent(ask, sequence, Some(&task.request_id));
            return Step::reply(&answer::Sent { duplicate: true, ..sent });
        }
        Answer::New { implied_acceptance } => implied_acceptance,
    };
    let requester = task.requester.0;
    let reference = TaskRef { sequence: task.sequence, request_id: task.request_id.clone() };
    let collab = Collab {
        kind,
        target: requester,
        summary,
        details: Vec::new(),
        attachments: Vec::new(),
        implied_acceptance,
    };
    let body = Body::Collab(collab);
    answer::send(ask, Some(reference), vec![requester], body, Some(&task.request_id))
}

/// Rebuilds the answer of an answer that was recorded.
pub(super) fn replay(ask: &Ask<'_>, fact: Fact) -> Result<Vec<u8>, Reject> {
    let id = ask.args.get("requestId").and_then(Value::as_str);
    json(&answer::Sent { duplicate: true, ..answer::sent(ask, fact.sequence, id) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    fn respond(id: &str, decision: &str) -> Value {
        json!({"requestId": id, "decision": decision})
    }

    #[test]
    fn the_lifecycle_is_kept() {
        let mut scene = Scene::new();
        let (ana, ben, agent) = (scene.human("Ana"), scene.human("Ben"), scene.agent("a"));
        scene.task(agent, ana, "plan-0001");
        scene.task(agent, ana, "plan-0002");
        let rows = [
            (ana, respond("plan-0009", "accepted"), Err("unknown_request")),
            (ben, respond("plan-0001", "accepted"), Err("not_request_target")),
            (ana, respond("plan-0001", "completed"), Err("invalid_collab_kind")),
            (ana, json!({"decision": "accepted"}), Err("invalid_arguments")),
            (ana, respond("plan-0001", "accepted"), Ok((3, false))),
            (ana, respond("plan-0001", "accepted"), Ok((3, true))),
            (ana, respond("plan-0001", "declined"), Err("request_already_accepted")),
            (ana, respond("plan-0002", "declined"), Ok((4, false))),
            (ana, respond("plan-0002", "accepted"), Err("request_declined")),
        ];
        for (who, args, expected) in rows {
            let answer = scene.call(META.name, who, args.clone());
            let answer = answer.map(|a| (a["sequence"].as_u64().unwrap(), a["duplicate"] == true));
            assert_eq!(answer.map_err(|r| r.code), expected, "{args}");
        }
        let mut long = respond("plan-0001", "accepted");
        long["summary"] = json!("x".repeat(1_201));
        assert_eq!(scene.call(META.name, ana, long).unwrap_err().code, "summary_too_long");
    }
}
