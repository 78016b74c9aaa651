mod bench;
mod canary;
mod regions;

use futures_util::FutureExt as _;
use object::{Class, Reject};
use serde_json::json;

use self::bench::{Bench, CREATE, INFO, JOIN, LEGACY, PARK, SEND, UPLOAD, WAIT};
use super::*;
use crate::fake_node::{Act, success};

const BODY: &str = r#"{"sequence":13}"#;

#[tokio::test(start_paused = true)]
async fn a_join_mints_a_handle_that_later_calls_open() {
    let bench = Bench::start(|_| success(BODY)).await;
    let body = bench.body(&JOIN, r#"{"roomId":" blue-otter ","name":"Ann"}"#).await;
    let handle = body["participantHandle"].as_str().unwrap();
    assert_eq!(body["sequence"], 13);
    let args = format!(r#"{{ "participantHandle" : "{handle}","text":"h\u0069" }}"#);
    assert_eq!(bench.body(&SEND, &args).await, json!({"sequence":13}));

    let seen = bench.node.seen();
    let [join, send] = &seen[..] else { panic!("{}", seen.len()) };
    assert_eq!((&*join.object, &*send.object), ("blue-otter", "blue-otter"));
    assert_eq!((join.joining, send.joining), (true, false));
    assert_eq!(join.participant, send.participant);
    assert_eq!((join.participant.len(), join.request.len()), (16, 16));
    assert_ne!(join.request, send.request);
    // Arguments travel as they came.
    assert_eq!(send.args, args);
    assert_eq!(send.blob, None);
}

#[tokio::test(start_paused = true)]
async fn a_creation_mints_room_handle_and_invite() {
    let bench = Bench::start(|_| success("{}")).await;
    let body = bench.body(&CREATE, r#"{"name":"Ann"}"#).await;
    let room = bench.node.seen()[0].object.clone();
    assert_eq!(
        body["invite"],
        json!({
            "kind": "free4chat.room-invite",
            "version": 1,
            "roomId": room,
            "roomUrl": format!("https://rooms.test/room?id={room}"),
        })
    );
    let handle = json!(body["participantHandle"]).to_string();
    let sent = bench.body(&SEND, &format!(r#"{{"participantHandle":{handle}}}"#)).await;
    assert_eq!(sent, json!({}));
    assert_eq!(bench.node.seen()[1].object, room);
}

#[tokio::test(start_paused = true)]
async fn a_taken_room_id_is_replaced_twice() {
    for (taken, want) in [(1, "success"), (2, "success"), (3, "room_id_collision")] {
        let mut left = taken;
        let bench = Bench::start(move |_| {
            if left == 0 {
                return success("{}");
            }
            left -= 1;
            Act::Refuse(Reject::new(Class::Conflict, "room_already_exists", "Taken.", false))
        })
        .await;
        assert_eq!(bench.code(&CREATE, "{}").await, want, "{taken}");
        let mut rooms: Vec<String> = bench.node.seen().into_iter().map(|c| c.object).collect();
        rooms.dedup();
        assert_eq!(rooms.len(), 3.min(taken + 1), "a fresh id each time");
    }
}

#[tokio::test(start_paused = true)]
async fn only_a_creation_treats_a_taken_id_as_a_collision() {
    let taken = |_: &v1::Call| {
        Act::Refuse(Reject::new(Class::Conflict, "room_already_exists", "Taken.", false))
    };
    let bench = Bench::start(taken).await;
    assert_eq!(bench.code(&JOIN, r#"{"roomId":"r"}"#).await, "room_already_exists");
    assert_eq!(bench.node.seen().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn refusals_before_the_node_cost_it_nothing() {
    let bench = Bench::start(|_| success(BODY)).await;
    let good = bench.handle("blue-otter", 1);
    for (tool, args, code) in [
        (&SEND, r#"{"participantHandle":"AAAA"}"#.to_owned(), "invalid_participant_handle"),
        (&SEND, r#"{"participantHandle":7}"#.to_owned(), "invalid_participant_handle"),
        (&SEND, "{}".to_owned(), "invalid_participant_handle"),
        (&SEND, format!(r#"{{"participantHandle":"{good}","bad":1}}"#), "invalid_arguments"),
        (&INFO, r#"{"roomId":"   "}"#.to_owned(), "invalid_arguments"),
        (&INFO, format!(r#"{{"roomId":"{}"}}"#, "x".repeat(65)), "invalid_arguments"),
        (&UPLOAD, format!(r#"{{"participantHandle":"{good}","data":"?"}}"#), "invalid_attachment"),
        // The check comes before the handle: bad input is told whoever asks.
        (&SEND, r#"{"participantHandle":"AAAA","bad":1}"#.to_owned(), "invalid_arguments"),
    ] {
        assert_eq!(bench.code(tool, &args).await, code, "{args}");
    }
    assert!(bench.node.seen().is_empty());
    assert_eq!(bench.metrics.handles_refused.get(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_blob_travels_beside_its_arguments_both_ways() {
    let bench = Bench::start(|call| {
        Act::Success(v1::Success {
            body: Bytes::from_static(b"{}"),
            blob: call.blob.clone(),
            image_mime: Some("image/png".to_owned()),
        })
    })
    .await;
    let handle = bench.handle("r", 1);
    let args = format!(r#"{{"participantHandle":"{handle}","data":"aGVsbG8=","n":1.0}}"#);
    let Outcome::Success(success) = bench.call(&UPLOAD, &args).await else { panic!("refused") };
    let attached = success.blob.unwrap();
    assert_eq!(
        (&*attached.bytes, attached.image_mime.as_deref()),
        (&b"hello"[..], Some("image/png"))
    );
    let call = &bench.node.seen()[0];
    assert_eq!(call.args, format!(r#"{{"participantHandle":"{handle}","n":1.0}}"#));
    assert_eq!(call.blob.as_deref(), Some(&b"hello"[..]));
    assert_eq!(bench.metrics.blob_inflight.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn uploads_over_the_memory_bound_are_refused() {
    let bench = Bench::start(|_| success("{}")).await;
    let handle = bench.handle("r", 1);
    let args = format!(r#"{{"participantHandle":"{handle}","data":"aGVsbG8="}}"#);
    bench.pipeline.blob_inflight.store(BLOB_INFLIGHT_BYTES_MAX - 4, Ordering::Relaxed);
    assert_eq!(bench.code(&UPLOAD, &args).await, "overloaded");
    bench.pipeline.blob_inflight.store(BLOB_INFLIGHT_BYTES_MAX - 5, Ordering::Relaxed);
    assert_eq!(bench.code(&UPLOAD, &args).await, "success");
    assert_eq!(bench.pipeline.blob_inflight.load(Ordering::Relaxed), BLOB_INFLIGHT_BYTES_MAX - 5);
}

#[tokio::test(start_paused = true)]
async fn a_refused_poll_costs_no_node_call_and_no_guard_token() {
    let bench = Bench::start(|_| Act::Wait(r#"{"events":[]}"#, 10_000)).await;
    let args = format!(r#"{{"participantHandle":"{}"}}"#, bench.handle("r", 1));
    assert_eq!(bench.code(&WAIT, &args).await, "success");
    for _ in 0..1_000 {
        let Outcome::Refused(refusal) = bench.call(&WAIT, &args).await else { panic!("admitted") };
        assert_eq!(refusal.code, "wait_rate_limited");
        assert!(refusal.retryable);
        assert_eq!(refusal.retry_after_ms, Some(10_000));
    }
    assert_eq!(bench.node.seen().len(), 1);
    assert_eq!(bench.metrics.waits_refused.get(), 1_000);
    // 240 tokens a minute, one spent by the admitted poll, none by the refused ones.
    for _ in 0..239 {
        assert_eq!(bench.code(&SEND, &args).await, "success");
    }
    assert_eq!(bench.code(&SEND, &args).await, "rate_limited");
    // To the millisecond.
    bench.clock.advance(Duration::from_millis(9_999));
    assert_eq!(bench.code(&WAIT, &args).await, "wait_rate_limited");
    bench.clock.advance(Duration::from_millis(1));
    assert_eq!(bench.code(&WAIT, &args).await, "success");
}

#[tokio::test(start_paused = true)]
async fn waits_end_with_their_gateway_and_other_calls_go_on() {
    let bench = Bench::start(|call| match &*call.op {
        "wait_for_events" if call.object == "quick" => Act::Wait(r#"{"events":[]}"#, 0),
        "wait_for_events" => Act::Silence,
        _ => Act::Gather(2),
    })
    .await;
    let args = |room| format!(r#"{{"participantHandle":"{}"}}"#, bench.handle(room, 1));
    let (held, late) = (args("held"), args("late"));
    let mut wait = std::pin::pin!(bench.code(&WAIT, &held));
    let mut work = std::pin::pin!(bench.code(&PARK, &held));
    assert_eq!(wait.as_mut().now_or_never(), None);
    assert_eq!(work.as_mut().now_or_never(), None);
    tokio::time::advance(WAIT_GRACE).await;
    let begun = clock::now();
    bench.pipeline.end_waits();
    assert_eq!(wait.await, "room_unavailable");
    assert_eq!(clock::now() - begun, Duration::ZERO, "held waits end at once");
    // One that comes later is still answered, but not held.
    assert_eq!(bench.code(&WAIT, &args("quick")).await, "success");
    let begun = clock::now();
    let Outcome::Refused(refusal) = bench.call(&WAIT, &late).await else { panic!("answered") };
    assert_eq!((&*refusal.code, refusal.retryable), ("room_unavailable", true));
    assert_eq!(clock::now() - begun, WAIT_GRACE);
    let (first, second) = tokio::join!(work, bench.code(&SEND, &held));
    assert_eq!((&*first, &*second), ("success", "success"));
}

#[tokio::test(start_paused = true)]
async fn the_owners_refusal_is_remembered_too() {
    let early = |_: &v1::Call| {
        let reject = Reject::new(Class::TooFast, "wait_rate_limited", "Early.", true);
        Act::Refuse(reject.retry_after(1_500))
    };
    let bench = Bench::start(early).await;
    let args = format!(r#"{{"participantHandle":"{}"}}"#, bench.handle("r", 1));
    for _ in 0..3 {
        let Outcome::Refused(refusal) = bench.call(&WAIT, &args).await else { panic!("admitted") };
        assert_eq!((&*refusal.code, refusal.retry_after_ms), ("wait_rate_limited", Some(1_500)));
    }
    assert_eq!(bench.node.seen().len(), 1);
}

/// One participant over all gateways: the owner's cadence decides, and each gateway learns from
/// its first refusal (ours 8).
#[tokio::test(start_paused = true)]
async fn a_sprayer_over_two_gateways_gains_nothing() {
    const PERIOD_MS: u64 = 10_000;
    let clock = Clock::hand();
    let (owner, started) = (clock.clone(), clock.tick());
    let admitted = Arc::new(AtomicUsize::new(0));
    let wakes = Arc::clone(&admitted);
    let mut next = 0;
    // The owner, with the exact cadence of one participant.
    let script = move |_: &v1::Call| {
        let now = owner.tick().since(started) / 1_000_000;
        if now < next {
            let reject = Reject::new(Class::TooFast, "wait_rate_limited", "Early.", true);
            return Act::Refuse(reject.retry_after(next - now));
        }
        next = now + PERIOD_MS;
        wakes.fetch_add(1, Ordering::Relaxed);
        Act::Wait(r#"{"events":[]}"#, PERIOD_MS)
    };
    let one = Bench::with_clock(script, clock.clone()).await;
    let two = one.beside().await;
    let args = format!(r#"{{"participantHandle":"{}"}}"#, one.handle("r", 1));
    for round in 1..=3 {
        for _ in 0..100 {
            for (gateway, left) in [(&one, PERIOD_MS), (&two, PERIOD_MS)] {
                let outcome = gateway.call(&WAIT, &args).await;
                if let Outcome::Refused(refusal) = outcome {
                    assert_eq!(refusal.code, "wait_rate_limited");
                    assert_eq!(refusal.retry_after_ms, Some(left));
                }
            }
        }
        assert_eq!(admitted.load(Ordering::Relaxed), round, "one wait a period, as through one");
        // The admitted one, and one by which the other gateway learned.
        assert_eq!(one.node.seen().len(), 2 * round);
        clock.advance(Duration::from_millis(PERIOD_MS));
    }
    assert_eq!((one.metrics.waits_refused.get(), two.metrics.waits_refused.get()), (297, 297));
}

#[tokio::test(start_paused = true)]
async fn a_polls_own_repeats_are_admitted_once() {
    let bench = Bench::start(|call| match call.attempt {
        1..4 => Act::EndStream,
        _ => Act::Wait("{}", 0),
    })
    .await;
    let args = format!(r#"{{"participantHandle":"{}"}}"#, bench.handle("r", 1));
    assert_eq!(bench.code(&WAIT, &args).await, "success");
    let seen = bench.node.seen();
    assert_eq!(seen.len(), 4);
    assert!(seen.iter().all(|call| call.request == seen[0].request));
    // Flood burst of 12: one attempt is spent.
    for _ in 0..11 {
        assert_eq!(bench.code(&WAIT, &args).await, "success");
    }
    assert_eq!(bench.code(&WAIT, &args).await, "wait_rate_limited");
}

#[tokio::test(start_paused = true)]
async fn joins_and_reads_pay_per_address_and_calls_per_handle() {
    let bench = Bench::start(|_| success("{}")).await;
    for _ in 0..10 {
        assert_eq!(bench.code(&JOIN, r#"{"roomId":"r"}"#).await, "success");
    }
    let Outcome::Refused(refusal) = bench.call(&CREATE, "{}").await else { panic!("admitted") };
    assert_eq!((&*refusal.code, refusal.retry_after_ms), ("rate_limited", Some(6_000)));
    assert_eq!(bench.code(&INFO, r#"{"roomId":"r"}"#).await, "success");
    // Weight 8 of 240: thirty uploads, per handle.
    for participant in [1, 2] {
        let handle = bench.handle("r", participant);
        let args = format!(r#"{{"participantHandle":"{handle}","data":""}}"#);
        for _ in 0..30 {
            assert_eq!(bench.code(&UPLOAD, &args).await, "success");
        }
        assert_eq!(bench.code(&UPLOAD, &args).await, "rate_limited");
    }
}

#[tokio::test(start_paused = true)]
async fn ops_without_a_request_id_are_never_sent_twice() {
    for (tool, want, sent) in
        [(&SEND, "success", 2), (&LEGACY, "outcome_unknown", 1), (&INFO, "success", 2)]
    {
        let bench = Bench::start(|call| match call.attempt {
            1 => Act::EndStream,
            _ => success("{}"),
        })
        .await;
        let handle = bench.handle("r", 1);
        let args = format!(r#"{{"participantHandle":"{handle}","roomId":"r"}}"#);
        assert_eq!(bench.code(tool, &args).await, want);
        assert_eq!(bench.node.seen().len(), sent);
    }
}

#[tokio::test(start_paused = true)]
async fn the_rooms_own_codes_pass_unchanged() {
    for (class, code) in [
        (Class::Gone, "room_expired"),
        (Class::Limit, "room_full"),
        (Class::Conflict, "wait_already_pending"),
        (Class::Overloaded, "room_overloaded"),
    ] {
        let bench =
            Bench::start(move |_| Act::Refuse(Reject::new(class, code, "Public.", true))).await;
        let args = format!(r#"{{"participantHandle":"{}"}}"#, bench.handle("r", 1));
        let Outcome::Refused(refusal) = bench.call(&SEND, &args).await else { panic!("{code}") };
        assert_eq!((refusal.class, &*refusal.code, &*refusal.message), (class, code, "Public."));
        assert_eq!(bench.node.seen().len(), 1, "{code}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_ends_at_the_sooner_of_two_deadlines() {
    let bench = Bench::start(|_| Act::Silence).await;
    let args = format!(r#"{{"participantHandle":"{}"}}"#, bench.handle("r", 1));
    for (tool, allowed, took, code) in [
        (&SEND, 3_000, 3_000, "outcome_unknown"),
        (&SEND, 60_000, 10_000, "outcome_unknown"),
        (&INFO, 60_000, 10_000, "room_unavailable"),
        // A wait may be held for five seconds more.
        (&WAIT, 60_000, 15_000, "room_unavailable"),
        // And a call that the room itself may park, as long as it says.
        (&PARK, 60_000, 25_000, "outcome_unknown"),
    ] {
        let before = clock::now();
        let args = if tool.meta.name == INFO.meta.name { r#"{"roomId":"r"}"# } else { &args };
        let outcome = bench.call_within(tool, args, Duration::from_millis(allowed)).await;
        let Outcome::Refused(refusal) = outcome else { panic!("answered") };
        assert_eq!(refusal.code, code);
        assert_eq!(before.elapsed(), Duration::from_millis(took), "{}", tool.meta.name);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_is_no_object_is_our_mistake() {
    let bench = Bench::start(|_| success("[]")).await;
    assert_eq!(bench.code(&JOIN, r#"{"roomId":"r"}"#).await, "internal_error");
}

#[tokio::test(start_paused = true)]
async fn gauges_follow_the_cadence() {
    let bench = Bench::start(|_| Act::Wait("{}", 500)).await;
    for participant in 1..=3 {
        let args = format!(r#"{{"participantHandle":"{}"}}"#, bench.handle("r", participant));
        assert_eq!(bench.code(&WAIT, &args).await, "success");
    }
    bench.pipeline.refresh_gauges();
    assert_eq!(bench.metrics.cadence_participants.get(), 3);
    assert_eq!(bench.metrics.successes.get(), 3);
}
