//! Curated apps: an agent asks over MCP, somebody's browser answers.

use serde_json::{Value, json};

use crate::agent::Agent;
use crate::link::Human;
use crate::mcp::Called;
use crate::stage::{Stage, both};

both!(
    a_browser_answers_an_agent,
    an_app_has_fifteen_seconds,
    four_requests_at_once,
    the_smallest_of_several_hosts_answers,
    whoever_goes_ends_what_waits,
);

/// The whiteboard as this room's agents know it.
async fn whiteboard(agent: &mut Agent) -> Value {
    let polled = agent.poll().await;
    let apps = polled["roomApps"].as_array().unwrap();
    assert_eq!(apps.len(), 2, "{apps:?}");
    apps.iter().find(|app| app["appId"] == "whiteboard").unwrap().clone()
}

fn payload(app: &Value) -> Value {
    json!({"appInstanceId": app["appInstanceId"], "payload": {"do": "draw"}})
}

/// Takes the request that has come to a browser.
async fn asked(host: &mut Human) -> Value {
    host.until(|frame| frame["type"] == "room-app-agent-request").await
}

/// Answers it.
async fn answer(host: &Human, asked: &Value, rest: Value) {
    let mut args = rest;
    args["requestId"] = asked["requestId"].clone();
    args["appInstanceId"] = asked["appInstanceId"].clone();
    assert_eq!(host.ok("app_answer", args).await, json!({"ok": true}));
}

async fn hosts(human: &Human, app: &Value) {
    let args = json!({"appInstanceId": app["appInstanceId"]});
    human.ok("app_host_attach", args).await;
}

fn drawn(called: Called) -> Value {
    let answer = called.ok();
    assert_eq!(answer["ok"], true);
    answer["result"].clone()
}

async fn a_browser_answers_an_agent(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    let cy = stage.human(&bo.room, "Cy").await;
    let app = whiteboard(&mut bo).await;
    assert_eq!((&app["callable"], &app["source"]), (&json!(false), &json!("curated")));
    assert_eq!(bo.code("room_app_request", payload(&app)).await, "host_unavailable");
    let foreign = json!({"appInstanceId": "whiteboard:00000000", "payload": {}});
    assert_eq!(bo.code("room_app_request", foreign.clone()).await, "app_unavailable");
    assert_eq!(ana.code("app_host_attach", foreign).await, "app_unavailable");
    hosts(&ana, &app).await;
    assert_eq!(whiteboard(&mut bo).await["callable"], true);

    let request = bo.begin("room_app_request", payload(&app));
    let came = asked(&mut ana).await;
    assert_eq!(came["payload"], json!({"do": "draw", "sourceParticipantId": bo.id}));
    assert_eq!(came["appInstanceId"], app["appInstanceId"]);
    // Nobody else may answer for the host, and only for that app.
    answer(&cy, &came, json!({"ok": true, "result": "forged"})).await;
    let mut other = came.clone();
    other["appInstanceId"] = json!("bingo:00000000");
    answer(&ana, &other, json!({"ok": true, "result": "wrong"})).await;
    answer(&ana, &came, json!({"ok": true, "result": {"drawn": [1, null]}})).await;
    answer(&ana, &came, json!({"ok": true, "result": "twice"})).await;
    assert_eq!(drawn(request.await.unwrap()), json!({"drawn": [1, null]}));

    let big = "x".repeat(16 * 1_024);
    for (sent, code) in [
        (json!({"ok": false, "error": "canvas is locked"}), "app_error"),
        (json!({"ok": false, "error": "e".repeat(257)}), "invalid_response"),
        (json!({"ok": true}), "invalid_response"),
        (json!({"ok": true, "result": big}), "invalid_response"),
    ] {
        let request = bo.begin("room_app_request", payload(&app));
        let came = asked(&mut ana).await;
        answer(&ana, &came, sent).await;
        let refused = request.await.unwrap();
        assert_eq!(refused.code(), code);
        if code == "app_error" {
            assert_eq!(refused.value["message"], "canvas is locked");
        }
    }
    // Nothing of it is an event.
    assert_eq!(bo.poll().await["events"], json!([]));
    assert_eq!(ana.state().await["messages"], json!([]));
}

async fn an_app_has_fifteen_seconds(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    let app = whiteboard(&mut bo).await;
    hosts(&ana, &app).await;

    let request = bo.begin("room_app_request", payload(&app));
    let came = asked(&mut ana).await;
    stage.pass(14_999).await;
    answer(&ana, &came, json!({"ok": true, "result": "just in time"})).await;
    assert_eq!(drawn(request.await.unwrap()), json!("just in time"));

    let request = bo.begin("room_app_request", payload(&app));
    let came = asked(&mut ana).await;
    stage.pass(15_000).await;
    assert_eq!(request.await.unwrap().code(), "timeout");
    answer(&ana, &came, json!({"ok": true, "result": "late"})).await;

    let request = bo.begin("room_app_request", payload(&app));
    let came = asked(&mut ana).await;
    answer(&ana, &came, json!({"ok": true, "result": "next"})).await;
    assert_eq!(drawn(request.await.unwrap()), json!("next"));
}

async fn four_requests_at_once(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    let app = whiteboard(&mut bo).await;
    hosts(&ana, &app).await;
    let mut open = Vec::new();
    let mut came = Vec::new();
    for _ in 0..4 {
        open.push(bo.begin("room_app_request", payload(&app)));
        came.push(asked(&mut ana).await);
    }
    let fifth = bo.called("room_app_request", payload(&app)).await;
    assert_eq!((fifth.code(), &fifth.value["limit"]), ("too_many_requests", &json!(4)));
    // One answered makes room for one.
    answer(&ana, &came[2], json!({"ok": true, "result": 2})).await;
    assert_eq!(drawn(open.remove(2).await.unwrap()), json!(2));
    open.push(bo.begin("room_app_request", payload(&app)));
    asked(&mut ana).await;
    ana.ok("app_host_detach", json!({"appInstanceId": app["appInstanceId"]})).await;
    for request in open {
        assert_eq!(request.await.unwrap().code(), "host_unavailable");
    }
    assert_eq!(whiteboard(&mut bo).await["callable"], false);
}

async fn the_smallest_of_several_hosts_answers(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    let mut cy = stage.human(&bo.room, "Cy").await;
    assert!(ana.id < cy.id);
    let app = whiteboard(&mut bo).await;
    hosts(&cy, &app).await;
    hosts(&ana, &app).await;
    let mut tab = ana.tab(stage.number()).await;
    tab.ok("attach_human", json!({})).await;
    hosts(&tab, &app).await;
    // Ana's before Cy's, and her older connection before the newer, whoever came first.
    for host in [&mut ana, &mut tab, &mut cy] {
        let request = bo.begin("room_app_request", payload(&app));
        let came = asked(host).await;
        host.detach().await;
        let lost = request.await.unwrap();
        assert_eq!(lost.code(), "host_disconnected", "{came}");
    }
    assert_eq!(bo.code("room_app_request", payload(&app)).await, "host_unavailable");
}

async fn whoever_goes_ends_what_waits(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    let app = whiteboard(&mut bo).await;
    hosts(&ana, &app).await;
    let request = bo.begin("room_app_request", payload(&app));
    asked(&mut ana).await;
    ana.ok("leave_human", json!({})).await;
    assert_eq!(request.await.unwrap().code(), "host_unavailable");

    let mut cy = stage.human(&bo.room, "Cy").await;
    hosts(&cy, &app).await;
    let request = bo.begin("room_app_request", payload(&app));
    asked(&mut cy).await;
    bo.ok("leave_room", json!({})).await;
    assert_eq!(request.await.unwrap().code(), "agent_disconnected");
}
