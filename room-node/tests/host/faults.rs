//! Rare orders of events: each of these once lost, doubled or misreported something.

use futures_util::future::FutureExt as _;
use object::{Caller, Millis};
use room_node::store::memory::{Fault, Hold, Method};
use room_node::store::{ClaimRequest, Error, Incarnation, Store as _};

use super::rig::{Rig, hush_poison, id, pass, text, who};

fn unreachable_store() -> Error {
    Error::Unavailable { context: "injected".into() }
}

#[tokio::test(start_paused = true)]
async fn a_creation_is_there_at_once_for_whoever_was_told_of_it() {
    let rig = Rig::new();
    let hold = Hold::new();
    rig.store.inject(Method::Claim, Fault::HoldAnswer(hold.clone()));
    let mut read = Box::pin(rig.get("a"));
    assert!((&mut read).now_or_never().is_none());
    hold.reached().await;
    // The creation arrives while the object is being found absent.
    let mut join = Box::pin(rig.join("a", 1));
    assert!((&mut join).now_or_never().is_none());
    hold.release();
    assert_eq!(read.await, "no_counter");
    join.await;
    assert_eq!(rig.call("add", "a", 1, "1").await, r#"ok {"value":1}"#);
    assert_eq!(rig.host.metrics().absent.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_was_stored_is_told_so_although_the_end_of_the_object_was_not() {
    let rows = [
        (vec![Fault::Refuse(unreachable_store())], "room_unavailable"),
        (vec![Fault::Refuse(Error::Unknown { context: "lost".into() }); 200], "outcome_unknown"),
    ];
    for (faults, told) in rows {
        let rig = Rig::new();
        rig.join("a", 1).await;
        for fault in faults {
            rig.store.inject(Method::Destroy, fault);
        }
        let (added, ended) =
            tokio::join!(rig.call("add", "a", 1, "5"), rig.call("end", "a", 1, ""));
        assert_eq!((added.as_str(), ended.as_str()), (r#"ok {"value":5}"#, told));
        assert_eq!(rig.get("a").await, r#"ok {"value":5,"rang":0}"#);
    }
}

#[tokio::test(start_paused = true)]
async fn a_panic_over_one_parked_call_leaves_the_others_parked() {
    let rig = Rig::with(|_| {}, 5_000);
    for by in 1..=3 {
        rig.join("a", by).await;
    }
    let trap = rig.call("trap", "a", 1, "");
    let waits =
        async { tokio::join!(rig.call("wait", "a", 2, "0"), rig.call("wait", "a", 3, "0")) };
    let news = async {
        pass(1_000).await;
        assert_eq!(rig.host.metrics().parked_calls.get(), 3);
        rig.call("add", "a", 1, "4").await
    };
    let (trap, (one, other), added) = tokio::join!(trap, waits, news);
    assert_eq!((trap.as_str(), added.as_str()), ("internal_error", r#"ok {"value":4}"#));
    for wait in [one, other] {
        assert!(wait.starts_with(r#"ok {"cursor":4,"news":true"#), "{wait}");
    }
    assert_eq!(rig.host.metrics().parked_calls.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_panic_over_a_lost_connection_does_not_move_the_timers() {
    hush_poison();
    let rig = Rig::with(|config| config.agent_lease_ms = 100_000_000, 0);
    rig.join("a", 1).await;
    rig.call("add", "a", 1, "665").await;
    rig.call("alarm", "a", 1, "3000").await;
    for connection in 1..3 {
        assert!(rig.host.attach(&id("a"), who(1), connection, super::link::sink()));
        rig.host.detach(&id("a"), connection);
        pass(10).await;
    }
    assert_eq!(rig.host.metrics().panics.get(), 2);
    assert_eq!(rig.active(), 0);
    pass(3_100).await;
    assert_eq!(rig.wakes("timer"), 1);
    assert_eq!(rig.get("a").await, r#"ok {"value":665,"rang":1}"#);
}

#[tokio::test(start_paused = true)]
async fn a_poll_that_finds_no_room_beside_a_stub_changes_nothing_of_it() {
    let rig = Rig::with(|config| config.parked_calls_max = 1, 5_000);
    rig.join("a", 1).await;
    rig.join("a", 2).await;
    pass(60_000).await;
    assert_eq!(rig.stubs(), 1);
    let leases = rig.store.calls(Method::Lease);
    let (held, full) = tokio::join!(rig.call("wait", "a", 1, "0"), rig.call("wait", "a", 2, "0"));
    assert!(held.starts_with(r#"ok {"cursor":0"#), "{held}");
    assert_eq!((full.as_str(), rig.bound_hit("parked_calls_max")), ("overloaded", 1));
    assert_eq!(rig.store.calls(Method::Lease), leases + 1);
    // Its lease has not moved in memory either: the next poll stores it.
    let next = rig.call("wait", "a", 2, "0").await;
    assert!(next.starts_with(r#"ok {"cursor":0"#), "{next}");
    assert_eq!(rig.store.calls(Method::Lease), leases + 2);
}

#[tokio::test(start_paused = true)]
async fn a_blob_nobody_brought_refuses_the_batch_and_ends() {
    let rig = Rig::new();
    rig.join("a", 1).await;
    assert_eq!(rig.call("steal", "a", 1, "").await, "room_unavailable");
    assert_eq!(rig.get("a").await, r#"ok {"value":0,"rang":0}"#);
}

#[tokio::test(start_paused = true)]
async fn whoever_leaves_leaves_no_lease_behind() {
    let rig = Rig::new();
    rig.join("a", 1).await;
    rig.join("a", 2).await;
    assert!(rig.call("leave", "a", 1, "").await.starts_with("ok"));
    let request = ClaimRequest {
        object: id("a"),
        me: Incarnation { node: "node".into(), boot: 1 },
        nonce: 77,
        may_create: false,
        observed: rig.store.fence(&id("a")),
    };
    let claimed = rig.store.claim(request, rig.clock.now()).await.unwrap();
    let leases: Vec<_> = claimed.leases.iter().map(|(who, _)| *who).collect();
    assert_eq!(leases, [who(2)]);
}

#[tokio::test(start_paused = true)]
async fn an_object_the_host_cannot_read_leaves_the_due_index() {
    let rig = Rig::new();
    rig.join("a", 1).await;
    rig.call("alarm", "a", 1, "5000").await;
    rig.call("rot", "a", 1, "").await;
    let rig = rig.restart();
    assert_eq!(rig.get("a").await, "room_unavailable");
    assert_eq!(rig.host.metrics().quarantines.get(), 1);
    pass(10_000).await;
    let (due, next) = rig.store.due(Millis::FAR_FUTURE, None, 9).await.unwrap();
    assert!(due.is_empty() && next.is_none(), "{due:?} {next:?}");
    assert_eq!(rig.wakes("timer"), 0);
}

#[tokio::test(start_paused = true)]
async fn cadences_and_timers_are_counted() {
    let rig = Rig::with(|config| config.stub_to_cold_ms = 40_000_000, 0);
    let metrics = rig.host.metrics();
    for name in ["a", "b"] {
        for by in 1..=3 {
            rig.join(name, by).await;
        }
    }
    assert_eq!(metrics.cadences.get(), 6);
    pass(30_200).await;
    assert_eq!((rig.stubs(), metrics.cadences.get(), metrics.timer_entries.get()), (2, 0, 2));
    let request = rig.request("wait", "a", Caller::Participant(who(1)), "0");
    assert!(text(&rig.host.call(request).await).starts_with("ok"));
    pass(130_000).await;
    assert_eq!((rig.stubs(), metrics.timer_entries.get()), (2, 0));
}
