//! Nodes that end: killed, drained, or thought dead.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::load::{Speaker, speaking};
use crate::program::Program;
use crate::server::{FAST, Server};

/// Rooms of a test: enough that every node has some.
const ROOMS: usize = 24;
/// Node lease and heartbeat. A debug build shares its machine with other tests, and a heartbeat that
/// waits for the processor too long is a lost lease.
const LEASE: [&str; 2] = if cfg!(debug_assertions) {
    ["--node-ttl-ms=2000", "--node-heartbeat-ms=400"]
} else {
    ["--node-ttl-ms=1000", "--node-heartbeat-ms=200"]
};
const TTL_MS: u64 = if cfg!(debug_assertions) { 2_000 } else { 1_000 };
/// How long rooms of a killed node may be away: the node lease and a second, and in a debug build the
/// time that scheduling takes.
const AWAY: Duration =
    Duration::from_millis(if cfg!(debug_assertions) { TTL_MS + 4_000 } else { TTL_MS + 1_000 });

async fn cluster() -> (Server, Vec<Speaker>) {
    let server = Server::start(&[&FAST[..], &LEASE].concat());
    let gateways: Vec<_> = server.gateways.iter().map(|gateway| gateway.at).collect();
    let speakers = Speaker::several(&gateways, ROOMS).await;
    (server, speakers)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rooms_of_a_killed_node_answer_again_and_nothing_acknowledged_is_lost() {
    let (server, mut speakers) = cluster().await;
    for speaker in &mut speakers {
        speaker.say().await;
        assert!(speaker.failed.is_empty(), "{:?}", speaker.failed);
    }
    let killed = server.backend().nodes.remove(0);
    killed.kill();
    let insisting = speakers.into_iter().map(|mut speaker| {
        tokio::spawn(async move {
            let took = speaker.insist().await;
            (speaker, took)
        })
    });
    let insisting: Vec<_> = insisting.collect();
    let (mut away, mut moved) = (Duration::ZERO, 0);
    for speaker in insisting {
        let (mut speaker, took) = speaker.await.unwrap();
        speaker.verify().await;
        away = away.max(took);
        moved += usize::from(took > Duration::from_millis(TTL_MS / 2));
    }
    println!("kill -9 of a node: {moved} of {ROOMS} rooms moved, away for {away:.2?} at most");
    assert!(moved > 0, "the killed node had no room: the test shows nothing");
    assert!(away <= AWAY, "{away:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_drained_node_fails_no_call() {
    let (server, speakers) = cluster().await;
    let stop = Arc::new(AtomicBool::new(false));
    let speaking = speaking(speakers, &stop);
    let leaving = server.backend().nodes.remove(0);
    leaving.signal("TERM");
    let ended = tokio::task::spawn_blocking(move || leaving.wait()).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    stop.store(true, Ordering::SeqCst);
    let (mut calls, mut slowest) = (0, Duration::ZERO);
    for speaker in speaking {
        let mut speaker = speaker.await.unwrap();
        assert!(speaker.failed.is_empty(), "{:?}", speaker.failed);
        speaker.verify().await;
        calls += speaker.count();
        slowest = slowest.max(speaker.slowest);
    }
    println!("drain of a node: {calls} calls, 0 failed, the slowest took {slowest:.2?}");
    assert!(calls >= ROOMS, "{calls} calls show nothing");
}

/// A node that stood still for longer than its lease finds that others have taken over: it ends
/// with one line, and whoever watches it starts it again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_that_was_declared_dead_ends_with_one_line() {
    let (server, mut speakers) = cluster().await;
    let stopped: Program = server.backend().nodes.remove(0);
    stopped.signal("STOP");
    for speaker in &mut speakers {
        // Answered for every room only when its end is in the node table.
        speaker.insist().await;
    }
    stopped.signal("CONT");
    let ended = tokio::task::spawn_blocking(move || stopped.wait()).await.unwrap();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.starts_with("roomring-node: the node lease is lost"), "{last}");
    for speaker in &mut speakers {
        speaker.verify().await;
    }
}
