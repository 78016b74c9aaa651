//! Timers of awake, sleeping and cold objects, and of objects whose handlers fail.

use room_node::store::memory::{Fault, Method};

use super::rig::{Rig, hush_poison, pass};

#[tokio::test(start_paused = true)]
async fn timers_fire_within_a_second_awake_asleep_cold_and_after_a_restart() {
    for (name, idle_to_stub_ms, stub_to_cold_ms, restart) in [
        ("awake", 10_000_000, 10_000_000, false),
        ("asleep", 1_000, 10_000_000, false),
        ("cold", 1_000, 4_000, false),
        ("restarted", 1_000, 10_000_000, true),
    ] {
        let mut rig = Rig::with(
            |config| {
                config.idle_to_stub_ms = idle_to_stub_ms;
                config.stub_to_cold_ms = stub_to_cold_ms;
                config.agent_lease_ms = 100_000_000;
            },
            0,
        );
        rig.join("a", 1).await;
        rig.call("alarm", "a", 1, "60000").await;
        pass(20_000).await;
        if restart {
            rig = rig.restart();
        }
        pass(39_900).await;
        let fired = |rig: &Rig| rig.wakes("timer");
        assert_eq!(fired(&rig), 0, "{name}: early");
        pass(1_100).await;
        assert_eq!(fired(&rig), u64::from(name != "awake"), "{name}: late");
        assert_eq!(rig.get("a").await, r#"ok {"value":0,"rang":1}"#, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_timer_survives_a_failed_append_and_rings_once() {
    let rig = Rig::with(|config| config.agent_lease_ms = 100_000_000, 0);
    rig.join("a", 1).await;
    rig.call("alarm", "a", 1, "50000").await;
    pass(40_000).await;
    let lost = room_node::store::Error::Unavailable { context: "injected".into() };
    rig.store.inject(Method::Append, Fault::Refuse(lost));
    rig.store.inject(Method::Append, Fault::ApplyThenUnknown);
    pass(13_000).await;
    assert_eq!(rig.get("a").await, r#"ok {"value":0,"rang":1}"#);
}

#[tokio::test(start_paused = true)]
async fn a_handler_that_does_nothing_is_asked_less_and_less_often() {
    let rig = Rig::with(|config| config.agent_lease_ms = 100_000_000, 0);
    rig.join("a", 1).await;
    rig.call("add", "a", 1, "667").await;
    rig.call("alarm", "a", 1, "1000").await;
    pass(600_000).await;
    assert!(rig.wakes("timer") <= 1, "{}", rig.wakes("timer"));
    assert_eq!(rig.get("a").await, r#"ok {"value":667,"rang":0}"#);
}

#[tokio::test(start_paused = true)]
async fn a_thousand_poisoned_objects_do_not_delay_the_next_timer() {
    hush_poison();
    let rig = Rig::with(
        |config| {
            config.idle_to_stub_ms = 1_000;
            config.stub_to_cold_ms = 4_000;
            config.agent_lease_ms = 100_000_000;
        },
        0,
    );
    for number in 0..1_000 {
        let name = format!("poisoned-{number}");
        rig.join(&name, 1).await;
        rig.call("add", &name, 1, "666").await;
        rig.call("alarm", &name, 1, "60000").await;
    }
    rig.join("sound", 1).await;
    rig.call("alarm", "sound", 1, "60100").await;
    pass(50_000).await;
    assert_eq!((rig.active(), rig.stubs()), (0, 0), "all cold");
    pass(11_200).await;
    let panics = rig.host.metrics().panics.get();
    assert!(panics >= 1_000, "{panics}");
    assert_eq!(rig.get("sound").await, r#"ok {"value":0,"rang":1}"#);
    // Failing handlers back off: 2, 4, 8 ... seconds, then out of the way.
    pass(30_000).await;
    let later = rig.host.metrics().panics.get();
    assert!(later <= panics + 4_000, "{later}");
    rig.join("next", 1).await;
    rig.call("alarm", "next", 1, "60000").await;
    pass(61_100).await;
    assert_eq!(rig.get("next").await, r#"ok {"value":0,"rang":1}"#);
}

#[tokio::test(start_paused = true)]
async fn a_cold_timer_nobody_told_of_is_found_when_the_scan_looks_again() {
    let rig = Rig::with(
        |config| {
            config.due_scan_ms_max = 45_000;
            config.idle_to_stub_ms = 1_000;
            config.stub_to_cold_ms = 4_000;
            config.agent_lease_ms = 100_000_000;
        },
        0,
    );
    // The first scan finds nothing, and so knows of no time to look again.
    pass(1).await;
    assert_eq!(rig.store.calls(Method::Due), 1);
    rig.join("a", 1).await;
    rig.call("alarm", "a", 1, "20000").await;
    pass(44_900).await;
    assert_eq!((rig.active(), rig.stubs(), rig.store.calls(Method::Due)), (0, 0, 1));
    assert_eq!(rig.wakes("timer"), 0);
    pass(200).await;
    assert_eq!((rig.wakes("timer"), rig.store.calls(Method::Due)), (1, 2));
    assert_eq!(rig.get("a").await, r#"ok {"value":0,"rang":1}"#);
}
