mod cluster;
mod socket;

use std::time::Duration;

use bytes::Bytes;
use object::{Class, ParticipantId, Reject, RequestId};
use proto::v1;
use tokio::sync::mpsc;

use super::*;
use crate::clock;
use crate::fake_node::{Act, FakeNode, Phase, success};
use crate::upstream::{LINK_QUEUE_MAX, State};

struct Bench {
    node: Arc<FakeNode>,
    upstream: Upstream,
    routes: Routes,
    cancels: mpsc::Receiver<u64>,
}

const INFLIGHT_MAX: usize = 100;

fn metrics() -> Arc<Metrics> {
    Arc::new(Metrics::register(&prometheus::Registry::new()).unwrap())
}

async fn bench(script: impl FnMut(&v1::Call) -> Act + Send + 'static) -> Bench {
    let (node, client, cancels) = FakeNode::start(script);
    let metrics = metrics();
    let upstream = Upstream::start(&client, 1, &metrics);
    let routes = Routes::single(upstream.clone(), INFLIGHT_MAX, metrics);
    routes.wait_open().await;
    assert!(routes.is_open());
    Bench { node, upstream, routes, cancels }
}

fn request(args: &str) -> Request {
    Request {
        op: "send_text",
        object: ObjectId::new(room::KIND, "blue-otter").unwrap(),
        participant: Some(ParticipantId(7)),
        joining: false,
        args: Bytes::copy_from_slice(args.as_bytes()),
        blob: None,
        request: RequestId(9),
        attempt: 1,
        age: Duration::ZERO,
        repeatable: true,
        harmless: false,
        wait: false,
        deadline: clock::now() + Duration::from_secs(10),
    }
}

fn code(reply: Reply) -> String {
    reply.result.map_or_else(|refusal| refusal.code.into_owned(), |_| "success".to_owned())
}

const fn reject(class: Class, code: &'static str) -> Act {
    Act::Refuse(Reject::new(class, code, "text", false))
}

#[tokio::test(start_paused = true)]
async fn answers_find_their_calls_in_any_order() {
    let bench = bench(|_| Act::Gather(50)).await;
    let calls = (0..50).map(|n| {
        let routes = bench.routes.clone();
        tokio::spawn(async move {
            let args = format!("{{\"n\":{n}}}");
            let reply = routes.call(&request(&args)).await;
            assert_eq!(reply.result.unwrap().body, args);
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    assert_eq!(bench.routes.inflight(), 0);
    let call = bench.node.seen().swap_remove(0);
    assert_eq!((&*call.op, &*call.object, call.kind), ("send_text", "blue-otter", 114));
    assert_eq!(*call.participant, 7_u128.to_be_bytes());
    assert_eq!(*call.request, 9_u128.to_be_bytes());
    assert_eq!((call.attempt, call.age_ms, call.deadline_ms), (1, 0, 9_980));
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_is_asked_for_again_only_where_that_is_safe() {
    for (repeatable, harmless, want, sent) in [
        (true, false, "success", 2),
        (true, true, "success", 2),
        (false, false, "outcome_unknown", 1),
        (false, true, "room_unavailable", 1),
    ] {
        let lose = |call: &v1::Call| match call.attempt {
            1 => Act::EndStream,
            _ => success("{}"),
        };
        let bench = bench(lose).await;
        let request = Request { repeatable, harmless, ..request("{}") };
        assert_eq!(code(bench.routes.call(&request).await), want, "{repeatable} {harmless}");
        let seen = bench.node.seen();
        assert_eq!(seen.len(), sent);
        assert!(seen.iter().all(|call| call.request == seen[0].request));
        assert_eq!(seen.last().unwrap().attempt, u32::try_from(sent).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_always_loses_answers_gets_five_attempts() {
    for (harmless, want) in [(false, "outcome_unknown"), (true, "room_unavailable")] {
        let bench = bench(|_| Act::EndStream).await;
        let request = Request { harmless, ..request("{}") };
        assert_eq!(code(bench.routes.call(&request).await), want);
        let attempts: Vec<u32> = bench.node.seen().iter().map(|call| call.attempt).collect();
        assert_eq!(attempts, [1, 2, 3, 4, 5]);
    }
}

#[tokio::test(start_paused = true)]
async fn refusals_pass_unless_nothing_ran() {
    for (class, want, sent) in [
        (Class::Limit, "the_code", 1),
        (Class::Overloaded, "the_code", 1),
        (Class::Unavailable, "the_code", 1),
        (Class::OutcomeUnknown, "the_code", 5),
        (Class::NotOwner, "room_unavailable", 5),
        (Class::Fenced, "room_unavailable", 5),
    ] {
        let bench = bench(move |_| reject(class, "the_code")).await;
        assert_eq!(code(bench.routes.call(&request("{}")).await), want, "{class:?}");
        assert_eq!(bench.node.seen().len(), sent, "{class:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_refusal_after_a_lost_answer_is_final_only_where_the_object_decided_it() {
    for number in 1..=16 {
        let class = proto::class::class(number);
        let decided = matches!(
            class,
            Class::Invalid
                | Class::Unauthenticated
                | Class::Forbidden
                | Class::NotFound
                | Class::Conflict
                | Class::Gone
                | Class::Limit
                | Class::OutcomeUnknown
        );
        let want = if decided { "the_code" } else { "outcome_unknown" };
        let lose = move |call: &v1::Call| match call.attempt {
            1 => Act::EndStream,
            _ => reject(class, "the_code"),
        };
        let lost = bench(lose).await;
        assert_eq!(code(lost.routes.call(&request("{}")).await), want, "{class:?}");
        // A read leaves nothing behind.
        if !matches!(class, Class::NotOwner | Class::Fenced | Class::Deadline) {
            let read = Request { harmless: true, ..request("{}") };
            let lost = bench(lose).await;
            assert_eq!(code(lost.routes.call(&read).await), "the_code", "{class:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_the_node_gave_no_time_may_have_run() {
    for (harmless, want) in [(false, "outcome_unknown"), (true, "room_unavailable")] {
        let bench = bench(|_| reject(Class::Deadline, "the_code")).await;
        let request = Request { harmless, ..request("{}") };
        assert_eq!(code(bench.routes.call(&request).await), want);
        assert_eq!(bench.node.seen().len(), 1);
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_a_newer_kind_counts_as_lost() {
    let bench = bench(|_| Act::Newer).await;
    let request = Request { repeatable: false, ..request("{}") };
    assert_eq!(code(bench.routes.call(&request).await), "outcome_unknown");
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_cancels_it_at_the_node() {
    let mut bench = bench(|_| Act::Silence).await;
    let routes = bench.routes.clone();
    let call = tokio::spawn(async move { routes.call(&request("{}")).await });
    while bench.node.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(bench.routes.inflight(), 1);
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!(bench.cancels.recv().await, Some(bench.node.seen()[0].id));
    assert_eq!(bench.routes.inflight(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_and_cancels_a_call() {
    let mut bench = bench(|_| Act::Silence).await;
    let before = clock::now();
    assert_eq!(code(bench.routes.call(&request("{}")).await), "outcome_unknown");
    assert_eq!(before.elapsed(), Duration::from_secs(10));
    assert!(bench.cancels.recv().await.is_some());
    let late = Request { deadline: clock::now(), ..request("{}") };
    assert_eq!(code(bench.routes.call(&late).await), "room_unavailable");
    assert_eq!(bench.node.seen().len(), 1, "a call without time is not sent");
}

#[tokio::test(start_paused = true)]
async fn more_calls_than_the_bound_are_refused_at_once() {
    let bench = bench(|_| Act::Silence).await;
    let calls: Vec<_> = (0..INFLIGHT_MAX)
        .map(|_| {
            let routes = bench.routes.clone();
            tokio::spawn(async move { routes.call(&request("{}")).await })
        })
        .collect();
    while bench.node.seen().len() < INFLIGHT_MAX {
        tokio::task::yield_now().await;
    }
    let reply = bench.routes.call(&request("{}")).await;
    assert_eq!(reply.result.unwrap_err(), Refusal::overloaded());
    for call in calls {
        call.abort();
        assert!(call.await.is_err());
    }
    assert_eq!(bench.routes.inflight(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_draining_stream_gets_no_new_calls() {
    let mut first = None;
    let script = move |_: &v1::Call| {
        if first.is_none() {
            first = Some(());
            return Act::Drain;
        }
        success("{}")
    };
    let (node, client, _cancels) = FakeNode::start(script);
    let metrics = metrics();
    let upstream = Upstream::start(&client, 2, &metrics);
    let routes = Routes::single(upstream.clone(), INFLIGHT_MAX, Arc::clone(&metrics));
    while metrics.links_open.get() < 2 {
        tokio::task::yield_now().await;
    }
    for _ in 0..5 {
        assert_eq!(code(routes.call(&request("{}")).await), "success");
    }
    assert_eq!(upstream.state(), State::Open, "the other stream takes calls");
    assert_eq!(upstream.draining_view(), Some(0));
    assert_eq!(node.seen().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_late_is_waited_for() {
    let (node, client, _cancels) = FakeNode::start(|_| success("{}"));
    node.refuse_links.store(3, Ordering::Relaxed);
    let metrics = metrics();
    let upstream = Upstream::start(&client, 1, &metrics);
    let routes = Routes::single(upstream, 1, Arc::clone(&metrics));
    assert!(!routes.is_open());
    assert_eq!(code(routes.call(&request("{}")).await), "success");
    assert_eq!(metrics.retries("not_sent"), 1);
    assert_eq!(metrics.held.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_never_comes_is_unavailable() {
    let (node, client, _cancels) = FakeNode::start(|_| success("{}"));
    node.refuse_links.store(usize::MAX, Ordering::Relaxed);
    let metrics = metrics();
    let upstream = Upstream::start(&client, 1, &metrics);
    let routes = Routes::single(upstream, 1, metrics);
    assert_eq!(code(routes.call(&request("{}")).await), "room_unavailable");
    assert!(node.seen().is_empty());
}

#[tokio::test(start_paused = true)]
async fn gauges_tell_of_the_streams() {
    let bench = bench(|_| success("{}")).await;
    let metrics = Arc::clone(&bench.routes.inner.metrics);
    let states = || metrics.upstreams.iter().map(|(_, gauge)| gauge.get()).collect::<Vec<_>>();
    bench.routes.refresh_gauges();
    assert_eq!((states(), metrics.view.get(), metrics.link_queued.get()), (vec![1, 0, 0], 0, 0));
    bench.node.phase.send_replace(Phase::Draining(3));
    while bench.upstream.is_open() {
        tokio::task::yield_now().await;
    }
    bench.routes.refresh_gauges();
    assert_eq!(states(), [0, 1, 0]);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_does_not_read_holds_no_more_than_the_queue() {
    let (node, client, _cancels) = FakeNode::start(|_| success("{}"));
    node.deaf.store(true, Ordering::Relaxed);
    let metrics = metrics();
    let upstream = Upstream::start(&client, 1, &metrics);
    let routes = Routes::single(upstream, 2 * LINK_QUEUE_MAX, Arc::clone(&metrics));
    routes.wait_open().await;
    let calls: Vec<_> = (0..LINK_QUEUE_MAX + 76)
        .map(|_| {
            let routes = routes.clone();
            tokio::spawn(async move { routes.call(&request("{}")).await })
        })
        .collect();
    // Long enough for every call to come as far as it can.
    for _ in 0..4 * LINK_QUEUE_MAX {
        tokio::task::yield_now().await;
    }
    routes.refresh_gauges();
    assert_eq!(metrics.link_queued.get(), i64::try_from(LINK_QUEUE_MAX).unwrap());
    assert!(calls.iter().all(|call| !call.is_finished()), "the others wait for room");
    node.deaf.store(false, Ordering::Relaxed);
    for call in calls {
        assert!(call.await.unwrap().result.is_ok());
    }
    routes.refresh_gauges();
    assert_eq!(metrics.link_queued.get(), 0);
}
