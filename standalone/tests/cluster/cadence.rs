//! The cadence holds over the whole cluster: gateways beside one another give a participant no more
//! waits than one of them.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::json;
use tokio::time::Instant;

use crate::mcp::{Client, Era};
use crate::metrics::{scrape, sum};
use crate::server::Server;

/// One wait in this time, and none saved up.
const PERIOD: Duration = Duration::from_millis(1_000);
const FLAGS: [&str; 4] = [
    "--wait-period-ms=1000",
    "--wait-active-period-ms=1000",
    "--wait-burst=1",
    "--guard-call-per-minute=1000000",
];
/// How long a participant sprays.
const SPRAY: Duration = Duration::from_secs(4);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_handle_sprayed_over_two_gateways_gets_no_more_waits() {
    let server = Server::start(&FLAGS);
    let mut client = Client::new(server.gateways[0].at, Era::Modern);
    let made = client.call("create_room", json!({"name": "Ana"})).await.unwrap().ok();
    let wait = json!({"participantHandle": made["participantHandle"], "cursor": made["cursor"],
        "timeoutSeconds": 0});
    let before = store_calls(server.admin).await;
    let begin = Instant::now();
    // Two connections to each gateway, all at once.
    let sprays = server.gateways.iter().chain(&server.gateways).map(|gateway| {
        let (at, wait) = (gateway.at, wait.clone());
        tokio::spawn(async move { spray(at, wait, begin).await })
    });
    let sprays: Vec<_> = sprays.collect();
    let (mut accepted, mut refused) = (0, 0);
    for spray in sprays {
        let (yes, no) = spray.await.unwrap();
        accepted += yes;
        refused += no;
    }
    let most = 1 + begin.elapsed().as_millis().div_ceil(PERIOD.as_millis());
    println!("spraying over two gateways: {accepted} waits accepted, {refused} refused");
    assert!(u128::from(accepted) <= most, "{accepted} accepted, {most} at most");
    assert!(accepted >= 2 && refused > 10 * accepted, "{accepted} accepted, {refused} refused");
    // None of them reaches Redis or wakes a room: an accepted wait may store a lease.
    let asked = store_calls(server.admin).await - before;
    assert!(asked <= f64::from(accepted), "{asked} calls of Redis for {accepted} accepted waits");
    // Refused waits end at the gateways: the nodes have seen few of them.
    let metrics = scrape(server.admin).await;
    let at_nodes = sum(&metrics, "roomring_waits_refused_total", "tier=\"owner\"");
    assert!(at_nodes <= f64::from(refused) / 2.0, "{at_nodes} of {refused} reached a node");
}

/// What the nodes have asked of Redis for rooms; due times are read by the clock.
async fn store_calls(admin: SocketAddr) -> f64 {
    let (metrics, name) = (scrape(admin).await, "roomring_store_calls_total");
    let all = sum(&metrics, name, "");
    assert!(all > 0.0, "the room was claimed and stored");
    all - sum(&metrics, name, "function=\"scan\"")
}

/// Waits as fast as it can; how many were accepted and refused.
async fn spray(gateway: SocketAddr, wait: serde_json::Value, begin: Instant) -> (u32, u32) {
    let mut client = Client::new(gateway, Era::Modern);
    let (mut accepted, mut refused) = (0, 0);
    while begin.elapsed() < SPRAY {
        let called = client.call("wait_for_events", wait.clone()).await.unwrap();
        if called.refused {
            // Too early, or beside one that is being answered.
            let too_early = ["wait_rate_limited", "wait_already_pending"].contains(&called.code());
            assert!(too_early, "{}", called.value);
            refused += 1;
        } else {
            accepted += 1;
        }
    }
    (accepted, refused)
}
