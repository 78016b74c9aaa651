//! Stubs: falling asleep, polls that wake nothing, leases meanwhile, waking, going cold.

use futures_util::future::join_all;
use object::Millis;
use room_node::store::Store as _;
use room_node::store::memory::{Fault, Method};

use super::rig::{Rig, id, pass, text, who};

/// A counter with one member, asleep.
async fn asleep(rig: &Rig, name: &str) {
    rig.join(name, 1).await;
    pass(30_100).await;
}

#[tokio::test(start_paused = true)]
async fn an_idle_object_becomes_a_stub_and_a_call_wakes_it() {
    let rig = Rig::new();
    rig.join("a", 1).await;
    pass(29_000).await;
    assert_eq!((rig.active(), rig.stubs()), (1, 0));
    pass(1_100).await;
    assert_eq!((rig.active(), rig.stubs()), (0, 1));
    assert!(rig.store.fence(&id("a")).is_some(), "a stub is owned");
    assert_eq!(rig.call("add", "a", 1, "4").await, r#"ok {"value":4}"#);
    assert_eq!((rig.active(), rig.stubs(), rig.wakes("call")), (1, 0, 1));
}

#[tokio::test(start_paused = true)]
async fn polls_with_nothing_new_wake_nothing_and_keep_the_lease_for_hours() {
    let rig = Rig::new();
    asleep(&rig, "a").await;
    let (claims, appends) = (rig.store.calls(Method::Claim), rig.store.calls(Method::Append));
    let leases = rig.store.calls(Method::Lease);
    for round in 0..1_000 {
        let answer = rig.full("wait", "a", 1, "0").await;
        assert_eq!(
            text(&answer),
            r#"ok {"cursor":0,"news":false,"retryAfterMs":10000}"#,
            "{round}"
        );
        assert_eq!(answer.next_wait_ms, Some(10_000));
        pass(10_000).await;
    }
    assert_eq!((rig.active(), rig.stubs()), (0, 1));
    for cause in ["call", "poll", "timer", "disconnect"] {
        assert_eq!(rig.wakes(cause), 0, "{cause}");
    }
    assert_eq!(rig.store.calls(Method::Claim), claims);
    assert_eq!(rig.store.calls(Method::Append), appends);
    // One horizon write for each step of 30 s, not one for each poll.
    let written = rig.store.calls(Method::Lease) - leases;
    assert!((250..=350).contains(&written), "{written}");
    assert_eq!(rig.call("add", "a", 1, "1").await, r#"ok {"value":1}"#);
}

#[tokio::test(start_paused = true)]
async fn a_poll_with_news_wakes_and_the_cadence_goes_on() {
    let rig = Rig::new();
    rig.join("a", 1).await;
    rig.join("a", 2).await;
    rig.call("add", "a", 1, "1").await;
    pass(30_100).await;
    assert_eq!(rig.stubs(), 1);
    let news = rig.full("wait", "a", 2, "0").await;
    assert!(text(&news).starts_with(r#"ok {"cursor":1,"news":true"#), "{news:?}");
    assert_eq!(rig.wakes("poll"), 1);
    pass(news.next_wait_ms.unwrap()).await;
    let quiet = rig.full("wait", "a", 2, "1").await;
    assert_eq!(quiet.next_wait_ms, Some(10_000));
    let early = rig.full("wait", "a", 2, "1").await;
    assert_eq!(text(&early), "wait_rate_limited");
    assert_eq!(early.next_wait_ms, Some(10_000));
    assert_eq!(early.result.unwrap_err().retry_after_ms, Some(10_000));
}

#[tokio::test(start_paused = true)]
async fn an_early_poll_of_a_stub_is_refused_and_touches_nothing() {
    let rig = Rig::new();
    asleep(&rig, "a").await;
    rig.call("wait", "a", 1, "0").await;
    let calls = rig.store.calls(Method::Lease);
    pass(3_000).await;
    // News or not: cadence comes first.
    for cursor in ["0", "7"] {
        let early = rig.full("wait", "a", 1, cursor).await;
        assert_eq!(text(&early), "wait_rate_limited");
        assert_eq!(early.next_wait_ms, Some(7_000));
    }
    assert_eq!(rig.host.metrics().waits_refused.with_label_values(&["owner"]).get(), 2);
    assert_eq!((rig.active(), rig.stubs()), (0, 1));
    assert_eq!(rig.store.calls(Method::Lease), calls);
}

#[tokio::test(start_paused = true)]
async fn the_lease_is_stored_before_the_poll_is_answered() {
    let rig = Rig::new();
    asleep(&rig, "a").await;
    let lost = room_node::store::Error::Unavailable { context: "injected".into() };
    rig.store.inject(Method::Lease, Fault::Refuse(lost));
    pass(30_000).await;
    assert_eq!(rig.call("wait", "a", 1, "0").await, "room_unavailable");
    // The refused poll has cost nothing.
    let answer = rig.call("wait", "a", 1, "0").await;
    assert!(answer.starts_with(r#"ok {"cursor":0"#), "{answer}");
    rig.store.inject(Method::Lease, Fault::Refuse(room_node::store::Error::Fenced));
    pass(70_000).await;
    assert_eq!(rig.call("wait", "a", 1, "0").await, "room_unavailable");
    assert_eq!(rig.stubs(), 0);
    let answer = rig.call("wait", "a", 1, "0").await;
    assert!(answer.starts_with(r#"ok {"cursor":0"#), "{answer}");
}

#[tokio::test(start_paused = true)]
async fn a_silent_agent_of_a_sleeping_object_expires_on_time_and_not_before() {
    let rig = Rig::new();
    asleep(&rig, "a").await;
    rig.call("wait", "a", 1, "0").await;
    pass(89_000).await;
    assert_eq!((rig.stubs(), rig.wakes("timer")), (1, 0));
    pass(2_000).await;
    assert_eq!(rig.wakes("timer"), 1);
    assert_eq!(rig.call("add", "a", 1, "1").await, "not_a_member");
}

#[tokio::test(start_paused = true)]
async fn a_late_call_finds_the_expiry_recorded_even_without_a_timer() {
    let rig = Rig::with(|config| config.idle_to_stub_ms = 1_000_000, 0);
    rig.join("a", 1).await;
    pass(90_000).await;
    assert_eq!(rig.call("add", "a", 1, "1").await, "not_a_member");
}

#[tokio::test(start_paused = true)]
async fn an_unpolled_stub_goes_cold_and_one_claim_makes_it_a_stub_again() {
    let rig = Rig::with(|config| config.agent_lease_ms = 10_000_000, 0);
    asleep(&rig, "a").await;
    pass(800_000).await;
    assert_eq!((rig.active(), rig.stubs(), rig.store.fence(&id("a"))), (0, 0, None));
    let claims = rig.store.calls(Method::Claim);
    let answer = rig.full("wait", "a", 1, "0").await;
    assert_eq!(answer.next_wait_ms, Some(10_000));
    pass(100).await;
    assert_eq!((rig.active(), rig.stubs(), rig.wakes("poll")), (0, 1, 0));
    assert_eq!(rig.store.calls(Method::Claim), claims + 1);
    assert_eq!(rig.host.metrics().stub_claims.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn unknown_objects_are_remembered_for_a_second_and_within_a_bound() {
    let rig = Rig::with(|config| config.absent_max = 64, 0);
    assert_eq!(rig.call("wait", "x", 1, "0").await, "no_counter");
    let claims = rig.store.calls(Method::Claim);
    for _ in 0..10 {
        assert_eq!(rig.call("wait", "x", 1, "0").await, "no_counter");
        assert_eq!(rig.get("x").await, "no_counter");
    }
    assert_eq!(rig.store.calls(Method::Claim), claims);
    rig.join("x", 1).await;
    assert_eq!(rig.get("x").await, r#"ok {"value":0,"rang":0}"#);
    for number in 0..500 {
        assert_eq!(rig.get(&number.to_string()).await, "no_counter");
    }
    assert!(rig.host.metrics().absent.get() <= 64);
    pass(1_000).await;
    let claims = rig.store.calls(Method::Claim);
    assert_eq!(rig.get("499").await, "no_counter");
    assert_eq!(rig.store.calls(Method::Claim), claims + 1);
}

#[tokio::test(start_paused = true)]
async fn stubs_beyond_their_bound_are_released() {
    let rig = Rig::with(|config| config.stubs_max = 20, 0);
    join_all((0..60).map(|by| async move { by.to_string() }).map(|name| async {
        rig.join(&name.await, 1).await;
    }))
    .await;
    pass(31_000).await;
    assert_eq!(rig.active(), 0);
    let owned = (0..60).filter(|by| rig.store.fence(&id(&by.to_string())).is_some()).count();
    assert_eq!(rig.stubs(), owned as i64);
    // A shard without stubs of its own may take one more.
    assert!((20..60).contains(&owned), "{owned}");
}

#[tokio::test(start_paused = true)]
async fn racing_connections_then_silence_leave_only_stubs() {
    let rig = Rig::with(|config| config.mailbox_calls_max = 4_000, 0);
    let mut random = fastrand::Rng::with_seed(6_862);
    let calls = (0..1_000).map(|by: u128| {
        let (object, nap) = (random.u8(0..10).to_string(), random.u64(0..5));
        let rig = &rig;
        async move {
            rig.join(&object, by).await;
            pass(nap).await;
            let attached =
                rig.host.attach(&id(&object), who(by), by as u64 + 1, super::link::sink());
            assert!(attached);
            let wait = rig.full("wait", &object, by, "0").await;
            assert!(wait.result.is_ok(), "{wait:?}");
            rig.host.detach(&id(&object), by as u64 + 1);
        }
    });
    join_all(calls).await;
    pass(60_000).await;
    assert_eq!((rig.active(), rig.stubs()), (0, 10));
    assert_eq!(rig.host.metrics().subscribers.get(), 0);
    assert_eq!(rig.host.metrics().mailbox_calls.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_agent_left_behind_keeps_the_object_awake_until_it_polls() {
    let rig = Rig::new();
    rig.join("a", 1).await;
    rig.join("a", 2).await;
    rig.call("wait", "a", 2, "0").await;
    rig.call("add", "a", 1, "1").await;
    pass(35_000).await;
    assert_eq!(rig.active(), 1, "agent 2 will come for the news");
    rig.call("wait", "a", 2, "0").await;
    pass(31_000).await;
    assert_eq!((rig.active(), rig.stubs()), (0, 1));
}

#[tokio::test(start_paused = true)]
async fn time_without_service_does_not_count_against_agents() {
    let rig = Rig::new();
    rig.join("a", 1).await;
    pass(80_000).await;
    let rig = rig.restart();
    pass(25_000).await;
    let answer = rig.call("add", "a", 1, "1").await;
    assert_eq!(answer, r#"ok {"value":1}"#, "grace of 30 s after the restart");
    let _ = Millis(0);
    assert!(rig.store.up_since() > super::rig::START);
}

#[tokio::test(start_paused = true)]
async fn a_drain_releases_stubs() {
    let rig = Rig::new();
    asleep(&rig, "a").await;
    rig.join("b", 1).await;
    assert!(rig.host.drain(1_000).await);
    assert_eq!((rig.active(), rig.stubs()), (0, 0));
    assert_eq!((rig.store.fence(&id("a")), rig.store.fence(&id("b"))), (None, None));
}
