//! What people allow: transcripts, listening, speaking, single actions.

use serde_json::{Value, json};

use crate::link::Human;
use crate::stage::{Stage, both};

both!(speech_becomes_a_transcript, people_grant_and_revoke, a_human_approves_an_action);

async fn state(human: &mut Human) -> Value {
    human.until(|frame| frame["type"] == "state").await["state"].take()
}

async fn speech_becomes_a_transcript(stage: Stage) {
    let bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    let host = json!({"runtimeHostId": "host-0001"});
    assert_eq!(ana.code("transcript_start", host.clone()).await, "live_transcript_unavailable");
    let mut scribe = stage.speaker(&bo.room, "Scribe", "host-0001").await;
    let runtime = scribe.runtime(stage.link().await);
    let said = |segment: &str, text: &str| {
        json!({"epoch": 1, "segmentId": segment, "text": text,
            "sourceParticipantId": ana.id.to_string()})
    };
    let (first, second) = (said("s1", "good morning"), said("s2", "let us begin"));
    assert_eq!(runtime.code("transcript_append", first.clone()).await, "live_transcript_inactive");
    ana.so_far().await;
    let started = ana.ok("transcript_start", host).await["liveTranscript"].clone();
    assert_eq!((&started["active"], &started["epoch"]), (&json!(true), &json!(1)));
    assert_eq!(state(&mut ana).await["liveTranscript"], started);

    assert_eq!(runtime.ok("transcript_append", first.clone()).await["duplicate"], false);
    let shown = state(&mut ana).await["liveTranscriptSegments"].clone();
    assert_eq!((&shown[0]["speaker"], &shown[0]["text"]), (&json!("Ana"), &json!("good morning")));
    assert_eq!(runtime.ok("transcript_append", first).await["duplicate"], true);
    runtime.ok("transcript_append", second.clone()).await;
    let other = bo.runtime(stage.link().await);
    assert_eq!(other.code("transcript_append", second).await, "live_transcript_not_authorized");

    // Agents read it by page and whole; it is no event and wakes nobody.
    let page = scribe.ok("read_room_context", json!({"afterTranscriptSequence": 1})).await;
    assert_eq!(page["liveTranscript"]["segments"].as_array().unwrap().len(), 1);
    assert_eq!(page["liveTranscript"]["segments"][0]["text"], "let us begin");
    assert_eq!(page["events"], json!([]));
    let info = scribe.info().await;
    assert_eq!(info["liveTranscript"], started);
    assert_eq!(info["liveTranscriptSegments"].as_array().unwrap().len(), 2);
    assert_eq!(scribe.poll().await["events"], json!([]));

    ana.ok("transcript_stop", json!({})).await;
    let info = scribe.info().await;
    assert_eq!(info["liveTranscript"], json!({"active": false}));
    assert_eq!(info["liveTranscriptSegments"].as_array().unwrap().len(), 2, "what was said stays");
}

async fn people_grant_and_revoke(stage: Stage) {
    let bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    let mut scribe = stage.speaker(&bo.room, "Scribe", "host-0001").await;
    let mut runtime = scribe.runtime(stage.link().await);
    runtime.attach(stage.number()).await;
    runtime.ok("resident_connect", json!({"cursor": 0})).await;
    ana.so_far().await;

    let id = json!({"agentParticipantId": scribe.id});
    ana.ok("meeting_notes_start", id).await;
    let told = runtime.next("events").await;
    assert_eq!(
        told["mediaState"]["meetingNotes"],
        json!({"active": true, "startedAt": stage.now()})
    );
    assert_eq!(told["events"], json!([]));
    assert_eq!(state(&mut ana).await["meetingNotes"]["agentParticipantId"], json!(scribe.id));
    let voice =
        |agent: &str, enabled: bool| json!({"agentParticipantId": agent, "enabled": enabled});
    assert_eq!(ana.code("agent_voice_set", voice(&bo.id, true)).await, "agent_voice_unavailable");
    ana.ok("agent_voice_set", voice(&scribe.id, true)).await;
    let told = runtime.next("events").await;
    assert_eq!(told["mediaState"]["agentVoiceEnabledAt"], json!(stage.now()));
    assert_eq!(state(&mut ana).await["agentVoice"][&scribe.id]["enabled"], true);
    ana.ok("agent_voice_set", voice(&scribe.id, false)).await;
    assert_eq!(runtime.next("events").await["mediaState"]["agentVoiceEnabledAt"], Value::Null);
    // A grant ends with whom it was given to.
    assert_eq!(state(&mut ana).await["agentVoice"], json!({}));
    scribe.ok("leave_room", json!({})).await;
    assert_eq!(state(&mut ana).await["meetingNotes"], json!({"active": false}));
    assert_eq!(ana.ok("meeting_notes_stop", json!({})).await["meetingNotes"]["active"], false);
}

async fn a_human_approves_an_action(stage: Stage) {
    let mut bo = stage.founder("Bo").await;
    let mut ana = stage.human(&bo.room, "Ana").await;
    let cy = stage.human(&bo.room, "Cy").await;
    let mut dee = stage.agent(&bo.room, "Dee").await;
    let runtime = bo.runtime(stage.link().await);
    let card = |id: &str| {
        json!({"requestId": id, "expiresInMs": 1_000,
            "toolCall": {"title": "Run", "details": {"command": "make"}},
            "options": [{"optionId": "yes", "name": "Yes"}, {"optionId": "no", "name": "No"}]})
    };
    runtime.ok("permission_request", card("perm-0001")).await;
    let shown = ana.until(|frame| frame["message"]["actionType"] == "permission").await;
    let shown = &shown["message"]["permission"];
    assert_eq!((&shown["kind"], &shown["options"][1]["name"]), (&json!("request"), &json!("No")));
    assert_eq!(shown["toolCall"]["details"]["command"], "make");
    let pick = |option: &str| json!({"requestId": "perm-0001", "selectedOptionId": option});
    assert_eq!(cy.code("permission_respond", pick("maybe")).await, "invalid_permission_response");
    cy.ok("permission_respond", pick("no")).await;
    assert_eq!(ana.code("permission_respond", pick("yes")).await, "invalid_permission_response");
    let heard = bo.next().await;
    let told = &heard["permission"];
    assert_eq!((&told["kind"], &told["selectedOptionId"]), (&json!("resolved"), &json!("no")));
    assert_eq!((&told["humanName"], &heard["addressed"]), (&json!("Cy"), &json!(true)));

    // A card nobody answers ends by itself.
    runtime.ok("permission_request", card("perm-0002")).await;
    stage.pass(1_000).await;
    ana.until(|frame| frame["message"]["permission"]["kind"] == "expired").await;
    assert_eq!(bo.next().await["permission"]["kind"], "expired");
    assert_eq!(dee.poll().await["events"], json!([]), "cards are private");
}
