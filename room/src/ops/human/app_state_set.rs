//! `app_state_set`: a human's browser replaces a Generated App's shared state by compare-and-swap
//! (rooms 15.2, humans A10).
//!
//! Everybody's browser gets `generated-app-state`; on a conflict the sender alone gets
//! `generated-app-state-conflict` with what is current. Agents hear nothing.

use object::{Decision, Effect, OpMeta, Reject};
use serde::Serialize;
use serde_json::Value;

use super::{frame, internal, meta};
use crate::app::{self, StateError};
use crate::budget::{Purpose, Use};
use crate::event::Event;
use crate::limits::SAFE_INTEGER_MAX;
use crate::live::{Line, Signal};
use crate::live_view::RawJson;
use crate::ops::{Ask, Op, Step, Verdict, json as bytes};
use crate::reject::Code;
use crate::spec::{self, Field, text};
use crate::state::{App, Fact};
use crate::text::Text;

pub static META: OpMeta = meta("app_state_set");

/// `expectedRevision` and `state` have codes of their own.
pub static INPUT: &[Field] = &[Field::required("appInstanceId", text(1, 96), "The app.")];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, replay);

#[derive(Serialize)]
struct Output {
    /// The state's revision after this write.
    revision: u64,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Frame<'a> {
    r#type: &'static str,
    app_instance_id: &'a str,
    revision: u64,
    generated_state: RawJson<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    source_participant_id: Option<String>,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let counted = frame(ask)?;
    let instance = ask.args.get("appInstanceId").and_then(Value::as_str).unwrap_or_default();
    let missing = || Code::GeneratedAppNotFound.reject().field("appInstanceId");
    let app = app::find(&ask.state.apps, instance).ok_or_else(missing)?;
    let expected = revision(ask.args.get("expectedRevision"))?;
    let state = ask.args.get("state").unwrap_or(&Value::Null);
    let text = match app::admit_state(&ask.state.apps, instance, expected, state) {
        Ok(text) => text,
        Err(StateError::NotFound) => return Err(missing()),
        Err(StateError::Invalid) => {
            return Err(Code::GeneratedAppStateInvalid.reject().field("state"));
        }
        Err(StateError::Conflict { .. }) => return conflict(ask, app, instance, counted),
    };
    let spent = spend(ask, app, &text)?;
    let revision = app.state_revision + 1;
    let frame = Frame {
        r#type: "generated-app-state",
        app_instance_id: instance,
        revision,
        generated_state: RawJson(&text),
        source_participant_id: Some(ask.me()?.id.to_string()),
    };
    let mut step = Step::reply(&Output { revision })?.signal(counted).signal(spent);
    step = broadcast(ask, step, &bytes(&frame)?).fact(revision, app.instance);
    let instance = app.instance;
    Ok(step.event(Event::AppStateSet { instance, state: text, revision, at: ask.now }))
}

fn revision(expected: Option<&Value>) -> Result<u64, Reject> {
    let whole = expected.and_then(Value::as_u64).filter(|revision| *revision <= SAFE_INTEGER_MAX);
    whole.ok_or_else(|| Code::InvalidRevision.reject().field("expectedRevision"))
}

/// Counts a write that would otherwise be made.
fn spend(ask: &Ask<'_>, app: &App, state: &Text) -> Result<Signal, Reject> {
    let used = Use {
        participant: ask.me()?.id,
        purpose: Purpose::AppState(app.instance),
        bytes: u32::try_from(state.len()).unwrap_or(u32::MAX),
        at: ask.now,
    };
    match ask.state.live.budgets.admit(&used) {
        Ok(()) => Ok(Signal::Spent(used)),
        Err(ms) => Err(Code::GeneratedAppStateRateLimited.reject().retry_after(ms)),
    }
}

/// Refuses, and shows the sender's connection what is current.
fn conflict(ask: &Ask<'_>, app: &App, instance: &str, counted: Signal) -> Verdict {
    let frame = Frame {
        r#type: "generated-app-state-conflict",
        app_instance_id: instance,
        revision: app.state_revision,
        generated_state: RawJson(&app.state),
        source_participant_id: None,
    };
    let reject = Code::GeneratedAppStateConflict.reject().limit(app.state_revision);
    let fact = Fact::default();
    let step = Step { decision: Decision::refuse(reject), fact, renews: false }.signal(counted);
    let connection = ask.call.connection;
    if connection == 0 {
        return Ok(step);
    }
    Ok(step.effect(Effect::Notify { connection, frame: bytes(&frame)? }))
}

fn broadcast(ask: &Ask<'_>, mut step: Step, frame: &[u8]) -> Step {
    for line in ask.state.live.connections.iter().filter(|line| line.line == Line::Human) {
        let connection = line.connection;
        step = step.effect(Effect::Notify { connection, frame: frame.to_vec() });
    }
    step
}

fn replay(_: &Ask<'_>, fact: Fact) -> Result<Vec<u8>, Reject> {
    bytes(&Output { revision: fact.sequence })
}

#[cfg(test)]
mod tests {
    use object::ParticipantId;
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    fn scene() -> (Scene, ParticipantId, ParticipantId, String) {
        let mut scene = Scene::new();
        let (ana, ben, agent) = (scene.human("Ana"), scene.human("Ben"), scene.agent("a"));
        let publication = scene.app(ana, agent, "plan-0001");
        let instance = publication["appInstanceId"].as_str().unwrap().to_owned();
        (scene, ana, ben, instance)
    }

    fn set(instance: &str, expected: impl Into<Value>, state: impl Into<Value>) -> Value {
        let (expected, state) = (expected.into(), state.into());
        json!({"appInstanceId": instance, "expectedRevision": expected, "state": state})
    }

    #[test]
    fn faults_come_in_the_contract_order() {
        let (mut scene, ana, _, app) = scene();
        let big = json!({"k": "x".repeat(4_089)});
        let fits = json!({"k": "x".repeat(4_088)});
        let rows = [
            (set("generated:none", json!(-1), json!([])), Err("generated_app_not_found")),
            (set(&app, json!(-1), json!([])), Err("invalid_revision")),
            (set(&app, json!(0.5), json!({})), Err("invalid_revision")),
            (set(&app, json!(null), json!({})), Err("invalid_revision")),
            (set(&app, json!(9), json!([])), Err("generated_app_state_invalid")),
            (set(&app, json!(0), big), Err("generated_app_state_invalid")),
            (set(&app, json!(9), json!({})), Err("generated_app_state_conflict")),
            (set(&app, json!(0), fits), Ok(1)),
            (set(&app, json!(0), json!({})), Err("generated_app_state_conflict")),
            (set(&app, json!(1), json!({"n": 2})), Ok(2)),
        ];
        for (args, expected) in rows {
            let answer = scene.call(META.name, ana, args.clone());
            let answer = answer.map(|a| a["revision"].as_u64().unwrap()).map_err(|r| r.code);
            assert_eq!(answer, expected, "{}", args["expectedRevision"]);
        }
        assert_eq!(scene.state().apps[0].bundle_revision, 1);
    }

    #[test]
    fn everybody_is_shown_a_write_and_only_the_sender_a_conflict() {
        let (mut scene, ana, ben, app) = scene();
        let (line, other) = (scene.line_of(ana), scene.line_of(ben));
        scene.connection = line;
        scene.frames.clear();
        scene.call(META.name, ana, set(&app, json!(0), json!({"n": 1}))).unwrap();
        let shown = json!({"type": "generated-app-state", "appInstanceId": app, "revision": 1,
            "generatedState": {"n": 1}, "sourceParticipantId": ana.to_string()});
        assert!(scene.frames.contains(&(line, shown.clone())));
        assert!(scene.frames.contains(&(other, shown)));
        scene.frames.clear();
        scene.call(META.name, ana, set(&app, json!(0), json!({"n": 2}))).unwrap_err();
        let conflict = json!({"type": "generated-app-state-conflict", "appInstanceId": app,
            "revision": 1, "generatedState": {"n": 1}});
        assert_eq!(scene.frames, [(line, conflict)]);
    }

    #[test]
    fn forty_writes_and_64_kib_in_ten_seconds() {
        let (mut scene, ana, ben, app) = scene();
        for n in 0..40 {
            scene.call(META.name, ana, set(&app, json!(n), json!({"n": n}))).unwrap();
        }
        let next = set(&app, json!(40), json!({}));
        let reject = scene.call(META.name, ana, next.clone()).unwrap_err();
        assert_eq!(reject.code, "generated_app_state_rate_limited");
        assert_eq!(reject.retry_after_ms, Some(10_000));
        scene.call(META.name, ben, next).unwrap();
        scene.pass(10_000);
        let big = json!({"k": "x".repeat(4_088)});
        for n in 41..57 {
            scene.call(META.name, ana, set(&app, json!(n), big.clone())).unwrap();
        }
        let reject = scene.call(META.name, ana, set(&app, json!(57), big)).unwrap_err();
        assert_eq!(reject.code, "generated_app_state_rate_limited");
    }
}
