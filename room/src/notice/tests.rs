//! What browsers and residents are told of what happens.

use object::Effect;
use serde_json::json;

use crate::ops::scene::Scene;

/// The types of the frames one connection got since the last look.
fn told(scene: &mut Scene, line: u64) -> Vec<String> {
    let frames: Vec<_> = scene.frames.drain(..).collect();
    let own = frames.iter().filter(|(connection, _)| *connection == line);
    own.map(|(_, frame)| frame["type"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn browsers_get_messages_files_and_the_state_after_anything_else() {
    let mut scene = Scene::new();
    let ana = scene.human("Ana");
    let line = scene.line_of(ana);
    assert_eq!(told(&mut scene, line), ["state"], "the first thing a browser gets");
    let agent = scene.agent_on("host-0001", true, true);
    assert_eq!(told(&mut scene, line), ["state"]);
    scene.call("send_text", agent, json!({"text": "hi"})).unwrap();
    assert_eq!(told(&mut scene, line), ["message"]);
    let file = json!({"mimeType": "text/csv"});
    scene.blob("human_send_attachment", ana, file, b"x").unwrap();
    assert_eq!(told(&mut scene, line), ["attachment"]);
    scene.call("transcript_start", ana, json!({"runtimeHostId": "host-0001"})).unwrap();
    assert_eq!(told(&mut scene, line), ["state"]);
    scene.call("wait_for_events", agent, json!({})).unwrap();
    scene.call("human_chat", ana, json!({"text": ""})).unwrap();
    assert!(told(&mut scene, line).is_empty(), "nothing changed");
    scene.pass(90_000);
    assert_eq!(told(&mut scene, line), ["state"], "the agent's lease ended, the transcript too");
    assert!(scene.state().transcript.active.is_none());
}

#[test]
fn a_message_frame_is_the_canonical_message() {
    let mut scene = Scene::new();
    let (ana, agent) = (scene.human("Ana"), scene.agent("a"));
    scene.frames.clear();
    let targets = json!([agent.to_string()]);
    scene.call("human_chat", ana, json!({"text": "hi", "targets": targets})).unwrap();
    let message = &scene.frames[0].1["message"];
    let expected = json!({"id": "m1", "peerId": ana.to_string(), "name": "Ana", "kind": "human",
        "type": "text", "text": "hi", "targets": targets, "createdAt": scene.now.0, "sequence": 1});
    assert_eq!(message, &expected);
}

#[test]
fn a_private_card_reaches_browsers_and_its_own_agent_only() {
    let mut scene = Scene::new();
    let (ana, agent, other) = (scene.human("Ana"), scene.agent("a"), scene.agent("b"));
    for (connection, who) in [(700, agent), (701, other)] {
        scene.connection = connection;
        scene.call("resident_connect", who, json!({})).unwrap();
    }
    scene.connection = 0;
    scene.frames.clear();
    let card = json!({"requestId": "perm-0001", "toolCall": {"title": "Run"},
        "options": [{"optionId": "yes", "name": "Yes"}]});
    scene.call("permission_request", agent, card).unwrap();
    let pick = json!({"requestId": "perm-0001", "selectedOptionId": "yes"});
    scene.call("permission_respond", ana, pick).unwrap();
    let cards = |line: u64| {
        let frames = scene.frames.iter().filter(move |(connection, _)| *connection == line);
        frames.flat_map(|(_, f)| f["events"].as_array().cloned().unwrap_or_default()).count()
    };
    assert_eq!((cards(700), cards(701)), (1, 0));
    let line = scene.line_of(ana);
    let seen = scene.frames.iter().filter(|(connection, _)| *connection == line).count();
    assert_eq!(seen, 2);
}

#[test]
fn whoever_goes_leaves_no_connection_and_no_activity() {
    let mut scene = Scene::new();
    let (ana, agent) = (scene.human("Ana"), scene.agent("a"));
    let open = |scene: &mut Scene| {
        scene.connection = 700;
        scene.call("resident_connect", agent, json!({})).unwrap();
        scene.connection = 0;
        let working = json!({"scopeId": "room", "state": "working", "turnSequence": 1});
        scene.call("resident_activity", agent, working).unwrap();
    };
    open(&mut scene);
    scene.disconnect(agent, 700);
    assert!(scene.state().live.activities.is_empty(), "its stream is lost");
    open(&mut scene);
    scene.call("leave_room", agent, json!({})).unwrap();
    let live = &scene.state().live;
    assert!(!live.attached(agent) && live.activities.is_empty());
    let closed = Effect::Disconnect { participant: agent, close_code: 1000 };
    assert!(scene.last().effects.contains(&closed));
    scene.call("leave_human", ana, json!({})).unwrap();
    assert!(scene.state().live.connections.is_empty(), "nothing keeps the room awake");
}
