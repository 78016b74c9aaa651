//! The way of a request through a room: opened, parked, answered or ended.

use object::{ParticipantId, RequestId};
use serde_json::json;

use super::*;
use crate::limits::APP_REQUEST_MS_MAX;
use crate::names::app_instance_id;
use crate::ops::scene::{ROOM, Scene};

struct World {
    scene: Scene,
    agent: ParticipantId,
    human: ParticipantId,
    line: u64,
}

fn board() -> String {
    app_instance_id(ROOM, "whiteboard")
}

fn asked() -> Value {
    json!({"appInstanceId": board(), "payload": {"move": 3}})
}

/// A human whose browser hosts the whiteboard, and an agent.
fn world() -> World {
    let mut scene = Scene::new();
    let (human, agent) = (scene.human("Ana"), scene.agent("a"));
    let line = scene.line_of(human);
    let mut world = World { scene, agent, human, line };
    world.browser("app_host_attach", json!({"appInstanceId": board()}));
    world
}

impl World {
    /// A frame of the hosting browser.
    fn browser(&mut self, op: &str, args: Value) {
        self.scene.connection = self.line;
        self.scene.call(op, self.human, args).unwrap();
        self.scene.connection = 0;
    }

    fn ask(&mut self, n: u128, parked: Option<Parked>) -> Result<Value, Reject> {
        self.scene.again(META.name, self.agent, asked(), RequestId(n), parked)
    }

    fn answer(&mut self, n: u128, args: impl Into<Value>) {
        let args = args.into();
        let mut all = json!({"requestId": RequestId(n).to_string(), "appInstanceId": board()});
        for (key, value) in args.as_object().unwrap() {
            all[key] = value.clone();
        }
        self.browser("app_answer", all);
    }

    fn in_flight(&self) -> usize {
        self.scene.state().live.requests.len()
    }
}

#[test]
fn an_answer_reaches_the_parked_caller_once() {
    let mut world = world();
    world.scene.frames.clear();
    let lease = world.scene.lease_left(world.agent);
    let until = world.scene.now.plus(APP_REQUEST_MS_MAX).0;
    assert_eq!(world.ask(1, None), Ok(json!({"parked": until})));
    let (line, frame) = world.scene.frames.pop().unwrap();
    assert_eq!(line, world.line);
    assert_eq!(frame["payload"]["sourceParticipantId"], json!(world.agent.to_string()));
    assert_eq!(frame["requestId"], json!(RequestId(1).to_string()));
    // Other changes wake nothing; a repeat by the edge joins the first attempt.
    assert_eq!(world.ask(1, Some(Parked::Changed)), Ok(json!({"parked": until})));
    assert_eq!(world.ask(1, None), Ok(json!({"parked": until})));
    assert!(world.scene.frames.is_empty(), "sent once");
    world.answer(1, json!({"ok": true, "result": [1, 2]}));
    assert_eq!(world.ask(1, Some(Parked::Changed)), Ok(json!({"ok": true, "result": [1, 2]})));
    assert_eq!(world.in_flight(), 0);
    assert_eq!(world.scene.lease_left(world.agent), lease, "renews nothing");
    assert_eq!(world.scene.state().sequence, 0);
}

#[test]
fn every_refusal_before_it_is_sent() {
    let mut world = world();
    let with =
        |instance: &str, payload: Value| json!({"appInstanceId": instance, "payload": payload});
    let generated = "generated:00000000-0000-0000-0000-000000000001";
    let bingo = app_instance_id(ROOM, "bingo");
    let big = json!({"k": "x".repeat(APP_PAYLOAD_BYTES_MAX)});
    let (agent, human) = (world.agent, world.human);
    let rows = [
        (agent, with(&board(), json!({"sourceParticipantId": "me"})), "invalid_request"),
        (agent, with(&board(), big), "invalid_request"),
        (agent, with(&board(), json!([])), "invalid_arguments"),
        (agent, with("No Such", json!({})), "invalid_arguments"),
        (agent, with("whiteboard:00000000", json!({})), "app_unavailable"),
        (agent, with(generated, json!({})), "app_unavailable"),
        (agent, with(&bingo, json!({})), "host_unavailable"),
        (human, with(&board(), json!({})), "agent_only"),
        (ParticipantId(1), with(&board(), json!({})), "invalid_participant_handle"),
    ];
    for (who, args, code) in rows {
        let reject = world.scene.call(META.name, who, args.clone()).unwrap_err();
        assert_eq!(reject.code, code, "{}", args["appInstanceId"]);
    }
    for n in 1..=4 {
        world.ask(n, None).unwrap();
    }
    let reject = world.ask(5, None).unwrap_err();
    assert_eq!((reject.code, reject.limit), ("too_many_requests", Some(4)));
    world.scene.settings.room_apps_enabled = false;
    assert_eq!(world.ask(6, None).unwrap_err().code, "app_unavailable");
}

#[test]
fn every_way_a_sent_request_fails() {
    type Deed = fn(&mut World);
    let rows: [(Deed, Parked, &str); 8] = [
        (|w| w.scene.pass(APP_REQUEST_MS_MAX), Parked::TimedOut, "timeout"),
        (|w| w.scene.disconnect(w.human, w.line), Parked::Changed, "host_disconnected"),
        (
            |w| w.browser("app_host_detach", json!({"appInstanceId": board()})),
            Parked::Changed,
            "host_unavailable",
        ),
        (|w| w.browser("leave_human", json!({})), Parked::Changed, "host_unavailable"),
        (|w| w.answer(1, json!({"ok": true})), Parked::Changed, "invalid_response"),
        (|w| w.answer(1, json!({"ok": false, "error": "busy"})), Parked::Changed, "app_error"),
        (
            |w| drop(w.scene.call("leave_room", w.agent, json!({}))),
            Parked::Changed,
            "agent_disconnected",
        ),
        (|_| {}, Parked::Cancelled, "agent_disconnected"),
    ];
    for (deed, parked, code) in rows {
        let mut world = world();
        world.ask(1, None).unwrap();
        deed(&mut world);
        let reject = world.ask(1, Some(parked)).unwrap_err();
        assert_eq!(reject.code, code);
        if code == "app_error" {
            assert_eq!(reject.message, "busy", "the host's own word");
        }
        assert_eq!(world.in_flight(), 0, "{code}");
        // Whatever comes later is ignored.
        if world.scene.state().live.attached(world.human) {
            world.answer(1, json!({"ok": true, "result": 1}));
            assert_eq!(world.in_flight(), 0);
        }
    }
}

#[test]
fn a_repeat_of_a_request_that_was_answered_is_not_sent_again() {
    let mut world = world();
    world.ask(1, None).unwrap();
    world.answer(1, json!({"ok": true, "result": 1}));
    world.ask(1, Some(Parked::Changed)).unwrap();
    assert_eq!(world.ask(1, Some(Parked::Changed)).unwrap_err().code, "agent_disconnected");
}

#[test]
fn a_request_nobody_came_back_for_is_forgotten() {
    let mut world = world();
    world.ask(1, None).unwrap();
    world.scene.pass(APP_REQUEST_MS_MAX + 999);
    assert_eq!(world.in_flight(), 1, "its caller may still be told of the timeout");
    world.scene.pass(1);
    assert_eq!(world.in_flight(), 0);
}

#[test]
fn instance_ids_follow_the_documented_pattern() {
    let long = format!("a{}", "b".repeat(95));
    for (id, good) in [("a", true), ("1a:b-c", true), (&*long, true), ("-a", false), ("A", false)] {
        assert_eq!(is_instance_id(id), good, "{id}");
    }
}
