//! Waiting, cursors and truncation (rooms 9, 10; ours 7-10, 15, 16).

use object::{IdlePoll, Object, Parked, Poll};
use room::Room;
use serde_json::json;

use crate::testing::{Bench, START, code};

#[test]
fn an_empty_wait_is_quiet_and_one_with_news_is_news() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    let quiet = bench.call("wait_for_events", b, &json!({"cursor": 0})).unwrap();
    assert_eq!(quiet["longPoll"], "immediate");
    assert_eq!(quiet["roomApps"], json!([]));
    assert_eq!(quiet["runtimeHosts"], json!({}));
    assert_eq!(quiet["participants"].as_array().unwrap().len(), 2);
    assert_eq!(bench.last.as_ref().unwrap().poll, Some(Poll::Quiet));
    bench.call("send_text", a, &json!({"text": "x"})).unwrap();
    bench.call("wait_for_events", b, &json!({"cursor": 0})).unwrap();
    assert_eq!(bench.last.as_ref().unwrap().poll, Some(Poll::News));
}

#[test]
fn a_cursor_ahead_of_the_room_adopts_the_rooms() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    let answer = bench.call("wait_for_events", a, &json!({"cursor": 99})).unwrap();
    assert_eq!(answer["events"], json!([]));
    assert_eq!(answer["cursor"], 0);
    assert_eq!(answer.get("truncated"), None);
}

#[test]
fn a_hold_ends_with_news_for_the_reader_only_or_at_its_time() {
    let mut bench = Bench::new();
    bench.settings.longpoll_enabled = true;
    let (a, b) = (bench.join("A"), bench.join("B"));
    let args = json!({"cursor": 0, "timeoutSeconds": 20});
    bench.call("wait_for_events", b, &args).unwrap();
    assert_eq!(bench.parked_until, Some(START + 5_000), "a hold is at most five seconds");
    // Its own text moves the sequence but is no news for it.
    bench.call("send_text", b, &json!({"text": "mine"})).unwrap();
    bench.again(b, &args, START, Parked::Changed).unwrap();
    assert_eq!(bench.parked_until, Some(START + 5_000));
    bench.call("send_text", a, &json!({"text": "theirs"})).unwrap();
    let woken = bench.again(b, &args, START, Parked::Changed).unwrap();
    assert_eq!(woken["events"][0]["text"], "theirs");
    assert_eq!(woken.get("longPoll"), None);
    bench.pass(5_000);
    let empty = json!({"cursor": 2, "timeoutSeconds": 20});
    let timed_out = bench.again(b, &empty, START, Parked::TimedOut).unwrap();
    assert_eq!(timed_out["longPoll"], "held");
    assert_eq!(timed_out["cursor"], 2);
    let zero = json!({"cursor": 2, "timeoutSeconds": 0});
    assert_eq!(bench.call("wait_for_events", b, &zero).unwrap()["longPoll"], "immediate");
}

#[test]
fn a_held_wait_ends_when_its_caller_leaves() {
    let mut bench = Bench::new();
    bench.settings.longpoll_enabled = true;
    let (a, b) = (bench.join("A"), bench.join("B"));
    let args = json!({"cursor": 0});
    bench.call("wait_for_events", b, &args).unwrap();
    bench.call("leave_room", b, &json!({})).unwrap();
    let answer = bench.again(b, &args, START, Parked::Changed).unwrap();
    assert_eq!(
        answer,
        json!({"events": [], "cursor": 0, "expiresAt": 4_102_444_800_000_u64,
        "left": true})
    );
    assert_eq!(bench.last.as_ref().unwrap().poll, Some(Poll::Terminal));
    assert_eq!(code(bench.call("wait_for_events", b, &args)), "invalid_participant_handle");
    bench.call("leave_room", a, &json!({})).unwrap();
    bench.now = bench.room.state().expires_at.0;
    let over = bench.room.state().expires_at.0;
    let id = bench.id.clone();
    let mut ended = Bench::new();
    ended.id = id;
    ended.now = over;
    assert_eq!(code(ended.call("wait_for_events", b, &args)), "room_expired");
}

#[test]
fn hidden_events_are_no_loss() {
    let mut bench = Bench::new();
    let (a, b, c) = (bench.join("A"), bench.join("B"), bench.join("C"));
    let ask = json!({"targetParticipantId": b.to_string(), "summary": "s", "requestId": "t-01"});
    bench.call("send_collab_request", a, &ask).unwrap();
    bench.call("send_text", a, &json!({"text": "seen by all"})).unwrap();
    for n in 0..99 {
        let text = json!({"text": format!("{n}"), "taskRequestId": "t-01"});
        bench.call("send_text", a, &text).unwrap();
    }
    // The request is gone from the ring, but C never could have seen it.
    assert_eq!(bench.room.state().messages.front().unwrap().sequence, 2);
    let answer = bench.call("wait_for_events", c, &json!({"cursor": 0})).unwrap();
    assert_eq!(answer.get("truncated"), None);
    assert_eq!(answer["events"][0]["sequence"], 2);
    let lost = bench.call("wait_for_events", b, &json!({"cursor": 0})).unwrap();
    assert_eq!(lost["truncated"], true);
    let page = json!({"afterSequence": 0});
    assert_eq!(bench.call("read_room_context", c, &page).unwrap().get("truncated"), None);
    // Once admitted, its history has a hole that it is told of.
    let admit =
        json!({"text": "in", "taskRequestId": "t-01", "targetParticipantIds": [c.to_string()]});
    bench.call("send_text", a, &admit).unwrap();
    assert_eq!(bench.call("read_room_context", c, &page).unwrap()["truncated"], true);
}

#[test]
fn older_islands_are_skipped_after_a_truncation() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    let file = json!({"fileName": "a.txt", "mimeType": "text/plain"});
    bench.send("send_attachment", a, &file, b"island").unwrap();
    for n in 0..101 {
        bench.call("send_text", a, &json!({"text": format!("{n}")})).unwrap();
    }
    let answer = bench.call("wait_for_events", b, &json!({"cursor": 0})).unwrap();
    assert_eq!(answer["truncated"], true);
    assert_eq!(answer["events"][0]["sequence"], 3, "what is delivered has no hole");
    let context = bench.call("read_room_context", b, &json!({})).unwrap();
    assert_eq!(context["oldestSequence"], 1, "a page still shows the island");
}

#[test]
fn context_pages_from_either_end() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    for n in 1..=60 {
        bench.call("send_text", a, &json!({"text": format!("{n}")})).unwrap();
    }
    let first = |answer: serde_json::Value| answer["events"][0]["sequence"].clone();
    assert_eq!(first(bench.call("read_room_context", a, &json!({})).unwrap()), 1);
    let newest = bench.call("read_room_context", a, &json!({"order": "newest"})).unwrap();
    assert_eq!(newest["hasMoreBefore"], true);
    assert_eq!(newest["hasMoreAfter"], false);
    assert_eq!(first(newest), 36);
    let before = json!({"beforeSequence": 11, "limit": 5});
    assert_eq!(first(bench.call("read_room_context", a, &before).unwrap()), 6);
    assert_eq!(
        code(bench.call("read_room_context", a, &json!({"limit": 51}))),
        "invalid_arguments"
    );
}

#[test]
fn a_sleeping_room_answers_as_the_awake_one_would() {
    let mut bench = Bench::new();
    bench.settings.room_apps =
        vec![room::CuratedApp { app_id: "whiteboard".into(), title: "Whiteboard".into() }];
    let (a, b) = (bench.join("A"), bench.join("B"));
    bench.call("send_text", a, &json!({"text": "x"})).unwrap();
    let awake = bench.call("wait_for_events", b, &json!({"cursor": 1})).unwrap();
    let kept = bench.room.idle_view(&bench.settings);
    assert_eq!(kept.sequence, 1);
    assert_eq!(kept.pollers.len(), 2);
    let args = br#"{"cursor":1,"participantHandle":"sealed"}"#;
    let poll = |args| IdlePoll { args, sequence: kept.sequence, projection: &kept.projection };
    let asleep = Room::answer_idle_poll(&bench.settings, &poll(args)).unwrap();
    let body: serde_json::Value = serde_json::from_slice(&asleep.body).unwrap();
    assert_eq!(body, awake);
    assert_eq!(body["roomApps"][0]["callable"], false);
    for other in [&br#"{"cursor":0}"#[..], br#"{"cursor":2}"#, b"{}", b"nonsense"] {
        assert_eq!(Room::answer_idle_poll(&bench.settings, &poll(other)), None);
    }
}

#[test]
fn a_sleeping_room_holds_as_the_awake_one_would() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    let kept = bench.room.idle_view(&bench.settings);
    let hold = |bench: &Bench, args: &[u8]| {
        let poll = IdlePoll { args, sequence: kept.sequence, projection: &kept.projection };
        Room::hold_idle_poll(&bench.settings, &poll, object::Millis(START))
    };
    let args = br#"{"cursor":0,"timeoutSeconds":3}"#;
    assert_eq!(hold(&bench, args), None, "holding is an opt-in");
    bench.settings.longpoll_enabled = true;
    let (until, reply) = hold(&bench, args).unwrap();
    assert_eq!(until.0, START + 3_000);
    let asked: serde_json::Value = serde_json::from_slice(args).unwrap();
    bench.call("wait_for_events", a, &asked).unwrap();
    assert_eq!(bench.parked_until, Some(until.0));
    bench.pass(3_000);
    let awake = bench.again(a, &asked, START, Parked::TimedOut).unwrap();
    assert_eq!(serde_json::from_slice::<serde_json::Value>(&reply.body).unwrap(), awake);
    assert_eq!(hold(&bench, br#"{"cursor":0,"timeoutSeconds":0}"#), None);
    assert_eq!(hold(&bench, br#"{"cursor":7}"#), None);
}
