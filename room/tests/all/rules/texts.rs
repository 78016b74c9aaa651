//! Text, targets, visibility and arguments (rooms 7, 8, 11; ours 3, 18).

use serde_json::json;

use crate::testing::{Bench, code};

#[test]
fn own_text_is_in_context_but_not_in_own_wait() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("Ana"), bench.join("Bo"));
    let sent = bench.call("send_text", a, &json!({"text": "  hello  "})).unwrap();
    assert_eq!(sent["sequence"], 1);
    assert_eq!(sent["expiresAt"], 4_102_444_800_000_u64);
    let own = bench.call("wait_for_events", a, &json!({"cursor": 0})).unwrap();
    assert_eq!(own["events"], json!([]));
    assert_eq!(own["cursor"], 1);
    let other = bench.call("wait_for_events", b, &json!({"cursor": 0})).unwrap();
    assert_eq!(other["events"][0]["text"], "hello");
    assert_eq!(other["events"][0]["addressed"], false);
    assert_eq!(other["events"][0]["participant"]["name"], "Ana");
    let context = bench.call("read_room_context", a, &json!({})).unwrap();
    assert_eq!(context["events"][0]["text"], "hello");
}

#[test]
fn ordinary_targets_are_hints() {
    let mut bench = Bench::new();
    let (a, b, c) = (bench.join("A"), bench.join("B"), bench.join("C"));
    let stranger = bench.fresh_id().to_string();
    let targets = json!([a.to_string(), stranger, b.to_string(), b.to_string(), "nonsense"]);
    bench.call("send_text", a, &json!({"text": "x", "targetParticipantIds": targets})).unwrap();
    for (reader, addressed) in [(b, true), (c, false)] {
        let answer = bench.call("wait_for_events", reader, &json!({})).unwrap();
        assert_eq!(answer["events"][0]["addressed"], addressed);
    }
    let only_self = json!({"text": "y", "targetParticipantIds": [a.to_string()]});
    bench.call("send_text", a, &only_self).unwrap();
    let context = bench.call("read_room_context", a, &json!({"afterSequence": 1})).unwrap();
    assert_eq!(context["events"][0]["addressed"], false);
}

#[test]
fn every_fault_is_listed_at_once() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    let args = json!({
        "text": "   ",
        "targetParticipantIds": ["", 7],
        "taskRequestId": false,
        "clientRequestId": "not ok!",
        "unknown": {"kept": "out"},
    });
    let reject = bench.call("send_text", a, &args).unwrap_err();
    assert_eq!(reject.code, "invalid_arguments");
    let found: Vec<_> = reject.faults.iter().map(|f| (f.path.as_str(), f.rule)).collect();
    assert_eq!(
        found,
        [
            ("text", "minLength"),
            ("targetParticipantIds[0]", "minLength"),
            ("targetParticipantIds[1]", "type"),
            ("taskRequestId", "type"),
            ("clientRequestId", "pattern"),
        ]
    );
}

#[test]
fn lengths_count_utf16_units() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    let fits = json!({"text": "😀".repeat(2_000)});
    bench.call("send_text", a, &fits).unwrap();
    let over = json!({"text": format!("{}x", "😀".repeat(2_000))});
    assert_eq!(code(bench.call("send_text", a, &over)), "invalid_arguments");
    let name = json!({"roomId": "r", "name": "😀".repeat(17)});
    let id = bench.fresh_id();
    let joined = bench.call_as("join_room", object::Caller::Joining(id), &name, None);
    assert_eq!(code(joined), "invalid_arguments");
}

#[test]
fn numbers_are_whole_and_safe() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    for (cursor, ok) in [
        (json!(3.0), true),
        (json!(9_007_199_254_740_991_u64), true),
        (json!(9_007_199_254_740_992_u64), false),
        (json!(1.5), false),
        (json!(-1), false),
        (json!("1"), false),
        (json!(null), false),
    ] {
        let answer = bench.call("wait_for_events", a, &json!({"cursor": cursor}));
        assert_eq!(answer.is_ok(), ok, "{cursor}");
    }
}

#[test]
fn task_text_is_strict_and_admits_its_targets() {
    let mut bench = Bench::new();
    let (a, b, c) = (bench.join("A"), bench.join("B"), bench.join("C"));
    let ask = json!({"targetParticipantId": b.to_string(), "summary": "do", "requestId": "plan-1"});
    bench.call("send_collab_request", a, &ask).unwrap();
    let text = |task: &str, targets: serde_json::Value| json!({"text": "t", "taskRequestId": task, "targetParticipantIds": targets});
    let none = json!([]);
    assert_eq!(code(bench.call("send_text", a, &text("x", none.clone()))), "invalid_task_request");
    assert_eq!(
        code(bench.call("send_text", a, &text("none-1", none.clone()))),
        "unknown_task_request"
    );
    assert_eq!(
        code(bench.call("send_text", c, &text("plan-1", none.clone()))),
        "task_target_mismatch"
    );
    let stranger = json!([bench.fresh_id().to_string()]);
    assert_eq!(
        code(bench.call("send_text", a, &text("plan-1", stranger))),
        "task_target_not_in_room"
    );

    bench.call("send_text", a, &text("plan-1", none)).unwrap();
    let before = bench.call("wait_for_events", c, &json!({})).unwrap();
    assert_eq!(before["events"], json!([]), "a Task is hidden from others");
    bench.call("send_text", a, &text("plan-1", json!([c.to_string()]))).unwrap();
    let live = bench.call("wait_for_events", c, &json!({"cursor": 0})).unwrap();
    let sequences: Vec<_> =
        live["events"].as_array().unwrap().iter().map(|e| e["sequence"].clone()).collect();
    assert_eq!(sequences, [3], "a wait shows a Task from the admission on");
    assert_eq!(live["events"][0]["scopeId"], "task:plan-1");
    assert_eq!(live["events"][0]["addressed"], true);
    let whole = bench.call("read_room_context", c, &json!({})).unwrap();
    assert_eq!(whole["events"].as_array().unwrap().len(), 3, "history shows all of it");
    bench.call("send_text", c, &text("plan-1", json!([]))).unwrap();
}

#[test]
fn the_ring_keeps_100_messages_and_80_kib() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    for n in 1..=101 {
        bench.call("send_text", a, &json!({"text": format!("m{n}")})).unwrap();
    }
    let answer = bench.call("wait_for_events", b, &json!({"cursor": 0})).unwrap();
    assert_eq!(answer["events"].as_array().unwrap().len(), 100);
    assert_eq!(answer["truncated"], true);
    assert_eq!(answer["events"][0]["text"], "m2");
    let seen = bench.call("wait_for_events", b, &json!({"cursor": 1})).unwrap();
    assert_eq!(seen.get("truncated"), None, "nothing after the cursor is lost");
    for _ in 0..30 {
        bench.call("send_text", a, &json!({"text": "x".repeat(4_000)})).unwrap();
    }
    assert!(bench.room.state().message_bytes <= 80 * 1024);
    assert!(bench.room.state().messages.len() < 21);
    bench.call("send_text", a, &json!({"text": "é".repeat(4_000)})).unwrap();
}
