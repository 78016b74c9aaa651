//! A gateway that goes: clients are sent elsewhere without losing a request (cluster 2.9).

use std::time::Duration;

use gateway::clock;
use gateway::http::Settings;
use tokio::net::TcpStream;

use super::rig::{Ask, Reply, Rig, Script, Wire};

/// Longer than any test: a phase that does not end by itself.
const LONG: Duration = Duration::from_secs(3600);
/// Of the tests in which nothing but the clock ends a phase.
const PRE_STOP: Duration = Duration::from_secs(5);

async fn start(pre_stop: Duration) -> Rig {
    Rig::settings(Settings { pre_stop, ..Settings::default() }).await
}

fn ping() -> Vec<u8> {
    Ask::legacy("ping", "").bytes()
}

/// A connection that has been used and is idle.
async fn idle(rig: &Rig) -> Wire {
    let mut wire = rig.connect().await;
    wire.send(&ping()).await;
    let reply = wire.reply().await;
    assert_eq!((reply.status, reply.header("connection")), (200, None));
    wire
}

/// Answered, and told that it was the last on its connection; then that ends.
async fn is_last(wire: &mut Wire) -> Reply {
    let reply = wire.reply().await;
    assert_eq!(reply.header("connection"), Some("close"), "{}", reply.line());
    assert!(wire.is_closed().await);
    reply
}

#[tokio::test]
async fn a_request_after_the_signal_is_answered_and_ends_its_connection() {
    let rig = start(LONG).await;
    let mut old = idle(&rig).await;
    let unused = rig.connect().await;
    assert!(rig.edge.is_ready());
    rig.shutdown.cancel();
    old.send(&ping()).await;
    assert_eq!(is_last(&mut old).await.status, 200);
    assert!(!rig.edge.is_ready());
    // A balancer that has not looked yet still sends new ones, and asks for health.
    for mut new in [rig.connect().await, unused] {
        new.send(&ping()).await;
        assert_eq!(is_last(&mut new).await.status, 200);
    }
    let mut health = rig.connect().await;
    health.send(b"GET /readyz HTTP/1.1\r\nhost: localhost\r\n\r\n").await;
    assert_eq!(is_last(&mut health).await.status, 503);
    assert!(!rig.server.is_finished());
    rig.server.abort();
}

#[tokio::test(start_paused = true)]
async fn new_connections_end_before_idle_ones_do() {
    let rig = start(PRE_STOP).await;
    let (mut old, mut unused) = (idle(&rig).await, rig.connect().await);
    // Both are accepted.
    while rig.connections().await < 2 {
        tokio::task::yield_now().await;
    }
    let begin = clock::now();
    rig.shutdown.cancel();
    tokio::time::sleep(PRE_STOP + Duration::from_millis(1)).await;
    assert!(TcpStream::connect(rig.at).await.is_err(), "nobody is accepted");
    assert!(!rig.server.is_finished(), "idle connections may bring one more request");
    assert!(unused.is_closed().await && old.is_closed().await);
    assert_eq!((begin.elapsed().as_secs_f64() * 10.0).round(), 100.0);
    assert!(rig.server.await.expect("no panic"), "everything ended by itself");
}

#[tokio::test(start_paused = true)]
async fn nobody_waits_for_connections_that_are_gone() {
    let rig = start(PRE_STOP).await;
    let mut old = idle(&rig).await;
    let begin = clock::now();
    rig.shutdown.cancel();
    old.send(&ping()).await;
    is_last(&mut old).await;
    assert!(rig.server.await.expect("no panic"));
    assert_eq!(begin.elapsed().as_secs(), PRE_STOP.as_secs());
}

/// The system has received a request that this process has not been told of.
#[tokio::test]
async fn what_has_arrived_when_idle_connections_end_is_answered() {
    let rig = start(Duration::ZERO).await;
    let mut wires = Vec::new();
    for _ in 0..50 {
        wires.push(idle(&rig).await);
    }
    for wire in &mut wires {
        wire.send(&ping()).await;
    }
    rig.shutdown.cancel();
    for wire in &mut wires {
        assert_eq!(is_last(wire).await.status, 200);
    }
    assert!(rig.server.await.expect("no panic"));
}

#[tokio::test]
async fn a_head_that_has_begun_when_idle_connections_end_is_answered() {
    let rig = start(Duration::ZERO).await;
    let (mut old, mut new) = (idle(&rig).await, rig.connect().await);
    let request = ping();
    let (begun, rest) = request.split_at(20);
    for wire in [&mut old, &mut new] {
        wire.send(begun).await;
    }
    // The process has seen by now what came before this.
    drop(idle(&rig).await);
    rig.shutdown.cancel();
    while rig.edge.is_ready() {
        tokio::task::yield_now().await;
    }
    for wire in [&mut old, &mut new] {
        wire.send(rest).await;
        assert_eq!(is_last(wire).await.status, 200);
    }
    assert!(rig.server.await.expect("no panic"));
}

/// An answer under way is not cut by the end of idle connections.
#[tokio::test(start_paused = true)]
async fn a_call_that_outlasts_both_phases_is_answered() {
    let rig = start(PRE_STOP).await;
    let mut busy = rig.connect().await;
    busy.send(&Ask::call("write", "{}").bytes()).await;
    Script::take(&rig.script.begun).await;
    rig.shutdown.cancel();
    tokio::time::sleep(PRE_STOP * 2 + Duration::from_millis(1)).await;
    rig.script.gate.add_permits(1);
    assert_eq!(is_last(&mut busy).await.line(), "200 result 7");
    assert!(rig.server.await.expect("no panic"));
}
