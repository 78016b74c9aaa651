//! An activation or a whole process is lost: connections are closed, what was acknowledged is there.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use room_node::store::Error;
use room_node::store::memory::{Fault, Method};
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::link::{Heard, Human};
use crate::shown::{bundle, task};
use crate::stage::{Stage, both};

both!(a_lost_activation_closes_connections_and_keeps_the_rest, a_new_process_knows_everything);

/// A room with something of everything in it.
async fn furnish(stage: &Stage, bo: &mut Agent, ana: &Human) {
    ana.ok("human_chat", json!({"text": "remember me", "targets": [bo.id]})).await;
    bo.next().await;
    task(ana, bo).await;
    let args = json!({"mimeType": "text/csv", "taskRequestId": "plan-0001", "taskWake": true});
    ana.upload("human_send_attachment", args, b"1,2\n").await;
    let picture = json!({"mimeType": "image/png", "dataBase64": STANDARD.encode(b"pixels")});
    bo.ok("publish_surface", picture).await;
    let surface = json!({"surfaceId": "score", "revision": 1,
        "root": {"type": "Text", "text": "hi"}, "data": {}});
    bo.ok("publish_live_view", json!({"taskRequestId": "plan-0001", "surface": surface})).await;
    let publish = json!({"taskRequestId": "plan-0001", "bundle": bundle("p{}")});
    let published = bo.ok("publish_generated_app", publish).await;
    let app = &published["publication"]["appInstanceId"];
    let set = json!({"appInstanceId": app, "expectedRevision": 0, "state": {"votes": 5}});
    ana.ok("app_state_set", set).await;
    let mut scribe = stage.speaker(&bo.room, "Scribe", "host-0001").await;
    scribe.poll().await;
    ana.ok("transcript_start", json!({"runtimeHostId": "host-0001"})).await;
    let said = json!({"epoch": 1, "segmentId": "s1", "text": "on record",
        "sourceParticipantId": ana.id.to_string()});
    scribe.runtime(stage.link().await).ok("transcript_append", said).await;
    ana.ok("meeting_notes_start", json!({"agentParticipantId": bo.id})).await;
    let voice = json!({"agentParticipantId": scribe.id, "enabled": true});
    ana.ok("agent_voice_set", voice).await;
    let card = json!({"requestId": "perm-0001", "toolCall": {"title": "Run"},
        "options": [{"optionId": "yes", "name": "Yes"}]});
    bo.runtime(stage.link().await).ok("permission_request", card).await;
}

/// The state without what differs by who is connected and since when.
fn lasting(mut state: Value) -> Value {
    for gone in ["participants", "agentActivities", "roomApps"] {
        state[gone] = Value::Null;
    }
    state
}

/// Everything is there and works on: bytes, revisions, Tasks, cards, handles.
async fn works_on(bo: &mut Agent, ana: &Human, before: &Value) {
    let state = ana.state().await;
    assert_eq!(lasting(state.clone()), *before);
    let (app, known) = before["generatedApps"].as_object().unwrap().iter().next().unwrap();
    assert_eq!(known["stateRevision"], 1);
    let (body, bytes, _) = ana.load("human_read_app", json!({"appInstanceId": app})).await;
    assert_eq!(body["state"], json!({"votes": 5}));
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), bundle("p{}"));
    let set = json!({"appInstanceId": app, "expectedRevision": 1, "state": {"votes": 6}});
    assert_eq!(ana.ok("app_state_set", set).await, json!({"revision": 2}));
    let file = &before["attachments"][0]["id"];
    let (_, bytes, _) = ana.load("human_read_attachment", json!({"attachmentId": file})).await;
    assert_eq!(&bytes[..], b"1,2\n");
    let people = state["participants"].as_array().unwrap();
    let shows = people.iter().find(|p| p["id"] == json!(bo.id)).unwrap();
    let snapshot = &shows["surface"]["snapshotId"];
    let look = json!({"sourceParticipantId": bo.id, "snapshotId": snapshot});
    let (_, bytes, _) = ana.load("human_read_surface", look).await;
    assert_eq!(&bytes[..], b"pixels");
    let pick = json!({"requestId": "perm-0001", "selectedOptionId": "yes"});
    ana.ok("permission_respond", pick).await;
    let polled = bo.poll().await;
    let [image, card] = &polled["events"].as_array().unwrap()[..] else { panic!("{polled}") };
    assert_eq!((&image["type"], &image["addressed"]), (&json!("image"), &json!(true)));
    assert_eq!(card["permission"]["kind"], "resolved");
    let done = json!({"requestId": "plan-0001", "status": "completed", "summary": "Done"});
    assert_eq!(bo.ok("send_collab_result", done).await["requestId"], "plan-0001");
}

async fn a_lost_activation_closes_connections_and_keeps_the_rest(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    let mut cy = stage.human(&bo.room, "Cy").await;
    let mut runtime = bo.runtime(stage.link().await);
    runtime.attach(stage.number()).await;
    runtime.ok("resident_connect", json!({})).await;
    furnish(&stage, &mut bo, &ana).await;
    let before = lasting(ana.state().await);
    let apps = bo.poll_again().await["roomApps"].clone();
    ana.ok("app_host_attach", json!({"appInstanceId": apps[0]["appInstanceId"]})).await;
    let asks = json!({"appInstanceId": apps[0]["appInstanceId"], "payload": {}});
    let request = bo.begin("room_app_request", asks.clone());
    ana.until(|frame| frame["type"] == "room-app-agent-request").await;
    for line in [&mut ana, &mut cy, &mut runtime] {
        line.so_far().await;
    }

    let unreachable = Error::Unavailable { context: "injected".into() };
    assert!(stage.store.inject(Method::Append, Fault::Refuse(unreachable)));
    assert_eq!(ana.code("human_chat", json!({"text": "lost"})).await, "room_unavailable");
    // Nothing of what was not stored was ever told; then everybody is sent away to come again.
    for line in [&mut ana, &mut cy, &mut runtime] {
        assert_eq!(line.heard().await, Heard::Closed(1012));
        assert_eq!(line.so_far().await, []);
    }
    assert_eq!(request.await.unwrap().code(), "room_unavailable");

    // The old connection is nobody's; a new one is.
    assert_eq!(ana.code("attach_human", json!({})).await, "invalid_request");
    ana.attach(stage.number()).await;
    ana.ok("attach_human", json!({})).await;
    assert_eq!(bo.code("room_app_request", asks).await, "host_unavailable");
    works_on(&mut bo, &ana, &before).await;

    // Who does not come again is removed after the grace.
    stage.pass(29_999).await;
    assert_eq!(cy.code("attach_human", json!({})).await, "invalid_request", "still known");
    stage.pass(1).await;
    ana.until(|frame| frame["type"] == "state").await;
    assert_eq!(cy.code("attach_human", json!({})).await, "invalid_participant_handle");
}

async fn a_new_process_knows_everything(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let ana = stage.human(&bo.room, "Ana").await;
    furnish(&stage, &mut bo, &ana).await;
    let before = lasting(ana.state().await);
    let id = ana.id;
    drop(ana);
    let stage = stage.restart().await;
    bo.moved(stage.mcp);
    let mut ana = Human::new(stage.link().await, &bo.room, id);
    ana.attach(stage.number()).await;
    ana.ok("attach_human", json!({})).await;
    works_on(&mut bo, &ana, &before).await;
}
