//! People and agents work: Tasks, files, and who hears of what.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::agent::Agent;
use crate::link::Human;
use crate::stage::{Stage, both};

both!(a_human_gives_an_agent_work, a_file_wakes_only_if_it_says_so, an_agent_asks_a_human);

/// The next message of a collaboration, as the browser is shown it.
async fn collab(human: &mut Human) -> Value {
    human.until(|frame| frame["message"]["actionType"] == "collab").await["message"].take()
}

async fn a_human_gives_an_agent_work(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    let mut dee = stage.agent(&bo.room, "Dee").await;
    // The brief is uploaded ahead, and referenced by the request.
    let brief = json!({"mimeType": "text/csv", "fileName": "brief.csv"});
    let sent = ana.upload("human_send_attachment", brief, b"a,b\n").await;
    let file = sent["attachment"]["id"].clone();
    let shown = ana.until(|frame| frame["type"] == "attachment").await;
    assert_eq!((&shown["attachment"]["id"], &shown["attachment"]["size"]), (&file, &json!(4)));
    let work = json!({"targetParticipantId": bo.id, "requestId": "plan-0001",
        "summary": "Read the brief", "attachmentIds": [file]});
    ana.ok("human_collab_request", work.clone()).await;
    assert_eq!(collab(&mut ana).await["taskRequestId"], "plan-0001");
    assert_eq!(ana.code("human_collab_request", work).await, "task_request_id_in_use");
    let nobody = json!({"targetParticipantId": ana.id.to_string(), "summary": "x"});
    assert_eq!(ana.code("human_collab_request", nobody).await, "self_request");

    let polled = bo.poll().await;
    let [image, request] = &polled["events"].as_array().unwrap()[..] else { panic!("{polled}") };
    assert_eq!((&image["type"], &image["addressed"]), (&json!("image"), &json!(false)));
    assert_eq!(
        (&request["addressed"], &request["scopeId"]),
        (&json!(true), &json!("task:plan-0001"))
    );
    assert_eq!(request["collab"]["attachmentIds"], json!([file]));
    let read = bo.ok("read_attachment", json!({"attachmentId": file})).await;
    assert_eq!(read["text"], "a,b\n");

    bo.ok("send_collab_response", json!({"requestId": "plan-0001", "decision": "accepted"})).await;
    assert_eq!(collab(&mut ana).await["collab"]["kind"], "accepted");
    // Without targets a Task's message is for its primary agent.
    ana.ok("human_chat", json!({"text": "hurry", "taskRequestId": "plan-0001"})).await;
    let hurry = bo.next().await;
    assert_eq!((&hurry["text"], &hurry["addressed"]), (&json!("hurry"), &json!(true)));
    let chart = json!({"mimeType": "text/csv", "fileName": "out.csv", "taskRequestId": "plan-0001",
        "dataBase64": STANDARD.encode("1,2\n")});
    bo.ok("send_attachment", chart).await;
    let shown = ana.until(|frame| frame["type"] == "attachment").await["attachment"].clone();
    assert_eq!(
        (&shown["senderKind"], &shown["taskRequestId"]),
        (&json!("agent"), &json!("plan-0001"))
    );
    let (body, bytes, image) =
        ana.load("human_read_attachment", json!({"attachmentId": shown["id"]})).await;
    assert_eq!((&body["attachment"]["fileName"], &bytes[..]), (&json!("out.csv"), &b"1,2\n"[..]));
    assert_eq!(image, None);
    let done = json!({"requestId": "plan-0001", "status": "completed", "summary": "Done"});
    bo.ok("send_collab_result", done).await;
    let told = collab(&mut ana).await;
    assert_eq!(
        (&told["collab"]["kind"], &told["collab"]["summary"]),
        (&json!("completed"), &json!("Done"))
    );

    only_who_is_admitted_hears(&ana, &mut dee).await;
}

async fn only_who_is_admitted_hears(ana: &Human, dee: &mut Agent) {
    // Dee is not of the Task: it has seen the file that went to the room, until Ana admits it.
    assert_eq!(dee.next().await["type"], "image");
    let admit = json!({"text": "Dee, look", "taskRequestId": "plan-0001", "targets": [dee.id]});
    ana.ok("human_chat", admit).await;
    assert_eq!(dee.next().await["addressed"], true);
    let text = |task: &str, targets: Value| json!({"text": "x", "taskRequestId": task, "targets": targets});
    for (args, code) in [
        (text("?", json!([])), "invalid_task_request"),
        (text("plan-0009", json!([])), "unknown_task_request"),
        (text("plan-0001", json!(["nobody"])), "task_target_not_in_room"),
        (text("plan-0001", json!([ana.id.to_string()])), "task_target_not_agent"),
    ] {
        assert_eq!(ana.code("human_chat", args).await, code);
    }
}

async fn a_file_wakes_only_if_it_says_so(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let ana = stage.human(&bo.room, "Ana").await;
    let work = json!({"targetParticipantId": bo.id, "requestId": "plan-0001", "summary": "Look"});
    ana.ok("human_collab_request", work).await;
    bo.next().await;
    for wake in [true, false] {
        let args = json!({"mimeType": "image/png", "taskRequestId": "plan-0001", "taskWake": wake});
        ana.upload("human_send_attachment", args, b"png").await;
        let seen = bo.next().await;
        assert_eq!((&seen["type"], &seen["addressed"]), (&json!("image"), &json!(wake)));
        assert_eq!(seen["attachment"]["taskRequestId"], "plan-0001");
    }
}

async fn an_agent_asks_a_human(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    let cy = stage.human(&bo.room, "Cy").await;
    let ask = json!({"targetParticipantId": ana.id.to_string(), "requestId": "ask-00001",
        "summary": "Which colour?"});
    bo.ok("send_collab_request", ask).await;
    assert_eq!(collab(&mut ana).await["collab"]["summary"], "Which colour?");
    let accept = json!({"requestId": "ask-00001", "decision": "accepted"});
    assert_eq!(cy.code("human_collab_response", accept.clone()).await, "not_request_target");
    ana.ok("human_collab_response", accept).await;
    let heard = bo.next().await;
    assert_eq!((&heard["collab"]["kind"], &heard["addressed"]), (&json!("accepted"), &json!(true)));
    let done = json!({"requestId": "ask-00001", "status": "completed", "summary": "Blue"});
    let first = ana.ok("human_collab_result", done.clone()).await;
    let again = ana.ok("human_collab_result", done).await;
    assert_eq!((&again["duplicate"], &again["sequence"]), (&json!(true), &first["sequence"]));
    assert_eq!(bo.next().await["collab"]["summary"], "Blue");
}
