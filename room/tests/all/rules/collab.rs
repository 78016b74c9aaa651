//! Requests, answers, results and Task records (rooms 12, 13; ours 12-14).

use object::ParticipantId;
use serde_json::{Value, json};

use crate::testing::{Answer, Bench, code};

fn request(bench: &mut Bench, from: ParticipantId, to: ParticipantId, id: &str) -> Answer {
    let args = json!({"targetParticipantId": to.to_string(), "summary": "do", "requestId": id});
    bench.call("send_collab_request", from, &args)
}

fn respond(bench: &mut Bench, who: ParticipantId, id: &str, decision: &str) -> Answer {
    bench.call("send_collab_response", who, &json!({"requestId": id, "decision": decision}))
}

fn result(bench: &mut Bench, who: ParticipantId, id: &str, status: &str) -> Answer {
    let args = json!({"requestId": id, "status": status, "summary": "out"});
    bench.call("send_collab_result", who, &args)
}

#[test]
fn a_request_is_deduplicated_by_sender_and_id() {
    let mut bench = Bench::new();
    let (a, b, c) = (bench.join("A"), bench.join("B"), bench.join("C"));
    let first = request(&mut bench, a, b, "plan-0001").unwrap();
    assert_eq!((&first["requestId"], &first["sequence"]), (&json!("plan-0001"), &json!(1)));
    assert_eq!(first.get("duplicate"), None);
    let again = request(&mut bench, a, c, "plan-0001").unwrap();
    assert_eq!((&again["sequence"], &again["duplicate"]), (&json!(1), &json!(true)));
    assert_eq!(code(request(&mut bench, c, b, "plan-0001")), "request_id_conflict");
    assert_eq!(code(request(&mut bench, a, a, "plan-0002")), "self_request");
    let stranger = bench.fresh_id();
    assert_eq!(code(request(&mut bench, a, stranger, "plan-0003")), "target_not_in_room");
    assert_eq!(code(request(&mut bench, a, b, "x")), "invalid_arguments");
    let unnamed = json!({"targetParticipantId": b.to_string(), "summary": "s"});
    let made = bench.call("send_collab_request", a, &unnamed).unwrap();
    assert_eq!(made["requestId"].as_str().unwrap().len(), 36);
}

#[test]
fn the_lifecycle_is_kept() {
    // What was sent before, what is sent now, and how it ends: ok, duplicate, or a code.
    let table: &[(&[&str], &str, &str)] = &[
        (&[], "accepted", "ok"),
        (&[], "declined", "ok"),
        (&[], "completed", "ok"),
        (&["accepted"], "accepted", "duplicate"),
        (&["accepted"], "declined", "request_already_accepted"),
        (&["accepted"], "failed", "ok"),
        (&["declined"], "declined", "duplicate"),
        (&["declined"], "accepted", "request_declined"),
        (&["declined"], "completed", "request_declined"),
        (&["completed"], "completed", "duplicate"),
        (&["completed"], "failed", "request_already_settled"),
        (&["completed"], "accepted", "request_already_settled"),
        (&["accepted", "completed"], "accepted", "duplicate"),
        (&["accepted", "failed"], "declined", "request_already_settled"),
    ];
    for (before, now, end) in table {
        let mut bench = Bench::new();
        let (a, b) = (bench.join("A"), bench.join("B"));
        request(&mut bench, a, b, "task-1").unwrap();
        let step = |bench: &mut Bench, kind: &str| match kind {
            "accepted" | "declined" => respond(bench, b, "task-1", kind),
            _ => result(bench, b, "task-1", kind),
        };
        for kind in *before {
            step(&mut bench, kind).unwrap();
        }
        let sequence = bench.room.state().sequence;
        let shown = match step(&mut bench, now) {
            Ok(answer) if answer.get("duplicate").is_some() => "duplicate",
            Ok(_) => "ok",
            Err(reject) => reject.code,
        };
        assert_eq!(shown, *end, "{before:?} then {now}");
        assert_eq!(bench.room.state().sequence > sequence, *end == "ok");
    }
}

#[test]
fn a_result_without_a_decision_implies_acceptance() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    request(&mut bench, a, b, "task-1").unwrap();
    result(&mut bench, b, "task-1", "completed").unwrap();
    request(&mut bench, a, b, "task-2").unwrap();
    respond(&mut bench, b, "task-2", "accepted").unwrap();
    result(&mut bench, b, "task-2", "completed").unwrap();
    let answer = bench.call("wait_for_events", a, &json!({})).unwrap();
    let collab = |n: usize| answer["events"][n]["collab"].clone();
    assert_eq!(collab(0)["impliedAcceptance"], true);
    assert_eq!(collab(0)["fromParticipantId"], b.to_string());
    assert_eq!(collab(0)["targetParticipantId"], a.to_string());
    assert_eq!(answer["events"][0]["addressed"], true);
    assert_eq!(answer["events"][0]["actionType"], "collab");
    assert_eq!(collab(2).get("impliedAcceptance"), None);
}

#[test]
fn only_the_target_answers_and_only_what_is_known() {
    let mut bench = Bench::new();
    let (a, b, c) = (bench.join("A"), bench.join("B"), bench.join("C"));
    request(&mut bench, a, b, "task-1").unwrap();
    assert_eq!(code(respond(&mut bench, a, "task-1", "accepted")), "not_request_target");
    assert_eq!(code(result(&mut bench, c, "task-1", "failed")), "not_request_target");
    assert_eq!(code(respond(&mut bench, b, "task-9", "accepted")), "unknown_request");
    // The requester may be gone.
    bench.call("leave_room", a, &json!({})).unwrap();
    respond(&mut bench, b, "task-1", "accepted").unwrap();
}

#[test]
fn references_are_kept_files_of_the_room_or_of_this_task() {
    let mut bench = Bench::new();
    let (a, b, c) = (bench.join("A"), bench.join("B"), bench.join("C"));
    let file = |task: Option<&str>| {
        let mut args = json!({"fileName": "f", "mimeType": "text/plain"});
        if let Some(task) = task {
            args["taskRequestId"] = json!(task);
        }
        args
    };
    let id = |answer: Value| answer["attachment"]["id"].clone();
    request(&mut bench, a, b, "task-1").unwrap();
    request(&mut bench, a, b, "task-2").unwrap();
    request(&mut bench, a, c, "task-3").unwrap();
    let free = id(bench.send("send_attachment", a, &file(None), b"1").unwrap());
    let mine = id(bench.send("send_attachment", b, &file(Some("task-1")), b"2").unwrap());
    let other = id(bench.send("send_attachment", b, &file(Some("task-2")), b"3").unwrap());
    let hidden = id(bench.send("send_attachment", c, &file(Some("task-3")), b"4").unwrap());
    let send = |bench: &mut Bench, ids: Value| {
        let args = json!({"requestId": "task-1", "status": "completed", "summary": "s",
            "attachmentIds": ids});
        bench.call("send_collab_result", b, &args)
    };
    assert_eq!(code(send(&mut bench, json!([other]))), "attachment_task_mismatch");
    assert_eq!(code(send(&mut bench, json!([hidden]))), "unknown_attachment");
    let gone = bench.fresh_id().to_string();
    assert_eq!(code(send(&mut bench, json!([gone]))), "unknown_attachment");
    assert_eq!(code(send(&mut bench, json!([free, mine, free, mine]))), "invalid_arguments");
    send(&mut bench, json!([free, mine])).unwrap();
}

#[test]
fn the_129th_task_drops_the_oldest_settled_one_else_the_oldest() {
    let mut bench = Bench::new();
    let (a, b, c) = (bench.join("A"), bench.join("B"), bench.join("C"));
    for n in 0..128 {
        request(&mut bench, a, b, &format!("task-{n:03}")).unwrap();
    }
    result(&mut bench, b, "task-005", "failed").unwrap();
    assert!(bench.room.state().message_at(1).is_none(), "the ring has forgotten the request");
    respond(&mut bench, b, "task-000", "accepted").unwrap();
    request(&mut bench, a, b, "task-128").unwrap();
    assert!(bench.room.state().task("task-005").is_none());
    assert!(bench.room.state().task("task-000").is_some());
    request(&mut bench, a, b, "task-129").unwrap();
    assert!(bench.room.state().task("task-000").is_none());
    assert_eq!(code(respond(&mut bench, b, "task-000", "declined")), "unknown_request");
    // The dropped Task's events are hidden, and its id may be used anew.
    let page =
        bench.call("read_room_context", b, &json!({"order": "newest", "limit": 50})).unwrap();
    let scopes: Vec<_> = page["events"].as_array().unwrap().iter().map(|e| &e["scopeId"]).collect();
    assert!(!scopes.contains(&&json!("task:task-005")));
    request(&mut bench, c, b, "task-005").unwrap();
}

#[test]
fn a_request_between_two_agents_is_hidden_from_a_third() {
    let mut bench = Bench::new();
    let (a, b, c) = (bench.join("A"), bench.join("B"), bench.join("C"));
    request(&mut bench, a, b, "task-1").unwrap();
    assert_eq!(bench.call("wait_for_events", c, &json!({})).unwrap()["events"], json!([]));
    let seen = bench.call("wait_for_events", b, &json!({})).unwrap();
    assert_eq!(seen["events"][0]["collab"]["kind"], "request");
    assert_eq!(seen["events"][0]["collab"]["summary"], "do");
}
