//! The state is the fold of its events, and a snapshot is the state (ours 11; cluster 2.8).

use object::{Caller, Millis, Object};
use room::Room;
use serde_json::json;

use crate::testing::Bench;

/// A busy room: agents, Tasks, files, evictions, leaving.
fn busy(seed: u64) -> Bench {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut bench = Bench::new();
    let mut agents = vec![bench.join("A"), bench.join("B"), bench.join("C")];
    for n in 0..160 {
        bench.pass(random.u64(0..400));
        let who = agents[random.usize(..agents.len())];
        let other = agents[random.usize(..agents.len())].to_string();
        let task = format!("task-{}", random.u32(0..9));
        let file = json!({"fileName": "f", "mimeType": "text/plain"});
        let host = json!({"runtimeHostId": "host-0001",
            "speech": {"stt": random.bool(), "tts": random.bool()}});
        // Refusals are part of the mix.
        let _ = match random.u32(0..10) {
            0 => bench.call(
                "send_collab_request",
                who,
                &json!({"targetParticipantId": other, "summary": "s", "requestId": task}),
            ),
            1 => bench.call(
                "send_collab_response",
                who,
                &json!({"requestId": task, "decision": "accepted"}),
            ),
            2 => bench.call(
                "send_collab_result",
                who,
                &json!({"requestId": task, "status": "failed", "summary": "s",
                    "details": {"k": "v"}}),
            ),
            3 => bench.send("send_attachment", who, &file, &[1, 2, 3]),
            4 => bench.call("update_capabilities", who, &json!({"capabilities": ["x.y"]})),
            5 => bench.call("update_runtime_host", who, &json!({"runtimeHost": host})),
            6 => bench.call(
                "send_text",
                who,
                &json!({"text": "t", "taskRequestId": task, "targetParticipantIds": [other]}),
            ),
            7 if agents.len() > 2 && n % 3 == 0 => {
                agents.retain(|agent| *agent != who);
                bench.call("leave_room", who, &json!({}))
            }
            _ => bench.call("send_text", who, &json!({"text": format!("{n}")})),
        };
        if agents.len() < 4 && random.bool() {
            agents.push(bench.join("N"));
        }
        let cursor = json!({"cursor": bench.room.state().sequence.saturating_sub(4)});
        for agent in &agents {
            bench.call("wait_for_events", *agent, &cursor).unwrap();
        }
    }
    bench
}

#[test]
fn folding_the_events_gives_the_state() {
    for seed in 0..4 {
        let bench = busy(seed);
        let mut folded = Room::fresh(&bench.id);
        for event in &bench.log {
            folded.evolve(event);
        }
        for (participant, end) in &bench.leases {
            folded.renew(*participant, *end, Millis(bench.now));
        }
        assert_eq!(folded, bench.room, "seed {seed}");
    }
}

#[test]
fn a_snapshot_gives_the_state_back() {
    for seed in 4..8 {
        let mut bench = busy(seed);
        let before = bench.room.clone();
        bench.reload();
        assert_eq!(bench.room, before, "seed {seed}");
    }
}

#[test]
fn a_snapshot_with_the_tail_after_it_gives_the_state() {
    let mut bench = busy(99);
    let stored = bench.room.encode_snapshot();
    let at = bench.log.len();
    let d = bench.join("D");
    for _ in 0..20 {
        bench.call("send_text", d, &json!({"text": "tail"})).unwrap();
    }
    let mut room = Room::decode_snapshot(&bench.id, Room::SCHEMA, &stored).unwrap();
    for event in &bench.log[at..] {
        room.evolve(event);
    }
    for (participant, end) in &bench.leases {
        room.renew(*participant, *end, Millis(bench.now));
    }
    assert_eq!(room, bench.room);
}

#[test]
fn equal_inputs_give_equal_decisions() {
    let mut bench = busy(3);
    let a = bench.join("A");
    let settings = bench.settings.clone();
    let cx = object::Cx { now: Millis(bench.now), random: 5, settings: &settings };
    let call = object::Call {
        op: room::op("send_collab_request").unwrap(),
        args: br#"{"targetParticipantId":"x","summary":"s"}"#,
        blob: None,
        caller: Caller::Participant(a),
        request: object::RequestId(1),
        attempt: 1,
        age_ms: 0,
        connection: 0,
        since: Millis(bench.now),
        parked: None,
    };
    let (one, two) = (bench.room.decide(&cx, &call), bench.room.decide(&cx, &call));
    assert_eq!(one.events, two.events);
    assert_eq!(one.outcome, two.outcome);
}

#[test]
fn stored_bytes_of_another_schema_or_damaged_ones_are_refused() {
    let bench = busy(4);
    let bytes = bench.room.encode_snapshot();
    let newer = Room::decode_snapshot(&bench.id, Room::SCHEMA + 1, &bytes);
    assert!(matches!(newer, Err(object::CodecError::Newer { found: 2, supported: 1 })));
    assert!(Room::decode_snapshot(&bench.id, 1, &bytes[..bytes.len() - 3]).is_err());
    assert!(Room::decode_event(1, b"").is_err());
    assert!(Room::decode_event(1, &[0xff; 12]).is_err());
}
