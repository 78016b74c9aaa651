//! The real Room on the host: create, talk, sleep, poll, leave, die.

use std::sync::Arc;

use bytes::Bytes;
use object::{Caller, Object as _, ObjectId, ParticipantId, RequestId};
use prometheus::Registry;
use room::{Room, Settings};
use room_node::clock::Clock;
use room_node::config::Config;
use room_node::host::{Host, Request, Response};
use room_node::store::memory::Memory;
use room_node::store::{Incarnation, Store};

use super::rig::{START, pass, text};

struct Stage {
    host: Host<Room>,
    store: Arc<Memory>,
    room: ObjectId,
    clock: Clock,
}

impl Stage {
    fn new() -> Self {
        let (store, clock) = (Memory::new(START), Clock::starting_at(START));
        let me = Incarnation { node: "node".into(), boot: 1 };
        let dynamic: Arc<dyn Store> = Arc::<Memory>::clone(&store);
        let (config, settings) = (Config::default(), Settings::default());
        let registry = Registry::new();
        let host = Host::start(config, settings, dynamic, clock, me, &registry).unwrap();
        let room = ObjectId::new(Room::KIND, "amber-falcon-0123456789ab").unwrap();
        Self { host, store, room, clock }
    }

    async fn call(&self, op: &str, caller: Caller, number: u128, args: &str) -> Response {
        let request = Request {
            op: Room::op(op).unwrap(),
            object: self.room.clone(),
            caller,
            args: Bytes::copy_from_slice(args.as_bytes()),
            blob: None,
            request: RequestId(number),
            attempt: 1,
            age_ms: 0,
            deadline: self.clock.mono().plus(30_000),
            connection: 0,
        };
        self.host.call(request).await
    }
}

#[tokio::test(start_paused = true)]
async fn a_room_lives_sleeps_and_dies_on_the_host() {
    let stage = Stage::new();
    let who = ParticipantId::from_random(1);
    let me = Caller::Participant(who);
    let made = stage.call("create_room", Caller::Joining(who), 1, r#"{"name":"Scout"}"#).await;
    assert!(made.result.is_ok(), "{}", text(&made));
    let sent = stage.call("send_text", me, 2, r#"{"text":"hello"}"#).await;
    assert!(text(&sent).contains(r#""sequence":1"#), "{}", text(&sent));
    let news = stage.call("wait_for_events", me, 3, r#"{"cursor":0}"#).await;
    assert!(text(&news).ends_with(r#","retryAfterMs":0}"#), "{}", text(&news));
    pass(31_000).await;
    let metrics = stage.host.metrics();
    assert_eq!((metrics.active.get(), metrics.stubs.get()), (0, 1));
    for round in 0..30 {
        let quiet = stage.call("wait_for_events", me, 10 + round, r#"{"cursor":1}"#).await;
        assert!(text(&quiet).contains(r#""events":[],"cursor":1"#), "{}", text(&quiet));
        assert_eq!(quiet.next_wait_ms, Some(10_000));
        pass(10_000).await;
    }
    for cause in ["call", "poll", "timer"] {
        assert_eq!(metrics.wakes.with_label_values(&[cause]).get(), 0, "{cause}");
    }
    let again = stage.call("send_text", me, 90, r#"{"text":"still here"}"#).await;
    assert!(text(&again).contains(r#""sequence":2"#), "{}", text(&again));
    let left = stage.call("leave_room", me, 91, "{}").await;
    assert!(left.result.is_ok(), "{}", text(&left));
    assert!(stage.store.frames(&stage.room).is_some());
    pass(1_802_000).await;
    assert_eq!(stage.store.frames(&stage.room), None);
    assert_eq!((metrics.active.get(), metrics.stubs.get()), (0, 0));
}
