//! Several scripted nodes under a view that the test writes.

use std::collections::HashMap;
use std::sync::Mutex;

use membership::{Incarnation, Member, Ring, View, bucket};
use proto::v1::room_node_client::RoomNodeClient;
use proto::v1::room_node_server::RoomNodeServer;
use tokio_util::sync::CancellationToken;

use super::*;

mod silent;

type Client = RoomNodeClient<RoomNodeServer<FakeNode>>;

const A: &str = "a:1";
const B: &str = "b:1";
const C: &str = "c:1";

pub(super) fn member(address: &str, boot: u64, state: membership::State) -> Member {
    Member {
        incarnation: Incarnation::new(&address[..1], boot).unwrap(),
        address: address.to_owned(),
        zone: String::new(),
        weight: 1,
        state,
        schema: (1, 1),
        load: 0,
    }
}

pub(super) fn now(number: u64, members: Vec<Member>) -> Arc<Now> {
    Arc::new(Now::new(View { number, members }, &Ring))
}

/// A room of which this node is the owner in a view.
pub(super) fn room_of(now: &Now, address: &str) -> ObjectId {
    let named = (0..).map(|n| ObjectId::new(room::KIND, &format!("room-{n}")).unwrap());
    let owns = |room: &ObjectId| {
        let owner = now.table.owner(bucket(room.name().as_bytes()));
        owner.is_some_and(|owner| owner.address == address)
    };
    named.into_iter().find(owns).unwrap()
}

struct Cluster {
    nodes: HashMap<&'static str, Arc<FakeNode>>,
    views: watch::Sender<Arc<Now>>,
    routes: Routes,
    metrics: Arc<Metrics>,
    /// Views asked for.
    asked: Arc<Mutex<Vec<u64>>>,
    /// What was said of which node: that it is suspect, or not any more.
    marks: Arc<Mutex<Vec<(String, bool)>>>,
}

impl Cluster {
    /// Nodes A, B and C, all active in view 1, each with its script.
    async fn start<S>(script: impl Fn(&'static str) -> S) -> Self
    where
        S: FnMut(&v1::Call) -> Act + Send + 'static,
    {
        let mut nodes = HashMap::new();
        let mut clients: HashMap<String, Client> = HashMap::new();
        for address in [A, B, C] {
            let (node, client, _cancels) = FakeNode::start(script(address));
            nodes.insert(address, node);
            clients.insert(address.to_owned(), client);
        }
        let metrics = metrics();
        let of_dial = Arc::clone(&metrics);
        let dial: Dial =
            Arc::new(move |member| Some(Upstream::start(&clients[&member.address], 1, &of_dial)));
        let asked = Arc::new(Mutex::new(Vec::new()));
        let of_refresh = Arc::clone(&asked);
        let refresh: Refresh = Arc::new(move |view| of_refresh.lock().unwrap().push(view));
        let (views, receiver) = watch::channel(now(1, actives(&[A, B, C])));
        let marks = Arc::new(Mutex::new(Vec::new()));
        let of_marks = Arc::clone(&marks);
        let suspect: Suspect = Arc::new(move |node, suspect| {
            of_marks.lock().unwrap().push((node.node.to_string(), suspect));
        });
        let of_routes = Arc::clone(&metrics);
        let routes = Routes::follow(receiver, refresh, suspect, dial, INFLIGHT_MAX, of_routes);
        let cluster = Self { nodes, views, routes, metrics, asked, marks };
        while cluster.metrics.links_open.get() < 3 {
            tokio::task::yield_now().await;
        }
        cluster
    }

    /// A room that this node owns in the present view.
    fn room(&self, address: &str) -> ObjectId {
        room_of(&self.views.borrow(), address)
    }

    async fn ask(&self, room: &ObjectId) -> String {
        code(self.routes.call(&to(room)).await)
    }

    /// A call under way in a task of its own.
    fn begin(&self, request: Request) -> tokio::task::JoinHandle<String> {
        let routes = self.routes.clone();
        tokio::spawn(async move { code(routes.call(&request).await) })
    }

    fn seen(&self, address: &str) -> Vec<v1::Call> {
        self.nodes[address].seen()
    }

    fn show(&self, number: u64, members: Vec<Member>) {
        self.views.send_replace(now(number, members));
    }

    /// Lets held calls come to their pause.
    async fn settle(&self) {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }
}

fn actives(addresses: &[&str]) -> Vec<Member> {
    addresses.iter().map(|address| member(address, 1, membership::State::Active)).collect()
}

fn to(room: &ObjectId) -> Request {
    Request { object: room.clone(), ..request("{}") }
}

fn always(act: fn() -> Act) -> impl Fn(&'static str) -> Box<dyn FnMut(&v1::Call) -> Act + Send> {
    move |_| Box::new(move |_| act())
}

#[tokio::test(start_paused = true)]
async fn a_call_goes_to_the_owner_of_its_bucket_and_tells_the_view() {
    let cluster = Cluster::start(always(|| success("{}"))).await;
    for address in [A, B, C] {
        assert_eq!(cluster.ask(&cluster.room(address)).await, "success");
        let calls = cluster.seen(address);
        assert_eq!(calls.len(), 1, "{address}");
        assert_eq!((calls[0].view, calls[0].hops, calls[0].attempt), (1, 0, 1));
    }
    cluster.routes.refresh_gauges();
    assert_eq!(cluster.metrics.view.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wrong_owner_names_the_right_one() {
    let cluster = Cluster::start(|address| {
        move |_: &v1::Call| if address == A { Act::NotOwner(Some(B), 1) } else { success("{}") }
    })
    .await;
    let begun = clock::now();
    assert_eq!(cluster.ask(&cluster.room(A)).await, "success");
    assert_eq!(begun.elapsed(), Duration::ZERO, "a hint is followed at once");
    let calls = cluster.seen(B);
    assert_eq!((calls.len(), calls[0].hops, calls[0].view), (1, 1, 1));
    assert_eq!(calls[0].attempt, 1, "nothing ran before");
    assert_eq!((cluster.metrics.hops.get(), cluster.metrics.retries("not_owner")), (1, 1));
    assert!(cluster.asked.lock().unwrap().is_empty(), "the view is not older than the node's");
}

#[tokio::test(start_paused = true)]
async fn hints_that_contradict_each_other_are_bounded_and_a_new_view_ends_them() {
    let cluster = Cluster::start(|address| {
        move |call: &v1::Call| match (address, call.view) {
            (A, 1) => Act::NotOwner(Some(B), 1),
            (B, 1) => Act::NotOwner(Some(A), 1),
            _ => success("{}"),
        }
    })
    .await;
    let room = cluster.room(A);
    let begun = clock::now();
    assert_eq!(cluster.ask(&room).await, "room_unavailable");
    assert!(begun.elapsed() <= Duration::from_secs(10));
    let calls: Vec<_> = [cluster.seen(A), cluster.seen(B)].concat();
    assert!(calls.iter().all(|call| call.hops <= 3 && call.attempt == 1));
    // The first, three hops, and what the budget has in hand.
    assert!(calls.len() <= 4 + 64, "{}", calls.len());
    let held = cluster.begin(to(&room));
    cluster.settle().await;
    cluster.show(2, actives(&[A, B, C]));
    assert_eq!(held.await.unwrap(), "success");
    assert_eq!(cluster.metrics.held.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_the_view_does_not_know_is_waited_for() {
    let cluster = Cluster::start(|address| {
        move |_: &v1::Call| if address == A { Act::NotOwner(Some(C), 7) } else { success("{}") }
    })
    .await;
    cluster.show(2, actives(&[A, B]));
    while cluster.routes.inner.nodes.upstreams().len() > 2 {
        tokio::task::yield_now().await;
    }
    let held = cluster.begin(to(&cluster.room(A)));
    cluster.settle().await;
    assert_eq!(*cluster.asked.lock().unwrap(), [7], "the later view was asked for");
    assert_eq!((cluster.metrics.held.get(), cluster.metrics.view_refreshes.get()), (1, 1));
    assert!(cluster.seen(C).is_empty(), "what a node says is believed only of members");
    cluster.show(7, actives(&[A, B, C]));
    assert_eq!(held.await.unwrap(), "success");
    assert_eq!(cluster.seen(C).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_call_outlives_the_takeover_of_its_room() {
    let cluster = Cluster::start(always(|| success("{}"))).await;
    let room = cluster.room(A);
    cluster.nodes[A].phase.send_replace(Phase::Down);
    cluster.settle().await;
    let begun = clock::now();
    let held = cluster.begin(to(&room));
    // Longer than a node lease and the second in which the view is looked at again.
    tokio::time::sleep(Duration::from_millis(6_100)).await;
    assert_eq!(cluster.metrics.held.get(), 1);
    cluster.show(2, actives(&[B, C]));
    assert_eq!(held.await.unwrap(), "success");
    assert_eq!(begun.elapsed(), Duration::from_millis(6_100), "woken by the view");
    assert!(cluster.seen(A).is_empty());
    let call = [cluster.seen(B), cluster.seen(C)].concat().swap_remove(0);
    assert_eq!((call.view, call.attempt, call.age_ms, call.deadline_ms), (2, 1, 6_100, 3_880));
}

#[tokio::test(start_paused = true)]
async fn a_held_call_ends_before_its_caller_does() {
    let cluster = Cluster::start(always(|| success("{}"))).await;
    cluster.nodes[A].phase.send_replace(Phase::Down);
    cluster.settle().await;
    let room = cluster.room(A);
    let begun = clock::now();
    assert_eq!(cluster.ask(&room).await, "room_unavailable");
    assert!(begun.elapsed() <= Duration::from_secs(10), "{:?}", begun.elapsed());
    // Others are not touched.
    assert_eq!(cluster.ask(&cluster.room(B)).await, "success");
}

#[tokio::test(start_paused = true)]
async fn a_room_holds_64_calls_and_refuses_the_next_at_once() {
    let cluster = Cluster::start(always(|| success("{}"))).await;
    let (room, other) = (cluster.room(A), cluster.room(B));
    cluster.nodes[A].phase.send_replace(Phase::Down);
    cluster.settle().await;
    let held: Vec<_> = (0..HELD_PER_ROOM_MAX).map(|_| cluster.begin(to(&room))).collect();
    cluster.settle().await;
    assert_eq!(cluster.metrics.held.get(), 64);
    let begun = clock::now();
    let reply = cluster.routes.call(&to(&room)).await;
    assert_eq!(reply.result.unwrap_err(), Refusal::room_unavailable());
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(cluster.metrics.held_refused.get(), 1);
    assert_eq!(cluster.ask(&other).await, "success");
    cluster.show(2, actives(&[B, C]));
    for call in held {
        assert_eq!(call.await.unwrap(), "success");
    }
    assert_eq!((cluster.metrics.held.get(), cluster.routes.inflight()), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn an_answer_that_a_node_took_with_it_is_asked_for_where_that_is_safe() {
    for (repeatable, want) in [(true, "success"), (false, "outcome_unknown")] {
        let cluster = Cluster::start(|address| {
            move |_: &v1::Call| if address == A { Act::Silence } else { success("{}") }
        })
        .await;
        let call = cluster.begin(Request { repeatable, ..to(&cluster.room(A)) });
        while cluster.seen(A).is_empty() {
            tokio::task::yield_now().await;
        }
        cluster.nodes[A].phase.send_replace(Phase::Down);
        tokio::time::sleep(Duration::from_secs(5)).await;
        cluster.show(2, actives(&[B, C]));
        assert_eq!(call.await.unwrap(), want);
        let again = [cluster.seen(B), cluster.seen(C)].concat();
        assert_eq!(again.len(), usize::from(repeatable));
        for call in again {
            assert_eq!(call.request, cluster.seen(A)[0].request, "the same call");
            assert_eq!(call.attempt, 2, "it may have run");
        }
        assert_eq!(cluster.metrics.retries("lost"), u64::from(repeatable));
    }
}

#[tokio::test(start_paused = true)]
async fn the_node_that_lost_an_answer_is_asked_first() {
    let cluster = Cluster::start(|address| {
        move |call: &v1::Call| match (address, call.attempt) {
            (A, 1) => Act::EndStream,
            (A, _) => success("{}"),
            _ => Act::Silence,
        }
    })
    .await;
    let room = cluster.room(A);
    let call = cluster.begin(to(&room));
    while cluster.seen(A).is_empty() {
        tokio::task::yield_now().await;
    }
    // The table has another owner by now; the old one may still know the answer.
    cluster.show(2, vec![member(A, 1, membership::State::Draining), actives(&[B]).remove(0)]);
    assert_eq!(call.await.unwrap(), "success");
    assert_eq!(cluster.seen(A).len(), 2);
    assert!(cluster.seen(B).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_held_wait_is_parked_again_at_the_new_owner() {
    let wait = Duration::from_secs(2);
    let cluster = Cluster::start(|address| {
        move |_: &v1::Call| match address {
            A => Act::After(wait, Box::new(Act::NotOwner(Some(B), 1))),
            _ => Act::After(wait, Box::new(Act::Wait("{\"events\":[]}", 7_000))),
        }
    })
    .await;
    let request = Request { wait: true, harmless: true, ..to(&cluster.room(A)) };
    let begun = clock::now();
    let reply = cluster.routes.call(&request).await;
    assert_eq!(begun.elapsed(), wait * 2);
    assert_eq!((reply.result.is_ok(), reply.next_wait_ms), (true, Some(7_000)));
    let (first, second) = (cluster.seen(A).remove(0), cluster.seen(B).remove(0));
    assert_eq!(first.request, second.request, "the same wait");
    assert_eq!((first.attempt, second.attempt), (1, 2), "free of the cadence");
    assert_eq!((first.deadline_ms, second.deadline_ms), (9_980, 7_980), "with what is left");
    assert_eq!(second.age_ms, 2_000);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_the_view_answers_what_it_has_and_is_left() {
    let cluster = Cluster::start(|_| {
        |_: &v1::Call| Act::After(Duration::from_secs(3), Box::new(success("{}")))
    })
    .await;
    let call = cluster.begin(to(&cluster.room(A)));
    while cluster.seen(A).is_empty() {
        tokio::task::yield_now().await;
    }
    cluster.show(2, actives(&[B, C]));
    cluster.settle().await;
    assert_eq!(cluster.metrics.links_open.get(), 3, "its call is not answered yet");
    assert_eq!(call.await.unwrap(), "success");
    while cluster.metrics.links_open.get() > 2 {
        tokio::task::yield_now().await;
    }
    cluster.routes.refresh_gauges();
    let upstreams: i64 = cluster.metrics.upstreams.iter().map(|(_, gauge)| gauge.get()).sum();
    assert_eq!(upstreams, 2);
}

/// Callers that go on until they are told to stop; no call may fail.
fn load(cluster: &Cluster, stop: &CancellationToken) -> Vec<tokio::task::JoinHandle<u32>> {
    let caller = |n: u32| {
        let room = ObjectId::new(room::KIND, &format!("load-{n}")).unwrap();
        let (routes, stop) = (cluster.routes.clone(), stop.clone());
        tokio::spawn(async move {
            let mut calls = 0;
            while !stop.is_cancelled() {
                // Not repeatable: an answer that is lost would be a failed call.
                let request = Request { repeatable: false, ..to(&room) };
                assert_eq!(code(routes.call(&request).await), "success");
                calls += 1;
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            calls
        })
    };
    (0..12).map(caller).collect()
}

/// The members while the node `at` is in some state or not there; those before it have been
/// restarted already.
fn rolled(at: usize, state: Option<membership::State>) -> Vec<Member> {
    let of = |(place, address): (usize, &&str)| {
        let boot = if place < at || state == Some(membership::State::Active) { 2 } else { 1 };
        let state = if place == at { state? } else { membership::State::Active };
        Some(member(address, if place <= at { boot } else { 1 }, state))
    };
    [A, B, C].iter().enumerate().filter_map(of).collect()
}

/// Three nodes go and come back one after the other under load, as a rolling restart does it:
/// the streams are told, the view changes, the process ends.
#[tokio::test(start_paused = true)]
async fn a_rolling_restart_fails_no_call() {
    let cluster = Cluster::start(|_| {
        let mut calls = 0_u64;
        move |_: &v1::Call| {
            calls += 1;
            Act::After(Duration::from_millis(calls % 40), Box::new(success("{}")))
        }
    })
    .await;
    let stop = CancellationToken::new();
    let load = load(&cluster, &stop);
    let second = Duration::from_secs(1);
    for (at, address) in [A, B, C].into_iter().enumerate() {
        let node = &cluster.nodes[address];
        let number = 1 + 3 * u64::try_from(at).unwrap();
        tokio::time::sleep(second).await;
        // The node says so before this gateway has seen the view.
        node.phase.send_replace(Phase::Draining(number + 1));
        tokio::time::sleep(second / 5).await;
        cluster.show(number + 1, rolled(at, Some(membership::State::Draining)));
        tokio::time::sleep(second / 2).await;
        node.phase.send_replace(Phase::Down);
        tokio::time::sleep(second).await;
        cluster.show(number + 2, rolled(at, None));
        tokio::time::sleep(second).await;
        node.phase.send_replace(Phase::Up);
        cluster.show(number + 3, rolled(at, Some(membership::State::Active)));
    }
    tokio::time::sleep(second).await;
    stop.cancel();
    let mut calls = 0;
    for task in load {
        calls += task.await.expect("no call failed");
    }
    assert!(calls > 1_000, "{calls}");
    for address in [A, B, C] {
        assert!(!cluster.seen(address).is_empty(), "{address}");
    }
    assert!(cluster.metrics.retries("not_sent") > 0, "the drain was met");
    assert!(cluster.asked.lock().unwrap().contains(&2), "the view of the drain was asked for");
}
