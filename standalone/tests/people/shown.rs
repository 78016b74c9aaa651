//! What agents show and people look at: surfaces, Live Views, Generated Apps and their state.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::link::Human;
use crate::stage::{Stage, both};

both!(a_surface_is_looked_at, a_live_view_is_seen, a_generated_app_is_loaded_and_shared);

async fn state(human: &mut Human) -> Value {
    human.until(|frame| frame["type"] == "state").await["state"].take()
}

/// Ana gives Bo a Task.
pub(crate) async fn task(ana: &Human, bo: &mut Agent) {
    let work = json!({"targetParticipantId": bo.id, "requestId": "plan-0001", "summary": "Show"});
    ana.ok("human_collab_request", work).await;
    bo.next().await;
}

pub(crate) fn bundle(css: &str) -> Value {
    json!({"version": 1, "manifest": {"title": "Vote", "networkOrigins": []},
        "html": "<p>", "css": css, "js": "1", "initialState": {"votes": 0}})
}

async fn a_surface_is_looked_at(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    let picture = json!({"mimeType": "image/png", "dataBase64": STANDARD.encode(b"pixels")});
    let published = bo.ok("publish_surface", picture.clone()).await["surface"].clone();
    let shown = state(&mut ana).await["participants"][0]["surface"].clone();
    assert_eq!(shown, published);
    let look = json!({"sourceParticipantId": bo.id, "snapshotId": shown["snapshotId"]});
    let (body, bytes, mime) = ana.load("human_read_surface", look.clone()).await;
    assert_eq!((&body["surface"], &bytes[..]), (&shown, &b"pixels"[..]));
    assert_eq!(mime.as_deref(), Some("image/png"));

    stage.pass(2_000).await;
    bo.ok("publish_surface", picture).await;
    assert_ne!(state(&mut ana).await["participants"][0]["surface"], shown);
    assert_eq!(ana.code("human_read_surface", look.clone()).await, "surface_changed");
    bo.ok("clear_surface", json!({})).await;
    assert_eq!(state(&mut ana).await["participants"][0]["surface"], Value::Null);
    assert_eq!(ana.code("human_read_surface", look).await, "surface_not_found");
    assert_eq!(bo.poll().await["events"], json!([]));
}

async fn a_live_view_is_seen(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    task(&ana, &mut bo).await;
    for (revision, points) in [(1, 0), (3, 7)] {
        let surface = json!({"surfaceId": "score", "revision": revision,
            "root": {"type": "Value", "path": "points"}, "data": {"points": points}});
        let view = json!({"taskRequestId": "plan-0001", "surface": surface});
        bo.ok("publish_live_view", view).await;
        let shown = state(&mut ana).await["taskLiveViews"]["plan-0001"].clone();
        assert_eq!(
            (&shown["revision"], &shown["data"]["points"]),
            (&json!(revision), &json!(points))
        );
        assert_eq!(
            (&shown["authorityAgentId"], &shown["root"]["path"]),
            (&json!(bo.id), &json!("points"))
        );
    }
    assert_eq!(bo.poll().await["events"], json!([]));
}

fn set(app: &Value, expected: u64, votes: u64) -> Value {
    json!({"appInstanceId": app, "expectedRevision": expected, "state": {"votes": votes}})
}

async fn a_generated_app_is_loaded_and_shared(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    let mut cy = stage.human(&bo.room, "Cy").await;
    task(&ana, &mut bo).await;
    let publish = json!({"taskRequestId": "plan-0001", "bundle": bundle("p{}")});
    let published = bo.ok("publish_generated_app", publish).await["publication"].clone();
    let app = published["appInstanceId"].clone();
    let apps =
        ana.until(|frame| frame["state"]["generatedApps"][app.as_str().unwrap()].is_object());
    assert_eq!(apps.await["state"]["generatedApps"], json!({app.as_str().unwrap(): published}));
    let load = json!({"appInstanceId": app});
    let (body, bytes, mime) = ana.load("human_read_app", load.clone()).await;
    assert_eq!((&body["publication"], &body["state"]), (&published, &json!({"votes": 0})));
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), bundle("p{}"));
    assert_eq!(mime, None);

    // Compare-and-swap: the first of two writes wins, and only the other is shown a conflict.
    ana.so_far().await;
    cy.so_far().await;
    assert_eq!(ana.ok("app_state_set", set(&app, 0, 1)).await, json!({"revision": 1}));
    for human in [&mut ana, &mut cy] {
        let shared = human.until(|frame| frame["type"] == "generated-app-state").await;
        assert_eq!(
            (&shared["revision"], &shared["generatedState"]),
            (&json!(1), &json!({"votes": 1}))
        );
    }
    assert_eq!(cy.code("app_state_set", set(&app, 0, 9)).await, "generated_app_state_conflict");
    let conflict = cy.next("generated-app-state-conflict").await;
    assert_eq!(
        (&conflict["revision"], &conflict["generatedState"]),
        (&json!(1), &json!({"votes": 1}))
    );
    assert_eq!(cy.ok("app_state_set", set(&app, 1, 2)).await, json!({"revision": 2}));
    let shared = ana.next("generated-app-state").await;
    assert_eq!(shared["sourceParticipantId"], cy.id.to_string());
    let mut tab = ana.tab(0).await;
    tab.connection = 0;
    assert_eq!(
        tab.code("app_state_set", set(&json!("generated:x"), 0, 1)).await,
        "generated_app_not_found"
    );

    // A changed bundle keeps the state; agents have heard nothing of all this.
    let publish = json!({"taskRequestId": "plan-0001", "bundle": bundle("p{top:0}")});
    let again = bo.ok("publish_generated_app", publish).await["publication"].clone();
    assert_eq!((&again["bundleRevision"], &again["stateRevision"]), (&json!(2), &json!(2)));
    assert_eq!(ana.load("human_read_app", load).await.0["state"], json!({"votes": 2}));
    assert_eq!(bo.poll().await["events"], json!([]));
}
