//! `publish_generated_app`: the primary agent of a Task publishes a page with its own code
//! (rooms 6.18, 15).

use object::{
    Activation, Address, Audience, BlobEncoding, BlobField, BlobId, Guard, Minted, OpMeta, Reject,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::task_scope;
use crate::app::{self, AdmitError, AppId, Bundle, PublicationView, Publish};
use crate::catalog::Annotations;
use crate::dedup;
use crate::event::{AppPublished, AppUpdated, Event};
use crate::limits::APPS_MAX;
use crate::ops::{Ask, Op, Step, ToolText, Verdict, output_schema, unknown_handle};
use crate::reject::Code;
use crate::spec::{self, Field, Kind};
use crate::state::{App, Fact, Task};

pub static META: OpMeta = OpMeta {
    name: "publish_generated_app",
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
        name: "bundle",
        encoding: BlobEncoding::Json,
        // Room for indentation and escapes: what counts is the compact text.
        bytes_max: 512 * 1024,
    }),
};

pub static INPUT: &[Field] = &[
    dedup::HANDLE,
    Field::required("taskRequestId", spec::text(1, 64), "The collab.requestId of the Task."),
    Field::required(
        "bundle",
        Kind::JsonBlob { schema: include_str!("publish_generated_app.schema.json") },
        "The app: version, manifest, html, css, js and initialState, nothing else.",
    ),
    dedup::CLIENT_REQUEST_ID,
];

pub static TOOL: ToolText = ToolText {
    title: "Publish Generated App",
    description: "Purpose: gives humans a sandboxed page of HTML, CSS and JavaScript with a shared state for one Task. \
Use: when a panel is not enough; use publish_live_view for text, values, buttons and inputs. \
Side effects: a new or changed bundle replaces the Task's app, keeps its appInstanceId and shared state, and renews your lease; no event, wakes nobody; the same bundle again changes nothing. \
Limits: 49,152 bytes of JSON, html 20,480, css 12,288 and js 32,768 UTF-16 units, initialState 16,384 bytes, no network; four apps a room, one per Task; only the Task's primary agent. \
Errors: generated_app_bundle_object, generated_app_bundle_invalid, generated_app_bundle_too_large, generated_app_not_authorized, generated_app_capacity, unknown_task_request, invalid_task_request, client_request_id_conflict, outcome_unknown, invalid_participant_handle, agent_only, room_expired, rate_limited, invalid_arguments, room_unavailable.",
    annotations: Annotations {
        read_only: false,
        destructive: true,
        idempotent: true,
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
}

/// The answer.
#[derive(Serialize, JsonSchema, Debug)]
#[serde(rename_all = "camelCase")]
pub struct Output<'a> {
    publication: PublicationView<'a>,
    /// True if this very bundle was published already.
    duplicate: bool,
    /// True if another bundle was replaced.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    updated: bool,
    /// When the room ends, Unix milliseconds; absent on a duplicate.
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<u64>,
}

fn check(args: &Value, blob: Option<&[u8]>) -> Result<(), Reject> {
    spec::check(INPUT, args, blob)?;
    Bundle::parse(blob.unwrap_or_default())?;
    Ok(())
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let (me, blob) = (ask.me()?, ask.blob()?);
    let bundle = Bundle::parse(blob.bytes)?;
    let task = task(ask, &input.task_request_id)?;
    let apps = &ask.state.apps;
    let publish = app::admit(apps, task.sequence, &bundle, me.id, task.primary());
    let current = apps.iter().find(|app| app.task == task.sequence);
    match (publish.map_err(refusal)?, current) {
        (Publish::Duplicate, Some(current)) => Step::reply(&Output {
            publication: PublicationView::of(current, &task.request_id),
            duplicate: true,
            updated: false,
            expires_at: None,
        }),
        (Publish::Changed { replaced }, Some(current)) => {
            let update = AppUpdated {
                instance: current.instance,
                title: bundle.title().clone(),
                bundle: blob.id,
                bundle_bytes: bundle.bytes() as u64,
                digest: bundle.digest(),
                at: ask.now,
            };
            let app = updated(current, &update);
            let step = changed(ask, task, &app, true)?.drop_blobs([replaced]);
            Ok(step.event(Event::AppUpdated(update)))
        }
        (_, _) => {
            let published = AppPublished {
                instance: AppId::from_random(ask.random).0.0,
                task: task.sequence,
                title: bundle.title().clone(),
                bundle: blob.id,
                bundle_bytes: bundle.bytes() as u64,
                digest: bundle.digest(),
                state: bundle.initial_state().clone(),
                at: ask.now,
            };
            let step = changed(ask, task, &first(&published), false)?;
            Ok(step.event(Event::AppPublished(published)))
        }
    }
}

/// The answer to a bundle that is stored.
fn changed(ask: &Ask<'_>, task: &Task, app: &App, updated: bool) -> Verdict {
    let output = Output {
        publication: PublicationView::of(app, &task.request_id),
        duplicate: false,
        updated,
        expires_at: Some(ask.state.expires_at.0),
    };
    let step = Step::reply(&output)?.fact(app.bundle_revision, app.instance);
    Ok(step.keep(app.bundle))
}

/// The publication as the first call made it; `ask.now` is its time. What an update has inherited
/// is read from the app, if that is still kept.
fn replay(ask: &Ask<'_>, fact: Fact) -> Result<Vec<u8>, Reject> {
    let input: Input = ask.input(INPUT)?;
    let bundle = Bundle::parse(ask.blob()?.bytes)?;
    let known = ask.state.apps.iter().find(|app| app.instance == fact.id && fact.sequence > 1);
    let app = App {
        instance: fact.id,
        task: 0,
        title: bundle.title().clone(),
        bundle: BlobId(0),
        bundle_bytes: bundle.bytes() as u64,
        digest: bundle.digest(),
        bundle_revision: fact.sequence,
        state: bundle.initial_state().clone(),
        state_revision: known.map_or(0, |app| app.state_revision),
        created_at: known.map_or(ask.now, |app| app.created_at),
        updated_at: ask.now,
    };
    crate::ops::json(&Output {
        publication: PublicationView::of(&app, &input.task_request_id),
        duplicate: true,
        updated: false,
        expires_at: None,
    })
}

/// The app as the fold will have it; only for the answer.
fn first(published: &AppPublished) -> App {
    App {
        instance: published.instance,
        task: published.task,
        title: published.title.clone(),
        bundle: published.bundle,
        bundle_bytes: published.bundle_bytes,
        digest: published.digest,
        bundle_revision: 1,
        state: published.state.clone(),
        state_revision: 0,
        created_at: published.at,
        updated_at: published.at,
    }
}

fn updated(current: &App, update: &AppUpdated) -> App {
    App {
        title: update.title.clone(),
        bundle: update.bundle,
        bundle_bytes: update.bundle_bytes,
        digest: update.digest,
        bundle_revision: current.bundle_revision + 1,
        updated_at: update.at,
        ..current.clone()
    }
}

fn task<'a>(ask: &Ask<'a>, id: &str) -> Result<&'a Task, Reject> {
    if !task_scope::well_formed(id) {
        return Err(Code::InvalidTaskRequest.reject().field("taskRequestId"));
    }
    let unknown = || Code::UnknownTaskRequest.reject().field("taskRequestId");
    ask.state.task(id).ok_or_else(unknown)
}

fn refusal(error: AdmitError) -> Reject {
    match error {
        AdmitError::NotAuthorized => Code::GeneratedAppNotAuthorized.reject(),
        AdmitError::Capacity => Code::GeneratedAppCapacity.reject().limit(APPS_MAX as u64),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    fn bundle(html: &str) -> Vec<u8> {
        let bundle = json!({
            "version": 1, "manifest": {"title": "Vote", "networkOrigins": []},
            "html": html, "css": "p{}", "js": "1", "initialState": {"n": 0},
        });
        bundle.to_string().into_bytes()
    }

    fn args(task: &str) -> Value {
        json!({"taskRequestId": task})
    }

    #[test]
    fn every_refusal_of_the_section() {
        let mut scene = Scene::new();
        let (requester, primary) = (scene.agent("a"), scene.agent("b"));
        let human = scene.human("Ana");
        for n in 1..=5 {
            scene.task(requester, primary, &format!("plan-{n:04}"));
        }
        for n in 1..=4 {
            scene.blob(META.name, primary, args(&format!("plan-{n:04}")), &bundle("x")).unwrap();
        }
        let good = bundle("y");
        let huge = json!({"js": "x".repeat(50_000)}).to_string().into_bytes();
        let rows: [(_, Value, &[u8], &str); 10] = [
            (primary, args("plan-0001"), b"[]", "generated_app_bundle_object"),
            (primary, args("plan-0001"), b"{", "generated_app_bundle_object"),
            (primary, args("plan-0001"), b"{}", "generated_app_bundle_invalid"),
            (primary, args("plan-0001"), &huge, "generated_app_bundle_too_large"),
            (primary, args("plan-0009"), &good, "unknown_task_request"),
            (primary, args("?"), &good, "invalid_task_request"),
            (requester, args("plan-0001"), &good, "generated_app_not_authorized"),
            (primary, args("plan-0005"), &good, "generated_app_capacity"),
            (primary, json!({}), &good, "invalid_arguments"),
            (human, args("plan-0001"), &good, "agent_only"),
        ];
        for (who, args, bytes, code) in rows {
            let reject = scene.blob(META.name, who, args.clone(), bytes).unwrap_err();
            assert_eq!(reject.code, code, "{args}");
        }
        let reject = scene.call(META.name, primary, args("plan-0001")).unwrap_err();
        assert_eq!(reject.code, "invalid_arguments");
    }

    #[test]
    fn a_changed_bundle_keeps_id_and_state_and_drops_the_old_bytes() {
        let mut scene = Scene::new();
        let human = scene.human("Ana");
        let agent = scene.agent("a");
        scene.task(human, agent, "plan-0001");
        let first = scene.blob(META.name, agent, args("plan-0001"), &bundle("x")).unwrap();
        let kept = scene.blobs().0;
        assert_eq!(kept, [scene.state().apps[0].bundle]);
        assert_eq!(first["duplicate"], json!(false));
        assert!(first.get("updated").is_none() && first["expiresAt"].is_u64());
        let instance = first["publication"]["appInstanceId"].clone();

        scene.pass(60_000);
        let same = scene.blob(META.name, agent, args("plan-0001"), &bundle("x")).unwrap();
        assert_eq!(same, json!({"publication": first["publication"], "duplicate": true}));
        assert_eq!(scene.lease_left(agent), 30_000, "an identical retry renews nothing");
        assert_eq!(scene.blobs(), (vec![], vec![]));

        let second = scene.blob(META.name, agent, args("plan-0001"), &bundle("y")).unwrap();
        let publication = &second["publication"];
        assert_eq!(publication["appInstanceId"], instance);
        assert_eq!((&second["updated"], &second["duplicate"]), (&json!(true), &json!(false)));
        assert_eq!(publication["bundleRevision"], json!(2));
        assert_eq!(publication["stateRevision"], json!(0));
        assert_eq!(scene.blobs().1, kept);
        assert_eq!(scene.lease_left(agent), 90_000);
    }

    #[test]
    fn a_repeat_returns_the_first_publication() {
        let mut scene = Scene::new();
        let (requester, agent) = (scene.agent("a"), scene.agent("b"));
        scene.task(requester, agent, "plan-0001");
        let once = json!({"taskRequestId": "plan-0001", "clientRequestId": "once"});
        let first = scene.blob(META.name, agent, once.clone(), &bundle("x")).unwrap();
        scene.pass(5);
        scene.blob(META.name, agent, args("plan-0001"), &bundle("y")).unwrap();
        let again = scene.blob(META.name, agent, once, &bundle("x")).unwrap();
        assert_eq!(again["duplicate"], json!(true));
        assert_eq!(again["publication"], first["publication"]);
        assert_eq!(scene.state().apps[0].bundle_revision, 2, "the later bundle stays");
    }
}
