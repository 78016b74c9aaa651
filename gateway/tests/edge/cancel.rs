//! A client that goes away, and a server that does (mcp.md 1.1 cancellation; drain).

use std::time::Duration;

use gateway::http::Settings;
use tokio::net::TcpStream;

use crate::rig::{Ask, Rig, Script};

#[tokio::test]
async fn a_wait_ends_with_its_caller() {
    let rig = Rig::start().await;
    let mut wire = rig.connect().await;
    wire.send(&Ask::call("hold", "{}").bytes()).await;
    Script::take(&rig.script.begun).await;
    drop(wire);
    Script::take(&rig.script.dropped).await;
    assert_eq!(rig.edge.stats().detached(), 0);
}

#[tokio::test]
async fn a_change_goes_on_without_its_caller() {
    let rig = Rig::start().await;
    let mut wire = rig.connect().await;
    wire.send(&Ask::call("write", "{}").bytes()).await;
    Script::take(&rig.script.begun).await;
    drop(wire);
    // Nothing tells when the server has seen the end of the connection but this: its place is free.
    while rig.edge.gauges().connections > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.edge.gauges().inflight, 1, "the change is still counted");
    rig.script.gate.add_permits(1);
    Script::take(&rig.script.ended).await;
    while rig.edge.gauges().inflight > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.edge.stats().detached(), 1);
    assert_eq!(rig.script.dropped.available_permits(), 0);
}

#[tokio::test]
async fn a_drain_finishes_what_is_in_flight() {
    let rig = Rig::start().await;
    let mut idle = rig.connect().await;
    idle.send(&Ask::legacy("ping", "").bytes()).await;
    assert_eq!(idle.reply().await.status, 200);
    let mut busy = rig.connect().await;
    busy.send(&Ask::call("write", "{}").bytes()).await;
    Script::take(&rig.script.begun).await;
    assert!(rig.edge.is_ready());
    rig.shutdown.cancel();
    assert!(idle.is_closed().await, "an idle connection ends at once");
    assert!(!rig.edge.is_ready());
    assert!(TcpStream::connect(rig.at).await.is_err(), "nobody is accepted");
    rig.script.gate.add_permits(1);
    let reply = busy.reply().await;
    assert_eq!(reply.line(), "200 result 7");
    assert_eq!(reply.header("connection"), Some("close"));
    assert!(busy.is_closed().await);
    assert!(rig.server.await.expect("no panic"), "everything ended by itself");
}

#[tokio::test]
async fn a_drain_waits_for_detached_changes() {
    let rig = Rig::start().await;
    let mut wire = rig.connect().await;
    wire.send(&Ask::call("write", "{}").bytes()).await;
    Script::take(&rig.script.begun).await;
    drop(wire);
    rig.shutdown.cancel();
    while rig.edge.gauges().connections > 0 {
        tokio::task::yield_now().await;
    }
    assert!(!rig.server.is_finished());
    rig.script.gate.add_permits(1);
    assert!(rig.server.await.expect("no panic"));
}

#[tokio::test]
async fn a_drain_ends_in_time() {
    let settings = Settings { drain_max: Duration::from_millis(20), ..Settings::default() };
    let rig = Rig::with(settings).await;
    let mut wire = rig.connect().await;
    wire.send(&Ask::call("hold", "{}").bytes()).await;
    Script::take(&rig.script.begun).await;
    rig.shutdown.cancel();
    assert!(!rig.server.await.expect("no panic"), "it was cut");
    assert!(wire.is_closed().await);
    Script::take(&rig.script.dropped).await;
}
