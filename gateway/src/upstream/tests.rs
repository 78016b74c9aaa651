use object::Reject;
use tokio::sync::mpsc;

use super::*;
use crate::fake_node::{Act, FakeNode, success};

struct Bench {
    node: Arc<FakeNode>,
    upstream: Upstream,
    cancels: mpsc::Receiver<u64>,
}

const INFLIGHT_MAX: usize = 100;

async fn bench(streams: usize, script: impl FnMut(&v1::Call) -> Act + Send + 'static) -> Bench {
    let (node, client, cancels) = FakeNode::start(script);
    let metrics = Arc::new(Metrics::register(&prometheus::Registry::new()).unwrap());
    let upstream = Upstream::start(&client, streams, INFLIGHT_MAX, metrics);
    while upstream.inner.links.iter().any(|link| !link.is_open()) {
        tokio::task::yield_now().await;
    }
    Bench { node, upstream, cancels }
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
        repeatable: true,
        harmless: false,
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
    let bench = bench(2, |_| Act::Gather(25)).await;
    let calls = (0..50).map(|n| {
        let upstream = bench.upstream.clone();
        tokio::spawn(async move {
            let args = format!("{{\"n\":{n}}}");
            let reply = upstream.call(&request(&args)).await;
            assert_eq!(reply.result.unwrap().body, args);
        })
    });
    for call in calls.collect::<Vec<_>>() {
        call.await.unwrap();
    }
    assert_eq!(bench.upstream.inflight(), 0);
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
        let bench = bench(1, lose).await;
        let request = Request { repeatable, harmless, ..request("{}") };
        assert_eq!(code(bench.upstream.call(&request).await), want, "{repeatable} {harmless}");
        let seen = bench.node.seen();
        assert_eq!(seen.len(), sent);
        assert!(seen.iter().all(|call| call.request == seen[0].request));
        assert_eq!(seen.last().unwrap().attempt, u32::try_from(sent).unwrap());
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_always_loses_answers_gets_five_attempts() {
    for (harmless, want) in [(false, "outcome_unknown"), (true, "room_unavailable")] {
        let bench = bench(1, |_| Act::EndStream).await;
        let request = Request { harmless, ..request("{}") };
        assert_eq!(code(bench.upstream.call(&request).await), want);
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
        (Class::NotOwner, "room_unavailable", 4),
        (Class::Fenced, "room_unavailable", 4),
    ] {
        let bench = bench(1, move |_| reject(class, "the_code")).await;
        assert_eq!(code(bench.upstream.call(&request("{}")).await), want, "{class:?}");
        assert_eq!(bench.node.seen().len(), sent, "{class:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_of_a_newer_kind_counts_as_lost() {
    let bench = bench(1, |_| Act::Newer).await;
    let request = Request { repeatable: false, ..request("{}") };
    assert_eq!(code(bench.upstream.call(&request).await), "outcome_unknown");
}

#[tokio::test(start_paused = true)]
async fn dropping_a_call_cancels_it_at_the_node() {
    let mut bench = bench(1, |_| Act::Silence).await;
    let upstream = bench.upstream.clone();
    let call = tokio::spawn(async move { upstream.call(&request("{}")).await });
    while bench.node.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    assert_eq!(bench.upstream.inflight(), 1);
    call.abort();
    assert!(call.await.unwrap_err().is_cancelled());
    assert_eq!(bench.cancels.recv().await, Some(bench.node.seen()[0].id));
    assert_eq!(bench.upstream.inflight(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_deadline_ends_and_cancels_a_call() {
    let mut bench = bench(1, |_| Act::Silence).await;
    let before = clock::now();
    assert_eq!(code(bench.upstream.call(&request("{}")).await), "outcome_unknown");
    assert_eq!(before.elapsed(), Duration::from_secs(10));
    assert!(bench.cancels.recv().await.is_some());
    let late = Request { deadline: clock::now(), ..request("{}") };
    assert_eq!(code(bench.upstream.call(&late).await), "room_unavailable");
    assert_eq!(bench.node.seen().len(), 1, "a call without time is not sent");
}

#[tokio::test(start_paused = true)]
async fn more_calls_than_the_bound_are_refused_at_once() {
    let bench = bench(1, |_| Act::Silence).await;
    let calls: Vec<_> = (0..INFLIGHT_MAX)
        .map(|_| {
            let upstream = bench.upstream.clone();
            tokio::spawn(async move { upstream.call(&request("{}")).await })
        })
        .collect();
    while bench.node.seen().len() < INFLIGHT_MAX {
        tokio::task::yield_now().await;
    }
    let reply = bench.upstream.call(&request("{}")).await;
    assert_eq!(reply.result.unwrap_err(), Refusal::overloaded());
    for call in calls {
        call.abort();
        assert!(call.await.is_err());
    }
    assert_eq!(bench.upstream.inflight(), 0);
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
    let bench = bench(2, script).await;
    assert_eq!(code(bench.upstream.call(&request("{}")).await), "success");
    for _ in 0..4 {
        assert_eq!(code(bench.upstream.call(&request("{}")).await), "success");
    }
    assert_eq!(bench.upstream.inner.links.iter().filter(|link| link.is_open()).count(), 1);
    assert_eq!(bench.node.seen().len(), 5);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_comes_late_is_waited_for() {
    let (node, client, _cancels) = FakeNode::start(|_| success("{}"));
    node.refuse_links.store(3, Ordering::Relaxed);
    let metrics = Arc::new(Metrics::register(&prometheus::Registry::new()).unwrap());
    let upstream = Upstream::start(&client, 1, 1, metrics);
    assert!(!upstream.is_open());
    assert_eq!(code(upstream.call(&request("{}")).await), "success");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_never_comes_is_unavailable() {
    let (node, client, _cancels) = FakeNode::start(|_| success("{}"));
    node.refuse_links.store(usize::MAX, Ordering::Relaxed);
    let metrics = Arc::new(Metrics::register(&prometheus::Registry::new()).unwrap());
    let upstream = Upstream::start(&client, 1, 1, metrics);
    assert_eq!(code(upstream.call(&request("{}")).await), "room_unavailable");
    assert!(node.seen().is_empty());
}
