//! Rules that need people and residents in the room: the transcript's pages, who is addressed by
//! a file, and who takes part while unconnected (rooms 7.4, 9.3, 9.4, 13.1).

use object::ParticipantId;
use serde_json::{Value, json};

use super::Scene;

fn say(scene: &mut Scene, agent: ParticipantId, source: ParticipantId, epoch: u64, id: u64) {
    let args = json!({"epoch": epoch, "segmentId": format!("s{id}"), "text": format!("t{id}"),
        "sourceParticipantId": source.to_string()});
    scene.call("transcript_append", agent, args).unwrap();
}

fn page(scene: &mut Scene, who: ParticipantId, args: Value) -> (Vec<u64>, Value) {
    let read = scene.call("read_room_context", who, args).unwrap();
    let page = read["liveTranscript"].clone();
    let segments = page["segments"].as_array().unwrap();
    (segments.iter().map(|segment| segment["sequence"].as_u64().unwrap()).collect(), page)
}

#[test]
fn the_transcript_is_paged_by_its_own_counter() {
    let mut scene = Scene::new();
    let ana = scene.human_without_line("Ana");
    let agent = scene.agent_on("host-0001", true, false);
    scene.call("send_text", agent, json!({"text": "one"})).unwrap();
    scene.call("transcript_start", ana, json!({"runtimeHostId": "host-0001"})).unwrap();
    let look = json!({"roomId": super::ROOM});
    let info = scene.ask_as(object::Caller::Anonymous, "room_info", look.clone()).unwrap();
    assert_eq!(
        info["liveTranscript"],
        json!({"active": true, "producerRuntimeHostId": "host-0001", "epoch": 1,
            "startedByHumanParticipantId": ana.to_string(), "startedAt": scene.now.0})
    );
    for id in 1..=30 {
        say(&mut scene, agent, ana, 1, id);
    }
    scene.call("transcript_stop", ana, json!({})).unwrap();
    scene.call("transcript_start", ana, json!({"runtimeHostId": "host-0001"})).unwrap();
    // The same segment id of another epoch is another segment.
    say(&mut scene, agent, ana, 2, 30);
    let rows = [
        (json!({}), (1, 25), (false, true)),
        (json!({"order": "newest", "transcriptLimit": 2}), (30, 31), (true, false)),
        (json!({"afterTranscriptSequence": 29}), (30, 31), (true, false)),
        (json!({"beforeTranscriptSequence": 5, "transcriptLimit": 3}), (2, 4), (true, true)),
        (
            json!({"beforeTranscriptSequence": 9, "afterTranscriptSequence": 2,
                "transcriptLimit": 2}),
            (3, 4),
            (true, true),
        ),
    ];
    for (args, (first, last), (before, after)) in rows {
        let (sequences, page) = page(&mut scene, agent, args.clone());
        assert_eq!(sequences, (first..=last).collect::<Vec<u64>>(), "{args}");
        assert_eq!(
            (&page["hasMoreBefore"], &page["hasMoreAfter"]),
            (&json!(before), &json!(after))
        );
        assert_eq!((&page["oldestSequence"], &page["newestSequence"]), (&json!(1), &json!(31)));
        assert_eq!(page.get("truncated"), None);
    }
    // The event cursors do not touch it, nor it them.
    let both = json!({"afterSequence": 1, "afterTranscriptSequence": 31});
    let (sequences, empty) = page(&mut scene, agent, both);
    assert!(sequences.is_empty());
    assert_eq!((&empty["hasMoreBefore"], &empty["hasMoreAfter"]), (&json!(false), &json!(false)));
    let info = scene.ask_as(object::Caller::Anonymous, "room_info", look).unwrap();
    assert_eq!(info["liveTranscriptSegments"].as_array().unwrap().len(), 31);
    assert_eq!(info["liveTranscript"]["epoch"], json!(2));
    assert_eq!(
        info["liveTranscriptSegments"][30],
        json!({"segmentId": "s30", "epoch": 2, "sequence": 31, "participantId": ana.to_string(),
            "speaker": "Ana", "text": "t30", "createdAt": scene.now.0})
    );
}

#[test]
fn lost_segments_truncate_a_page_exactly() {
    let mut scene = Scene::new();
    let ana = scene.human_without_line("Ana");
    let agent = scene.agent_on("host-0001", true, false);
    scene.call("transcript_start", ana, json!({"runtimeHostId": "host-0001"})).unwrap();
    for id in 1..=503 {
        say(&mut scene, agent, ana, 1, id);
    }
    // 1 to 3 are gone.
    for (after, truncated) in [(0, true), (2, true), (3, false)] {
        let args = json!({"afterTranscriptSequence": after, "transcriptLimit": 1});
        let (sequences, page) = page(&mut scene, agent, args);
        assert_eq!(sequences, [4]);
        assert_eq!(page.get("truncated").is_some(), truncated, "{after}");
    }
    assert_eq!(page(&mut scene, agent, json!({})).1.get("truncated"), None);
}

#[test]
fn only_a_waking_task_file_of_a_human_addresses_and_only_who_takes_part() {
    let mut scene = Scene::new();
    let (ana, agent, other) = (scene.human("Ana"), scene.agent("a"), scene.agent("b"));
    scene.task(ana, agent, "plan-0001");
    let rows = [
        (json!({"taskRequestId": "plan-0001", "taskWake": true}), true, false),
        (json!({"taskRequestId": "plan-0001", "taskWake": false}), false, false),
        (json!({"taskRequestId": "plan-0001"}), false, false),
        (json!({"taskWake": true}), false, true),
    ];
    for (more, addressed, public) in rows {
        let mut args = json!({"fileName": "f", "mimeType": "text/plain"});
        args.as_object_mut().unwrap().extend(more.as_object().cloned().unwrap());
        let cursor = scene.state().sequence;
        scene.blob("human_send_attachment", ana, args, b"x").unwrap();
        scene.pass(10_000);
        let seen = scene.call("wait_for_events", agent, json!({"cursor": cursor})).unwrap();
        assert_eq!(seen["events"][0]["type"], json!("image"));
        assert_eq!(seen["events"][0]["addressed"], json!(addressed), "{more}");
        let hidden = scene.call("wait_for_events", other, json!({"cursor": cursor})).unwrap();
        assert_eq!(hidden["events"].as_array().unwrap().len(), usize::from(public), "{more}");
    }
    // An agent's own upload addresses nobody.
    let args = json!({"fileName": "f", "mimeType": "text/plain", "taskRequestId": "plan-0001"});
    let sent = scene.blob("send_attachment", agent, args, b"x").unwrap();
    assert_eq!(sent["attachment"]["taskWake"], json!(false));
}

#[test]
fn an_agent_whose_stream_is_closed_takes_no_part_until_it_is_back() {
    let mut scene = Scene::new();
    let (ana, agent, third) = (scene.human("Ana"), scene.agent("a"), scene.agent("b"));
    scene.task(ana, agent, "plan-0001");
    scene.connection = 700;
    scene.call("resident_connect", agent, json!({})).unwrap();
    scene.connection = 0;
    let text = json!({"text": "t", "taskRequestId": "plan-0001"});
    scene.call("send_text", agent, text.clone()).unwrap();
    scene.disconnect(agent, 700);
    let refused =
        |scene: &mut Scene| scene.call("send_text", agent, text.clone()).map_err(|r| r.code);
    assert_eq!(refused(&mut scene), Err("task_target_mismatch"));
    let file = json!({"fileName": "f", "mimeType": "text/plain", "taskRequestId": "plan-0001"});
    let upload = scene.blob("send_attachment", agent, file, b"x").unwrap_err();
    assert_eq!(upload.code, "task_attachment_not_participant");
    // Not connected: no target of a request, not on a roster, but still a participant.
    let ask = json!({"targetParticipantId": agent.to_string(), "summary": "s"});
    let reject = scene.call("send_collab_request", third, ask).unwrap_err();
    assert_eq!(reject.code, "target_not_in_room");
    let roster = scene.call("wait_for_events", third, json!({})).unwrap();
    assert!(!roster["participants"].to_string().contains(&agent.to_string()));
    scene.call("send_text", agent, json!({"text": "to the room"})).unwrap();
    scene.connection = 701;
    scene.call("resident_connect", agent, json!({})).unwrap();
    scene.connection = 0;
    assert!(refused(&mut scene).is_ok());
}

#[test]
fn unconnected_participants_count_and_a_place_is_free_at_once() {
    let mut scene = Scene::new();
    let gone = scene.human_without_line("Ana");
    for n in 1..32 {
        scene.agent(&format!("a{n}"));
    }
    let late = object::Caller::Joining(ParticipantId(7));
    let args = json!({"roomId": super::ROOM, "name": "late"});
    let reject = scene.ask_as(late, "join_room", args.clone()).unwrap_err();
    assert_eq!((reject.code, reject.limit, reject.retryable), ("room_full", Some(32), true));
    assert!(!scene.state().participant(gone).unwrap().connected);
    scene.pass(30_000);
    scene.ask_as(late, "join_room", args).unwrap();
    assert_eq!(scene.state().participants.len(), 32);
}

#[test]
fn a_human_target_leaves_the_publishing_to_the_requesting_agent() {
    let mut scene = Scene::new();
    let (ana, agent, third) = (scene.human("Ana"), scene.agent("a"), scene.agent("b"));
    scene.task(agent, ana, "plan-0001");
    let admit = json!({"text": "in", "taskRequestId": "plan-0001",
        "targetParticipantIds": [third.to_string()]});
    scene.call("send_text", agent, admit).unwrap();
    let view = json!({"taskRequestId": "plan-0001", "surface": {"surfaceId": "s", "revision": 1,
        "root": {"type": "Text", "text": "t"}, "data": {}}});
    let reject = scene.call("publish_live_view", third, view.clone()).unwrap_err();
    assert_eq!(reject.code, "live_view_not_authorized");
    scene.call("publish_live_view", agent, view).unwrap();
    // The human answers; its acceptance is addressed to the agent that asked.
    let yes = json!({"requestId": "plan-0001", "decision": "accepted"});
    scene.call("human_collab_response", ana, yes).unwrap();
    scene.pass(10_000);
    let cursor = json!({"cursor": 2});
    let seen = scene.call("wait_for_events", agent, cursor.clone()).unwrap();
    assert_eq!(seen["events"][0]["collab"]["kind"], json!("accepted"));
    assert_eq!(seen["events"][0]["addressed"], json!(true));
    let seen = scene.call("wait_for_events", third, cursor).unwrap();
    assert_eq!(seen["events"][0]["addressed"], json!(false));
}

/// Ours 6: whatever people write, and whatever they name things by, no `Debug` shows it.
#[test]
fn nothing_that_was_written_is_printed() {
    let mut scene = Scene::new();
    let ana = scene.human("canary Ana");
    let agent = scene.agent_on("canary-host", true, true);
    let mut shown = String::new();
    scene.task(ana, agent, "canary-task");
    let details = json!({"canary": "canary"});
    let bundle = json!({"version": 1, "manifest": {"title": "canary", "networkOrigins": []},
        "html": "canary", "css": "canary", "js": "canary", "initialState": {"canary": 1}});
    let bundle = bundle.to_string().into_bytes();
    let said =
        json!({"text": "canary", "taskRequestId": "canary-task", "clientRequestId": "canary"});
    let view = json!({"taskRequestId": "canary-task", "surface": {"surfaceId": "canary",
        "revision": 1, "root": {"type": "Text", "text": "canary"}, "data": {"canary": "canary"}}});
    let done = json!({"requestId": "canary-task", "status": "completed", "summary": "canary",
        "details": details});
    let file = json!({"fileName": "canary", "mimeType": "text/plain"});
    let steps: [(&str, ParticipantId, Value, Option<&[u8]>); 9] = [
        ("send_text", agent, said, None),
        ("human_chat", ana, json!({"text": "canary"}), None),
        ("human_action", ana, json!({"actionType": "canary", "actionPayload": details}), None),
        ("update_capabilities", agent, json!({"capabilities": ["canary"]}), None),
        ("publish_live_view", agent, view, None),
        ("publish_generated_app", agent, json!({"taskRequestId": "canary-task"}), Some(&bundle)),
        ("send_attachment", agent, file, Some(b"canary")),
        ("send_collab_result", agent, done, None),
        ("read_room_context", agent, json!({}), None),
    ];
    for (op, who, args, bytes) in steps {
        match bytes {
            Some(bytes) => scene.blob(op, who, args, bytes).unwrap(),
            None => scene.call(op, who, args).unwrap(),
        };
        shown.push_str(&format!("{op} {:?} {:?}\n", scene.last(), scene.state()));
    }
    let output = crate::ops::agent::create_room::Invite {
        kind: "canary".into(),
        version: 1,
        room_id: "canary".into(),
        room_url: "canary".into(),
    };
    shown.push_str(&format!("{output:?}"));
    let leak = shown.find("canary").map(|at| &shown[at.saturating_sub(80)..at + 6]);
    assert_eq!(leak, None);
    assert!(shown.contains("Text(..)"));
}
