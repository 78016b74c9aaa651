//! Which check comes first, and which members an answer has (rooms 4, 6, 12.2, 13.1; ours 3, 11).

use object::Caller;
use serde_json::{Value, json};

use crate::testing::{Bench, START, code};

const NEVER: u64 = 4_102_444_800_000;

#[test]
fn handle_then_arguments_then_memory_then_the_room() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    let stranger = bench.fresh_id();
    let malformed = json!({"text": 7, "clientRequestId": "k"});
    assert_eq!(code(bench.call("send_text", stranger, &malformed)), "invalid_participant_handle");
    bench.call("send_text", a, &json!({"text": "x", "clientRequestId": "k"})).unwrap();
    assert_eq!(code(bench.call("send_text", a, &malformed)), "invalid_arguments");
    // Known before the room is looked at: the Task named by other arguments does not even exist.
    let other = json!({"text": "x", "taskRequestId": "none-1", "clientRequestId": "k"});
    assert_eq!(code(bench.call("send_text", a, &other)), "client_request_id_conflict");

    let ask = |target: &str, more: Value| {
        let mut args =
            json!({"targetParticipantId": target, "summary": "s", "requestId": "plan-1"});
        args.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap_or_default());
        args
    };
    bench.call("send_collab_request", a, &ask(&b.to_string(), json!({}))).unwrap();
    let bad = ask(&b.to_string(), json!({"details": {"k": 1}}));
    assert_eq!(code(bench.call("send_collab_request", a, &bad)), "invalid_arguments");
    // A repeat is one whatever else it says; for others the id is taken whatever they say.
    let gone = bench.fresh_id().to_string();
    let again = bench.call("send_collab_request", a, &ask(&gone, json!({}))).unwrap();
    let expected =
        json!({"requestId": "plan-1", "sequence": 2, "expiresAt": NEVER, "duplicate": true});
    assert_eq!(again, expected);
    let theirs = bench.call("send_collab_request", b, &ask(&b.to_string(), json!({})));
    assert_eq!(code(theirs), "request_id_conflict");

    let mut empty = Bench::new();
    let who = empty.fresh_id();
    assert_eq!(code(empty.call("send_text", who, &json!({}))), "invalid_arguments");
    assert_eq!(code(empty.call("send_text", who, &json!({"text": "x"}))), "room_expired");
    assert_eq!(code(empty.call("leave_room", who, &json!({}))), "room_expired");
}

#[test]
fn a_task_is_looked_for_before_its_people_and_its_files() {
    let mut bench = Bench::new();
    let (a, b, c) = (bench.join("A"), bench.join("B"), bench.join("C"));
    let ask = json!({"targetParticipantId": b.to_string(), "summary": "s", "requestId": "plan-1"});
    bench.call("send_collab_request", a, &ask).unwrap();
    let nobody = bench.fresh_id().to_string();
    let text =
        |task: &str| json!({"text": "t", "taskRequestId": task, "targetParticipantIds": [nobody]});
    for (who, task, refusal) in [
        (c, "?", "invalid_task_request"),
        (c, "plan-2", "unknown_task_request"),
        (c, "plan-1", "task_target_mismatch"),
        (a, "plan-1", "task_target_not_in_room"),
    ] {
        assert_eq!(code(bench.call("send_text", who, &text(task))), refusal);
    }
    let result = |id: &str| json!({"requestId": id, "status": "completed", "summary": "s", "attachmentIds": [nobody]});
    for (who, id, refusal) in [
        (c, "plan-2", "unknown_request"),
        (a, "plan-1", "not_request_target"),
        (b, "plan-1", "unknown_attachment"),
    ] {
        assert_eq!(code(bench.call("send_collab_result", who, &result(id))), refusal);
    }
    let done = json!({"requestId": "plan-1", "status": "completed", "summary": "s"});
    bench.call("send_collab_result", b, &done).unwrap();
    // Recorded before: a file that has gone since is no reason to refuse the repeat.
    let again = bench.call("send_collab_result", b, &result("plan-1")).unwrap();
    assert_eq!((&again["duplicate"], &again["sequence"]), (&json!(true), &json!(2)));
}

#[test]
fn answers_have_these_members_and_no_others() {
    let mut bench = Bench::new();
    let id = bench.fresh_id();
    let args = json!({"roomId": "blue-otter", "name": "Scout"});
    let joined = bench.call_as("join_room", Caller::Joining(id), &args, None).unwrap();
    let scout = json!({"id": id.to_string(), "name": "Scout", "kind": "agent", "connected": true,
        "joinedAt": START, "lastSeenAt": START, "capabilities": {"text": true}});
    assert_eq!(
        joined,
        json!({"participant": scout, "cursor": 0, "expiresAt": NEVER, "agentLeaseMs": 90_000})
    );
    let wait = bench.call("wait_for_events", id, &json!({})).unwrap();
    assert_eq!(
        wait,
        json!({"events": [], "cursor": 0, "expiresAt": NEVER, "roomApps": [],
            "participants": [{"id": id.to_string(), "name": "Scout", "kind": "agent"}],
            "runtimeHosts": {}, "longPoll": "immediate"})
    );
    let info = json!({"roomId": "blue-otter"});
    let info = bench.call_as("room_info", Caller::Anonymous, &info, None).unwrap();
    assert_eq!(
        info,
        json!({"exists": true, "expiresAt": NEVER, "participants": [scout], "runtimeHosts": {},
            "liveTranscript": {"active": false}, "liveTranscriptSegments": [],
            "capabilities": {"text": true, "audio": true, "screenShare": true, "files": true,
                "agentText": true, "agentImages": true, "agentTargeting": true},
            "meetingNotes": {"active": false}, "meetingNotesMediaAvailable": false,
            "agentVoice": {}, "agentVoiceMediaAvailable": false,
            "mediaPermissions": {"canSubscribeHumanAudio": false, "canPublishVoice": false}})
    );
    let sent = bench.call("send_text", id, &json!({"text": "hello"})).unwrap();
    assert_eq!(sent, json!({"sequence": 1, "expiresAt": NEVER}));
    let page = bench.call("read_room_context", id, &json!({})).unwrap();
    assert_eq!(
        page,
        json!({"events": [{"sequence": 1, "type": "text",
                "participant": {"id": id.to_string(), "name": "Scout", "kind": "agent"},
                "text": "hello", "addressed": false, "createdAt": START}],
            "oldestSequence": 1, "newestSequence": 1, "hasMoreBefore": false,
            "hasMoreAfter": false,
            "liveTranscript": {"segments": [], "oldestSequence": 0, "newestSequence": 0,
                "hasMoreBefore": false, "hasMoreAfter": false}})
    );
    let file = json!({"fileName": "a.csv", "mimeType": "text/csv"});
    let sent = bench.send("send_attachment", id, &file, b"a,b").unwrap();
    let file_id = sent["attachment"]["id"].clone();
    assert_eq!(
        sent,
        json!({"attachment": {"id": file_id, "senderId": id.to_string(), "senderName": "Scout",
            "senderKind": "agent", "mimeType": "text/csv", "fileName": "a.csv", "size": 3,
            "chunkCount": 1, "createdAt": START, "sequence": 2}})
    );
    let read = bench.call("read_attachment", id, &json!({"attachmentId": file_id})).unwrap();
    assert_eq!(
        read,
        json!({"attachment": {"id": file_id, "fileName": "a.csv", "mimeType": "text/csv",
            "size": 3}})
    );
    let set = bench.call("update_capabilities", id, &json!({"capabilities": []})).unwrap();
    assert_eq!(set, json!({"capabilities": {"text": true}, "expiresAt": NEVER}));
    assert_eq!(bench.call("leave_room", id, &json!({})).unwrap(), json!({"ok": true}));
}

#[test]
fn a_collaboration_step_is_written_as_the_contract_shows() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    let ask = json!({"targetParticipantId": b.to_string(), "summary": " Draft ",
        "requestId": "plan-0001", "details": {"tone": "short"}});
    let sent = bench.call("send_collab_request", a, &ask).unwrap();
    assert_eq!(sent, json!({"requestId": "plan-0001", "sequence": 1, "expiresAt": NEVER}));
    let seen = bench.call("wait_for_events", b, &json!({})).unwrap();
    let collab = json!({"requestId": "plan-0001", "kind": "request",
        "fromParticipantId": a.to_string(), "targetParticipantId": b.to_string(),
        "summary": "Draft", "details": {"tone": "short"}});
    assert_eq!(
        seen["events"],
        json!([{"sequence": 1, "type": "action", "scopeId": "task:plan-0001",
            "participant": {"id": a.to_string(), "name": "A", "kind": "agent"},
            "actionType": "collab", "collab": collab, "addressed": true, "createdAt": START}])
    );
    let yes = json!({"requestId": "plan-0001", "decision": "accepted", "summary": "  "});
    bench.call("send_collab_response", b, &yes).unwrap();
    let seen = bench.call("wait_for_events", a, &json!({"cursor": 1})).unwrap();
    assert_eq!(
        seen["events"][0]["collab"],
        json!({"requestId": "plan-0001", "kind": "accepted",
            "fromParticipantId": b.to_string(), "targetParticipantId": a.to_string()})
    );
}

#[test]
fn lengths_of_every_text_count_utf16_units() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    let wide = |units: usize| "😀".repeat(units / 2) + if units % 2 == 1 { "x" } else { "" };
    let mut n = 0;
    let mut fits = |bench: &mut Bench, key: &str, value: Value| {
        n += 1;
        let mut args = json!({"targetParticipantId": b.to_string(), "summary": "s",
            "requestId": format!("plan-{n}")});
        args[key] = value;
        bench.call("send_collab_request", a, &args).is_ok()
    };
    assert!(fits(&mut bench, "summary", json!(wide(1_200))));
    let spaced = format!("\u{feff} {} ", wide(1_200));
    assert!(fits(&mut bench, "summary", json!(spaced)), "trimmed first");
    assert!(!fits(&mut bench, "summary", json!(wide(1_201))));
    assert!(fits(&mut bench, "details", json!({wide(64): wide(512)})));
    assert!(fits(&mut bench, "details", json!({"k": ""})));
    assert!(!fits(&mut bench, "details", json!({wide(65): ""})));
    assert!(!fits(&mut bench, "details", json!({"": ""})));
    assert!(!fits(&mut bench, "details", json!({"k": wide(513)})));
    let many = |n: usize| (0..n).map(|n| (n.to_string(), json!("v"))).collect::<Value>();
    assert!(fits(&mut bench, "details", many(16)));
    assert!(!fits(&mut bench, "details", many(17)));
    for (units, ok) in [(256, true), (257, false)] {
        let file = json!({"fileName": wide(units), "mimeType": "text/plain"});
        assert_eq!(bench.send("send_attachment", a, &file, b"x").is_ok(), ok, "{units}");
    }
    for (name, ok) in
        [(wide(32), true), (wide(33), false), ("\u{feff}".into(), false), ("\u{85}".into(), true)]
    {
        let id = bench.fresh_id();
        let args = json!({"roomId": "blue-otter", "name": name});
        let joined = bench.call_as("join_room", Caller::Joining(id), &args, None);
        assert_eq!(joined.is_ok(), ok, "{name:?}");
    }
}

#[test]
fn unknown_keys_are_dropped_at_every_depth() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    let host = json!({"runtimeHostId": "host-0001", "capabilities": [{"id": "x"}],
        "speech": {"stt": true, "tts": false, "asr": true}, "label": "mine"});
    let args = json!({"runtimeHost": host, "providerClaimHash": "old", "surface": 1});
    let set = bench.call("update_runtime_host", a, &args).unwrap();
    let kept = json!({"runtimeHostId": "host-0001", "speech": {"stt": true, "tts": false}});
    assert_eq!(
        set,
        json!({"runtimeHost": kept, "runtimeHosts": {"host-0001": kept}, "expiresAt": NEVER})
    );
}
