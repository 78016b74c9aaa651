//! Load shedding: what is refused, in which order, and what still goes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::future::join_all;
use object::Caller;
use room_node::clock::Clock;
use room_node::config::Config;
use room_node::host::CpuUse;
use room_node::store::memory::{Fault, Hold, Method};

use super::rig::{Rig, pass, text, who};

/// Rooms that make the load.
const CROWD: u64 = 120;

fn patient(config: &mut Config) {
    config.agent_lease_ms = 100_000_000;
    config.absent_ms = 100_000_000;
    // Polls as often as a test likes.
    (config.wait_period_ms, config.wait_active_period_ms) = (1, 1);
}

fn level(rig: &Rig) -> i64 {
    rig.host.metrics().shed_level.get()
}

fn shed(rig: &Rig, kind: &str) -> u64 {
    rig.host.metrics().shed_calls.with_label_values(&[kind]).get()
}

fn name(number: u64) -> String {
    format!("crowd-{number}")
}

async fn crowd(rig: &Rig) {
    for number in 0..CROWD {
        rig.join(&name(number), 1).await;
    }
}

async fn add(rig: &Rig, number: u64) -> String {
    rig.call("add", &name(number), 1, "1").await
}

/// Holds the next append of each room of the crowd.
fn hold(rig: &Rig) -> Hold {
    let hold = Hold::new();
    for _ in 0..CROWD {
        assert!(rig.store.inject(Method::Append, Fault::HoldCall(hold.clone())));
    }
    hold
}

fn release(hold: &Hold) {
    for _ in 0..CROWD {
        hold.release();
    }
}

/// A write of each room, at a store that takes so long for it.
async fn slow_writes(rig: &Rig, ms: u64) -> Vec<String> {
    let gate = hold(rig);
    let open = async {
        pass(ms).await;
        release(&gate);
    };
    tokio::join!(join_all((0..CROWD).map(|number| add(rig, number))), open).0
}

/// Rooms in each state a call can meet.
async fn prepare(rig: &Rig) {
    for room in ["quiet", "news", "sleeper"] {
        rig.join(room, 1).await;
        rig.join(room, 2).await;
    }
    rig.call("add", "news", 1, "1").await;
    pass(30_100).await;
    assert_eq!((rig.active(), rig.stubs()), (0, 3));
    rig.join("busy", 1).await;
    rig.join("busy", 3).await;
}

/// What goes at a level and what does not.
async fn probe(rig: &Rig, level: i64) {
    let told = |ok: bool, answer: String| {
        let code = if answer.starts_with("ok") { "ok" } else { answer.as_str() };
        assert_eq!(code, if ok { "ok" } else { "overloaded" }, "at level {level}");
    };
    told(level < 3, rig.call("add", "busy", 1, "1").await);
    told(level < 2, rig.get("busy").await);
    told(level < 2, rig.call("wait", "busy", 1, "0").await);
    // A stub with nothing new answers at every level; one that would have to be woken does not.
    told(true, rig.call("wait", "quiet", 1, "0").await);
    if level > 0 {
        told(false, rig.call("wait", "news", 2, "0").await);
        told(false, rig.get("sleeper").await);
    }
    // What is known not to be there wakes nothing.
    assert_eq!(rig.get("nowhere").await, "no_counter");
    let unknown = rig.get(&format!("nowhere-{level}-{}", rig.clock.mono().0)).await;
    assert_eq!(unknown, if level == 0 { "no_counter" } else { "overloaded" });
}

#[tokio::test(start_paused = true)]
async fn a_slow_store_costs_wakes_first_then_polls_writes_last() {
    let rig = Rig::with(patient, 0);
    prepare(&rig).await;
    crowd(&rig).await;
    pass(1_000).await;
    rig.call("alarm", "busy", 1, "8000").await;
    let mut reached = Vec::new();
    for _ in 0..16 {
        if reached.last() != Some(&level(&rig)) {
            reached.push(level(&rig));
            probe(&rig, level(&rig)).await;
        }
        if level(&rig) == 3 {
            break;
        }
        slow_writes(&rig, 500).await;
    }
    assert_eq!(reached, [0, 1, 2, 3]);
    // Refused before the mailbox: nothing of it has happened, and it says when to come again.
    let refused = rig.full("add", "busy", 1, "100").await.result.unwrap_err();
    assert_eq!((refused.code, refused.retryable), ("overloaded", true));
    assert_eq!(refused.retry_after_ms, Some(2_000));
    let creation = rig.request("join", "new", Caller::Joining(who(9)), "");
    assert_eq!(text(&rig.host.call(creation).await), "overloaded");
    // Who leaves may.
    assert!(rig.call("leave", "busy", 3, "").await.starts_with("ok"));
    let counted = ["wake", "poll", "write"].map(|kind| shed(&rig, kind));
    assert_eq!(counted, [9, 4, 3]);
    // Each calm second takes a level back.
    let mut levels = Vec::new();
    for _ in 0..5 {
        levels.push(level(&rig));
        pass(1_000).await;
    }
    levels.dedup();
    assert_eq!((levels.as_slice(), level(&rig)), (&[3, 2, 1, 0][..], 0));
    assert_eq!(rig.get("busy").await, r#"ok {"value":3,"rang":1}"#, "timers went on");
    assert!(rig.call("wait", "news", 2, "0").await.starts_with("ok"));
}

#[tokio::test(start_paused = true)]
async fn calls_that_all_wait_long_in_mailboxes_are_a_sign_of_their_own() {
    let rig = Arc::new(Rig::with(
        |config| {
            patient(config);
            config.shed_store_p99_ms = 0;
        },
        0,
    ));
    crowd(&rig).await;
    pass(1_000).await;
    let send = || {
        let one = |number| {
            let rig = Arc::clone(&rig);
            tokio::spawn(async move { add(&rig, number).await })
        };
        (0..CROWD).map(one).collect::<Vec<_>>()
    };
    let mut flying = hold(&rig);
    let mut sent = send();
    pass(1).await;
    let mut levels = vec![level(&rig)];
    for _ in 0..40 {
        // They wait behind an append that takes a quarter of a second.
        let next = hold(&rig);
        sent.extend(send());
        pass(249).await;
        release(&flying);
        flying = next;
        pass(1).await;
        levels.push(level(&rig));
        if level(&rig) == 3 {
            break;
        }
    }
    levels.dedup();
    assert_eq!(levels, [0, 1, 2, 3]);
    release(&flying);
    for call in sent {
        assert!(call.await.unwrap().starts_with("ok"), "what was taken is answered");
    }
    assert_eq!((level(&rig), add(&rig, 0).await.as_str()), (3, "overloaded"));
    assert!(rig.host.drain(5_000).await, "rooms are given up at any level");
    assert_eq!(rig.active(), 0);
}

#[derive(Debug)]
struct Busy {
    clock: Clock,
    percent: AtomicU64,
}

impl Busy {
    fn of(rig: &Rig) -> Arc<Self> {
        let busy = Arc::new(Self { clock: rig.clock, percent: AtomicU64::new(95) });
        rig.host.watch_cpu(Arc::<Self>::clone(&busy));
        busy
    }
}

impl CpuUse for Busy {
    fn used_ms(&self) -> Option<u64> {
        // Two processors.
        Some(self.clock.mono().0 * 2 * self.percent.load(Ordering::Relaxed) / 100)
    }

    fn allowed_ms(&self) -> u64 {
        2_000
    }
}

#[tokio::test(start_paused = true)]
async fn a_busy_processor_costs_polls_and_no_writes() {
    let rig = Rig::with(patient, 0);
    prepare(&rig).await;
    let busy = Busy::of(&rig);
    for expected in [0, 0, 1, 2, 2, 2, 2, 2, 2, 2, 2, 2] {
        pass(1_000).await;
        assert_eq!(level(&rig), expected);
        probe(&rig, level(&rig)).await;
    }
    busy.percent.store(50, Ordering::Relaxed);
    for expected in [1, 0, 0] {
        pass(1_000).await;
        assert_eq!(level(&rig), expected);
    }
    let off = Rig::with(|config| config.shed_cpu_percent = 0, 0);
    Busy::of(&off);
    pass(20_000).await;
    assert_eq!(level(&off), 0, "switched off");
}

/// Polls of active rooms and of rooms to be woken, for longer than leases last.
#[tokio::test(start_paused = true)]
async fn overload_costs_no_agent_its_place() {
    let rig = Rig::new();
    for room in ["busy", "stub"] {
        rig.join(room, 1).await;
        rig.join(room, 2).await;
    }
    rig.call("add", "stub", 1, "1").await;
    pass(31_000).await;
    let _busy = Busy::of(&rig);
    pass(5_000).await;
    assert_eq!((level(&rig), rig.stubs()), (2, 2));
    rig.call("add", "busy", 1, "1").await;
    let mut told = [0, 0];
    let rounds = 30;
    for round in 0..rounds {
        // Who writes keeps its own lease, and the room awake.
        assert!(rig.call("add", "busy", 1, "1").await.starts_with("ok"), "{round}");
        for (at, room) in ["busy", "stub"].into_iter().enumerate() {
            let answer = rig.call("wait", room, 2, "0").await;
            assert!(answer.starts_with("ok") || answer == "overloaded", "{room} {round} {answer}");
            told[at] += u32::from(answer.starts_with("ok"));
        }
        pass(10_000).await;
    }
    // About every third of those of the active room.
    assert!((9..=15).contains(&told[0]) && (4..rounds).contains(&told[1]), "{told:?}");
    for room in ["busy", "stub"] {
        assert!(rig.call("add", room, 2, "1").await.starts_with("ok"), "{room}: still a member");
    }
}

#[tokio::test(start_paused = true)]
async fn neither_light_load_nor_a_silent_store_is_overload() {
    let rig = Rig::with(|config| config.agent_lease_ms = 100_000_000, 0);
    crowd(&rig).await;
    for _ in 0..50 {
        let answers = join_all((0..CROWD).map(|number| add(&rig, number))).await;
        assert!(answers.iter().all(|answer| answer.starts_with("ok")));
        pass(100).await;
        assert_eq!(level(&rig), 0, "many calls, fast");
    }
    for _ in 0..5 {
        let gate = Hold::new();
        rig.store.inject(Method::Append, Fault::HoldCall(gate.clone()));
        let open = async {
            pass(1_000).await;
            gate.release();
        };
        let (answer, ()) = tokio::join!(add(&rig, 0), open);
        assert!(answer.starts_with("ok"));
        assert_eq!(level(&rig), 0, "few calls, slow");
    }
    let answers = slow_writes(&rig, 10_000).await;
    assert!(answers.iter().all(|answer| answer.starts_with("ok")), "an outage is waited for");
    for _ in 0..5 {
        assert_eq!(level(&rig), 0);
        pass(1_000).await;
    }
    assert_eq!(["wake", "poll", "write"].map(|kind| shed(&rig, kind)), [0, 0, 0]);
}
