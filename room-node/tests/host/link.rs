//! The generated client straight on the generated service: answers, cancel, attach, bounds.

use std::sync::{Arc, Mutex};

use object::Caller;
use proto::v1::room_node_client::RoomNodeClient;
use proto::v1::{
    Attach, Call, Cancel, DescribeRequest, Detach, Down, Up, answer, down, notice, up,
};
use room_node::host::{Notice, Queued, Sink};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use super::rig::{Rig, hush_poison, id, pass, who};

/// A sink that keeps what it gets.
#[derive(Debug, Default)]
pub struct Kept(Mutex<Vec<(u64, Notice, Option<Queued>)>>);

impl Sink for Kept {
    fn push(&self, connection: u64, notice: Notice, queued: Option<Queued>) {
        self.0.lock().unwrap().push((connection, notice, queued));
    }
}

pub fn sink() -> Arc<Kept> {
    Arc::default()
}

struct Wire {
    up: mpsc::Sender<Up>,
    down: tonic::Streaming<Down>,
}

impl Wire {
    async fn open(rig: &Rig) -> Self {
        let (up, receiver) = mpsc::channel(1_024);
        let mut client = RoomNodeClient::new(room_node::rpc::service(rig.host.clone()));
        let down = client.link(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        Self { up, down }
    }

    async fn send(&self, what: up::What) {
        self.up.send(Up { what: Some(what) }).await.unwrap();
    }

    async fn call(&self, id: u64, op: &str, by: u128, args: &str) {
        self.call_within(id, op, by, args, 5_000).await;
    }

    async fn call_within(&self, id: u64, op: &str, by: u128, args: &str, deadline_ms: u64) {
        self.send(up::What::Call(Call {
            id,
            op: op.into(),
            kind: u32::from(b'c'),
            object: "a".into(),
            participant: by.to_be_bytes().to_vec().into(),
            joining: op == "join",
            args: args.as_bytes().to_vec().into(),
            request: u128::from(id).to_be_bytes().to_vec().into(),
            attempt: 1,
            deadline_ms,
            ..Call::default()
        }))
        .await;
    }

    async fn next(&mut self) -> String {
        match self.down.next().await.unwrap().unwrap().what.unwrap() {
            down::What::Answer(answer) => match answer.what.unwrap() {
                answer::What::Success(success) => {
                    format!("{} {}", answer.id, String::from_utf8_lossy(&success.body))
                }
                answer::What::Refusal(refusal) => format!("{} {}", answer.id, refusal.code),
            },
            down::What::Notice(notice) => match notice.what.unwrap() {
                notice::What::Frame(frame) => format!("notice {}", frame.len()),
                notice::What::CloseCode(code) => format!("close {code}"),
            },
            down::What::Draining(_) => "draining".into(),
        }
    }
}

#[tokio::test(start_paused = true)]
async fn calls_are_answered_by_id_and_bad_envelopes_refused() {
    let rig = Rig::new();
    let mut wire = Wire::open(&rig).await;
    wire.call(1, "join", 1, "").await;
    assert_eq!(wire.next().await, r#"1 {"value":0}"#);
    wire.call(2, "add", 1, "5").await;
    assert_eq!(wire.next().await, r#"2 {"value":5}"#);
    wire.call(3, "nonsense", 1, "").await;
    assert_eq!(wire.next().await, "3 unknown_op");
    for (name, call) in [
        ("kind", Call { id: 9, op: "get".into(), kind: 1, object: "a".into(), ..Call::default() }),
        ("object", Call { id: 9, op: "get".into(), kind: 99, ..Call::default() }),
        (
            "participant",
            Call {
                id: 9,
                op: "get".into(),
                kind: 99,
                object: "a".into(),
                participant: vec![1, 2].into(),
                ..Call::default()
            },
        ),
    ] {
        wire.send(up::What::Call(call)).await;
        assert_eq!(wire.next().await, "9 malformed_call", "{name}");
    }
    let mut client = RoomNodeClient::new(room_node::rpc::service(rig.host.clone()));
    let described = client.describe(DescribeRequest {}).await.unwrap().into_inner();
    assert_eq!((described.node.as_str(), described.boot, described.active), ("node", 1, 1));
    assert!(rig.host.drain(1_000).await);
    assert_eq!(wire.next().await, "draining");
}

#[tokio::test(start_paused = true)]
async fn a_cancelled_call_and_a_lost_link_are_forgotten() {
    let rig = Rig::with(|_| {}, 4_000);
    let mut wire = Wire::open(&rig).await;
    wire.call(1, "join", 1, "").await;
    wire.next().await;
    wire.call(2, "wait", 1, "0").await;
    pass(10).await;
    assert_eq!(rig.host.metrics().parked_calls.get(), 1);
    wire.send(up::What::Cancel(Cancel { id: 2 })).await;
    pass(10).await;
    assert_eq!(rig.host.metrics().parked_calls.get(), 0);
    assert_eq!(rig.host.metrics().link_calls.get(), 0);
    // The same request again is free of cadence; then the link is lost.
    wire.call(2, "wait", 1, "0").await;
    pass(10).await;
    assert_eq!(rig.host.metrics().parked_calls.get(), 1);
    drop(wire);
    pass(10).await;
    assert_eq!(rig.host.metrics().parked_calls.get(), 0);
    assert_eq!(rig.host.metrics().link_calls.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_link_takes_so_many_calls_and_no_more() {
    let rig = Rig::with(|config| config.link_calls_max = 2, 4_000);
    let mut wire = Wire::open(&rig).await;
    for by in 1..=3 {
        wire.call(by, "join", u128::from(by), "").await;
        wire.next().await;
    }
    for by in 1..=3 {
        wire.call(10 + by, "wait", u128::from(by), "0").await;
    }
    assert_eq!(wire.next().await, "13 overloaded");
    assert_eq!(rig.bound_hit("link_calls_max"), 1);
    assert_eq!(rig.host.metrics().link_calls.get(), 2);
    wire.next().await;
    wire.next().await;
    assert_eq!(rig.host.metrics().link_calls.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_call_of_the_wire_lives_for_a_minute_at_most() {
    let rig = Rig::new();
    let mut wire = Wire::open(&rig).await;
    wire.call(1, "join", 1, "").await;
    wire.next().await;
    let begun = rig.clock.mono();
    wire.call_within(2, "work", 1, "100000000", 3_600_000).await;
    assert_eq!(wire.next().await, "2 deadline_exceeded");
    assert_eq!(rig.clock.mono().since(begun), 60_000);
}

#[tokio::test(start_paused = true)]
async fn a_message_over_its_bound_ends_the_link_and_no_other() {
    let rig = Rig::new();
    let (mut wire, mut other) = (Wire::open(&rig).await, Wire::open(&rig).await);
    wire.call(1, "join", 1, "").await;
    wire.next().await;
    wire.call(2, "add", 1, &"0".repeat(7 << 20)).await;
    assert_eq!(wire.next().await, r#"2 {"value":0}"#);
    wire.call(3, "add", 1, &"0".repeat(8 << 20)).await;
    assert!(!matches!(wire.down.next().await, Some(Ok(_))), "the stream has ended");
    other.call(4, "add", 1, "3").await;
    assert_eq!(other.next().await, r#"4 {"value":3}"#);
}

#[tokio::test(start_paused = true)]
async fn attached_connections_are_told_and_their_loss_is_noticed() {
    let rig = Rig::new();
    let mut wire = Wire::open(&rig).await;
    wire.call(1, "join", 1, "").await;
    wire.next().await;
    let participant = 1u128.to_be_bytes().to_vec();
    let attach = Attach {
        connection: 7,
        kind: u32::from(b'c'),
        object: "a".into(),
        participant: participant.into(),
    };
    wire.send(up::What::Attach(attach)).await;
    wire.call(2, "notify", 1, "3").await;
    assert_eq!(wire.next().await, "notice 3");
    wire.next().await;
    wire.send(up::What::Detach(Detach { connection: 7 })).await;
    pass(10).await;
    assert_eq!(rig.call("add", "a", 1, "1").await, "not_a_member");
    let bad = Attach { connection: 8, ..Attach::default() };
    wire.send(up::What::Attach(bad)).await;
    assert_eq!(wire.next().await, "close 1013");
}

#[tokio::test(start_paused = true)]
async fn a_rebuilt_object_closes_the_connections_it_has_forgotten() {
    let rig = Rig::new();
    rig.join("a", 1).await;
    let kept = sink();
    assert!(rig.host.attach(&id("a"), who(1), 1, Arc::<Kept>::clone(&kept)));
    assert_eq!(rig.call("boom", "a", 1, "").await, "internal_error");
    assert_eq!(kept.0.lock().unwrap().first().unwrap().1, Notice::Close(1012));
    assert_eq!(rig.host.metrics().subscribers.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_was_closed_keeps_its_place_on_the_link_until_it_is_detached() {
    let rig = Rig::with(|config| config.subscribers_max = 1, 0);
    let mut wire = Wire::open(&rig).await;
    wire.call(1, "join", 1, "").await;
    wire.next().await;
    let attach = |connection| Attach {
        connection,
        kind: u32::from(b'c'),
        object: "a".into(),
        participant: 1u128.to_be_bytes().to_vec().into(),
    };
    wire.send(up::What::Attach(attach(7))).await;
    wire.call(2, "boom", 1, "").await;
    let mut said = [wire.next().await, wire.next().await];
    said.sort();
    assert!(said.contains(&"close 1012".to_owned()), "{said:?}");
    assert_eq!(rig.host.metrics().subscribers.get(), 0);
    wire.send(up::What::Attach(attach(8))).await;
    assert_eq!(wire.next().await, "close 1013");
    wire.send(up::What::Detach(Detach { connection: 7 })).await;
    wire.send(up::What::Attach(attach(9))).await;
    wire.call(3, "notify", 1, "3").await;
    assert_eq!(wire.next().await, "notice 3");
}

#[tokio::test(start_paused = true)]
async fn a_slow_connection_is_closed_and_others_are_not() {
    let rig = Rig::with(
        |config| {
            config.subscriber_frames_max = 4;
            config.subscribers_max = 2;
        },
        0,
    );
    rig.join("a", 1).await;
    rig.join("a", 2).await;
    let (slow, quick) = (sink(), sink());
    assert!(rig.host.attach(&id("a"), who(1), 1, Arc::<Kept>::clone(&slow)));
    assert!(rig.host.attach(&id("a"), who(2), 2, Arc::<Kept>::clone(&quick)));
    assert!(!rig.host.attach(&id("a"), who(2), 3, Arc::<Kept>::clone(&quick)));
    for _ in 0..5 {
        for by in [1, 2] {
            let call = rig.request("notify", "a", Caller::Participant(who(by)), "3");
            rig.host.call(call).await.result.unwrap();
        }
        quick.0.lock().unwrap().iter_mut().for_each(|(_, _, queued)| *queued = None);
    }
    let got = slow.0.lock().unwrap();
    assert_eq!(got.len(), 5);
    assert_eq!(got.last().unwrap().1, Notice::Close(1013));
    assert_eq!(quick.0.lock().unwrap().len(), 5);
    assert_eq!(rig.host.metrics().subscribers.get(), 1);
    assert_eq!(rig.host.metrics().subscribers_slow.get(), 1);
    assert_eq!(rig.host.metrics().subscriber_frames.get(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_panic_while_an_absent_object_answers_is_told_and_leaves_no_call_behind() {
    hush_poison();
    let rig = Rig::new();
    let mut wire = Wire::open(&rig).await;
    // The first finds the object absent, the others are answered from memory.
    for number in 1..5 {
        wire.call(number, "get", 1, "boom").await;
        let answer = tokio::time::timeout(std::time::Duration::from_secs(9), wire.next()).await;
        let answer = answer.expect("an answer");
        let expected = [format!("{number} internal_error"), format!("{number} room_unavailable")];
        assert!(expected.contains(&answer), "{answer}");
    }
    assert_eq!(rig.host.metrics().link_calls.get(), 0);
}
