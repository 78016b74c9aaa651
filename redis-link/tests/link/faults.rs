//! Networks that misbehave.

use std::sync::Arc;

use redis_link::redis::Value;
use redis_link::rig::{Mode, Proxy, Server};
use redis_link::{Call, Doubt, Durability, Failure, Unsent};

use crate::{Tally, add, metric, open, read, settings, until, within};

#[tokio::test]
async fn a_black_hole_bounds_the_queue_and_floods_nobody_when_it_heals() {
    let server = Server::start(&[]).unwrap();
    let proxy = Proxy::start(server.address()).await.unwrap();
    let mut settings = settings(&proxy.url(), Durability::D0);
    (settings.lanes, settings.queue_max, settings.response_ms) = (1, 16, 400);
    let (link, registry) = open(settings).await.unwrap();
    assert_eq!(link.call(add("{a}x", 1)).await, Ok(Value::Int(1)));

    proxy.set(Mode::Hold);
    let mut tally = Tally { added: 1, ..Tally::default() };
    let (mut full, mut late) = (0, 0);
    for _ in 0..6 {
        let deadline = within(300);
        let calls = (0..100).map(|_| {
            let link = Arc::clone(&link);
            tokio::spawn(async move { link.call(Call { deadline, ..add("{a}x", 1) }).await })
        });
        for call in calls.collect::<Vec<_>>() {
            let result = call.await.unwrap();
            match &result {
                Err(Failure::NotSent { reason: Unsent::QueueFull }) => full += 1,
                Err(Failure::NotSent { .. }) => late += 1,
                Err(Failure::Unknown { .. }) => {}
                other => panic!("{other:?}"),
            }
            tally.count(&result);
        }
        // The deadline counts the time in the queue; 200 ms are for a busy machine.
        assert!(within(0) < deadline + std::time::Duration::from_millis(200));
        assert!(metric(&registry, "roomring_redis_queued_calls") <= 16);
    }
    assert!(full > 0 && late > 0 && tally.unknown > 0, "{full} {late} {tally:?}");

    let before = proxy.requested();
    proxy.set(Mode::Pass);
    until("it answers again", async || link.call(read("{a}x")).await.is_ok()).await;
    tally.check(&link, "{a}x").await;
    // Of 600 calls nothing was kept to be sent now: what passes is what was in flight, and new.
    let passed = proxy.requested() - before;
    assert!(passed < 40_000, "{passed} bytes");
    assert!(tally.unknown < 300, "{tally:?}");
}

#[tokio::test]
async fn a_call_whose_answer_is_cut_is_unknown_and_never_sent_twice() {
    let server = Server::start(&[]).unwrap();
    let proxy = Proxy::start(server.address()).await.unwrap();
    let (link, _) = open(settings(&proxy.url(), Durability::D0)).await.unwrap();
    assert_eq!(link.call(add("{a}x", 1)).await, Ok(Value::Int(1)));
    proxy.set(Mode::CutAnswers);
    let cut = link.call(add("{a}x", 1)).await;
    assert_eq!(cut, Err(Failure::Unknown { reason: Doubt::LinkLost }));
    assert_eq!(server.ask(&["GET", "{a}x"]).unwrap(), Value::BulkString(b"2".to_vec()));
    // While no link can be made at all, nothing is sent.
    let unsent = link.call(Call { deadline: within(300), ..add("{a}x", 1) }).await;
    assert!(matches!(unsent, Err(Failure::NotSent { .. })), "{unsent:?}");
    proxy.set(Mode::Pass);
    assert_eq!(link.call(add("{a}x", 1)).await, Ok(Value::Int(3)));
}

#[tokio::test]
async fn answers_of_others_are_never_handed_out() {
    let server = Server::start(&[]).unwrap();
    let proxy = Proxy::start(server.address()).await.unwrap();
    let (link, _) = open(settings(&proxy.url(), Durability::D0)).await.unwrap();
    for n in 0..8_i64 {
        link.call(add(&format!("{{k{n}}}"), 10 + n.unsigned_abs())).await.unwrap();
    }
    proxy.set(Mode::ExtraAnswers);
    for n in 0..8 {
        let call = Call { deadline: within(300), ..read(&format!("{{k{n}}}")) };
        let result = link.call(call).await;
        let mismatch = Err(Failure::Unknown { reason: Doubt::Mismatch });
        let is_refused = matches!(result, Err(Failure::NotSent { .. })) || result == mismatch;
        assert!(is_refused, "{result:?}");
    }
    proxy.set(Mode::Pass);
    for n in 0..8 {
        let value = Value::Int(10 + n);
        assert_eq!(link.call(read(&format!("{{k{n}}}"))).await, Ok(value));
    }
}

#[tokio::test]
async fn a_server_that_hangs_is_unknown_and_its_link_is_cut() {
    let server = Server::start(&[]).unwrap();
    let mut settings = settings(&server.url(), Durability::D0);
    settings.response_ms = 300;
    let (link, registry) = open(settings).await.unwrap();
    link.call(add("{a}x", 1)).await.unwrap();
    server.pause().unwrap();
    let hung = link.call(add("{a}x", 1)).await;
    assert_eq!(hung, Err(Failure::Unknown { reason: Doubt::Timeout }));
    server.resume().unwrap();
    until("it answers", async || link.call(read("{a}x")).await == Ok(Value::Int(2))).await;
    assert!(metric(&registry, "roomring_redis_reconnects_total") > 0);
}
