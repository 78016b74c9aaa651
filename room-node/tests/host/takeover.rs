//! Nodes that die, freeze, or lose their lease; primaries that change.

use room_node::store::memory::{Fault, Hold, Method};

use super::rig::{id, pass};
use super::town::{Town, elsewhere, is_moved};

#[tokio::test(start_paused = true)]
async fn a_frozen_node_writes_nothing_and_answers_nothing_once_its_lease_has_ended() {
    let town = Town::with(|_| {}, 20_000);
    for room in ["x", "asleep"] {
        town.a.rig.join(room, 1).await;
        town.a.rig.join(room, 2).await;
    }
    assert_eq!(town.a.rig.call("add", "x", 1, "1").await, r#"ok {"value":1}"#);
    // `a` freezes in the middle of an append; it stays lost in the net until later.
    let hold = Hold::new();
    town.store.inject(Method::Append, Fault::HoldCall(hold.clone()));
    let late = town.a.rig.full("add", "x", 1, "10");
    let others = async {
        hold.reached().await;
        town.a.script.lease(false);
        town.all_to("b");
        // Its lease has not ended for the others yet.
        let early = town.b.rig.full("add", "x", 2, "100").await;
        assert_eq!((is_moved(&early), early.elsewhere), (true, elsewhere("a", 2)));
        town.b.script.end("a", 1);
        pass(101).await;
        assert_eq!(town.b.rig.call("add", "x", 2, "100").await, r#"ok {"value":101}"#);
        let lapsed = town.b.rig.host.metrics().claims.with_label_values(&["lapsed"]).get();
        assert_eq!(lapsed, 1);
        // It thaws: its append comes late, and its memory is worth nothing.
        hold.release();
    };
    let (late, ()) = tokio::join!(late, others);
    assert!(is_moved(&late), "{late:?}");
    for op in ["get", "wait", "add"] {
        assert!(is_moved(&town.a.rig.full(op, "x", 1, "1").await), "{op}");
        assert!(is_moved(&town.a.rig.full(op, "asleep", 1, "0").await), "{op}");
    }
    pass(500).await;
    assert_eq!((town.a.rig.active(), town.a.rig.stubs()), (0, 0), "dropped");
    assert_eq!(town.a.rig.host.metrics().lease_lapses.get(), 1);
    assert_eq!(town.b.rig.get("x").await, r#"ok {"value":101,"rang":0}"#);
}

/// `a` freezes while it claims what it holds already, and its next run goes on. Its claim comes late.
#[tokio::test(start_paused = true)]
async fn a_late_claim_of_a_former_run_takes_nothing_from_its_successor() {
    for (asleep, claims_late) in [(true, 1), (false, 2)] {
        let town = Town::with(|config| config.idle_to_stub_ms = 1_000, 0);
        town.a.rig.join("x", 1).await;
        if asleep {
            pass(2_000).await;
        } else {
            // It drops everything without a lease, and gets it back.
            town.a.script.lease(false);
            pass(500).await;
            town.a.script.lease(true);
        }
        assert_eq!(town.a.rig.stubs(), i64::from(asleep));
        // A stub states what it holds at once; who has forgotten it first hears of it.
        let hold = Hold::new();
        for _ in 1..claims_late {
            town.store.inject(Method::Claim, Fault::HoldAnswer(hold.clone()));
        }
        town.store.inject(Method::Claim, Fault::HoldCall(hold.clone()));
        let late = town.a.rig.full("add", "x", 1, "10");
        let others = async {
            for _ in 1..claims_late {
                hold.reached().await;
                hold.release();
            }
            hold.reached().await;
            town.a.script.lease(false);
            let next = town.next_a(3);
            assert_eq!(next.rig.call("add", "x", 1, "100").await, r#"ok {"value":100}"#);
            let fence = town.store.fence(&id("x"));
            hold.release();
            pass(500).await;
            assert_eq!(town.store.fence(&id("x")), fence, "asleep: {asleep}");
            assert_eq!(next.rig.call("add", "x", 1, "1").await, r#"ok {"value":101}"#);
        };
        let (late, ()) = tokio::join!(late, others);
        assert!(is_moved(&late), "{late:?}");
        // Whoever asks the former run again is not told either, and unseats nobody.
        assert!(is_moved(&town.a.rig.full("add", "x", 1, "10").await));
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_one_round_trip_unless_a_run_that_is_over_owns_the_object() {
    let town = Town::with(|config| config.idle_to_stub_ms = 1_000, 0);
    let claims = || town.store.calls(Method::Claim);
    town.a.rig.join("x", 1).await;
    assert_eq!(claims(), 1, "absent");
    pass(2_000).await;
    assert_eq!(town.a.rig.stubs(), 1);
    assert_eq!(town.a.rig.call("add", "x", 1, "1").await, r#"ok {"value":1}"#);
    assert_eq!(claims(), 2, "held by a stub");
    pass(2_000).await;
    // The answer is lost: its repeat finds itself.
    town.store.inject(Method::Claim, Fault::ApplyThenUnknown);
    assert_eq!(town.a.rig.call("add", "x", 1, "1").await, r#"ok {"value":2}"#);
    assert_eq!(claims(), 4);
    town.all_to("b");
    pass(1_000).await;
    assert_eq!(town.b.rig.call("add", "x", 1, "1").await, r#"ok {"value":3}"#);
    assert_eq!(claims(), 5, "released");
    town.b.script.lease(false);
    town.a.script.end("b", 2);
    town.a.script.all_to("a");
    assert_eq!(town.a.rig.call("add", "x", 1, "1").await, r#"ok {"value":4}"#);
    town.a.script.lease(false);
    assert_eq!(town.next_a(3).rig.call("add", "x", 1, "1").await, r#"ok {"value":5}"#);
    assert_eq!(claims(), 9, "of a node that is over, and of a former run");
}

#[tokio::test(start_paused = true)]
async fn a_write_that_was_stored_is_told_so_although_the_lease_lapsed_in_between() {
    let town = Town::new();
    town.a.rig.join("x", 1).await;
    let hold = Hold::new();
    town.store.inject(Method::Append, Fault::HoldAnswer(hold.clone()));
    let write = town.a.rig.call("add", "x", 1, "5");
    let lapse = async {
        hold.reached().await;
        town.a.script.lease(false);
        hold.release();
    };
    let (write, ()) = tokio::join!(write, lapse);
    assert_eq!(write, r#"ok {"value":5}"#);
    assert!(is_moved(&town.a.rig.full("get", "x", 1, "").await));
}

#[tokio::test(start_paused = true)]
async fn held_waits_of_a_node_without_a_lease_are_sent_on_awake_and_asleep() {
    let town = Town::with(
        |config| {
            config.idle_to_stub_ms = 1_000;
            config.hold_ms_max = 25_000;
        },
        20_000,
    );
    for room in ["awake", "asleep"] {
        town.a.rig.join(room, 1).await;
        town.a.rig.join(room, 2).await;
    }
    pass(2_000).await;
    town.a.rig.call("add", "awake", 2, "1").await;
    let lapse = async {
        pass(500).await;
        assert_eq!((town.a.rig.active(), town.a.rig.stubs()), (1, 1));
        town.a.script.lease(false);
    };
    let begun = town.clock.mono();
    let (awake, asleep, ()) = tokio::join!(
        town.a.rig.full("wait", "awake", 1, "1"),
        town.a.rig.full("wait", "asleep", 1, "0"),
        lapse
    );
    assert!(is_moved(&awake) && is_moved(&asleep), "{awake:?} {asleep:?}");
    assert!(town.clock.mono().since(begun) <= 1_000);
    assert_eq!(town.a.rig.host.metrics().parked_calls.get(), 0);
    assert!(town.store.fence(&id("asleep")).is_some(), "dropped, not released");
    // The lease was renewed after all, nobody has claimed: it goes on.
    town.a.script.lease(true);
    assert_eq!(town.a.rig.call("add", "asleep", 2, "2").await, r#"ok {"value":2}"#);
}

#[tokio::test(start_paused = true)]
async fn timers_of_a_dead_node_fire_once_after_the_takeover() {
    for asleep in [false, true] {
        let town = Town::with(
            |config| {
                config.idle_to_stub_ms = if asleep { 1_000 } else { 10_000_000 };
                config.agent_lease_ms = 100_000_000;
            },
            0,
        );
        for room in 0..20 {
            town.a.rig.join(&room.to_string(), 1).await;
            town.a.rig.call("alarm", &room.to_string(), 1, "60000").await;
        }
        pass(58_000).await;
        let Town { a, b, store, clock } = town;
        drop(a);
        pass(3_000).await;
        assert_eq!(b.rig.host.metrics().timers.get(), 0, "its lease has not ended yet");
        b.script.end("a", 1);
        b.script.all_to("b");
        pass(1_000).await;
        for room in 0..20 {
            let got = b.rig.get(&room.to_string()).await;
            assert_eq!(got, r#"ok {"value":0,"rang":1}"#, "asleep: {asleep}");
        }
        pass(60_000).await;
        assert_eq!(b.rig.get("3").await, r#"ok {"value":0,"rang":1}"#);
        assert_eq!(b.rig.host.metrics().timers.get(), 20);
        let _ = (store, clock);
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_due_during_a_hand_off_fires_once() {
    let town = Town::with(|config| config.agent_lease_ms = 100_000_000, 0);
    for room in 0..40 {
        let room = room.to_string();
        town.a.rig.join(&room, 1).await;
        town.a.rig.call("alarm", &room, 1, "10000").await;
    }
    pass(9_900).await;
    town.all_to("b");
    pass(1_300).await;
    for room in 0..40 {
        let room = room.to_string();
        assert_eq!(town.b.rig.get(&room).await, r#"ok {"value":0,"rang":1}"#, "{room}");
    }
}

#[tokio::test(start_paused = true)]
async fn agents_of_a_dead_node_get_time_to_come_back() {
    let town = Town::new();
    town.a.rig.join("x", 1).await;
    pass(80_000).await;
    town.a.script.lease(false);
    // Its lease has 90 s, the stored end 30 s more; the takeover gives 30 s from now.
    pass(35_000).await;
    town.b.script.end("a", 1);
    town.all_to("b");
    assert_eq!(town.b.rig.get("x").await, r#"ok {"value":0,"rang":0}"#);
    pass(25_000).await;
    assert_eq!(town.b.rig.call("add", "x", 1, "1").await, r#"ok {"value":1}"#);
}

#[tokio::test(start_paused = true)]
async fn after_a_change_of_the_primary_memory_is_checked_before_it_answers() {
    for asleep in [false, true] {
        let town = Town::with(
            |config| {
                config.idle_to_stub_ms = if asleep { 1_000 } else { 10_000_000 };
                config.agent_lease_ms = 100_000_000;
            },
            0,
        );
        for room in ["lost", "kept"] {
            town.a.rig.join(room, 1).await;
        }
        pass(12_000).await;
        // The claim of `a` was lost with the old primary, so `b` may make another.
        town.b.script.end("a", 1);
        town.b.script.one_to("lost", "b");
        assert_eq!(town.b.rig.call("add", "lost", 1, "7").await, r#"ok {"value":7}"#);
        town.a.script.new_primary();
        let checks = town.store.calls(Method::Check);
        let stale = town.a.rig.full("wait", "lost", 1, "0").await;
        assert_eq!((is_moved(&stale), stale.elsewhere), (true, elsewhere("b", 1)));
        let kept = town.a.rig.full("wait", "kept", 1, "0").await;
        assert!(kept.result.is_ok(), "{kept:?}");
        assert_eq!(town.store.calls(Method::Check), checks + 2, "asleep: {asleep}");
        // Once is enough.
        pass(12_000).await;
        assert!(town.a.rig.full("wait", "kept", 1, "0").await.result.is_ok());
        assert_eq!(town.store.calls(Method::Check), checks + 2);
        assert_eq!(town.a.rig.stubs(), i64::from(asleep));
    }
}

#[tokio::test(start_paused = true)]
async fn a_fence_that_cannot_be_checked_answers_nobody_from_memory() {
    for asleep in [false, true] {
        let town = Town::with(
            |config| {
                config.idle_to_stub_ms = if asleep { 1_000 } else { 10_000_000 };
                config.agent_lease_ms = 100_000_000;
            },
            0,
        );
        town.a.rig.join("x", 1).await;
        pass(12_000).await;
        let lost = room_node::store::Error::Unavailable { context: "injected".into() };
        // An object that is awake is checked for nobody in particular, too.
        for _ in 0..if asleep { 1 } else { 3 } {
            town.store.inject(Method::Check, Fault::Refuse(lost.clone()));
        }
        town.a.script.new_primary();
        assert_eq!(town.a.rig.call("wait", "x", 1, "0").await, "room_unavailable");
        pass(12_000).await;
        let answer = town.a.rig.call("wait", "x", 1, "0").await;
        assert!(answer.starts_with("ok"), "{answer}");
    }
}

#[tokio::test(start_paused = true)]
async fn events_that_went_with_an_old_primary_are_not_told_from_memory() {
    let town = Town::with(|config| config.agent_lease_ms = 100_000_000, 0);
    town.a.rig.join("x", 1).await;
    for _ in 0..3 {
        town.a.rig.call("add", "x", 1, "1").await;
    }
    // The new primary knows the claim, but not the last event.
    assert_eq!(town.store.lose_tail(&id("x"), 1), Some(3));
    let gone = room_node::store::Error::Lsn { actual: 3 };
    town.store.inject(Method::Check, Fault::Refuse(gone));
    town.a.script.new_primary();
    assert_eq!(town.a.rig.get("x").await, r#"ok {"value":2,"rang":0}"#);
    assert_eq!(town.a.rig.call("add", "x", 1, "5").await, r#"ok {"value":7}"#);
}

#[tokio::test(start_paused = true)]
async fn a_lost_object_that_nobody_asks_for_is_noticed_after_a_change_of_the_primary() {
    let town = Town::with(|config| config.idle_to_stub_ms = 10_000_000, 0);
    town.a.rig.join("x", 1).await;
    town.b.script.end("a", 1);
    town.b.script.all_to("b");
    assert_eq!(town.b.rig.get("x").await, r#"ok {"value":0,"rang":0}"#);
    assert_eq!(town.a.rig.active(), 1);
    town.a.script.new_primary();
    pass(1_000).await;
    assert_eq!(town.a.rig.active(), 0);
    let lost = town.a.rig.host.metrics().fence_checks.with_label_values(&["lost"]).get();
    assert_eq!(lost, 1);
}
