//! `publish_live_view`: the primary agent of a Task shows a small panel (rooms 6.17, 14).

use object::{Activation, Address, Audience, Guard, Minted, OpMeta, Reject};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::catalog::Annotations;
use crate::dedup;
use crate::event::Event;
use crate::live_view::{self, AdmitError, Draft, SnapshotView};
use crate::ops::{Ask, Op, Step, ToolText, Verdict, output_schema, unknown_handle};
use crate::reject::Code;
use crate::spec::{self, Field, Kind};
use crate::state::{Fact, LiveView};

pub static META: OpMeta = OpMeta {
    name: "publish_live_view",
    address: Address::Handle,
    activation: Activation::MustExist,
    audience: Audience::Agent,
    read_only: false,
    minted: Minted::Nothing,
    guard: Guard::Call(1),
    wait: false,
    park_ms: 0,
    client_request_id: true,
    blob: None,
};

pub static INPUT: &[Field] = &[
    dedup::HANDLE,
    Field::required("taskRequestId", spec::text(1, 64), "The collab.requestId of the Task."),
    Field::required(
        "surface",
        Kind::Json { schema: include_str!("publish_live_view.schema.json") },
        "The panel: surfaceId, revision, root and data, nothing else.",
    ),
    dedup::CLIENT_REQUEST_ID,
];

pub static TOOL: ToolText = ToolText {
    title: "Publish Live View",
    description: "Purpose: shows humans a small panel of text, values, buttons and inputs for one Task. \
Use: for progress, scores or choices that change while you work; use publish_generated_app for a page with its own code, send_text for words. \
Side effects: replaces the Task's panel and renews your lease; no event, wakes nobody; clicks stay in each human's browser. \
Limits: 32,768 bytes, 64 components, depth 8, 32 data keys; revision 1 first, then strictly greater, always the same surfaceId; 16 panels a room; only the Task's primary agent. \
Errors: unknown_task_request, invalid_live_view, invalid_live_view_data, invalid_live_view_component, live_view_too_large, live_view_not_authorized, live_view_surface_mismatch, live_view_revision_conflict, live_view_capacity, client_request_id_conflict, outcome_unknown, invalid_participant_handle, agent_only, room_expired, rate_limited, invalid_arguments, room_unavailable.",
    annotations: Annotations {
        read_only: false,
        destructive: true,
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
    task_request_id: String,
    surface: Value,
}

/// The answer.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Output<'a> {
    snapshot: SnapshotView<'a>,
    /// When the room ends, Unix milliseconds.
    expires_at: u64,
    /// This repeats an earlier call; nothing was published again.
    #[serde(skip_serializing_if = "Option::is_none")]
    duplicate: Option<bool>,
}

fn check(args: &Value, blob: Option<&[u8]>) -> Result<(), Reject> {
    // What is not even an object has its own code, so it comes before the table.
    if args.get("surface").is_some_and(|surface| !surface.is_object()) {
        return Err(Code::InvalidLiveView.reject().field("surface"));
    }
    spec::check(INPUT, args, blob)?;
    let task = args.get("taskRequestId").and_then(Value::as_str).unwrap_or_default();
    let surface = args.get("surface").unwrap_or(&Value::Null);
    Draft::parse(surface, task).map(|_| ()).map_err(Reject::from)
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let me = ask.me()?;
    let draft = Draft::parse(&input.surface, &input.task_request_id)?;
    let task = ask.state.task(&input.task_request_id).ok_or_else(unknown_task)?;
    let views = &ask.state.live_views;
    live_view::admit(views, task.sequence, &draft, me.id, task.primary()).map_err(refusal)?;
    let view = draft.complete(task.sequence, me.id);
    let step = Step::reply(&output(ask, &view, &input.task_request_id, None))?;
    Ok(step.fact(draft.revision(), 0).event(Event::LiveViewPublished(view)))
}

/// The arguments are those of the first call, and the answer is made of them alone.
fn replay(ask: &Ask<'_>, _: Fact) -> Result<Vec<u8>, Reject> {
    let input: Input = ask.input(INPUT)?;
    let draft = Draft::parse(&input.surface, &input.task_request_id)?;
    let view = draft.complete(0, ask.me()?.id);
    crate::ops::json(&output(ask, &view, &input.task_request_id, Some(true)))
}

fn output<'a>(
    ask: &Ask<'_>,
    view: &'a LiveView,
    task: &'a str,
    duplicate: Option<bool>,
) -> Output<'a> {
    let snapshot = SnapshotView::of(view, task);
    Output { snapshot, expires_at: ask.state.expires_at.0, duplicate }
}

fn unknown_task() -> Reject {
    Code::UnknownTaskRequest.reject().field("taskRequestId")
}

fn refusal(error: AdmitError) -> Reject {
    match error {
        AdmitError::NotAuthorized => Code::LiveViewNotAuthorized.reject(),
        AdmitError::SurfaceMismatch => Code::LiveViewSurfaceMismatch.reject().field("surface"),
        AdmitError::RevisionConflict => Code::LiveViewRevisionConflict.reject().field("surface"),
        AdmitError::Capacity => {
            Code::LiveViewCapacity.reject().limit(crate::limits::LIVE_VIEWS_MAX as u64)
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    fn surface(id: &str, revision: u64) -> Value {
        json!({"surfaceId": id, "revision": revision, "data": {"points": 0},
            "root": {"type": "Value", "path": "points"}})
    }

    fn args(task: &str, surface: &Value) -> Value {
        json!({"taskRequestId": task, "surface": surface})
    }

    #[test]
    fn every_refusal_of_the_section() {
        let mut scene = Scene::new();
        let (requester, primary) = (scene.agent("a"), scene.agent("b"));
        let human = scene.human("Ana");
        scene.task(requester, primary, "plan-0001");
        scene.call(META.name, primary, args("plan-0001", &surface("s", 1))).unwrap();
        let mut big = surface("s", 2);
        big["data"] = json!({"points": "x".repeat(33_000)});
        let mut data = surface("s", 2);
        data["data"] = json!({"points": ""});
        let mut component = surface("s", 2);
        component["root"]["id"] = json!("no ids");
        let rows = [
            (primary, args("plan-0002", &surface("s", 1)), "unknown_task_request"),
            (primary, args("no id!", &surface("s", 1)), "invalid_live_view"),
            (primary, args("plan-0001", &json!([])), "invalid_live_view"),
            (primary, args("plan-0001", &json!({})), "invalid_live_view"),
            (primary, args("plan-0001", &big), "live_view_too_large"),
            (primary, args("plan-0001", &data), "invalid_live_view_data"),
            (primary, args("plan-0001", &component), "invalid_live_view_component"),
            (requester, args("plan-0001", &surface("s", 2)), "live_view_not_authorized"),
            (primary, args("plan-0001", &surface("t", 2)), "live_view_surface_mismatch"),
            (primary, args("plan-0001", &surface("s", 1)), "live_view_revision_conflict"),
            (primary, json!({"taskRequestId": "plan-0001"}), "invalid_arguments"),
            (human, args("plan-0001", &surface("s", 2)), "agent_only"),
        ];
        for (who, args, code) in rows {
            let reject = scene.call(META.name, who, args.clone()).unwrap_err();
            assert_eq!(reject.code, code, "{args}");
        }
        for n in 2..=16 {
            let task = scene.task(requester, primary, &format!("plan-{n:04}"));
            scene.call(META.name, primary, args(&task, &surface("s", 1))).unwrap();
        }
        let task = scene.task(requester, primary, "plan-0017");
        let reject = scene.call(META.name, primary, args(&task, &surface("s", 1))).unwrap_err();
        assert_eq!((reject.code, reject.limit), ("live_view_capacity", Some(16)));
    }

    #[test]
    fn a_snapshot_is_completed_and_replaced() {
        let mut scene = Scene::new();
        let human = scene.human("Ana");
        let agent = scene.agent("a");
        scene.task(human, agent, "plan-0001");
        scene.pass(60_000);
        let before = scene.state().sequence;
        let first = scene.call(META.name, agent, args("plan-0001", &surface("s", 1))).unwrap();
        let mut expected = surface("s", 1);
        expected["taskRequestId"] = json!("plan-0001");
        expected["authorityAgentId"] = json!(agent.to_string());
        assert_eq!(first["snapshot"], expected);
        assert_eq!(scene.lease_left(agent), 90_000);
        scene.call(META.name, agent, args("plan-0001", &surface("s", 7))).unwrap();
        let revisions: Vec<u64> = scene.state().live_views.iter().map(|v| v.revision).collect();
        assert_eq!(revisions, [7]);
        assert_eq!(scene.state().sequence, before, "no event of the timeline");
    }

    #[test]
    fn a_repeat_returns_the_first_snapshot() {
        let mut scene = Scene::new();
        let (requester, agent) = (scene.agent("a"), scene.agent("b"));
        scene.task(requester, agent, "plan-0001");
        let mut once = args("plan-0001", &surface("s", 1));
        once["clientRequestId"] = json!("once");
        let first = scene.call(META.name, agent, once.clone()).unwrap();
        scene.call(META.name, agent, args("plan-0001", &surface("s", 2))).unwrap();
        let mut again = scene.call(META.name, agent, once).unwrap();
        assert_eq!(again.as_object_mut().unwrap().remove("duplicate"), Some(json!(true)));
        assert_eq!(again, first);
    }
}
