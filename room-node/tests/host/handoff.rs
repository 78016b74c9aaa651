//! Objects change their node: by a view change, under load, by a drain.

use std::sync::Arc;

use futures_util::future::join_all;
use object::Caller;
use room_node::store::memory::{Fault, Hold, Method};

use super::rig::{Rig, id, pass, text, who};
use super::town::{Town, elsewhere, is_moved};

fn handed_off(rig: &Rig, what: &str) -> u64 {
    rig.host.metrics().handoffs.with_label_values(&[what]).get()
}

#[tokio::test(start_paused = true)]
async fn a_hand_off_under_load_loses_nothing_and_doubles_nothing() {
    let town = Arc::new(Town::with(|config| config.snapshot_frames = 40, 0));
    let rooms: Vec<String> = (0..10).map(|number| format!("room-{number}")).collect();
    for room in &rooms {
        town.a.rig.join(room, 1).await;
    }
    let mut adders = Vec::new();
    for number in 0..40 {
        let (town, room) = (Arc::clone(&town), rooms[number % 10].clone());
        adders.push(tokio::spawn(async move {
            let mut random = fastrand::Rng::with_seed(number as u64);
            let mut added = 0;
            for _ in 0..200 {
                pass(random.u64(0..150)).await;
                let at = if random.bool() { "a" } else { "b" };
                let answer = town.call(at, "add", &room, 1, "1").await;
                // Moving is no reason to fail a call: a gateway follows and comes again.
                assert!(answer.starts_with("ok"), "{answer}");
                added += 1;
            }
            (room, added)
        }));
    }
    let flips = async {
        for flip in 0..20 {
            pass(700).await;
            for (number, room) in rooms.iter().enumerate() {
                town.one_to(room, if (number + flip) % 2 == 0 { "b" } else { "a" });
            }
        }
    };
    let (all, ()) = tokio::join!(join_all(adders), flips);
    let mut sums = std::collections::HashMap::<String, u64>::new();
    for (room, added) in all.into_iter().map(Result::unwrap) {
        *sums.entry(room).or_default() += added;
    }
    for room in &rooms {
        let expected = format!(r#"ok {{"value":{}}}"#, sums[room]);
        assert_eq!(town.call("a", "add", room, 1, "0").await, expected);
    }
    assert!(handed_off(&town.a.rig, "active") > 20 && handed_off(&town.b.rig, "active") > 20);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_rooms_leave_at_two_hundred_a_second() {
    let town = Town::new();
    for number in 0..1_000 {
        town.a.rig.join(&number.to_string(), 1).await;
    }
    pass(1_000).await;
    assert_eq!(town.a.rig.active(), 1_000);
    town.all_to("b");
    for second in 1..5 {
        pass(1_000).await;
        let left = 1_000 - town.a.rig.active();
        let most = second * 200;
        assert!((most - 10..=most + 1).contains(&left), "{left} after {second} s");
    }
    pass(1_100).await;
    assert_eq!(town.a.rig.active(), 0);
    assert!((0..1_000).all(|number| town.store.fence(&id(&number.to_string())).is_none()));
    assert_eq!(town.a.rig.host.metrics().handoffs_waiting.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn stubs_leave_in_batches_and_their_waits_are_sent_on_after_the_release() {
    let town = Town::with(
        |config| {
            config.idle_to_stub_ms = 1_000;
            config.hold_ms_max = 25_000;
        },
        20_000,
    );
    for number in 0..600 {
        town.a.rig.join(&number.to_string(), 1).await;
    }
    pass(2_000).await;
    assert_eq!(town.a.rig.stubs(), 600);
    let held = town.a.rig.full("wait", "7", 1, "0");
    let moves = async {
        pass(100).await;
        town.all_to("b");
    };
    let (held, ()) = tokio::join!(held, moves);
    assert_eq!((is_moved(&held), held.elsewhere), (true, elsewhere("b", 2)));
    assert_eq!(town.store.fence(&id("7")), None, "told after the release");
    pass(1_000).await;
    assert_eq!((town.a.rig.stubs(), handed_off(&town.a.rig, "stub")), (0, 600));
    assert_eq!(town.a.rig.host.metrics().parked_calls.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_hot_room_leaves_after_five_seconds_and_an_idle_one_at_once() {
    let town = Town::new();
    for room in ["hot", "idle"] {
        town.a.rig.join(room, 1).await;
    }
    pass(1_000).await;
    let heat = async {
        let begun = town.clock.mono();
        loop {
            let added = town.a.rig.full("add", "hot", 1, "1").await;
            if is_moved(&added) {
                return town.clock.mono().since(begun);
            }
            pass(10).await;
        }
    };
    let moves = async {
        town.all_to("b");
        pass(100).await;
        assert_eq!(town.a.rig.active(), 1);
        assert_eq!(town.store.fence(&id("idle")), None);
    };
    let (left_after, ()) = tokio::join!(heat, moves);
    assert!((5_000..5_100).contains(&left_after), "{left_after}");
    assert_eq!(town.store.fence(&id("hot")), None);
}

#[tokio::test(start_paused = true)]
async fn calls_that_arrive_during_a_release_wait_for_it_and_are_sent_on() {
    let town = Town::new();
    town.a.rig.join("x", 1).await;
    pass(1_000).await;
    let hold = Hold::new();
    town.store.inject(Method::Release, Fault::HoldCall(hold.clone()));
    town.all_to("b");
    hold.reached().await;
    let arrival = town.a.rig.full("add", "x", 1, "1");
    let later = async {
        pass(300).await;
        assert!(town.store.fence(&id("x")).is_some());
        hold.release();
    };
    let begun = town.clock.mono();
    let (arrival, ()) = tokio::join!(arrival, later);
    assert_eq!((is_moved(&arrival), arrival.elsewhere), (true, elsewhere("b", 2)));
    assert_eq!(town.clock.mono().since(begun), 300);
    assert_eq!(town.b.rig.call("add", "x", 1, "1").await, r#"ok {"value":1}"#);
}

#[tokio::test(start_paused = true)]
async fn a_long_tail_is_snapshot_before_it_leaves_and_a_short_one_is_not() {
    for (events, snapshots) in [(31, 0), (40, 1)] {
        let town = Town::new();
        town.a.rig.join("x", 1).await;
        for _ in 1..events {
            town.a.rig.call("add", "x", 1, "1").await;
        }
        pass(1_000).await;
        town.all_to("b");
        pass(1_000).await;
        assert_eq!(town.a.rig.host.metrics().snapshots.get(), snapshots);
        let value = events - 1;
        let got = town.b.rig.get("x").await;
        assert_eq!(got, format!(r#"ok {{"value":{value},"rang":0}}"#));
    }
}

#[tokio::test(start_paused = true)]
async fn a_drain_sends_held_waits_on_and_they_end_in_their_time() {
    let town = Town::with(|_| {}, 5_000);
    town.a.rig.join("x", 1).await;
    town.a.rig.join("x", 2).await;
    let wait = town.a.rig.request("wait", "x", Caller::Participant(who(1)), "0");
    let begun = town.clock.mono();
    let held = town.follow("a", wait, 20);
    let drain = async {
        pass(2_000).await;
        town.all_to("b");
        assert!(town.a.rig.host.drain(20_000).await);
        town.clock.mono()
    };
    let (quiet, drained) = tokio::join!(held, drain);
    assert!(text(&quiet).starts_with(r#"ok {"cursor":0,"news":false"#), "{quiet:?}");
    assert_eq!(town.clock.mono().since(begun), 5_000, "the rest of its time, no more");
    assert_eq!(quiet.next_wait_ms, Some(5_000), "as if it had been held in one place");
    assert!(drained.since(begun) < 2_500);
    assert!(!town.a.rig.host.is_ready() && town.b.rig.host.is_ready());
    assert_eq!(town.call("a", "add", "x", 2, "1").await, r#"ok {"value":1}"#);
}

#[tokio::test(start_paused = true)]
async fn a_drain_lets_parked_work_end_within_its_budget() {
    for (works_ms, answered) in [(15_000, true), (60_000, false)] {
        let town = Town::new();
        for room in ["x", "y"] {
            town.a.rig.join(room, 1).await;
        }
        let args = works_ms.to_string();
        let work = town.a.rig.call("work", "x", 1, &args);
        let drain = async {
            pass(10).await;
            let begun = town.clock.mono();
            town.all_to("b");
            // The ring would give a room with work five seconds; a drain gives it its time.
            assert!(town.a.rig.host.drain(room_node::host::DRAIN_MS).await);
            town.clock.mono().since(begun)
        };
        let (worked, took) = tokio::join!(work, drain);
        assert_eq!(worked.starts_with("ok"), answered, "{worked}");
        assert!(took <= room_node::host::DRAIN_MS - 3_000, "{took}");
        assert_eq!(town.store.fence(&id("x")), None);
    }
}
