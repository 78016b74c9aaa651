//! Activation, batching, gate, deadlines.

use futures_util::future::{FutureExt as _, join_all};
use object::Caller;
use room_node::store::Store as _;
use room_node::store::memory::{Fault, Hold, Method};

use super::rig::{Rig, id, pass, who};

#[tokio::test(start_paused = true)]
async fn a_counter_is_created_changed_read_and_found_again_after_a_restart() {
    let rig = Rig::new();
    assert_eq!(rig.get("a").await, "no_counter");
    assert_eq!(rig.call("add", "a", 1, "1").await, "no_counter");
    rig.join("a", 1).await;
    assert_eq!(rig.call("add", "a", 1, "2").await, r#"ok {"value":2}"#);
    assert_eq!(rig.call("add", "a", 2, "2").await, "not_a_member");
    let again = rig.restart();
    assert_eq!(again.get("a").await, r#"ok {"value":2,"rang":0}"#);
    assert_eq!(again.wakes("call"), 1);
}

#[tokio::test(start_paused = true)]
async fn must_create_meets_an_existing_object_once() {
    let rig = Rig::new();
    let create = || rig.request("create", "a", Caller::Joining(who(1)), "");
    assert_eq!(super::rig::text(&rig.host.call(create()).await), r#"ok {"value":0}"#);
    assert_eq!(super::rig::text(&rig.host.call(create()).await), "counter_exists");
}

#[tokio::test(start_paused = true)]
async fn a_thousand_first_calls_make_one_claim() {
    let rig = Rig::with(|config| config.mailbox_calls_max = 1_000, 0);
    let calls = (0..1_000).map(|by| rig.join("a", by));
    join_all(calls).await;
    assert_eq!(rig.store.calls(Method::Claim), 1);
    assert_eq!(rig.active(), 1);
}

#[tokio::test(start_paused = true)]
async fn calls_gather_while_an_append_flies_and_share_the_next() {
    let rig = Rig::new();
    rig.join("a", 1).await;
    let before = rig.store.calls(Method::Append);
    let hold = Hold::new();
    rig.store.inject(Method::Append, Fault::HoldCall(hold.clone()));
    let calls = join_all((0..51).map(|_| rig.call("add", "a", 1, "1")));
    let open = async {
        hold.reached().await;
        pass(5).await;
        hold.release();
    };
    let (answers, ()) = tokio::join!(calls, open);
    assert!(answers.iter().all(|answer| answer.starts_with("ok")), "{answers:?}");
    let appends = rig.store.calls(Method::Append) - before;
    assert!(appends <= 2, "{appends}");
    assert_eq!(rig.get("a").await, r#"ok {"value":51,"rang":0}"#);
}

#[tokio::test(start_paused = true)]
async fn nothing_leaves_before_the_commit_reads_included() {
    let rig = Rig::new();
    rig.join("a", 1).await;
    let hold = Hold::new();
    rig.store.inject(Method::Append, Fault::HoldAnswer(hold.clone()));
    let mut add = Box::pin(rig.call("add", "a", 1, "7"));
    let mut read = Box::pin(rig.get("a"));
    for _ in 0..3 {
        assert!((&mut add).now_or_never().is_none());
        assert!((&mut read).now_or_never().is_none());
        pass(1).await;
    }
    hold.release();
    assert_eq!(add.await, r#"ok {"value":7}"#);
    assert_eq!(read.await, r#"ok {"value":7,"rang":0}"#);
}

#[tokio::test(start_paused = true)]
async fn a_batch_ends_at_its_bounds() {
    for (events_max, bytes_max, bound) in
        [(4, 256 * 1024, "batch_events_max"), (64, 4 * 17, "batch_bytes_max")]
    {
        let rig = Rig::with(
            |config| {
                config.batch_events_max = events_max;
                config.batch_bytes_max = bytes_max;
            },
            0,
        );
        rig.join("a", 1).await;
        let hold = Hold::new();
        rig.store.inject(Method::Append, Fault::HoldCall(hold.clone()));
        let calls = join_all((0..12).map(|_| rig.call("add", "a", 1, "1")));
        let open = async {
            hold.reached().await;
            hold.release();
        };
        tokio::join!(calls, open);
        let frames = rig.store.frames(&id("a")).unwrap();
        assert!(frames.iter().all(|frame| frame.records.len() <= 4), "{events_max}");
        assert_eq!(frames.last().unwrap().last_lsn(), 13);
        let full = |bound| rig.host.metrics().batches_full.with_label_values(&[bound]).get();
        let all = full("batch_events_max") + full("batch_bytes_max");
        assert!(full(bound) >= 2 && full(bound) == all, "{bound}: {all}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_full_mailbox_refuses_and_a_full_node_too() {
    let rig = Rig::with(
        |config| {
            config.mailbox_calls_max = 4;
            config.objects_active_max = 1;
        },
        0,
    );
    rig.join("a", 1).await;
    let hold = Hold::new();
    rig.store.inject(Method::Append, Fault::HoldCall(hold.clone()));
    let mut first = Box::pin(rig.call("add", "a", 1, "1"));
    assert!((&mut first).now_or_never().is_none());
    hold.reached().await;
    let calls = join_all((0..5).map(|_| rig.call("add", "a", 1, "1")));
    let open = async {
        pass(1).await;
        assert_eq!(rig.host.metrics().mailbox_calls.get(), 4);
        hold.release();
    };
    let (answers, ()) = tokio::join!(calls, open);
    assert_eq!(answers.iter().filter(|answer| *answer == "overloaded").count(), 1);
    assert_eq!(rig.bound_hit("mailbox_calls_max"), 1);
    assert_eq!(first.await, r#"ok {"value":1}"#);
    assert_eq!(rig.call("add", "b", 1, "1").await, "overloaded");
    assert_eq!(rig.bound_hit("objects_active_max"), 1);
    assert_eq!(rig.host.metrics().mailbox_calls.get(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_deadline_ends_a_call_that_the_store_delays() {
    let rig = Rig::new();
    rig.join("a", 1).await;
    let hold = Hold::new();
    rig.store.inject(Method::Append, Fault::HoldCall(hold.clone()));
    let mut request = rig.request("add", "a", Caller::Participant(who(1)), "1");
    request.deadline = rig.clock.mono().plus(250);
    assert_eq!(super::rig::text(&rig.host.call(request).await), "deadline_exceeded");
    hold.release();
    assert_eq!(rig.get("a").await, r#"ok {"value":1,"rang":0}"#);
}

#[tokio::test(start_paused = true)]
async fn an_object_ends_by_its_append_and_a_new_generation_is_fresh() {
    let rig = Rig::new();
    rig.join("a", 1).await;
    let all = tokio::join!(
        rig.call("add", "a", 1, "5"),
        rig.call("end", "a", 1, ""),
        rig.call("add", "a", 1, "5"),
    );
    assert_eq!(all.0, r#"ok {"value":5}"#);
    assert!(all.1.starts_with("ok"), "{}", all.1);
    assert_eq!(all.2, "no_counter");
    assert_eq!(rig.store.frames(&id("a")), None);
    rig.join("a", 2).await;
    assert_eq!(rig.get("a").await, r#"ok {"value":0,"rang":0}"#);
}

#[tokio::test(start_paused = true)]
async fn a_creation_that_stores_nothing_leaves_no_trace() {
    let rig = Rig::new();
    let request = rig.request("join", "a", Caller::Anonymous, "");
    assert!(rig.host.call(request).await.result.is_ok());
    pass(10).await;
    assert_eq!(rig.active(), 0);
    assert_eq!(rig.get("a").await, "no_counter");
    let (entries, next) = rig.store.due(super::rig::START.plus(1_000_000), None, 10).await.unwrap();
    assert!(entries.is_empty() && next.is_none());
}

#[tokio::test(start_paused = true)]
async fn blobs_are_stored_first_kept_by_the_append_and_read_after_it() {
    let rig = Rig::new();
    rig.join("a", 1).await;
    let mut request = rig.request("keep", "a", Caller::Participant(who(1)), "");
    request.blob = Some("bytes".into());
    let answer = rig.host.call(request.clone()).await.result.unwrap();
    assert_eq!(answer.blob.unwrap(), "bytes");
    // A blob that is gone before its append refuses its own call and no other.
    let missing = room_node::store::Error::Unknown { context: "lost".into() };
    rig.store.inject(Method::PutBlob, Fault::Refuse(missing));
    let (lost, added) = tokio::join!(rig.host.call(request), rig.call("add", "a", 1, "3"));
    assert_eq!(super::rig::text(&lost), "room_unavailable");
    assert_eq!(added, r#"ok {"value":3}"#);
}

#[tokio::test(start_paused = true)]
async fn a_drain_gives_everything_up_and_takes_nothing_new() {
    let rig = Rig::new();
    for name in ["a", "b", "c"] {
        rig.join(name, 1).await;
    }
    assert!(rig.host.drain(1_000).await);
    assert_eq!((rig.active(), rig.store.fence(&id("a"))), (0, None));
    assert_eq!(rig.get("a").await, "room_unavailable");
}
