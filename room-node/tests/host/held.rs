//! Held waits and other parked calls.

use std::sync::Arc;

use futures_util::future::{FutureExt as _, join_all};
use object::Caller;
use room_node::store::memory::{Fault, Method};

use super::rig::{Rig, pass, text, who};

#[tokio::test(start_paused = true)]
async fn a_held_wait_ends_by_news_or_by_its_time() {
    let rig = Rig::with(|_| {}, 5_000);
    rig.join("a", 1).await;
    rig.join("a", 2).await;
    let later = async {
        pass(1_000).await;
        rig.call("add", "a", 1, "3").await
    };
    let (news, _) = tokio::join!(rig.full("wait", "a", 2, "0"), later);
    assert!(text(&news).starts_with(r#"ok {"cursor":3,"news":true"#), "{news:?}");
    let begun = rig.clock.mono();
    let quiet = rig.full("wait", "a", 2, "3").await;
    assert_eq!(rig.clock.mono().since(begun), 5_000);
    // A hold counts from its start.
    assert_eq!(quiet.next_wait_ms, Some(5_000));
    assert_eq!(rig.host.metrics().parked_calls.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn no_wait_is_held_longer_than_the_host_allows() {
    let rig = Rig::with(|config| config.hold_ms_max = 3_000, 20_000);
    rig.join("a", 1).await;
    let begun = rig.clock.mono();
    let quiet = rig.full("wait", "a", 1, "0").await;
    assert_eq!(rig.clock.mono().since(begun), 3_000);
    assert_eq!(quiet.next_wait_ms, Some(7_000));
}

#[tokio::test(start_paused = true)]
async fn one_wait_is_held_and_the_same_request_takes_its_place() {
    let rig = Rig::with(|_| {}, 5_000);
    rig.join("a", 1).await;
    let first = rig.request("wait", "a", Caller::Participant(who(1)), "0");
    let mut held = Box::pin(rig.host.call(first.clone()));
    assert!((&mut held).now_or_never().is_none());
    pass(10).await;
    assert_eq!(rig.call("wait", "a", 1, "0").await, "wait_already_pending");
    let again = rig.host.call(first);
    let (first, again) = tokio::join!(held, again);
    assert!(text(&first).starts_with("ok"), "{first:?}");
    assert!(text(&again).starts_with("ok"), "{again:?}");
    pass(10_000).await;
    let next = rig.call("wait", "a", 1, "0").await;
    assert!(next.starts_with("ok"), "{next}");
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_goes_is_forgotten_at_once() {
    let rig = Rig::with(|_| {}, 5_000);
    rig.join("a", 1).await;
    let held = Box::pin(rig.full("wait", "a", 1, "0"));
    let cut = tokio::time::timeout(std::time::Duration::from_millis(100), held).await;
    assert!(cut.is_err());
    pass(1).await;
    assert_eq!(rig.host.metrics().parked_calls.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_held_wait_never_keeps_an_object_awake() {
    let rig = Rig::with(
        |config| {
            config.idle_to_stub_ms = 1_000;
            config.agent_lease_ms = 1_000_000;
            config.hold_ms_max = 25_000;
        },
        20_000,
    );
    let rig = Arc::new(rig);
    for by in [1, 2, 3] {
        rig.join("a", by).await;
    }
    let start = rig.clock.mono();
    let wait = |by| {
        let rig = Arc::clone(&rig);
        tokio::spawn(async move { rig.full("wait", "a", by, "0").await })
    };
    let (quiet, gone) = (wait(2), wait(3));
    pass(2_000).await;
    assert_eq!((rig.active(), rig.stubs()), (0, 1));
    assert_eq!(rig.host.metrics().parked_calls.get(), 2);
    assert_eq!(rig.call("wait", "a", 2, "0").await, "wait_already_pending");
    gone.abort();
    pass(10).await;
    assert_eq!(rig.host.metrics().parked_calls.get(), 1);
    let answer = quiet.await.unwrap();
    assert_eq!(text(&answer), r#"ok {"cursor":0,"news":false,"retryAfterMs":0}"#);
    let late = rig.clock.mono().since(start);
    assert!((20_000..=20_200).contains(&late), "{late}");
    assert_eq!((rig.stubs(), rig.wakes("timer"), rig.wakes("call")), (1, 0, 0));
    // News wakes the object, and the wait held beside its stub is told.
    let held = wait(2);
    pass(5_000).await;
    assert_eq!((rig.active(), rig.stubs()), (0, 1));
    rig.call("add", "a", 1, "9").await;
    let called = rig.clock.mono();
    let news = held.await.unwrap();
    assert!(rig.clock.mono().since(called) <= 1, "told at once, not when its time is over");
    assert!(text(&news).starts_with(r#"ok {"cursor":9,"news":true"#), "{news:?}");
}

#[tokio::test(start_paused = true)]
async fn a_wait_parked_in_the_batch_of_a_change_hears_of_it() {
    let rig = Rig::with(|_| {}, 5_000);
    rig.join("a", 1).await;
    rig.join("a", 2).await;
    let begun = rig.clock.mono();
    // Both are in the mailbox before either is decided, the wait first.
    let (news, added) = tokio::join!(rig.full("wait", "a", 2, "0"), rig.call("add", "a", 1, "4"));
    assert_eq!(added, r#"ok {"value":4}"#);
    assert!(text(&news).starts_with(r#"ok {"cursor":4,"news":true"#), "{news:?}");
    assert!(rig.clock.mono().since(begun) <= 1, "told at once");
}

#[tokio::test(start_paused = true)]
async fn a_poll_of_a_sleeping_object_is_held_beside_it_and_wakes_nothing() {
    let rig = Rig::with(|config| config.agent_lease_ms = 100_000, 5_000);
    rig.join("a", 1).await;
    rig.join("a", 2).await;
    pass(31_000).await;
    assert_eq!(rig.stubs(), 1);
    for _ in 0..50 {
        let begun = rig.clock.mono();
        let quiet = rig.full("wait", "a", 2, "0").await;
        let held = rig.clock.mono().since(begun);
        assert!((5_000..=5_100).contains(&held), "{held}");
        let rest = quiet.next_wait_ms.unwrap();
        assert!((4_900..=5_000).contains(&rest), "{rest}");
        pass(rest).await;
    }
    assert_eq!((rig.stubs(), rig.wakes("poll"), rig.wakes("timer")), (1, 0, 1));
    assert_eq!(rig.call("add", "a", 1, "0").await, "not_a_member", "1 was silent");
    // The lease of a held wait is stored first; a failure refuses it and forgets it.
    pass(70_000).await;
    let lost = room_node::store::Error::Unavailable { context: "injected".into() };
    rig.store.inject(Method::Lease, Fault::Refuse(lost));
    assert_eq!(rig.call("wait", "a", 2, "0").await, "room_unavailable");
    assert_eq!(rig.host.metrics().parked_calls.get(), 0);
    let held = Box::pin(rig.full("wait", "a", 2, "0"));
    let (told, joined) = tokio::join!(held, async {
        pass(2_000).await;
        rig.join("a", 3).await;
        rig.call("add", "a", 3, "8").await
    });
    assert_eq!(joined, r#"ok {"value":8}"#);
    assert!(text(&told).starts_with(r#"ok {"cursor":8,"news":true"#), "{told:?}");
}

#[tokio::test(start_paused = true)]
async fn other_parked_work_keeps_the_object_awake_and_is_bounded() {
    let rig = Rig::with(|config| config.parked_calls_max = 3, 0);
    rig.join("a", 1).await;
    let calls = join_all((0..4).map(|_| rig.call("work", "a", 1, "45000")));
    let look = async {
        pass(40_000).await;
        assert_eq!((rig.active(), rig.stubs()), (1, 0));
        assert_eq!(rig.host.metrics().parked_calls.get(), 3);
    };
    let (answers, ()) = tokio::join!(calls, look);
    assert_eq!(answers.iter().filter(|answer| *answer == "overloaded").count(), 1);
    assert_eq!(rig.bound_hit("parked_calls_max"), 1);
    assert_eq!(rig.host.metrics().parked_calls.get(), 0);
}
