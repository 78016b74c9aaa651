//! Exactly once (ours 11).

use object::{Caller, ParticipantId};
use serde_json::{Value, json};

use crate::testing::{Answer, Attempt, Bench, code};

fn text(id: &str, text: &str) -> Value {
    json!({"text": text, "clientRequestId": id})
}

#[test]
fn a_repeat_returns_the_first_result_and_other_arguments_conflict() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    let first = bench.call("send_text", a, &text("k-1", "x")).unwrap();
    let mut again = bench.call("send_text", a, &text("k-1", "x")).unwrap();
    assert_eq!(again["duplicate"], true);
    again.as_object_mut().unwrap().remove("duplicate");
    assert_eq!(again, first);
    assert_eq!(bench.room.state().messages.len(), 1);
    assert_eq!(code(bench.call("send_text", a, &text("k-1", "y"))), "client_request_id_conflict");
    let other_op = json!({"capabilities": [], "clientRequestId": "k-1"});
    assert_eq!(code(bench.call("update_capabilities", a, &other_op)), "client_request_id_conflict");
    // Another participant's ids are its own.
    bench.call("send_text", b, &text("k-1", "z")).unwrap();
    assert_eq!(bench.room.state().messages.len(), 2);
}

#[test]
fn key_order_handle_and_unknown_keys_make_no_other_call() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    let one = json!({"participantHandle": "h1", "text": "x", "clientRequestId": "k"});
    let two = json!({"clientRequestId": "k", "text": "x", "participantHandle": "h2"});
    bench.call("send_text", a, &one).unwrap();
    assert_eq!(bench.call("send_text", a, &two).unwrap()["duplicate"], true);
    // Nor does what the tool drops or trims.
    let three = json!({"clientRequestId": "k", "text": "\u{feff} x ", "attempt": 2});
    assert_eq!(bench.call("send_text", a, &three).unwrap()["duplicate"], true);
    let four = json!({"clientRequestId": "k", "text": "\u{85}x"});
    assert_eq!(code(bench.call("send_text", a, &four)), "client_request_id_conflict");
}

#[test]
fn the_edges_own_request_ids_share_the_window() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    let args = json!({"text": "x"});
    let send = |bench: &mut Bench, request, number, age_ms| {
        let attempt = Attempt { request, number, age_ms };
        bench.attempt("send_text", Caller::Participant(a), &args, None, attempt)
    };
    assert_eq!(send(&mut bench, 70, 1, 0).unwrap().get("duplicate"), None);
    assert_eq!(send(&mut bench, 70, 2, 5).unwrap()["duplicate"], true);
    assert_eq!(send(&mut bench, 71, 1, 0).unwrap().get("duplicate"), None);
    assert_eq!(bench.room.state().messages.len(), 2);
    // 64 further changes push the first id out before its time.
    for n in 0..64 {
        bench.pass(10);
        bench.call("send_text", a, &text(&format!("k-{n}"), "y")).unwrap();
    }
    assert_eq!(code(send(&mut bench, 70, 3, 700)), "outcome_unknown");
    bench.pass(1);
    assert_eq!(
        send(&mut bench, 72, 2, 0).map(|a| a["sequence"].clone()),
        Ok(json!(67)),
        "a first attempt sent after the last drop is certainly new"
    );
}

#[test]
fn the_window_survives_sleep_and_loss() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    let first = bench.call("send_text", a, &text("k-1", "x")).unwrap();
    bench.reload();
    let again = bench.call("send_text", a, &text("k-1", "x")).unwrap();
    assert_eq!((&again["sequence"], &again["duplicate"]), (&first["sequence"], &json!(true)));
    bench.pass(60_000);
    bench.call("wait_for_events", a, &json!({})).unwrap();
}

#[test]
fn refusals_and_reads_are_not_remembered() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    let bad = json!({"text": "x", "taskRequestId": "none-1", "clientRequestId": "k"});
    assert_eq!(code(bench.call("send_text", a, &bad)), "unknown_task_request");
    bench.call("send_text", a, &text("k", "x")).unwrap();
    bench.call("wait_for_events", a, &json!({"clientRequestId": "w"})).unwrap();
    assert_eq!(bench.room.state().participants[0].memory.entries.len(), 1);
}

#[test]
fn every_changing_tool_rebuilds_its_answer() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    let host = json!({"runtimeHostId": "host-0001", "speech": {"stt": true, "tts": true}});
    type Case = (&'static str, Value, Option<&'static [u8]>);
    let table: Vec<(ParticipantId, Case)> = vec![
        (a, ("send_text", json!({"text": "x"}), None)),
        (a, ("update_capabilities", json!({"capabilities": ["Shell"]}), None)),
        (a, ("update_runtime_host", json!({"runtimeHost": host}), None)),
        (
            a,
            (
                "send_collab_request",
                json!({"targetParticipantId": b.to_string(), "summary": "s"}),
                None,
            ),
        ),
        (
            a,
            (
                "send_collab_request",
                json!({"targetParticipantId": b.to_string(), "summary": "s", "requestId": "t-01"}),
                None,
            ),
        ),
        (b, ("send_collab_response", json!({"requestId": "t-01", "decision": "accepted"}), None)),
        (
            b,
            (
                "send_collab_result",
                json!({"requestId": "t-01", "status": "completed", "summary": "s"}),
                None,
            ),
        ),
        (
            a,
            (
                "send_attachment",
                json!({"fileName": "f", "mimeType": "text/plain"}),
                Some(&b"bytes"[..]),
            ),
        ),
    ];
    for (n, (who, (op, mut args, bytes))) in table.into_iter().enumerate() {
        args["clientRequestId"] = json!(format!("id-{n}"));
        let call = |bench: &mut Bench| -> Answer {
            bench.call_as(op, Caller::Participant(who), &args, bytes)
        };
        let first = call(&mut bench).unwrap();
        let events = bench.log.len();
        let mut again = call(&mut bench).unwrap();
        assert_eq!(again["duplicate"], true, "{op}");
        again.as_object_mut().unwrap().remove("duplicate");
        assert_eq!(again, first, "{op}");
        assert_eq!(bench.log.len(), events, "{op} stored nothing again");
    }
}

#[test]
fn a_file_that_is_gone_still_yields_id_and_sequence() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    let args = json!({"fileName": "f", "mimeType": "text/plain", "clientRequestId": "k"});
    let first = bench.send("send_attachment", a, &args, b"1").unwrap();
    for n in 0..8_u8 {
        let other = json!({"fileName": "g", "mimeType": "text/plain"});
        bench.send("send_attachment", a, &other, &[n]).unwrap();
    }
    let again = bench.send("send_attachment", a, &args, b"1").unwrap();
    let id = first["attachment"]["id"].clone();
    assert_eq!(again, json!({"attachment": {"id": id, "sequence": 1}, "duplicate": true}));
    assert_eq!(code(bench.send("send_attachment", a, &args, b"2")), "client_request_id_conflict");
}
