//! A primary with replicas under sentinels.

use redis_link::redis::Value;
use redis_link::rig::Sentinel;
use redis_link::{Durability, OpenError};

use crate::{REPLICATED, Tally, add, adder, metric, open, settings, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_is_followed() {
    let mut set = Sentinel::start(&REPLICATED).unwrap();
    let (link, registry) = open(settings(&set.url(), Durability::D3)).await.unwrap();
    assert_eq!(link.call(add("{a}x", 1)).await, Ok(Value::Int(1)));
    let changes = link.changes();
    let before = *changes.borrow();
    let stop = tokio::sync::watch::Sender::new(false);
    let adders: Vec<_> =
        (0..8).map(|n| adder(&link, format!("{{k{n}}}"), stop.subscribe())).collect();
    let acknowledged = || metric(&registry, "roomring_redis_calls_total{result=\"ok\"}");
    until("additions go on", async || acknowledged() > 200).await;
    let old = set.kill_primary().unwrap();
    until("another primary is elected", async || {
        set.primary_index().is_ok_and(|index| index != old && set.servers[index].is_primary())
    })
    .await;
    let at = acknowledged();
    until("additions go on there", async || acknowledged() > at + 200).await;
    assert!(link.is_open() && *changes.borrow() > before);
    assert!(metric(&registry, "roomring_redis_primary_changes_total") >= 2);
    // The old one comes back, is demoted by the sentinels, and nobody is led astray.
    set.servers[old].run().unwrap();
    until("the old primary is a replica", async || !set.servers[old].is_primary()).await;
    stop.send_replace(true);
    let mut all = Tally::default();
    for (n, adder) in adders.into_iter().enumerate() {
        let tally = adder.await.unwrap();
        tally.check(&link, &format!("{{k{n}}}")).await;
        (all.added, all.unknown) = (all.added + tally.added, all.unknown + tally.unknown);
    }
    assert!(all.added > 400, "{all:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_hangs_is_left_and_nobody_returns_to_it_when_it_wakes() {
    let set = Sentinel::start(&REPLICATED).unwrap();
    let mut settings = settings(&set.url(), Durability::D3);
    settings.response_ms = 600;
    let (link, registry) = open(settings).await.unwrap();
    let stop = tokio::sync::watch::Sender::new(false);
    let adders: Vec<_> =
        (0..8).map(|n| adder(&link, format!("{{k{n}}}"), stop.subscribe())).collect();
    let acknowledged = || metric(&registry, "roomring_redis_calls_total{result=\"ok\"}");
    until("additions go on", async || acknowledged() > 200).await;
    let old = set.primary_index().unwrap();
    set.servers[old].pause().unwrap();
    until("another primary is elected", async || {
        set.primary_index().is_ok_and(|index| index != old && set.servers[index].is_primary())
    })
    .await;
    let at = acknowledged();
    until("additions go on there", async || acknowledged() > at + 100).await;
    // It wakes as a primary, with commands in its buffers, until the sentinels demote it.
    set.servers[old].resume().unwrap();
    let at = acknowledged();
    until("the old primary is a replica", async || !set.servers[old].is_primary()).await;
    until("additions still go on", async || acknowledged() > at + 100).await;
    stop.send_replace(true);
    let mut unknown = 0;
    for (n, adder) in adders.into_iter().enumerate() {
        let tally = adder.await.unwrap();
        tally.check(&link, &format!("{{k{n}}}")).await;
        unknown += tally.unknown;
    }
    assert!(unknown > 0, "no call was in flight when it hung");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_primary_that_is_demoted_with_its_sockets_open_is_left() {
    let mut set = Sentinel::start(&REPLICATED).unwrap();
    let (link, registry) = open(settings(&set.url(), Durability::D3)).await.unwrap();
    link.call(add("{a}x", 1)).await.unwrap();
    let old = set.primary_index().unwrap();
    set.fail_over().unwrap();
    until("another primary is elected", async || {
        set.primary_index().is_ok_and(|index| index != old && set.servers[index].is_primary())
    })
    .await;
    until("the old primary is a replica", async || !set.servers[old].is_primary()).await;
    assert_eq!(link.call(add("{a}x", 1)).await, Ok(Value::Int(2)));
    assert_eq!(metric(&registry, "roomring_redis_primary_changes_total"), 2);
    // Without sentinels the primary is still there, and still watched.
    set.kill_sentinels();
    let now = set.servers.iter().position(|server| server.is_primary()).unwrap();
    until("another look was taken", async || link.is_open()).await;
    assert_eq!(link.call(add("{a}x", 1)).await, Ok(Value::Int(3)));
    set.servers[now].pause().unwrap();
    until("it was seen to hang", async || !link.is_open()).await;
    set.servers[now].resume().unwrap();
    until("it is back", async || link.is_open()).await;
    assert_eq!(link.call(add("{a}x", 1)).await, Ok(Value::Int(4)));
}

#[tokio::test]
async fn replicas_that_may_be_promoted_need_their_settings_at_every_level() {
    let set = Sentinel::start(&["--appendonly", "yes"]).unwrap();
    let refused = open(settings(&set.url(), Durability::D1)).await.unwrap_err();
    let OpenError::Setting { setting, .. } = &refused else { panic!("{refused}") };
    assert_eq!(*setting, "min-replicas-to-write");
    let unknown = set.url().replace("rooms", "others");
    let refused = open(settings(&unknown, Durability::D0)).await.unwrap_err();
    assert!(matches!(refused, OpenError::NoPrimary { .. }), "{refused}");
}
