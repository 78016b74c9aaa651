//! Two regions, each a gateway over a node of its own, with keys of its own.

use std::net::IpAddr;
use std::sync::Mutex;

use proto::v1::room_node_client::RoomNodeClient;
use proto::v1::room_node_server::RoomNodeServer;
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;

use super::bench::tools;
use super::*;
use crate::handle::Sealer;
use crate::region::Regions;
use crate::relay;
use crate::upstream::Upstream;

const FILE: &str = r#"{"default_region":"eu","regions":{"eu":["eu:1"],"us":["us:1"]}}"#;

type Client = RoomNodeClient<RoomNodeServer<relay::Relay>>;

/// What a gateway is to its peers.
fn relay_of(bench: &Bench, stop: &CancellationToken) -> Client {
    Client::new(relay::service(
        Arc::clone(&bench.pipeline),
        tools(),
        stop.clone(),
        relay::RELAYED_CALLS_MAX,
    ))
}

/// A gateway whose peers cannot be reached.
async fn alone(own: &str, file: &str, script: fn(&v1::Call) -> Act) -> Bench {
    let regions = Regions::parse(own, file).unwrap();
    Bench::in_region(script, |_metrics| Peers::open(regions, |_address| None)).await
}

/// The gateway of `eu`, with that of `us` as its peer.
async fn eu_before(us: &Bench, stop: &CancellationToken) -> Bench {
    let relay = relay_of(us, stop);
    let regions = Regions::parse("eu", FILE).unwrap();
    let open = |metrics: &Arc<Metrics>| {
        Peers::open(regions, |address| {
            assert_eq!(address, "us:1", "peers of other regions only");
            Some(Upstream::start(&relay, 1, metrics))
        })
    };
    let eu = Bench::in_region(|_| success(r#"{"at":"eu"}"#), open).await;
    while eu.metrics.links_open.get() < 2 {
        tokio::task::yield_now().await;
    }
    eu
}

async fn both(us: fn(&v1::Call) -> Act) -> (Bench, Bench) {
    let us = alone("us", FILE, us).await;
    let eu = eu_before(&us, &CancellationToken::new()).await;
    (eu, us)
}

fn refused(outcome: Outcome) -> Refusal {
    match outcome {
        Outcome::Refused(refusal) => refusal,
        Outcome::Success(_) => panic!("answered"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_foreign_room_is_served_by_its_home() {
    let (eu, us) = both(|_| success(r#"{"at":"us"}"#)).await;
    let joined = eu.body(&JOIN, r#"{"roomId":" us.nova ","name":"Ann"}"#).await;
    assert_eq!(joined["at"], "us");
    let handle = joined["participantHandle"].as_str().unwrap();
    assert_eq!(Sealer::tag(handle).as_deref(), Some("us"), "the tag is the room's home");
    let args = format!(r#"{{"participantHandle":"{handle}","text":"hi"}}"#);
    assert_eq!(eu.body(&SEND, &args).await["at"], "us");
    assert_eq!(us.body(&SEND, &args).await["at"], "us", "at home it is the same handle");
    assert!(eu.node.seen().is_empty());
    let seen = us.node.seen();
    assert_eq!((seen.len(), &*seen[0].object), (3, "us.nova"));
    assert_eq!(seen[0].participant, seen[1].participant);
    assert!(seen.iter().all(|call| call.forwarded.is_none()), "nodes know no regions");
    // Rooms of no region are at home in the default one.
    assert_eq!(eu.body(&JOIN, r#"{"roomId":"mars.nova"}"#).await["at"], "eu");
}

#[tokio::test(start_paused = true)]
async fn a_fresh_room_is_at_home_where_it_was_made() {
    let (eu, us) = both(|_| success("{}")).await;
    for (bench, region) in [(&eu, "eu"), (&us, "us")] {
        let body = bench.body(&CREATE, r#"{"name":"Ann"}"#).await;
        let room = body["invite"]["roomId"].as_str().unwrap();
        assert!(room.starts_with(&format!("{region}.")), "{room}");
        let handle = body["participantHandle"].as_str().unwrap();
        assert_eq!(Sealer::tag(handle).as_deref(), Some(region));
    }
    assert_eq!((eu.node.seen().len(), us.node.seen().len()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn refusals_and_bytes_pass_as_the_home_gave_them() {
    let (eu, us) = both(|call| {
        if call.op == "send_attachment" {
            return Act::Success(v1::Success {
                body: Bytes::from_static(b"{}"),
                blob: call.blob.clone(),
                image_mime: None,
            });
        }
        let reject = Reject::new(Class::Limit, "room_full", "Full.", true);
        Act::Refuse(reject.limit(20).retry_after(7))
    })
    .await;
    let args = format!(r#"{{"participantHandle":"{}","data":"aGVsbG8="}}"#, us.handle("us.r", 1));
    let home = refused(us.call(&SEND, &args).await);
    assert_eq!(refused(eu.call(&SEND, &args).await), home);
    let Outcome::Success(sent) = eu.call(&UPLOAD, &args).await else { panic!("refused") };
    assert_eq!(&*sent.blob.unwrap().bytes, b"hello");
    let forged = format!(
        r#"{{"participantHandle":"{}"}}"#,
        alone("us", FILE, |_| Act::Silence).await.handle("us.r", 1)
    );
    assert_eq!(eu.code(&SEND, &forged).await, "invalid_participant_handle");
}

#[tokio::test(start_paused = true)]
async fn a_region_that_is_away_is_named_at_once_and_others_go_on() {
    let eu = alone("eu", FILE, |_| success("{}")).await;
    let begun = clock::now();
    let refusal = refused(eu.call(&INFO, r#"{"roomId":"us.r"}"#).await);
    assert_eq!(
        (&*refusal.code, refusal.class, refusal.retryable),
        ("room_unavailable", Class::Unavailable, true)
    );
    assert!(refusal.message.contains("region `us`"), "{}", refusal.message);
    assert_eq!(begun.elapsed(), Duration::ZERO, "nothing is held");
    assert_eq!(eu.code(&INFO, r#"{"roomId":"eu.r"}"#).await, "success");
}

#[tokio::test(start_paused = true)]
async fn a_forwarded_call_is_never_forwarded_again() {
    // Here the other region has another idea of where rooms without a name are.
    let swapped = FILE.replace(r#""default_region":"eu""#, r#""default_region":"us""#);
    // And here it does not know that it is the home.
    let fewer = r#"{"default_region":"eu","regions":{"eu":["eu:1"],"ap":["ap:1"]}}"#;
    for (own, file) in [("us", &*swapped), ("ap", fewer)] {
        let other = alone(own, file, |_| success("{}")).await;
        let eu = eu_before(&other, &CancellationToken::new()).await;
        let refusal = refused(eu.call(&INFO, r#"{"roomId":"us.r"}"#).await);
        assert_eq!(refusal.class, Class::WrongRegion, "{own}");
        assert!(other.node.seen().is_empty());
        assert_eq!(other.metrics.overloaded.get(), 0);
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_listener_is_no_node() {
    let us = alone("us", FILE, |_| success("{}")).await;
    let relay = relay_of(&us, &CancellationToken::new());
    let upstream = Upstream::start(&relay, 1, &us.metrics);
    let routes = Routes::single(upstream, 1, Arc::clone(&us.metrics));
    routes.wait_open().await;
    let request = Request {
        op: "send_text",
        object: ObjectId::new(room::KIND, "us.r").unwrap(),
        participant: Some(ParticipantId(7)),
        joining: false,
        args: Bytes::from_static(b"{}"),
        blob: None,
        request: object::RequestId(9),
        attempt: 1,
        age: Duration::ZERO,
        repeatable: true,
        harmless: false,
        wait: false,
        deadline: clock::now() + Duration::from_secs(10),
    };
    assert_eq!(routes.call(&request).await.result.unwrap_err().class, Class::WrongRegion);
    assert!(us.node.seen().is_empty(), "nobody becomes a participant by saying so");
}

#[tokio::test(start_paused = true)]
async fn the_home_counts_clients_by_their_own_address() {
    let (eu, us) = both(|_| success("{}")).await;
    let [one, two] = ["203.0.113.7", "2001:db8:0:7::1"]
        .map(|text| ClientAddr::new(text.parse::<IpAddr>().unwrap()));
    for client in [one, two] {
        for _ in 0..10 {
            let outcome = eu.call_by(&JOIN, r#"{"roomId":"us.r"}"#, client).await;
            assert!(matches!(outcome, Outcome::Success(_)));
        }
        let refusal = refused(eu.call_by(&JOIN, r#"{"roomId":"us.r"}"#, client).await);
        assert_eq!((&*refusal.code, refusal.retry_after_ms), ("rate_limited", Some(6_000)));
        // By whatever gateway it comes.
        assert_eq!(
            refused(us.call_by(&JOIN, r#"{"roomId":"us.r"}"#, client).await).code,
            "rate_limited"
        );
    }
    assert_eq!((us.metrics.guard_refused.get(), eu.metrics.guard_refused.get()), (4, 0));
}

#[tokio::test(start_paused = true)]
async fn the_cadence_is_the_homes() {
    let (eu, us) = both(|_| Act::Wait(r#"{"events":[]}"#, 10_000)).await;
    let args = format!(r#"{{"participantHandle":"{}"}}"#, us.handle("us.r", 1));
    assert_eq!(eu.code(&WAIT, &args).await, "success");
    for bench in [&eu, &us] {
        let refusal = refused(bench.call(&WAIT, &args).await);
        assert_eq!((&*refusal.code, refusal.retry_after_ms), ("wait_rate_limited", Some(10_000)));
    }
    assert_eq!(us.node.seen().len(), 1);
}

/// What becomes of a call whose first sending is lost between two regions, and what the home's
/// node saw of it.
async fn lost_once(script: fn(&v1::Call) -> Act) -> (Outcome, Vec<v1::Call>) {
    let us = alone("us", FILE, script).await;
    let stop = CancellationToken::new();
    let args = format!(r#"{{"participantHandle":"{}"}}"#, us.handle("us.r", 1));
    // A peer that goes with the first call under way, and another one.
    let (first, second) = (relay_of(&us, &stop), relay_of(&us, &CancellationToken::new()));
    let regions = Regions::parse("eu", &FILE.replace(r#"["us:1"]"#, r#"["us:1","us:2"]"#)).unwrap();
    let gone = Mutex::new(None);
    let eu = Bench::in_region(
        |_| success("{}"),
        |metrics| {
            Peers::open(regions, |address| {
                let client = if address == "us:1" { &first } else { &second };
                let upstream = Upstream::start(client, 1, metrics);
                if address == "us:1" {
                    *gone.lock().unwrap() = Some(upstream.clone());
                }
                Some(upstream)
            })
        },
    )
    .await;
    while eu.metrics.links_open.get() < 3 {
        tokio::task::yield_now().await;
    }
    let call = {
        let pipeline = Arc::clone(&eu.pipeline);
        tokio::spawn(async move {
            let arguments: &RawValue = serde_json::from_str(&args).unwrap();
            let deadline = clock::now() + Duration::from_secs(60);
            let client = ClientAddr::LOOPBACK;
            pipeline.call(ToolCall { tool: &SEND, arguments, client, deadline }).await
        })
    };
    while us.node.seen().is_empty() {
        tokio::task::yield_now().await;
    }
    gone.lock().unwrap().as_ref().unwrap().cut();
    (call.await.unwrap(), us.node.seen())
}

#[tokio::test(start_paused = true)]
async fn an_answer_lost_between_regions_is_asked_for_by_the_same_id() {
    let (outcome, seen) = lost_once(|call| match call.attempt {
        1 => Act::Silence,
        _ => success("{}"),
    })
    .await;
    assert!(matches!(outcome, Outcome::Success(_)));
    assert_eq!((seen.len(), seen[1].attempt), (2, 2));
    assert_eq!(seen[0].request, seen[1].request, "the home recognises it");
}

#[tokio::test(start_paused = true)]
async fn what_the_home_could_not_ask_the_room_leaves_a_lost_call_in_doubt() {
    let (outcome, _seen) = lost_once(|call| match call.attempt {
        1 => Act::Silence,
        _ => Act::Refuse(Reject::new(Class::Unavailable, "room_unavailable", "text", true)),
    })
    .await;
    assert_eq!(refused(outcome).code, "outcome_unknown");
    let (outcome, _seen) = lost_once(|call| match call.attempt {
        1 => Act::Silence,
        _ => Act::Refuse(Reject::new(Class::Conflict, "the_code", "text", false)),
    })
    .await;
    assert_eq!(refused(outcome).code, "the_code");
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_goes_says_so() {
    let us = alone("us", FILE, |_| success("{}")).await;
    let stop = CancellationToken::new();
    let eu = eu_before(&us, &stop).await;
    stop.cancel();
    tokio::time::sleep(Duration::from_millis(1)).await;
    let refusal = refused(eu.call(&INFO, r#"{"roomId":"us.r"}"#).await);
    assert!(refusal.message.contains("region `us`"));
}

#[tokio::test(start_paused = true)]
async fn a_peer_has_so_many_calls_under_way_and_one_more_is_refused() {
    let us = alone("us", FILE, |_| Act::Silence).await;
    let stop = CancellationToken::new();
    let service = relay::service(Arc::clone(&us.pipeline), tools(), stop, 3);
    let (ups, receiver) = mpsc::channel(8);
    let opened = Client::new(service).link(ReceiverStream::new(receiver)).await;
    let mut downs = opened.unwrap().into_inner();
    let send = async |what: v1::up::What| ups.send(v1::Up { what: Some(what) }).await.unwrap();
    let call = |id: u64| {
        let forwarded = v1::Forwarded { default_region: "eu".into(), client: vec![1; 16].into() };
        v1::up::What::Call(v1::Call {
            id,
            op: "room_info".into(),
            args: r#"{"roomId":"us.r"}"#.into(),
            deadline_ms: 60_000,
            request: u128::from(id).to_be_bytes().to_vec().into(),
            forwarded: Some(forwarded),
            ..v1::Call::default()
        })
    };
    let under_way = async |expected: i64| {
        while us.metrics.relayed.get() != expected {
            tokio::task::yield_now().await;
        }
    };
    for id in 1..=3 {
        send(call(id)).await;
    }
    under_way(3).await;
    send(call(4)).await;
    let Some(v1::down::What::Answer(answer)) = downs.message().await.unwrap().unwrap().what else {
        panic!("no answer");
    };
    let Some(v1::answer::What::Refusal(refusal)) = answer.what else { panic!("not refused") };
    assert_eq!((answer.id, &*refusal.code), (4, "overloaded"));
    assert_eq!((us.metrics.relayed.get(), us.metrics.overloaded.get()), (3, 1));
    // A cancelled call gives its place to the next.
    send(v1::up::What::Cancel(v1::Cancel { id: 1 })).await;
    under_way(2).await;
    send(call(5)).await;
    under_way(3).await;
    // So does a peer that goes.
    drop((ups, downs));
    while us.metrics.relayed.get() > 0 {
        tokio::task::yield_now().await;
    }
}
