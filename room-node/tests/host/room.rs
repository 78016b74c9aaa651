//! The real Room on the host: create, talk, sleep, poll, leave, die.

use std::sync::Arc;

use bytes::Bytes;
use object::{Caller, Object as _, ObjectId, ParticipantId, RequestId};
use prometheus::Registry;
use room::{Room, Settings};
use room_node::clock::Clock;
use room_node::cluster::Alone;
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
        Self::with(Settings::default())
    }

    fn with(settings: Settings) -> Self {
        let (store, clock) = (Memory::new(START), Clock::starting_at(START));
        let me = Incarnation { node: "node".into(), boot: 1 };
        let dynamic: Arc<dyn Store> = Arc::<Memory>::clone(&store);
        let config = Config::default();
        let registry = Registry::new();
        let alone = Arc::new(Alone::default());
        let host = Host::start(config, settings, dynamic, clock, me, alone, &registry).unwrap();
        let room = ObjectId::new(Room::KIND, "amber-falcon-0123456789ab").unwrap();
        Self { host, store, room, clock }
    }

    async fn call(&self, op: &str, caller: Caller, number: u128, args: &str) -> Response {
        self.host.call(self.request(op, caller, number, args)).await
    }

    fn request(&self, op: &str, caller: Caller, number: u128, args: &str) -> Request {
        Request {
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
            view: 0,
            hops: 0,
        }
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

#[tokio::test(start_paused = true)]
async fn a_poll_of_a_sleeping_room_is_held_and_wakes_nothing() {
    let stage = Stage::with(Settings { longpoll_enabled: true, ..Settings::default() });
    let who = ParticipantId::from_random(1);
    let me = Caller::Participant(who);
    let made = stage.call("create_room", Caller::Joining(who), 1, r#"{"name":"Scout"}"#).await;
    assert!(made.result.is_ok(), "{}", text(&made));
    pass(31_000).await;
    let metrics = stage.host.metrics();
    assert_eq!((metrics.active.get(), metrics.stubs.get()), (0, 1));
    let patient = r#"{"cursor":0,"timeoutSeconds":20}"#;
    for round in 0..20 {
        let begun = stage.clock.mono();
        let quiet = stage.call("wait_for_events", me, 10 + round, patient).await;
        assert!(text(&quiet).contains(r#""longPoll":"held""#), "{}", text(&quiet));
        // Held as long as the settings allow; the hold counts into the gap.
        let held = stage.clock.mono().since(begun);
        assert!((5_000..=5_100).contains(&held), "{held}");
        let rest = quiet.next_wait_ms.unwrap();
        assert!((4_900..=5_000).contains(&rest), "{rest}");
        pass(rest).await;
        assert_eq!((metrics.active.get(), metrics.stubs.get()), (0, 1), "{round}");
    }
    // Without a wish to be held it is answered at once.
    let at_once = r#"{"cursor":0,"timeoutSeconds":0}"#;
    let quiet = stage.call("wait_for_events", me, 40, at_once).await;
    assert!(text(&quiet).contains(r#""longPoll":"immediate""#), "{}", text(&quiet));
    for cause in ["call", "poll", "timer"] {
        assert_eq!(metrics.wakes.with_label_values(&[cause]).get(), 0, "{cause}");
    }
    pass(10_000).await;
    // News ends a hold beside the sleeping room.
    let two = ParticipantId::from_random(2);
    let held = stage.call("wait_for_events", me, 41, patient);
    let (news, ()) = tokio::join!(held, async {
        pass(1_000).await;
        assert_eq!(metrics.stubs.get(), 1);
        let joining = Caller::Joining(two);
        let joined = stage.call("join_room", joining, 42, r#"{"roomId":"x","name":"Two"}"#).await;
        assert!(joined.result.is_ok(), "{}", text(&joined));
        let args = r#"{"text":"awake"}"#;
        let sent = stage.call("send_text", Caller::Participant(two), 43, args).await;
        assert!(sent.result.is_ok(), "{}", text(&sent));
    });
    assert!(text(&news).contains(r#""text":"awake""#), "{}", text(&news));
}

#[tokio::test(start_paused = true)]
async fn a_repeated_creation_or_join_of_the_edge_gets_the_first_answer() {
    let stage = Stage::new();
    for (op, number, args) in [
        ("create_room", 1, r#"{"name":"Scout"}"#),
        ("join_room", 2, r#"{"roomId":"x","name":"Second"}"#),
    ] {
        let caller = Caller::Joining(ParticipantId::from_random(number));
        let first = stage.request(op, caller, number, args);
        let made = stage.host.call(first.clone()).await;
        assert!(made.result.is_ok(), "{op}: {}", text(&made));
        // Its answer was lost, and the room is still awake, or asleep by now.
        for (attempt, nap) in [(2, 0), (3, 31_000)] {
            pass(nap).await;
            let mut again = first.clone();
            (again.attempt, again.deadline) = (attempt, stage.clock.mono().plus(30_000));
            assert_eq!(text(&stage.host.call(again).await), text(&made), "{op} {attempt}");
        }
        let frames = stage.store.frames(&stage.room).unwrap();
        assert!(frames.len() <= 1, "{op}: nothing was added by the repeats");
    }
    let other = Caller::Joining(ParticipantId::from_random(9));
    let mut foreign = stage.request("create_room", other, 9, r#"{"name":"Other"}"#);
    foreign.attempt = 2;
    assert_eq!(text(&stage.host.call(foreign).await), "room_already_exists");
}
