//! A node that stands still: its streams are open and it answers no call.

use std::sync::atomic::AtomicBool;

use super::*;

/// Node A says nothing while the switch is on.
async fn stopped() -> (Cluster, Arc<AtomicBool>) {
    let switch = Arc::new(AtomicBool::new(true));
    let of_script = Arc::clone(&switch);
    let cluster = Cluster::start(move |address| {
        let switch = Arc::clone(&of_script);
        move |_: &v1::Call| {
            if address == A && switch.load(Ordering::Relaxed) {
                Act::Silence
            } else {
                success("{}")
            }
        }
    })
    .await;
    (cluster, switch)
}

/// Three calls that nobody answers, a little apart.
async fn wait_in_vain(cluster: &Cluster) {
    let mut calls = Vec::new();
    for _ in 0..3 {
        calls.push(cluster.begin(to(&cluster.room(A))));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    for call in calls {
        assert_eq!(call.await.unwrap(), "outcome_unknown");
    }
}

fn marks(cluster: &Cluster) -> Vec<(String, bool)> {
    cluster.marks.lock().unwrap().clone()
}

fn mark(suspect: bool) -> (String, bool) {
    ("a".to_owned(), suspect)
}

#[tokio::test(start_paused = true)]
async fn calls_to_a_silent_node_fail_fast_and_waits_wait_for_the_view() {
    let (cluster, _switch) = stopped().await;
    wait_in_vain(&cluster).await;
    assert_eq!(marks(&cluster), [mark(true)]);
    let room = cluster.room(A);
    let begun = clock::now();
    assert_eq!(cluster.ask(&room).await, "room_unavailable");
    assert_eq!(begun.elapsed(), Duration::from_secs(1), "not ten");
    assert_eq!(cluster.seen(A).len(), 3, "and nothing was sent");
    assert_eq!(cluster.ask(&cluster.room(B)).await, "success");
    // A wait has time: it is parked again wherever the room arrives.
    let held = cluster.begin(Request { wait: true, harmless: true, ..to(&room) });
    cluster.settle().await;
    assert_eq!((cluster.metrics.held.get(), cluster.seen(A).len()), (1, 3));
    cluster.show(2, actives(&[B, C]));
    assert_eq!(held.await.unwrap(), "success");
    assert_eq!((cluster.metrics.held.get(), cluster.seen(A).len()), (0, 3));
}

#[tokio::test(start_paused = true)]
async fn a_silent_node_is_probed_and_its_first_answer_ends_the_suspicion() {
    let (cluster, switch) = stopped().await;
    wait_in_vain(&cluster).await;
    let room = cluster.room(A);
    // The first call after two seconds goes, and hangs; those beside it do not.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let probe = cluster.begin(to(&room));
    cluster.settle().await;
    assert_eq!((cluster.seen(A).len(), cluster.ask(&room).await.as_str()), (4, "room_unavailable"));
    assert_eq!(marks(&cluster), [mark(true), mark(true)]);
    switch.store(false, Ordering::Relaxed);
    // Held calls go as soon as another probe has been answered.
    tokio::time::sleep(Duration::from_millis(500)).await;
    let held = cluster.begin(to(&room));
    cluster.settle().await;
    assert_eq!((cluster.metrics.held.get(), cluster.seen(A).len()), (1, 4));
    tokio::time::sleep(Duration::from_millis(600)).await;
    let begun = clock::now();
    assert_eq!(cluster.ask(&room).await, "success");
    assert_eq!(held.await.unwrap(), "success");
    assert_eq!(begun.elapsed(), Duration::ZERO);
    assert_eq!(marks(&cluster).last(), Some(&mark(false)));
    assert_eq!(cluster.ask(&room).await, "success");
    probe.abort();
}

#[tokio::test(start_paused = true)]
async fn calls_without_time_and_ended_streams_say_nothing_of_a_node() {
    let (cluster, switch) = stopped().await;
    let room = cluster.room(A);
    for _ in 0..5 {
        let deadline = clock::now() + Duration::from_millis(900);
        let hasty = Request { deadline, ..to(&room) };
        assert_eq!(code(cluster.routes.call(&hasty).await), "outcome_unknown");
    }
    for _ in 0..5 {
        let call = cluster.begin(Request { repeatable: false, ..to(&room) });
        cluster.settle().await;
        cluster.nodes[A].phase.send_replace(Phase::Down);
        assert_eq!(call.await.unwrap(), "outcome_unknown");
        cluster.nodes[A].phase.send_replace(Phase::Up);
        while cluster.metrics.links_open.get() < 3 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }
    switch.store(false, Ordering::Relaxed);
    assert_eq!(cluster.ask(&room).await, "success");
    assert_eq!(marks(&cluster), []);
}
