//! What an end takes with it: of a lease, of a Task, of a room, of a remembered fact
//! (rooms 9.2, 13, 18; ours 11, 14, 15, 17).

use object::{Attached, Caller, Object, ParticipantId};
use serde_json::{Value, json};

use crate::testing::{Attempt, Bench, code};

fn request(bench: &mut Bench, from: ParticipantId, to: ParticipantId, id: &str) {
    let args = json!({"targetParticipantId": to.to_string(), "summary": "do", "requestId": id});
    bench.call("send_collab_request", from, &args).unwrap();
}

fn bundle(html: &str) -> Vec<u8> {
    let bundle = json!({"version": 1, "manifest": {"title": "Vote", "networkOrigins": []},
        "html": html, "css": "p{}", "js": "1", "initialState": {}});
    bundle.to_string().into_bytes()
}

fn panel(task: &str, revision: u64) -> Value {
    json!({"taskRequestId": task, "surface": {"surfaceId": "s", "revision": revision,
        "root": {"type": "Text", "text": "t"}, "data": {"duplicate": true}}})
}

/// A and B, with an open Task, an accepted one with panel and app, and one of A's own.
fn busy_room() -> (Bench, ParticipantId, ParticipantId) {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    request(&mut bench, b, a, "open-1");
    request(&mut bench, b, a, "done-1");
    request(&mut bench, a, b, "mine-1");
    let yes = json!({"requestId": "done-1", "decision": "accepted"});
    bench.call("send_collab_response", a, &yes).unwrap();
    bench.call("publish_live_view", a, &panel("done-1", 1)).unwrap();
    let app = json!({"taskRequestId": "done-1"});
    bench.send("publish_generated_app", a, &app, &bundle("x")).unwrap();
    (bench, a, b)
}

type Row = (&'static str, Value, Option<Vec<u8>>, bool);

/// Every tool by handle, in a room with Tasks from B to A: whether it renews A's lease.
fn renewals() -> Vec<Row> {
    let host = json!({"runtimeHost": {"runtimeHostId": "host-0001",
        "speech": {"stt": true, "tts": true}}});
    vec![
        ("wait_for_events", json!({}), None, true),
        ("read_room_context", json!({}), None, false),
        ("send_text", json!({"text": "x"}), None, true),
        ("send_text", json!({"text": "x", "taskRequestId": "none-1"}), None, false),
        ("update_capabilities", json!({"capabilities": []}), None, true),
        ("update_runtime_host", host, None, true),
        ("send_collab_request", json!({"requestId": "new-1", "summary": "s"}), None, true),
        ("send_collab_request", json!({"requestId": "mine-1", "summary": "s"}), None, false),
        (
            "send_collab_response",
            json!({"requestId": "open-1", "decision": "accepted"}),
            None,
            true,
        ),
        (
            "send_collab_response",
            json!({"requestId": "done-1", "decision": "accepted"}),
            None,
            false,
        ),
        (
            "send_collab_result",
            json!({"requestId": "open-1", "status": "failed", "summary": "s"}),
            None,
            true,
        ),
        (
            "send_attachment",
            json!({"fileName": "f", "mimeType": "text/plain"}),
            Some(b"x".to_vec()),
            true,
        ),
        ("read_attachment", json!({}), None, true),
        ("publish_surface", json!({"mimeType": "image/png"}), Some(b"x".to_vec()), true),
        ("clear_surface", json!({}), None, true),
        ("read_surface", json!({}), None, true),
        ("publish_live_view", panel("open-1", 1), None, true),
        ("publish_live_view", panel("done-1", 1), None, false),
        ("publish_generated_app", json!({"taskRequestId": "open-1"}), Some(bundle("x")), true),
        ("publish_generated_app", json!({"taskRequestId": "done-1"}), Some(bundle("x")), false),
        (
            "room_app_request",
            json!({"appInstanceId": "whiteboard:00000000", "payload": {}}),
            None,
            false,
        ),
    ]
}

#[test]
fn a_lease_is_renewed_by_what_changes_something() {
    for (op, mut args, bytes, renews) in renewals() {
        let (mut bench, a, b) = busy_room();
        let file = json!({"fileName": "f", "mimeType": "text/plain"});
        let file = bench.send("send_attachment", b, &file, b"x").unwrap();
        let png = json!({"mimeType": "image/png"});
        let shown = bench.send("publish_surface", b, &png, b"x").unwrap();
        match op {
            "send_collab_request" => args["targetParticipantId"] = json!(b.to_string()),
            "read_attachment" => args["attachmentId"] = file["attachment"]["id"].clone(),
            "read_surface" => {
                args["sourceParticipantId"] = json!(b.to_string());
                args["snapshotId"] = shown["surface"]["snapshotId"].clone();
            }
            _ => {}
        }
        let before = bench.leases[&a];
        let sequence = bench.room.state().sequence;
        bench.pass(5_000);
        let answer = bench.call_as(op, Caller::Participant(a), &args, bytes.as_deref());
        let end = bench.leases[&a];
        assert_eq!(end.0 == bench.now + 90_000, renews, "{op} {answer:?}");
        assert!(renews || end == before, "{op}");
        // Only what is said or sent takes a place in the shared sequence (rooms 7.3).
        let speaks = op.starts_with("send_") && renews;
        assert_eq!(bench.room.state().sequence > sequence, speaks, "{op}");
        // A remembered change is answered again without a renewal.
        args["clientRequestId"] = json!("k");
        let _ = bench.call_as(op, Caller::Participant(a), &args, bytes.as_deref());
        bench.pass(1_000);
        let kept = bench.leases[&a];
        let again = bench.call_as(op, Caller::Participant(a), &args, bytes.as_deref());
        if again.is_ok_and(|answer| answer["duplicate"] == true) {
            assert_eq!(bench.leases[&a], kept, "{op}");
        }
    }
}

#[test]
fn a_dropped_task_takes_its_artifacts_and_its_visibility_along() {
    let mut bench = Bench::new();
    let (a, b, c) = (bench.join("A"), bench.join("B"), bench.join("C"));
    request(&mut bench, a, b, "plan-000");
    let admit = json!({"text": "in", "taskRequestId": "plan-000",
        "targetParticipantIds": [c.to_string()]});
    bench.call("send_text", a, &admit).unwrap();
    bench.call("publish_live_view", b, &panel("plan-000", 1)).unwrap();
    let task = json!({"taskRequestId": "plan-000", "clientRequestId": "app"});
    let first = bench.send("publish_generated_app", b, &task, &bundle("x")).unwrap();
    bench.pass(10);
    let update = json!({"taskRequestId": "plan-000", "clientRequestId": "update"});
    let second = bench.send("publish_generated_app", b, &update, &bundle("y")).unwrap();
    let file = json!({"fileName": "f", "mimeType": "text/plain", "taskRequestId": "plan-000",
        "clientRequestId": "file"});
    let sent = bench.send("send_attachment", b, &file, b"x").unwrap();
    let read = json!({"attachmentId": sent["attachment"]["id"]});
    for who in [a, b, c] {
        bench.call("read_attachment", who, &read).unwrap();
    }
    for n in 1..=128 {
        bench.pass(1);
        request(&mut bench, a, b, &format!("plan-{n:03}"));
    }
    let state = bench.room.state();
    assert!(state.task("plan-000").is_none() && state.task("plan-001").is_some());
    assert!(state.live_views.is_empty() && state.apps.is_empty());
    assert_eq!(bench.kept.len(), 1, "the bundle is gone, the file keeps its place in the ring");
    for who in [a, b, c] {
        assert_eq!(code(bench.call("read_attachment", who, &read)), "attachment_unavailable");
        let page = json!({"order": "newest", "limit": 50});
        let page = bench.call("read_room_context", who, &page).unwrap();
        assert!(!page.to_string().contains("plan-000"));
    }
    let refer = json!({"targetParticipantId": a.to_string(), "summary": "s",
        "attachmentIds": [sent["attachment"]["id"]]});
    assert_eq!(code(bench.call("send_collab_request", b, &refer)), "unknown_attachment");
    // What was remembered is still answered: all of it that is known.
    let mut again = bench.send("publish_generated_app", b, &task, &bundle("x")).unwrap();
    assert_eq!(again["publication"], first["publication"]);
    assert_eq!(again["duplicate"], true);
    again = bench.send("publish_generated_app", b, &update, &bundle("y")).unwrap();
    for key in ["appInstanceId", "bundleRevision", "updatedAt", "title", "bundleBytes"] {
        assert_eq!(again["publication"][key], second["publication"][key], "{key}");
    }
    let again = bench.send("send_attachment", b, &file, b"x").unwrap();
    assert_eq!(again["attachment"], sent["attachment"]);
    // The sequence of the dropped request is no Task any more: its id may be used by anybody.
    request(&mut bench, c, b, "plan-000");
}

#[test]
fn a_reborn_room_knows_nothing_of_its_former_life() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    request(&mut bench, a, b, "plan-1");
    bench.call("publish_live_view", b, &panel("plan-1", 1)).unwrap();
    let png = json!({"mimeType": "image/png"});
    bench.send("publish_surface", a, &png, b"x").unwrap();
    let file = json!({"fileName": "f", "mimeType": "text/plain"});
    bench.send("send_attachment", a, &file, b"x").unwrap();
    bench.pass(89_999);
    bench.settle();
    assert_eq!(bench.room.state().participants.len(), 2);
    // Both leases end with nobody calling; the empty timer counts from then.
    bench.pass(1);
    bench.settle();
    assert!(bench.exists && bench.room.state().participants.is_empty());
    assert_eq!(bench.room.state().expires_at.0, bench.now + 1_800_000);
    assert_eq!(bench.room.state().hosts.len(), 0);
    let look = json!({"roomId": "blue-otter"});
    let info = bench.call_as("room_info", Caller::Anonymous, &look, None).unwrap();
    assert_eq!((&info["exists"], &info["participants"]), (&json!(true), &json!([])));
    assert_eq!(info["expiresAt"], json!(bench.now + 1_800_000));
    bench.pass(1_800_000);
    let info = bench.call_as("room_info", Caller::Anonymous, &look, None).unwrap();
    assert_eq!((&info["exists"], &info["expiresAt"]), (&json!(false), &Value::Null));
    assert!(bench.kept.is_empty() && bench.leases.is_empty());

    let c = bench.join("C");
    for old in [a, b] {
        for (op, args) in [
            ("wait_for_events", json!({})),
            ("read_room_context", json!({})),
            ("send_text", json!({"text": "x"})),
            ("clear_surface", json!({})),
        ] {
            assert_eq!(code(bench.call(op, old, &args)), "invalid_participant_handle");
        }
        assert_eq!(code(bench.call("leave_room", old, &json!({}))), "already_left");
    }
    // A cursor of the former life lies ahead: the room's own is adopted at once.
    let ahead = bench.call("wait_for_events", c, &json!({"cursor": 99})).unwrap();
    assert_eq!((&ahead["cursor"], &ahead["events"]), (&json!(0), &json!([])));
    assert_eq!(ahead.get("truncated"), None);
    let sent = bench.call("send_text", c, &json!({"text": "x"})).unwrap();
    assert_eq!(sent["sequence"], 1);
    assert!(bench.room.state().tasks.is_empty());
}

#[test]
fn the_floor_is_exact() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    for n in 0..104 {
        bench.call("send_text", a, &json!({"text": format!("{n}")})).unwrap();
    }
    // 1 to 4 are gone.
    for (cursor, truncated) in [(0, true), (3, true), (4, false), (5, false)] {
        let wait = bench.call("wait_for_events", b, &json!({"cursor": cursor})).unwrap();
        assert_eq!(wait.get("truncated").is_some(), truncated, "{cursor}");
        assert_eq!(wait["events"][0]["sequence"], json!(cursor.max(4) + 1));
        for who in [a, b] {
            let page = json!({"afterSequence": cursor, "beforeSequence": 104});
            let page = bench.call("read_room_context", who, &page).unwrap();
            assert_eq!(page.get("truncated").is_some(), truncated, "{cursor}");
            assert_eq!(
                (&page["oldestSequence"], &page["newestSequence"]),
                (&json!(5), &json!(104))
            );
        }
        // Its own lost messages are no loss to the author's waits.
        let own = bench.call("wait_for_events", a, &json!({"cursor": cursor})).unwrap();
        assert_eq!(own.get("truncated"), None);
    }
    let first = bench.call("read_room_context", b, &json!({})).unwrap();
    assert_eq!(first.get("truncated"), None, "only a page after a cursor can miss something");
    // Who comes later is not told of what was lost before by a wait from its own cursor.
    let c = bench.join("C");
    let wait = bench.call("wait_for_events", c, &json!({"cursor": 104})).unwrap();
    assert_eq!(wait.get("truncated"), None);
}

#[test]
fn an_admitted_agent_waits_from_its_admission_and_reads_from_the_start() {
    let mut bench = Bench::new();
    let (a, b, c) = (bench.join("A"), bench.join("B"), bench.join("C"));
    request(&mut bench, a, b, "plan-1");
    let file = json!({"fileName": "f", "mimeType": "image/png", "taskRequestId": "plan-1"});
    let sent = bench.send("send_attachment", a, &file, b"x").unwrap();
    let read = json!({"attachmentId": sent["attachment"]["id"]});
    assert_eq!(code(bench.call("read_attachment", c, &read)), "attachment_unavailable");
    let hidden = bench.call("wait_for_events", c, &json!({})).unwrap();
    assert_eq!((&hidden["events"], &hidden["cursor"]), (&json!([]), &json!(2)));
    let admit =
        json!({"text": "in", "taskRequestId": "plan-1", "targetParticipantIds": [c.to_string()]});
    bench.call("send_text", b, &admit).unwrap();
    let live = bench.call("wait_for_events", c, &json!({})).unwrap();
    let sequences = |answer: &Value| -> Vec<Value> {
        answer["events"].as_array().unwrap().iter().map(|e| e["sequence"].clone()).collect()
    };
    assert_eq!(sequences(&live), [json!(3)]);
    assert_eq!(live["events"][0]["addressed"], true);
    let page = bench.call("read_room_context", c, &json!({})).unwrap();
    assert_eq!(sequences(&page), [json!(1), json!(2), json!(3)]);
    bench.call("read_attachment", c, &read).unwrap();
    assert!(matches!(bench.last.as_ref().unwrap().attached, Some(Attached::Image { .. })));
    // Admitted, but neither the primary agent nor the target of the request.
    assert_eq!(
        code(bench.call("publish_live_view", c, &panel("plan-1", 1))),
        "live_view_not_authorized"
    );
    let app = json!({"taskRequestId": "plan-1"});
    assert_eq!(
        code(bench.send("publish_generated_app", c, &app, &bundle("x"))),
        "generated_app_not_authorized"
    );
    // Leaving transfers nothing, and a new handle is another participant.
    bench.call("leave_room", b, &json!({})).unwrap();
    bench.join("B");
    for who in [a, c] {
        assert_eq!(
            code(bench.call("publish_live_view", who, &panel("plan-1", 1))),
            "live_view_not_authorized"
        );
    }
}

#[test]
fn any_name_may_be_duplicate_and_a_repeat_still_says_so() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    request(&mut bench, a, b, "plan-1");
    let host = json!({"runtimeHost": {"runtimeHostId": "duplicate",
        "speech": {"stt": true, "tts": true}}, "clientRequestId": "host"});
    let mut view = panel("plan-1", 1);
    view["clientRequestId"] = json!("view");
    for (op, args) in [("update_runtime_host", host), ("publish_live_view", view)] {
        let first = bench.call(op, b, &args).unwrap();
        assert_eq!(first.get("duplicate"), None, "{op}");
        let mut again = bench.call(op, b, &args).unwrap();
        assert_eq!(again.as_object_mut().unwrap().remove("duplicate"), Some(json!(true)), "{op}");
        assert_eq!(again, first, "{op}");
    }
}

#[test]
fn a_leave_is_not_remembered_and_a_join_takes_no_request_id() {
    let mut bench = Bench::new();
    let (a, _) = (bench.join("A"), bench.join("B"));
    let leave = json!({"clientRequestId": "k"});
    bench.call("leave_room", a, &leave).unwrap();
    assert_eq!(code(bench.call("leave_room", a, &leave)), "already_left");
    let retry = Attempt { request: 3, number: 2, age_ms: 5 };
    let again = bench.attempt("leave_room", Caller::Participant(a), &leave, None, retry).unwrap();
    assert_eq!(again, json!({"ok": true}));
    let args = json!({"roomId": "blue-otter", "name": "A", "clientRequestId": "not ok!"});
    for _ in 0..2 {
        let id = bench.fresh_id();
        let joined = bench.call_as("join_room", Caller::Joining(id), &args, None).unwrap();
        assert_eq!(joined.get("duplicate"), None);
    }
    assert_eq!(bench.room.state().participants.len(), 3);
    // The window holds hashes: neither an id nor a handle can be read out of what is stored.
    let c = bench.join("C");
    let said =
        json!({"text": "x", "clientRequestId": "canary-id", "participantHandle": "canary-h"});
    bench.call("send_text", c, &said).unwrap();
    let stored = bench.room.encode_snapshot();
    assert!(!stored.windows(6).any(|bytes| bytes == b"canary"));
}
