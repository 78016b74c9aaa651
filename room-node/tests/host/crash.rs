//! Appends that fail, get lost, meet another fence; code that panics; bytes that are damaged.

use futures_util::future::join_all;
use room_node::store::Error;
use room_node::store::memory::{Fault, Method};

use super::rig::{Rig, id, pass};

fn unknown() -> Error {
    Error::Unknown { context: "injected".into() }
}

fn unreachable_store() -> Error {
    Error::Unavailable { context: "injected".into() }
}

#[tokio::test(start_paused = true)]
async fn every_end_of_an_append_leaves_the_truth_of_the_store() {
    let refuse = Fault::Refuse;
    // Faults of the append, faults of the refence, the answer of `add 5`, the value afterwards.
    let rows = [
        ("refused", vec![refuse(unreachable_store())], vec![], "room_unavailable", 1),
        ("fenced", vec![refuse(Error::Fenced)], vec![], "room_unavailable", 1),
        ("full", vec![refuse(Error::Full { what: "disk" })], vec![], "room_unavailable", 1),
        ("landed, answer lost", vec![Fault::ApplyThenUnknown], vec![], r#"ok {"value":6}"#, 6),
        ("lost", vec![refuse(unknown())], vec![], r#"ok {"value":6}"#, 6),
        (
            "lost, then landed with its answer lost",
            vec![refuse(unknown()), Fault::ApplyThenUnknown],
            vec![],
            r#"ok {"value":6}"#,
            6,
        ),
        ("lost twice", vec![refuse(unknown()), refuse(unknown())], vec![], "room_unavailable", 1),
        (
            "landed, refence unsure twice",
            vec![Fault::ApplyThenUnknown],
            vec![Fault::ApplyThenUnknown, refuse(unreachable_store())],
            r#"ok {"value":6}"#,
            6,
        ),
        (
            "landed, but the fence is lost",
            vec![Fault::ApplyThenUnknown],
            vec![refuse(Error::Fenced)],
            "outcome_unknown",
            6,
        ),
        (
            "landed, unresolved for two seconds",
            vec![Fault::ApplyThenUnknown],
            vec![refuse(unreachable_store()); 100],
            "outcome_unknown",
            6,
        ),
    ];
    for (name, appends, refences, answer, value) in rows {
        let rig = Rig::new();
        rig.join("a", 1).await;
        assert_eq!(rig.call("add", "a", 1, "1").await, r#"ok {"value":1}"#);
        for fault in appends {
            rig.store.inject(Method::Append, fault);
        }
        for fault in refences {
            rig.store.inject(Method::Refence, fault);
        }
        assert_eq!(rig.call("add", "a", 1, "5").await, answer, "{name}");
        assert_eq!(rig.get("a").await, format!(r#"ok {{"value":{value},"rang":0}}"#), "{name}");
        let restarted = rig.restart().get("a").await;
        assert_eq!(restarted, format!(r#"ok {{"value":{value},"rang":0}}"#), "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_is_tried_again_and_given_up_in_time() {
    let rig = Rig::new();
    rig.store.inject(Method::Claim, Fault::ApplyThenUnknown);
    rig.store.inject(Method::Claim, Fault::Refuse(unreachable_store()));
    rig.join("a", 1).await;
    for _ in 0..100 {
        rig.store.inject(Method::Claim, Fault::Refuse(unreachable_store()));
    }
    assert_eq!(rig.get("b").await, "room_unavailable");
}

#[tokio::test(start_paused = true)]
async fn a_panic_ends_one_activation_and_three_set_the_object_aside() {
    let rig = Rig::new();
    rig.join("a", 1).await;
    rig.join("b", 1).await;
    // The neighbours in its batch are decided again and answered.
    let (boom, added) = tokio::join!(rig.call("boom", "a", 1, ""), rig.call("add", "a", 1, "2"));
    assert_eq!((boom.as_str(), added.as_str()), ("internal_error", r#"ok {"value":2}"#));
    for _ in 0..2 {
        assert_eq!(rig.call("boom", "a", 1, "").await, "internal_error");
    }
    assert_eq!(rig.get("a").await, "room_unavailable");
    assert_eq!(rig.get("b").await, r#"ok {"value":0,"rang":0}"#);
    assert_eq!(rig.host.metrics().panics.get(), 3);
    assert_eq!(rig.host.metrics().troubled.get(), 1);
    pass(60_000).await;
    assert_eq!(rig.get("a").await, r#"ok {"value":2,"rang":0}"#);
}

#[tokio::test(start_paused = true)]
async fn a_damaged_object_is_set_aside_and_never_started_empty() {
    let rig = Rig::new();
    rig.join("a", 1).await;
    let rig = rig.restart();
    rig.store.damage(&id("a"));
    assert_eq!(rig.get("a").await, "room_unavailable");
    pass(120_000).await;
    rig.join("b", 1).await;
    assert_eq!(rig.call("join", "a", 1, "").await, "room_unavailable");
    assert_eq!(rig.host.metrics().quarantines.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn trouble_is_remembered_within_its_bound() {
    let rig = Rig::with(|config| config.troubled_max = 1, 0);
    for object in 0..200 {
        let name = object.to_string();
        rig.join(&name, 1).await;
        assert_eq!(rig.call("boom", &name, 1, "").await, "internal_error");
    }
    // One record for each of the 64 shards at most.
    assert!(rig.host.metrics().troubled.get() <= 64);
}

#[tokio::test(start_paused = true)]
async fn a_log_is_snapshot_by_frames_or_bytes_and_read_back_from_it() {
    // An event of the counter is 17 bytes.
    for (frames, bytes) in [(4, 1_000_000), (1_000, 4 * 17)] {
        let rig = Rig::with(
            |config| (config.snapshot_frames, config.snapshot_bytes) = (frames, bytes),
            0,
        );
        rig.join("a", 1).await;
        for _ in 0..9 {
            rig.call("add", "a", 1, "1").await;
        }
        assert_eq!(rig.host.metrics().snapshots.get(), 2);
        assert_eq!(rig.store.frames(&id("a")).unwrap().len(), 2);
        assert_eq!(rig.restart().get("a").await, r#"ok {"value":9,"rang":0}"#);
    }
}

#[tokio::test(start_paused = true)]
async fn a_seed_of_faults_never_counts_an_answered_addition_twice_or_not_at_all() {
    for seed in 0..20 {
        let mut random = fastrand::Rng::with_seed(seed);
        let rig = Rig::with(|config| config.snapshot_frames = 8, 0);
        rig.join("a", 1).await;
        let (mut sure, mut unsure) = (0, 0);
        for _ in 0..40 {
            if random.u8(..) < 60 {
                let fault = match random.u8(0..3) {
                    0 => Fault::ApplyThenUnknown,
                    1 => Fault::Refuse(unknown()),
                    _ => Fault::Refuse(unreachable_store()),
                };
                let methods = [Method::Append, Method::Refence, Method::Claim, Method::Snapshot];
                rig.store.inject(methods[random.usize(0..methods.len())], fault);
            }
            for answer in join_all((0..3).map(|_| rig.call("add", "a", 1, "1"))).await {
                match answer.as_str() {
                    "room_unavailable" => {}
                    "outcome_unknown" => unsure += 1,
                    ok => {
                        assert!(ok.starts_with("ok"), "{ok}");
                        sure += 1;
                    }
                }
            }
        }
        let text = rig.restart().get("a").await;
        let value: u64 = text
            .trim_start_matches(r#"ok {"value":"#)
            .trim_end_matches(r#","rang":0}"#)
            .parse()
            .unwrap();
        assert!((sure..=sure + unsure).contains(&value), "seed {seed}: {value} of {sure}");
    }
}
