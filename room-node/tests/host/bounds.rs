//! Bounds of the host that no other test reaches (docs/bounds.md).

use futures_util::future::join_all;
use object::{Caller, Millis};
use room_node::store::memory::{Fault, Hold, Method};
use room_node::store::{ClaimRequest, Error, Incarnation, Store as _};

use super::rig::{Rig, START, id, pass, text, who};
use super::town::{Town, elsewhere, is_moved};

fn in_flight(rig: &Rig, what: &str) -> i64 {
    rig.host.metrics().inflight.with_label_values(&[what]).get()
}

#[tokio::test(start_paused = true)]
async fn objects_owned_elsewhere_are_remembered_within_a_bound() {
    let town = Town::with(|config| config.away_max = 64, 0);
    for number in 0..300 {
        town.a.rig.join(&number.to_string(), 1).await;
    }
    town.b.script.all_to("b");
    for number in 0..300 {
        let refused = town.b.rig.full("add", &number.to_string(), 1, "1").await;
        assert_eq!((is_moved(&refused), refused.elsewhere), (true, elsewhere("a", 2)));
        assert!(town.b.rig.host.metrics().away.get() <= 64);
    }
    // One of a shard is kept, whoever is the next makes it forgotten.
    let kept = town.b.rig.host.metrics().away.get();
    assert!((32..=64).contains(&kept), "{kept}");
    assert_eq!(town.b.rig.bound_hit("away_max"), 300 - kept as u64);
    // What was forgotten is asked for again: one more claim, the same answer.
    let claims = town.store.calls(Method::Claim);
    for number in 0..300 {
        let refused = town.b.rig.full("add", &number.to_string(), 1, "1").await;
        assert_eq!((is_moved(&refused), refused.elsewhere), (true, elsewhere("a", 2)));
    }
    assert!(town.store.calls(Method::Claim) > claims + 200);
    assert_eq!(town.a.rig.call("add", "299", 1, "1").await, r#"ok {"value":1}"#);
}

#[tokio::test(start_paused = true)]
async fn so_many_objects_leave_at_the_same_time_and_then_the_others() {
    let rig = Rig::new();
    join_all((0..300).map(|number| {
        let rig = &rig;
        async move { rig.join(&number.to_string(), 1).await }
    }))
    .await;
    let hold = Hold::new();
    for _ in 0..300 {
        assert!(rig.store.inject(Method::Release, Fault::HoldCall(hold.clone())));
    }
    let look = async {
        pass(1_000).await;
        assert_eq!((rig.active(), in_flight(&rig, "leaves")), (300, 256));
        assert_eq!(rig.store.calls(Method::Release), 256);
        assert_eq!(rig.bound_hit("leaves_max"), 44);
        for _ in 0..300 {
            hold.release();
        }
    };
    let (drained, ()) = tokio::join!(rig.host.drain(20_000), look);
    assert!(drained);
    assert_eq!((rig.active(), in_flight(&rig, "leaves")), (0, 0));
    assert!((0..300).all(|number| rig.store.fence(&id(&number.to_string())).is_none()));
}

#[tokio::test(start_paused = true)]
async fn so_many_stubs_over_their_bound_go_at_the_same_time_and_then_the_others() {
    let rig = Rig::with(|config| config.stubs_max = 20, 0);
    for number in 0..400 {
        let name = number.to_string();
        rig.join(&name, 1).await;
        assert_eq!(rig.call("add", &name, 1, "1").await, r#"ok {"value":1}"#);
    }
    let hold = Hold::new();
    for _ in 0..400 {
        assert!(rig.store.inject(Method::Release, Fault::HoldCall(hold.clone())));
    }
    pass(31_000).await;
    // What is over the bound of both stays asleep.
    assert_eq!((rig.active(), in_flight(&rig, "evictions")), (0, 256));
    assert_eq!((rig.store.calls(Method::Release), rig.stubs()), (256, 400 - 256));
    let met = rig.bound_hit("evictions_max");
    assert!((1..=400 - 256 - 20).contains(&met), "{met}");
    for _ in 0..400 {
        hold.release();
    }
    pass(1).await;
    assert_eq!((in_flight(&rig, "evictions"), rig.stubs()), (0, 20));
    let owned = (0..400).filter(|by| rig.store.fence(&id(&by.to_string())).is_some()).count();
    assert_eq!((owned, rig.store.calls(Method::Release)), (20, 400 - 20));
    for number in 0..400 {
        let value = rig.get(&number.to_string()).await;
        assert_eq!(value, r#"ok {"value":1,"rang":0}"#, "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stub_over_the_bound_that_could_not_be_released_is_given_to_whoever_asks() {
    let town = Town::with(|config| config.stubs_max = 20, 0);
    let rig = &town.a.rig;
    for number in 0..60 {
        let name = number.to_string();
        rig.join(&name, 1).await;
        assert_eq!(rig.call("add", &name, 1, "1").await, r#"ok {"value":1}"#);
    }
    let lost = Error::Unavailable { context: "injected".into() };
    for _ in 0..40 {
        assert!(town.store.inject(Method::Release, Fault::Refuse(lost.clone())));
    }
    pass(31_000).await;
    assert_eq!((rig.active(), rig.stubs(), in_flight(rig, "evictions")), (0, 20, 0));
    assert_eq!(town.store.calls(Method::Release), 40, "each is tried once");
    let owned = |by: &i32| town.store.fence(&id(&by.to_string())).is_some();
    assert_eq!((0..60).filter(owned).count(), 60, "none was released");
    town.all_to("b");
    for number in 0..60 {
        let answer = town.call("b", "add", &number.to_string(), 1, "1").await;
        assert_eq!(answer, r#"ok {"value":2}"#, "{number}");
    }
}

#[tokio::test(start_paused = true)]
async fn so_many_fences_are_checked_at_the_same_time_and_then_the_others() {
    let town = Town::new();
    let rig = &town.a.rig;
    for number in 0..300 {
        rig.join(&number.to_string(), 1).await;
    }
    let hold = Hold::new();
    for _ in 0..300 {
        assert!(town.store.inject(Method::Check, Fault::HoldCall(hold.clone())));
    }
    town.a.script.new_primary();
    pass(1_000).await;
    assert_eq!((town.store.calls(Method::Check), in_flight(rig, "checks")), (256, 256));
    assert_eq!(rig.bound_hit("checks_max"), 44);
    // Nobody is answered from memory that waits for its turn.
    let early = rig.request("get", "299", Caller::Anonymous, "");
    let read = rig.host.call(early);
    let open = async {
        pass(100).await;
        for _ in 0..300 {
            hold.release();
        }
    };
    let begun = town.clock.mono();
    let (read, ()) = tokio::join!(read, open);
    assert_eq!(text(&read), r#"ok {"value":0,"rang":0}"#);
    assert_eq!(town.clock.mono().since(begun), 100);
    pass(100).await;
    assert_eq!((town.store.calls(Method::Check), in_flight(rig, "checks")), (300, 0));
    let ours = rig.host.metrics().fence_checks.with_label_values(&["ours"]).get();
    assert_eq!((ours, rig.active()), (300, 300));
}

#[tokio::test(start_paused = true)]
async fn a_far_timer_of_a_stub_comes_up_early_and_fires_on_time() {
    let rig = Rig::with(
        |config| {
            config.stub_to_cold_ms = 100_000_000;
            config.agent_lease_ms = 100_000_000;
        },
        0,
    );
    rig.join("a", 1).await;
    rig.call("alarm", "a", 1, "1500000").await;
    pass(1_499_000).await;
    // Entered when it fell asleep, ten minutes later, and ten minutes later for good.
    assert_eq!(rig.bound_hit("ahead_ms_max"), 2);
    assert_eq!(rig.host.metrics().timer_entries.get(), 1, "no entry is left behind");
    assert_eq!((rig.stubs(), rig.wakes("timer")), (1, 0));
    pass(2_000).await;
    assert_eq!(rig.wakes("timer"), 1);
    assert_eq!(rig.get("a").await, r#"ok {"value":0,"rang":1}"#);
}

/// The end of the only lease of an object, as another node reads it that takes it over.
async fn stored_lease(rig: &Rig, name: &str) -> Millis {
    let claim = ClaimRequest {
        object: id(name),
        me: Incarnation { node: "other".into(), boot: 1 },
        nonce: 1,
        may_create: false,
        observed: rig.store.fence(&id(name)),
    };
    let claimed = rig.store.claim(claim, rig.clock.now()).await.unwrap();
    assert_eq!(claimed.leases.len(), 1, "{:?}", claimed.leases);
    claimed.leases[0].1
}

#[tokio::test(start_paused = true)]
async fn a_lease_beyond_what_a_stub_can_keep_is_cut_there_and_whole_in_the_store() {
    for (lease_ms, cut) in [((1 << 30) - 40_000, 0), (1 << 31, 1)] {
        let rig = Rig::with(
            |config| {
                config.agent_lease_ms = lease_ms;
                config.stub_to_cold_ms = 100_000_000;
            },
            0,
        );
        rig.join("a", 1).await;
        pass(31_000).await;
        assert_eq!((rig.stubs(), rig.bound_hit("lease_ms_max")), (1, cut));
        // What is stored runs ahead by a step.
        assert_eq!(stored_lease(&rig, "a").await, START.plus(lease_ms + rig.config.lease_step_ms));
    }
}

#[tokio::test(start_paused = true)]
async fn a_due_handler_that_fails_is_asked_again_after_the_longest_pause() {
    let rig = Rig::with(|config| config.agent_lease_ms = 1 << 29, 0);
    rig.join("a", 1).await;
    rig.call("add", "a", 1, "667").await;
    rig.call("alarm", "a", 1, "1000").await;
    // 2, 4 ... 1,024 s, each a quarter longer at most, is less than 43 minutes.
    pass(2_600_000).await;
    let asked = rig.bound_hit("due_rounds_max");
    assert!((11..=12).contains(&asked), "{asked}");
    pass(1_024_000 * 5 / 4).await;
    let again = rig.bound_hit("due_rounds_max") - asked;
    assert!((1..=2).contains(&again), "{again}");
}

#[tokio::test(start_paused = true)]
async fn an_outcome_is_looked_into_for_so_long_and_then_told_as_unknown() {
    let rig = Rig::with(|config| config.in_doubt_ms_max = 500, 0);
    rig.join("a", 1).await;
    let lost = Error::Unavailable { context: "injected".into() };
    rig.store.inject(Method::Append, Fault::ApplyThenUnknown);
    for _ in 0..100 {
        rig.store.inject(Method::Refence, Fault::Refuse(lost.clone()));
    }
    let begun = rig.clock.mono();
    assert_eq!(rig.call("add", "a", 1, "5").await, "outcome_unknown");
    assert_eq!(rig.clock.mono().since(begun), 500);
    let unknown = rig.host.metrics().appends.with_label_values(&["unknown"]).get();
    assert_eq!(unknown, 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_repeated_for_so_long_and_then_refused() {
    let rig = Rig::with(|config| config.claim_ms_max = 500, 0);
    let lost = Error::Unavailable { context: "injected".into() };
    for _ in 0..100 {
        rig.store.inject(Method::Claim, Fault::Refuse(lost.clone()));
    }
    let begun = rig.clock.mono();
    assert_eq!(rig.get("a").await, "room_unavailable");
    let took = rig.clock.mono().since(begun);
    assert!((500..=525).contains(&took), "{took}");
    assert_eq!(rig.bound_hit("claim_ms_max"), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_wake_so_many_objects_a_second_and_the_others_wait_their_turn() {
    let rig = Rig::with(|config| config.wakes_per_second = 2, 0);
    for number in 0..6 {
        rig.join(&number.to_string(), 1).await;
        // A creation takes its turn, too.
        pass(1_000).await;
    }
    let rig = rig.restart();
    let begun = rig.clock.mono();
    let look = async {
        pass(100).await;
        assert_eq!((rig.wakes("call"), rig.host.metrics().wakes_waiting.get()), (2, 4));
    };
    let calls = (0..6).map(|number| {
        let rig = &rig;
        async move { rig.get(&number.to_string()).await }
    });
    let (answers, ()) = tokio::join!(join_all(calls), look);
    assert!(answers.iter().all(|answer| answer == r#"ok {"value":0,"rang":0}"#), "{answers:?}");
    assert_eq!(rig.clock.mono().since(begun), 2_000, "one each half second");
    assert_eq!((rig.wakes("call"), rig.host.metrics().wakes_waiting.get()), (6, 0));
}

#[tokio::test(start_paused = true)]
async fn polls_claim_so_many_stubs_a_second_and_hold_up_no_call() {
    let rig = Rig::with(|config| config.stub_claims_per_second = 2, 0);
    for number in 0..6 {
        rig.join(&number.to_string(), 1).await;
    }
    rig.call("add", "5", 1, "3").await;
    let rig = rig.restart();
    let begun = rig.clock.mono();
    let look = async {
        pass(100).await;
        assert_eq!(rig.host.metrics().wakes_waiting.get(), 3);
        assert_eq!(rig.call("add", "5", 1, "1").await, r#"ok {"value":4}"#);
        assert_eq!(rig.clock.mono().since(begun), 100);
    };
    let polls = (0..5).map(|number| {
        let rig = &rig;
        async move { rig.call("wait", &number.to_string(), 1, "0").await }
    });
    let (answers, ()) = tokio::join!(join_all(polls), look);
    assert!(answers.iter().all(|answer| answer.contains("\"news\":false")), "{answers:?}");
    assert_eq!(rig.clock.mono().since(begun), 1_500);
    assert_eq!(rig.host.metrics().wakes_waiting.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn timers_wake_so_many_objects_a_second_and_the_due_scan_goes_page_by_page() {
    let rig = Rig::with(
        |config| {
            config.timer_wakes_per_second = 2;
            config.due_page_max = 2;
            config.agent_lease_ms = 100_000_000;
        },
        0,
    );
    for number in 0..6 {
        rig.join(&number.to_string(), 1).await;
        rig.call("alarm", &number.to_string(), 1, "60000").await;
    }
    let rig = rig.restart();
    pass(60_100).await;
    // All of them were found, whatever the page; two have fired, the others wait for their turn.
    assert_eq!((rig.wakes("timer"), rig.active()), (2, 4));
    assert_eq!(rig.host.metrics().wakes_waiting.get(), 4);
    pass(2_000).await;
    assert_eq!((rig.wakes("timer"), rig.host.metrics().wakes_waiting.get()), (6, 0));
    for number in 0..6 {
        assert_eq!(rig.get(&number.to_string()).await, r#"ok {"value":0,"rang":1}"#);
    }
}

#[tokio::test(start_paused = true)]
async fn cadences_beside_an_object_are_kept_within_their_bound() {
    let rig = Rig::with(|config| config.cadence_entries_max = 3, 0);
    for by in 0..10 {
        rig.join("a", by).await;
        let wait = rig.host.call(rig.request("wait", "a", Caller::Participant(who(by)), "0")).await;
        assert!(wait.result.is_ok(), "{wait:?}");
        assert!(rig.host.metrics().cadences.get() <= 3);
    }
    assert_eq!(rig.host.metrics().cadences.get(), 3);
}
