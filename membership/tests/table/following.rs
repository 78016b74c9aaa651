//! Gateways and many members: views come in order, and stay while Redis is away.

use std::sync::Arc;

use membership::{Incarnation, Membership, State, Terms};
use prometheus::{Encoder as _, Registry, TextEncoder};
use redis_link::rig::Server;

use crate::{command, join, link, settings, soon, until, watch};

#[tokio::test]
async fn a_gateway_keeps_the_last_view_while_redis_is_down() {
    let mut server = Server::start(&["--appendonly", "yes"]).unwrap();
    let link = link(&server).await;
    let node = join(&link, "a", 1).await;
    let gateway = watch(&link, 50).await;
    let before = gateway.now();
    assert_eq!(before.view.members.len(), 1, "one poll is made before it opens");
    server.kill();
    until("the node has fenced itself", || !node.is_leased()).await;
    assert_eq!(gateway.now().view.number, before.view.number);
    assert_eq!(gateway.now().table.digest(), before.table.digest());
    server.run().unwrap();
    until("the node goes on", || node.is_leased()).await;
    until("the gateway goes on", || gateway.now().view.number > before.view.number).await;
    assert_eq!(gateway.now().view.members.len(), 1);
    assert!(!gateway.is_suspect(node.me()));
}

/// Who computes another table from the same view would ask the wrong nodes.
#[tokio::test]
async fn nobody_is_in_the_view_of_a_gateway_that_places_in_another_way() {
    let server = Server::start(&[]).unwrap();
    let link = link(&server).await;
    let node = join(&link, "a", 1).await;
    let gateway = watch(&link, 50).await;
    let number = gateway.now().view.number;
    assert!(number > 0);
    command(&link, &["HSET", "{nodes:local}v", "p", "2"]).await;
    until("nobody is there", || gateway.now().view.number == 0).await;
    assert_eq!(gateway.now().view.members.len(), 0);
    let late = watch(&link, 50).await;
    assert_eq!(late.now().view.number, 0, "one that starts is told, too");
    command(&link, &["HSET", "{nodes:local}v", "p", "1"]).await;
    for gateway in [&gateway, &late] {
        until("the node is there again", || gateway.now().view.members.len() == 1).await;
    }
    assert!(gateway.now().view.number >= number && node.is_leased());
}

#[tokio::test]
async fn a_later_view_is_asked_for_at_once_but_not_by_everybody() {
    let server = Server::start(&[]).unwrap();
    let link = link(&server).await;
    let registry = Registry::new();
    let gateway = {
        let mut watching = membership::Watching::new("local");
        watching.poll_ms = 600_000;
        membership::Watcher::open(Arc::clone(&link), &watching, &registry).await.unwrap()
    };
    let node = join(&link, "a", 1).await;
    let number = node.now().view.number;
    assert!(gateway.now().view.number < number);
    for _ in 0..1_000 {
        gateway.refresh(number);
    }
    until("it has the view", || gateway.now().view.number == number).await;
    gateway.refresh(number);
    let polls = shown(&registry, "roomring_membership_heartbeats_total{result=\"ok\"}");
    assert!((2.0..=3.0).contains(&polls), "{polls} polls");
    gateway.suspect(node.me());
    assert!(gateway.is_suspect(node.me()) && node.is_leased(), "suspicion shortens no lease");
    gateway.clear(node.me());
    assert!(!gateway.is_suspect(node.me()));
}

#[tokio::test]
async fn views_only_rise_while_eight_members_come_and_go() {
    let server = Server::start(&[]).unwrap();
    let link = link(&server).await;
    let gateway = watch(&link, 5).await;
    let mut views = gateway.subscribe();
    let follower = tokio::spawn(async move {
        let mut numbers = vec![views.borrow_and_update().view.number];
        while views.changed().await.is_ok() {
            numbers.push(views.borrow_and_update().view.number);
        }
        numbers
    });
    let lives = (0..8).map(|i| {
        let link = Arc::clone(&link);
        tokio::spawn(async move {
            let mut last = 0;
            for boot in 1..=5 {
                // Nine tables a change, in one thread: a lease that no busy machine outlives.
                let mut settings = settings(&format!("n{i}"), boot);
                settings.terms = Terms::new(60_000, 100).unwrap();
                let registry = Registry::new();
                let joined = Membership::join(Arc::clone(&link), settings, &registry).await;
                let member = joined.unwrap();
                let number = member.now().view.number;
                assert!(number > last, "n{i}: {number} after {last}");
                if boot % 2 == 0 {
                    member.drain(soon()).await.unwrap();
                }
                member.leave(soon()).await.unwrap();
                assert!(member.now().view.number > number);
                last = member.now().view.number;
            }
            last
        })
    });
    let mut highest = 0;
    for life in lives.collect::<Vec<_>>() {
        highest = highest.max(life.await.unwrap());
    }
    until("the gateway is there too", || gateway.now().view.number == highest).await;
    assert!(gateway.now().view.members.is_empty());
    drop(gateway);
    let numbers = follower.await.unwrap();
    assert!(numbers.len() > 8 && numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
}

#[tokio::test]
async fn everything_that_counts_is_shown() {
    let server = Server::start(&[]).unwrap();
    let link = link(&server).await;
    let registry = Registry::new();
    let node = Membership::join(Arc::clone(&link), settings("a", 1), &registry).await.unwrap();
    until("a heartbeat", || {
        shown(&registry, "roomring_membership_heartbeats_total{result=\"ok\"}") >= 1.0
    })
    .await;
    let number = node.now().view.number;

    let number = number as f64;
    for (name, value) in [
        ("roomring_membership_view_number", number),
        ("roomring_membership_members{state=\"active\"}", 1.0),
        ("roomring_membership_members{state=\"joining\"}", 0.0),
        ("roomring_membership_members{state=\"draining\"}", 0.0),
        ("roomring_membership_buckets_max", 4_096.0),
        ("roomring_membership_buckets_mean", 4_096.0),
        ("roomring_membership_tombstones_total", 0.0),
        ("roomring_membership_self_fences_total", 0.0),
        ("roomring_membership_questions", 0.0),
        ("roomring_membership_suspects", 0.0),
    ] {
        assert!((shown(&registry, name) - value).abs() < 0.5, "{name}");
    }
    assert!(shown(&registry, "roomring_membership_lease_remaining_ms") > 0.0);
    assert!(shown(&registry, "roomring_membership_gaps_total") >= 0.0);
    assert_eq!(node.now().view.count(State::Active), 1);
}

#[tokio::test]
async fn so_many_unknown_owners_are_asked_for_at_once_and_then_the_others() {
    let server = Server::start(&[]).unwrap();
    let (link, registry) = (link(&server).await, Registry::new());
    let a = Membership::join(link, settings("a", 1), &registry).await.unwrap();
    let unknown: Vec<_> =
        (1..=300).map(|boot| Incarnation::new("of-last-year", boot).unwrap()).collect();
    // Nothing else runs on this thread meanwhile.
    assert!(!unknown.iter().any(|owner| a.ended(owner)));
    assert!((shown(&registry, "roomring_membership_questions") - 256.0).abs() < 0.5);
    until("all are ended", || unknown.iter().filter(|owner| !a.ended(owner)).count() == 0).await;
    until("nobody is asked for", || shown(&registry, "roomring_membership_questions").abs() < 0.5)
        .await;
    assert!(a.is_leased());
}

fn shown(registry: &Registry, name: &str) -> f64 {
    let mut text = Vec::new();
    TextEncoder::new().encode(&registry.gather(), &mut text).unwrap();
    let text = String::from_utf8(text).unwrap();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name} ")));
    line.unwrap_or_else(|| panic!("{name} is not shown:\n{text}")).parse().unwrap()
}
