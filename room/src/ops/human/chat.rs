//! `human_chat`: a human writes to the room or into a Task (humans A3, A4).
//!
//! Text is trimmed, cut at 4,000 UTF-16 units, and ignored if empty. Ordinary targets are hints.
//! In a Task they are strict and may only name agents; without any, the Task's primary agent is
//! addressed if it is connected, and nobody in its place if it is not.

use object::{OpMeta, ParticipantId, Reject};
use serde_json::Value;

use super::answer::{self, Sent};
use super::{frame, internal, meta, participant};
use crate::limits::{TARGETS_MAX, TEXT_UTF16_MAX};
use crate::ops::agent::task_scope;
use crate::ops::{Ask, Op, Step, Verdict};
use crate::reject::Code;
use crate::spec::{self, Field, text};
use crate::state::{Body, Participant, Task, TaskRef};
use crate::text::trim;

pub static META: OpMeta = meta("human_chat");

/// `targets` is read as it comes: its faults have their own codes.
pub static INPUT: &[Field] = &[
    Field::required("text", text(0, usize::MAX), "The message."),
    Field::optional("taskRequestId", text(0, usize::MAX), "The Task it belongs to."),
];

pub static OP: Op =
    internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, answer::replay);

fn decide(ask: &Ask<'_>) -> Verdict {
    let counted = frame(ask)?;
    let argument = |name: &str| ask.args.get(name).and_then(Value::as_str);
    let text = cut(trim(argument("text").unwrap_or_default()));
    if text.is_empty() {
        let nothing = Sent { sequence: None, ..answer::sent(ask, 0, None) };
        return Ok(Step::reply(&nothing)?.signal(counted));
    }
    let (task, targets) = match argument("taskRequestId") {
        Some(id) => {
            let task = find(ask, id)?;
            let request_id = task.request_id.clone();
            let targets = strict(ask, task)?;
            (Some(TaskRef { sequence: task.sequence, request_id }), targets)
        }
        None => (None, lenient(ask)?),
    };
    let step = answer::send(ask, task, targets, Body::Text(text.into()), None)?;
    Ok(step.signal(counted))
}

/// The first 4,000 UTF-16 units; a pair that straddles the end is left out.
fn cut(text: &str) -> &str {
    let mut units = 0;
    for (at, c) in text.char_indices() {
        units += c.len_utf16();
        if units > TEXT_UTF16_MAX {
            return text.get(..at).unwrap_or(text);
        }
    }
    text
}

/// The kept Task an argument names.
pub(super) fn find<'a>(ask: &Ask<'a>, id: &str) -> Result<&'a Task, Reject> {
    if !task_scope::well_formed(id) {
        return Err(Code::InvalidTaskRequest.reject().field("taskRequestId"));
    }
    let unknown = || Code::UnknownTaskRequest.reject().field("taskRequestId");
    ask.state.task(id).ok_or_else(unknown)
}

fn lenient(ask: &Ask<'_>) -> Result<Vec<ParticipantId>, Reject> {
    let me = ask.me()?.id;
    let mut targets = Vec::new();
    let named = ask.args.get("targets").and_then(Value::as_array);
    for id in named.into_iter().flatten().filter_map(Value::as_str) {
        if let Some(target) = participant(ask, id)
            && target.id != me
            && targets.len() < TARGETS_MAX
            && !targets.contains(&target.id)
        {
            targets.push(target.id);
        }
    }
    Ok(targets)
}

fn strict(ask: &Ask<'_>, task: &Task) -> Result<Vec<ParticipantId>, Reject> {
    let Some(named) = ask.args.get("targets").filter(|targets| !targets.is_null()) else {
        let primary = task.primary().and_then(|id| ask.state.participant(id));
        return Ok(primary
            .filter(|agent| agent.connected)
            .map(|agent| agent.id)
            .into_iter()
            .collect());
    };
    let bad = |code: Code| code.reject().field("targets");
    let named = named.as_array().ok_or_else(|| bad(Code::InvalidTaskTargets))?;
    if named.len() > TARGETS_MAX {
        return Err(bad(Code::TooManyTaskTargets).limit(TARGETS_MAX as u64));
    }
    let mut targets = Vec::new();
    for id in named {
        let id = id.as_str().ok_or_else(|| bad(Code::InvalidTaskTargets))?;
        let target = participant(ask, id).filter(|p| p.connected);
        let target = target.ok_or_else(|| bad(Code::TaskTargetNotInRoom))?;
        if !Participant::is_agent(target) {
            return Err(bad(Code::TaskTargetNotAgent));
        }
        if !targets.contains(&target.id) {
            targets.push(target.id);
        }
    }
    Ok(targets)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    fn targets(scene: &Scene) -> Vec<ParticipantId> {
        scene.state().messages.back().map(|m| m.targets.clone()).unwrap_or_default()
    }

    #[test]
    fn ordinary_targets_are_hints() {
        let mut scene = Scene::new();
        let (ana, ben) = (scene.human("Ana"), scene.human("Ben"));
        let agents: Vec<ParticipantId> = (0..9).map(|n| scene.agent(&format!("a{n}"))).collect();
        let ids = |of: &[ParticipantId]| of.iter().map(ToString::to_string).collect::<Vec<_>>();
        let rows = [
            (json!(null), vec![]),
            (json!("nonsense"), vec![]),
            (json!(["nobody", 3]), vec![]),
            (json!([ana.to_string()]), vec![]),
            (json!(ids(&[ben, agents[0], ben])), vec![ben, agents[0]]),
            (json!(ids(&agents)), agents[..8].to_vec()),
        ];
        for (named, expected) in rows {
            scene.call(META.name, ana, json!({"text": "hi", "targets": named})).unwrap();
            assert_eq!(targets(&scene), expected, "{named}");
        }
    }

    #[test]
    fn task_targets_are_strict_and_admit_agents() {
        let mut scene = Scene::new();
        let (ana, ben) = (scene.human("Ana"), scene.human("Ben"));
        let (primary, second) = (scene.agent("a"), scene.agent("b"));
        scene.task(ana, primary, "plan-0001");
        let chat = |targets: Value, task: &str| json!({"text": "hi", "targets": targets, "taskRequestId": task});
        let nine: Vec<String> = (0..9).map(|_| second.to_string()).collect();
        let rows = [
            (chat(json!(null), "?"), "invalid_task_request"),
            (chat(json!(null), "plan-0002"), "unknown_task_request"),
            (chat(json!("x"), "plan-0001"), "invalid_task_targets"),
            (chat(json!([1]), "plan-0001"), "invalid_task_targets"),
            (chat(json!(nine), "plan-0001"), "too_many_task_targets"),
            (chat(json!(["nobody"]), "plan-0001"), "task_target_not_in_room"),
            (chat(json!([ben.to_string()]), "plan-0001"), "task_target_not_agent"),
            (json!({"targets": []}), "invalid_arguments"),
        ];
        for (args, code) in rows {
            assert_eq!(scene.call(META.name, ana, args.clone()).unwrap_err().code, code, "{args}");
        }
        scene.call(META.name, ben, chat(json!(null), "plan-0001")).unwrap();
        assert_eq!(targets(&scene), [primary]);
        scene.call(META.name, ben, chat(json!([]), "plan-0001")).unwrap();
        assert_eq!(targets(&scene), []);
        scene.call(META.name, ana, chat(json!([second.to_string()]), "plan-0001")).unwrap();
        let from = scene.state().sequence;
        let task = scene.state().task("plan-0001").unwrap();
        assert_eq!(task.takes_part_from(second), Some(from));
        // Nobody stands in for a primary agent that is gone.
        scene.call("leave_room", primary, json!({})).unwrap();
        scene.call(META.name, ana, chat(json!(null), "plan-0001")).unwrap();
        assert_eq!(targets(&scene), []);
    }

    #[test]
    fn text_is_trimmed_cut_and_never_empty() {
        let mut scene = Scene::new();
        let ana = scene.human("Ana");
        let ignored = scene.call(META.name, ana, json!({"text": " \n "})).unwrap();
        assert!(ignored.get("sequence").is_none());
        assert_eq!(scene.state().sequence, 0);
        let long = format!("  {}😀 ", "x".repeat(3_999));
        let sent = scene.call(META.name, ana, json!({"text": long})).unwrap();
        assert_eq!(sent["sequence"], json!(1));
        let kept = scene.state().messages.back().unwrap();
        assert!(matches!(&kept.body, Body::Text(text) if text.len() == 3_999));
    }

    #[test]
    fn three_hundred_frames_in_ten_seconds() {
        let mut scene = Scene::new();
        let (ana, ben) = (scene.human("Ana"), scene.human("Ben"));
        for _ in 0..300 {
            scene.call(META.name, ana, json!({"text": ""})).unwrap();
        }
        scene.pass(4_000);
        let reject = scene.call(META.name, ana, json!({"text": "hi"})).unwrap_err();
        assert_eq!((reject.code, reject.retry_after_ms), ("message_rate_limited", Some(6_000)));
        scene.call(META.name, ben, json!({"text": "hi"})).unwrap();
        scene.pass(6_000);
        scene.call(META.name, ana, json!({"text": "hi"})).unwrap();
    }
}
