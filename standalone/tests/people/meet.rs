//! Joining, talking, being lost, coming back, leaving.

use serde_json::{Value, json};

use crate::link::{Heard, Human};
use crate::stage::{Stage, both};

both!(
    people_and_agents_talk,
    a_lost_human_has_thirty_seconds,
    tabs_of_one_human,
    a_resident_is_told_what_a_wait_would_show,
    connections_belong_to_who_attached_them,
);

fn names(state: &Value) -> Vec<&str> {
    state["participants"].as_array().unwrap().iter().map(|p| p["name"].as_str().unwrap()).collect()
}

async fn people_and_agents_talk(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    let mut cy = stage.human(&bo.room, "Cy").await;
    assert_eq!(names(&ana.next("state").await["state"]), ["Bo", "Ana", "Cy"]);
    assert_eq!(names(&bo.poll().await), ["Bo", "Ana", "Cy"]);

    // Only the structured list addresses; what is no participant is dropped from it.
    let id = ana.id.to_string();
    let text = json!({"text": " @Bo hi ", "targets": [bo.id, "nobody", bo.id]});
    let sent = ana.ok("human_chat", text).await;
    for human in [&mut ana, &mut cy] {
        let message = human.next("message").await["message"].clone();
        assert_eq!((&message["text"], &message["peerId"]), (&json!("@Bo hi"), &json!(id)));
        assert_eq!((&message["kind"], &message["targets"]), (&json!("human"), &json!([bo.id])));
        assert_eq!(message["sequence"], sent["sequence"]);
    }
    let heard = bo.next().await;
    assert_eq!((&heard["text"], &heard["addressed"]), (&json!("@Bo hi"), &json!(true)));
    assert_eq!(heard["participant"], json!({"id": id, "name": "Ana", "kind": "human"}));
    cy.ok("human_chat", json!({"text": "@Bo hi"})).await;
    assert_eq!(bo.next().await["addressed"], false);

    let wave = json!({"actionType": "wave", "actionPayload": {"hand": "left"}});
    ana.ok("human_action", wave).await;
    let seen = bo.next().await;
    assert_eq!((&seen["actionType"], &seen["addressed"]), (&json!("wave"), &json!(false)));
    let faked = ana.code("human_action", json!({"actionType": "permission"})).await;
    assert_eq!(faked, "permission_requires_structured_response");

    // An agent's words reach the browsers.
    bo.ok("send_text", json!({"text": "hello", "targetParticipantIds": [id]})).await;
    for human in [&mut ana, &mut cy] {
        let hello = human.until(|frame| frame["message"]["text"] == "hello").await;
        assert_eq!(hello["message"]["targets"], json!([id]));
    }

    // Whoever leaves is told so by the end of its connection; the others see it.
    ana.ok("leave_human", json!({})).await;
    assert_eq!(ana.heard().await, Heard::Closed(1000));
    assert_eq!(names(&cy.until(|frame| frame["type"] == "state").await["state"]), ["Bo", "Cy"]);
    assert_eq!(ana.code("leave_human", json!({})).await, "already_left");
    assert_eq!(ana.code("human_chat", json!({"text": "x"})).await, "invalid_participant_handle");
    assert_eq!(names(&bo.info().await), ["Bo", "Cy"]);
}

async fn a_lost_human_has_thirty_seconds(stage: Stage) {
    let bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    let mut cy = stage.human(&bo.room, "Cy").await;
    ana.next("state").await;

    cy.detach().await;
    assert_eq!(names(&ana.next("state").await["state"]), ["Bo", "Ana"], "gone from sight at once");
    stage.pass(29_999).await;
    cy.attach(stage.number()).await;
    let back = cy.ok("attach_human", json!({})).await;
    assert_eq!(names(&back["state"]), ["Bo", "Ana", "Cy"]);
    assert_eq!(names(&ana.next("state").await["state"]), ["Bo", "Ana", "Cy"]);

    // The end of the whole stream is the end of its connections, too.
    let id = cy.id;
    drop(cy);
    assert_eq!(names(&ana.next("state").await["state"]), ["Bo", "Ana"]);
    stage.pass(30_000).await;
    ana.next("state").await;
    let mut late = Human::new(stage.link().await, &bo.room, id);
    late.attach(stage.number()).await;
    assert_eq!(late.code("attach_human", json!({})).await, "invalid_participant_handle");
}

async fn tabs_of_one_human(stage: Stage) {
    let bo = stage.founder("Bo").await;
    let mut first = stage.human(&bo.room, "Ana").await;
    let mut tabs = Vec::new();
    for _ in 0..3 {
        let tab = first.tab(stage.number()).await;
        tab.ok("attach_human", json!({})).await;
        tabs.push(tab);
    }
    first.so_far().await;
    tabs[2].ok("human_chat", json!({"text": "to all"})).await;
    for tab in &mut tabs {
        let said = tab.until(|frame| frame["type"] == "message").await;
        assert_eq!(said["message"]["text"], "to all");
    }
    assert_eq!(first.next("message").await["message"]["text"], "to all");

    // A fifth takes the place of the oldest.
    let fifth = first.tab(stage.number()).await;
    fifth.ok("attach_human", json!({})).await;
    first.next("replaced").await;
    fifth.ok("human_chat", json!({"text": "without the first"})).await;
    assert_eq!(first.so_far().await, []);

    // Connected while one is left, the replaced one does not count.
    for tab in &tabs {
        tab.detach().await;
    }
    assert_eq!(names(&fifth.state().await), ["Bo", "Ana"]);
    first.detach().await;
    assert_eq!(names(&fifth.state().await), ["Bo", "Ana"]);
    let cy = stage.human(&bo.room, "Cy").await;
    let mut fifth = fifth;
    fifth.until(|frame| frame["type"] == "state" && names(&frame["state"]).len() == 3).await;
    let (link, id) = (fifth.link.clone(), fifth.id);
    fifth.detach().await;
    let mut none = Human::new(link, &bo.room, id);
    // The order of one stream: the detachment has come before this.
    assert_eq!(none.ok("human_presence", json!({})).await, json!({"ok": true}));
    assert_eq!(names(&cy.state().await), ["Bo", "Cy"]);
    none.connection = fifth.connection;
    assert_eq!(none.code("attach_human", json!({})).await, "invalid_request");
}

async fn a_resident_is_told_what_a_wait_would_show(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    ana.ok("human_chat", json!({"text": "before"})).await;
    ana.next("message").await;

    let mut runtime = bo.runtime(stage.link().await);
    runtime.attach(stage.number()).await;
    let opened = runtime.ok("resident_connect", json!({"cursor": 0})).await;
    assert_eq!((&opened["type"], &opened["cursor"]), (&json!("events"), &json!(1)));
    assert_eq!(opened["events"][0]["text"], "before");
    assert_eq!(opened["mediaState"]["meetingNotes"], json!({"active": false}));
    ana.ok("human_chat", json!({"text": "after", "targets": [bo.id]})).await;
    let told = runtime.next("events").await;
    assert_eq!((&told["events"][0]["text"], &told["cursor"]), (&json!("after"), &json!(2)));
    assert_eq!((&told["events"][0]["addressed"], &told["events"][1]), (&json!(true), &Value::Null));
    ana.next("message").await;

    // What it does is shown to browsers and kept nowhere.
    let doing = json!({"scopeId": "room", "state": "working", "turnSequence": 2});
    runtime.ok("resident_activity", doing).await;
    let shown = ana.next("agentActivity").await["activity"].clone();
    assert_eq!((&shown["agentParticipantId"], &shown["state"]), (&json!(bo.id), &json!("working")));
    assert_eq!(ana.state().await["agentActivities"][0], shown);

    // A newer stream takes the place of the older; the loss of the older changes nothing.
    let newer = runtime.tab(stage.number()).await;
    newer.ok("resident_connect", json!({"cursor": 2})).await;
    runtime.next("replaced").await;
    runtime.detach().await;
    assert_eq!(names(&ana.state().await), ["Bo", "Ana"]);
    assert_eq!(ana.state().await["agentActivities"], json!([]));

    // Heartbeats keep the lease; a lost stream shows at once, the agent goes with its lease.
    stage.pass(60_000).await;
    assert_eq!(newer.ok("resident_heartbeat", json!({})).await["agentLeaseMs"], 90_000);
    stage.pass(89_999).await;
    assert_eq!(names(&ana.state().await), ["Bo", "Ana"]);
    newer.ok("resident_heartbeat", json!({})).await;
    newer.detach().await;
    ana.until(|frame| frame["type"] == "state" && names(&frame["state"]) == ["Ana"]).await;
    assert_eq!(names(&bo.poll().await), ["Ana"], "alive, but not connected");
    stage.pass(90_000).await;
    assert_eq!(bo.code("send_text", json!({"text": "x"})).await, "invalid_participant_handle");
    assert_eq!(newer.code("resident_heartbeat", json!({})).await, "invalid_participant_handle");
}

async fn connections_belong_to_who_attached_them(stage: Stage) {
    let bo = stage.founder("Bo").await;
    let ana = stage.human(&bo.room, "Ana").await;
    let mut thief = Human::new(stage.link().await, &bo.room, stage.id());
    thief.connection = ana.connection;
    thief.join("Thief").await.unwrap();
    let state = ana.state().await;
    assert_eq!(names(&state), ["Bo", "Ana"], "joined, but by no connection of its own");
    assert_eq!(thief.code("attach_human", json!({})).await, "invalid_request");
}
