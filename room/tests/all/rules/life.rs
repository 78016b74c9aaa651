//! Coming, staying and going (rooms 6.1-6.6, 6.19, 18; ours 3, 17).

use object::{Caller, Object};
use room::Room;
use serde_json::{Value, json};

use crate::testing::{Attempt, Bench, START, code};

#[test]
fn a_room_is_made_by_joining_and_unknown_before() {
    let mut bench = Bench::new();
    let look = json!({"roomId": "blue-otter"});
    let info = bench.call_as("room_info", Caller::Anonymous, &look, None).unwrap();
    assert_eq!(info["exists"], false);
    assert_eq!(info["expiresAt"], Value::Null);
    assert_eq!(info["liveTranscript"], json!({"active": false}));
    let stranger = bench.fresh_id();
    assert_eq!(code(bench.call("send_text", stranger, &json!({"text": "x"}))), "room_expired");
    assert!(!bench.exists, "looking creates nothing");

    let id = bench.fresh_id();
    let args = json!({"roomId": "blue-otter", "name": " Scribe ",
        "capabilities": ["Notes.Write", "notes.write"],
        "runtimeHost": {"runtimeHostId": "host-0001", "speech": {"stt": true, "tts": false}},
        "runtimeFeatures": {"taskSessionContinuation": true, "else": 1}});
    let joined = bench.call_as("join_room", Caller::Joining(id), &args, None).unwrap();
    assert_eq!(joined["participant"]["name"], "Scribe");
    assert_eq!(joined["agentLeaseMs"], 90_000);
    assert_eq!(joined["cursor"], 0);
    assert_eq!(
        joined["participant"]["capabilities"],
        json!({"text": true, "advertised": ["notes.write"]})
    );
    let info = bench.call_as("room_info", Caller::Anonymous, &look, None).unwrap();
    assert_eq!(info["participants"][0], joined["participant"]);
    assert_eq!(info["participants"][0]["runtimeHostId"], "host-0001");
    assert_eq!(
        info["participants"][0]["runtimeFeatures"],
        json!({"taskSessionContinuation": true})
    );
    assert_eq!(info["runtimeHosts"]["host-0001"]["speech"], json!({"stt": true, "tts": false}));
}

#[test]
fn names_repeat_and_the_33rd_is_refused() {
    let mut bench = Bench::new();
    for _ in 0..32 {
        bench.join("Same");
    }
    let id = bench.fresh_id();
    let args = json!({"roomId": "blue-otter", "name": "Same"});
    let refused = bench.call_as("join_room", Caller::Joining(id), &args, None);
    assert_eq!(code(refused), "room_full");
}

#[test]
fn a_join_is_repeated_only_by_the_edge() {
    let mut bench = Bench::new();
    let id = bench.fresh_id();
    let args = json!({"roomId": "blue-otter", "name": "A"});
    let first = bench.call_as("join_room", Caller::Joining(id), &args, None).unwrap();
    let retry = Attempt { request: 5, number: 2, age_ms: 10 };
    let again = bench.attempt("join_room", Caller::Joining(id), &args, None, retry).unwrap();
    assert_eq!(again, first);
    assert_eq!(bench.room.state().participants.len(), 1);
    bench.pass(1_000);
    bench.attempt("join_room", Caller::Joining(id), &args, None, retry).unwrap();
    assert_eq!(bench.leases[&id].0, bench.now + 90_000, "the promised lease starts anew");
    assert_eq!(
        code(bench.call_as("join_room", Caller::Joining(id), &args, None)),
        "participant_exists"
    );
    let bad = json!({"roomId": "blue-otter", "name": "A", "capabilities": ["no good"]});
    let id = bench.fresh_id();
    assert_eq!(
        code(bench.call_as("join_room", Caller::Joining(id), &bad, None)),
        "invalid_capabilities"
    );
}

#[test]
fn a_created_room_must_be_new() {
    let mut bench = Bench::new();
    let id = bench.fresh_id();
    let args = json!({"name": "A", "capabilities": ["shell"]});
    bench.call_as("create_room", Caller::Joining(id), &args, None).unwrap();
    let retry = Attempt { request: 5, number: 2, age_ms: 10 };
    bench.attempt("create_room", Caller::Joining(id), &args, None, retry).unwrap();
    let other = bench.fresh_id();
    assert_eq!(
        code(bench.call_as("create_room", Caller::Joining(other), &args, None)),
        "room_already_exists"
    );
    let call = object::Call {
        op: room::op("create_room").unwrap(),
        args: b"{}",
        blob: None,
        caller: Caller::Joining(other),
        request: object::RequestId(1),
        attempt: 1,
        age_ms: 0,
        connection: 0,
        since: object::Millis(START),
        parked: None,
    };
    assert_eq!(Room::occupied(&call).code, "room_already_exists");
}

#[test]
fn a_silent_agent_goes_after_its_lease_and_never_before() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    bench.pass(89_999);
    bench.call("wait_for_events", a, &json!({})).unwrap();
    assert_eq!(bench.room.state().participants.len(), 2);
    bench.pass(1);
    // No timer ran: the call itself finds the lease over, and B is gone before it is told so.
    assert_eq!(
        code(bench.call("send_text", b, &json!({"text": "late"}))),
        "invalid_participant_handle"
    );
    assert_eq!(code(bench.call("leave_room", b, &json!({}))), "already_left");
    assert_eq!(bench.room.state().participants.len(), 1);
    assert!(!bench.leases.contains_key(&b));
}

#[test]
fn what_renews_a_lease_and_what_does_not() {
    let table: &[(&str, Value, bool)] = &[
        ("wait_for_events", json!({}), true),
        ("send_text", json!({"text": "x"}), true),
        ("update_capabilities", json!({"capabilities": []}), true),
        (
            "update_runtime_host",
            json!({"runtimeHost": {"runtimeHostId": "host-0001", "speech": {"stt": true, "tts": true}}}),
            true,
        ),
        ("read_room_context", json!({}), false),
        ("send_text", json!({"text": ""}), false),
        ("send_collab_response", json!({"requestId": "none-1", "decision": "accepted"}), false),
    ];
    for (op, args, renews) in table {
        let mut bench = Bench::new();
        let a = bench.join("A");
        bench.pass(1_000);
        let _ = bench.call(op, a, args);
        let end = bench.leases[&a].0;
        assert_eq!(end == bench.now + 90_000, *renews, "{op} {args}");
        assert_eq!(bench.room.state().participants[0].lease_end.0, end);
    }
    let mut bench = Bench::new();
    let a = bench.join("A");
    let file = json!({"fileName": "f", "mimeType": "text/plain"});
    let sent = bench.send("send_attachment", a, &file, b"x").unwrap();
    bench.pass(1_000);
    let read = json!({"attachmentId": sent["attachment"]["id"]});
    bench.call("read_attachment", a, &read).unwrap();
    assert_eq!(bench.leases[&a].0, bench.now + 90_000);
}

#[test]
fn the_last_one_starts_the_empty_timer_and_a_newcomer_stops_it() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    bench.call("send_text", a, &json!({"text": "kept"})).unwrap();
    assert_eq!(bench.call("leave_room", a, &json!({})).unwrap(), json!({"ok": true}));
    assert_eq!(bench.room.state().expires_at.0, START + 1_800_000);
    bench.pass(1_799_999);
    let b = bench.join("B");
    assert_eq!(bench.room.state().expires_at, object::Millis::FAR_FUTURE);
    let page = bench.call("read_room_context", b, &json!({})).unwrap();
    assert_eq!(page["events"][0]["text"], "kept");
    bench.call("leave_room", b, &json!({})).unwrap();
    bench.pass(1_800_000);
    bench.settle();
    assert!(!bench.exists, "the empty room is destroyed");
    let c = bench.join("C");
    let page = bench.call("read_room_context", c, &json!({})).unwrap();
    assert_eq!(page["events"], json!([]), "and starts anew");
    assert_eq!(bench.room.state().sequence, 0);
}

#[test]
fn the_edges_own_repeat_of_a_leave_is_a_success() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    let retry = Attempt { request: 9, number: 2, age_ms: 5 };
    bench.call("leave_room", a, &json!({})).unwrap();
    let again = bench.attempt("leave_room", Caller::Participant(a), &json!({}), None, retry);
    assert_eq!(again.unwrap(), json!({"ok": true}));
    bench.call("leave_room", b, &json!({})).unwrap();
    bench.pass(1_800_000);
    bench.settle();
    let gone = bench.attempt("leave_room", Caller::Participant(b), &json!({}), None, retry);
    assert_eq!(gone.unwrap(), json!({"ok": true}));
    assert_eq!(code(bench.call("leave_room", b, &json!({}))), "room_expired");
}

#[test]
fn hosts_are_shared_and_end_with_their_last_agent() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    let host = |id: &str, tts: bool| json!({"runtimeHost": {"runtimeHostId": id, "speech": {"stt": false, "tts": tts}}});
    bench.call("update_runtime_host", a, &host("host-0001", true)).unwrap();
    let answer = bench.call("update_runtime_host", b, &host("host-0001", false)).unwrap();
    assert_eq!(
        answer["runtimeHosts"],
        json!({"host-0001": {"runtimeHostId": "host-0001",
        "speech": {"stt": false, "tts": false}}})
    );
    let moved = bench.call("update_runtime_host", a, &host("host-0002", true)).unwrap();
    assert_eq!(moved["runtimeHosts"].as_object().unwrap().len(), 2);
    bench.call("leave_room", b, &json!({})).unwrap();
    assert!(bench.room.state().host("host-0001").is_none());
    assert_eq!(
        code(bench.call("update_runtime_host", a, &host("short", true))),
        "invalid_arguments"
    );
}

#[test]
fn capabilities_are_replaced() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    let set = |bench: &mut Bench, list: Value| {
        bench.call("update_capabilities", a, &json!({"capabilities": list}))
    };
    let answer = set(&mut bench, json!(["Code.Edit"])).unwrap();
    assert_eq!(answer["capabilities"], json!({"text": true, "advertised": ["code.edit"]}));
    let roster = bench.call("wait_for_events", a, &json!({})).unwrap();
    assert_eq!(roster["participants"][0]["advertised"], json!(["code.edit"]));
    assert_eq!(set(&mut bench, json!([])).unwrap()["capabilities"], json!({"text": true}));
    assert_eq!(code(set(&mut bench, json!(["a..b"]))), "invalid_capabilities");
    assert_eq!(code(set(&mut bench, json!(vec!["a"; 9]))), "invalid_arguments");
}
