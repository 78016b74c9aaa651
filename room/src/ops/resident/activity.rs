//! `resident_activity`: an agent says what it is doing in the room or in a Task (humans A2, A4).
//! Transient: browsers are told, nothing is stored; at most 64 are kept, the oldest goes first.

use object::{Effect, OpMeta, Reject};
use serde_json::{Value, json};

use super::volatile;
use crate::limits::SAFE_INTEGER_MAX;
use crate::live::{Activity, Line, Signal};
use crate::notice;
use crate::ops::agent::task_scope;
use crate::ops::human::{DONE, internal};
use crate::ops::{Ask, Op, Step, Verdict, no_replay};
use crate::reject::Code;
use crate::spec::{self, Field, int, text};

pub static META: OpMeta = volatile("resident_activity");

/// What an agent may say; without a state the activity is over.
const STATES: [&str; 3] = ["working", "waiting_approval", "queued"];

pub static INPUT: &[Field] = &[
    Field::required("scopeId", text(1, 69), "`room`, or `task:` and the Task's id."),
    Field::optional("state", text(1, 32), "working, waiting_approval or queued."),
    Field::optional("turnSequence", int(0, SAFE_INTEGER_MAX, 0), "Which turn."),
];

pub static OP: Op = internal(&META, check, decide, no_replay);

fn check(args: &Value, blob: Option<&[u8]>) -> Result<(), Reject> {
    spec::check(INPUT, args, blob)?;
    let state = args.get("state").and_then(Value::as_str);
    if state.is_some_and(|state| !STATES.contains(&state)) {
        return Err(Code::InvalidMessage.reject().field("state"));
    }
    Ok(())
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let argument = |name: &str| ask.args.get(name).and_then(Value::as_str);
    let (me, scope) = (ask.me()?, argument("scopeId").unwrap_or_default());
    match scope.strip_prefix("task:") {
        Some(id) => {
            task_scope::resolve(ask.state, me, id, Code::TaskTargetMismatch)?;
        }
        None if scope == "room" => {}
        None => return Err(Code::InvalidMessage.reject().field("scopeId")),
    }
    let (signal, frame) = match argument("state") {
        Some(state) => {
            let activity = Activity {
                agent: me.id,
                scope_id: scope.into(),
                state: state.into(),
                turn: ask.args.get("turnSequence").and_then(Value::as_u64).unwrap_or_default(),
            };
            let frame =
                json!({"type": "agentActivity", "activity": notice::activity_json(&activity)});
            (Signal::ActivitySet(activity), frame)
        }
        None => {
            let frame = json!({"type": "agentActivity", "activity": null,
                "agentParticipantId": me.id.to_string(), "scopeId": scope});
            (Signal::ActivityCleared { agent: me.id, scope_id: Some(scope.into()) }, frame)
        }
    };
    let mut step = Step::reply(&DONE)?.signal(signal);
    for line in ask.state.live.connections.iter().filter(|line| line.line == Line::Human) {
        let frame = frame.to_string().into_bytes();
        step = step.effect(Effect::Notify { connection: line.connection, frame });
    }
    Ok(step)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn browsers_are_told_and_nothing_is_stored() {
        let mut scene = Scene::new();
        let (ana, agent, other) = (scene.human("Ana"), scene.agent("a"), scene.agent("b"));
        scene.task(ana, agent, "plan-0001");
        scene.frames.clear();
        let line = scene.line_of(ana);
        let args = |scope: &str, state: Value| {
            let mut args = json!({"scopeId": scope, "turnSequence": 3});
            if !state.is_null() {
                args["state"] = state;
            }
            args
        };
        scene.call(META.name, agent, args("task:plan-0001", json!("working"))).unwrap();
        let id = agent.to_string();
        let told = json!({"type": "agentActivity", "activity": {"agentParticipantId": id,
            "scopeId": "task:plan-0001", "state": "working", "turnSequence": 3}});
        assert_eq!(scene.frames, [(line, told)]);
        assert!(scene.last().events.is_empty());
        scene.call(META.name, agent, args("task:plan-0001", Value::Null)).unwrap();
        assert!(scene.state().live.activities.is_empty());
        let rows = [
            (agent, args("room", json!("dancing")), "invalid_message"),
            (agent, args("lobby", json!("working")), "invalid_message"),
            (agent, args("task:plan-0002", json!("working")), "unknown_task_request"),
            (agent, args("task:?", json!("working")), "invalid_task_request"),
            (other, args("task:plan-0001", json!("working")), "task_target_mismatch"),
            (ana, args("room", json!("working")), "agent_only"),
        ];
        for (who, args, code) in rows {
            assert_eq!(scene.call(META.name, who, args.clone()).unwrap_err().code, code, "{args}");
        }
    }

    #[test]
    fn sixty_four_are_kept() {
        let mut scene = Scene::new();
        let (from, to) = (scene.agent("a"), scene.agent("b"));
        for n in 0..65 {
            let task = scene.task(from, to, &format!("plan-{n:04}"));
            let args = json!({"scopeId": format!("task:{task}"), "state": "queued"});
            scene.call(META.name, to, args).unwrap();
        }
        let kept = &scene.state().live.activities;
        assert_eq!(kept.len(), 64);
        assert_eq!(kept[0].scope_id.as_str(), "task:plan-0001");
    }
}
