//! Nodes cut off from Redis, answers that never come, and a failover.

use std::time::Duration;

use membership::{Lost, Standing};
use redis_link::Durability;
use redis_link::rig::{Cluster, Mode, Proxy, Sentinel, Server};

use crate::{join, link, link_to, until, watch, within};

#[tokio::test]
async fn a_node_cut_off_from_redis_fences_itself_before_anybody_ends_it() {
    let server = Server::start(&[]).unwrap();
    let proxy = Proxy::start(server.address()).await.unwrap();
    let near = link(&server).await;
    let far = link_to(&proxy.url(), Durability::D0).await;
    let a = join(&near, "a", 1).await;
    let b = join(&far, "b", 1).await;
    until("a sees b", || a.now().view.members.len() == 2).await;
    proxy.set(Mode::Hold);
    let mut tick = tokio::time::interval(Duration::from_millis(1));
    let mut standing = b.standing();
    let ended = async {
        while !a.ended(b.me()) {
            tick.tick().await;
        }
        assert!(!b.is_leased(), "it ended while it thought it was leased");
        assert_eq!(*standing.borrow_and_update(), Standing::Lapsed);
    };
    within("a knows that b ended", ended).await;
    assert!(a.is_leased());
    proxy.set(Mode::Pass);
    assert_eq!(within("b is told", b.lost()).await, Lost::Ended);
    let again = join(&far, "b", 2).await;
    assert!(again.is_leased() && again.ended(b.me()));
}

#[tokio::test]
async fn answers_that_never_come_end_the_lease_here_but_not_there() {
    let server = Server::start(&[]).unwrap();
    let proxy = Proxy::start(server.address()).await.unwrap();
    let near = link(&server).await;
    let far = link_to(&proxy.url(), Durability::D0).await;
    let a = join(&near, "a", 1).await;
    let b = join(&far, "b", 1).await;
    proxy.set(Mode::Hold);
    let mut standing = b.standing();
    let lapsed = standing.wait_for(|s| *s == Standing::Lapsed);
    within("b fences itself", lapsed).await.unwrap();
    // The margin is 400 ms: nobody has ended it yet, and its word still counts.
    proxy.set(Mode::Pass);
    let after = standing.wait_for(|s| *s != Standing::Lapsed);
    let after = *within("b is heard or told", after).await.unwrap();
    assert_eq!(after == Standing::Leased, !a.ended(b.me()), "{after:?}");
    assert!(a.is_leased());
}

/// The renewal is a write like others: without it nobody knows for how long the lease will hold.
#[tokio::test]
async fn a_redis_that_refuses_writes_ends_the_lease_here_and_nobody_there() {
    let server = Server::start(&[]).unwrap();
    let link = link(&server).await;
    let a = join(&link, "a", 1).await;
    let mut standing = a.standing();
    server.ask(&["CONFIG", "SET", "min-replicas-to-write", "1"]).unwrap();
    let lapsed = standing.wait_for(|s| *s == Standing::Lapsed);
    within("the lease runs out", lapsed).await.unwrap();
    assert!(!a.is_leased());
    server.ask(&["CONFIG", "SET", "min-replicas-to-write", "0"]).unwrap();
    let after = standing.wait_for(|s| *s != Standing::Lapsed);
    let after = *within("the table is written again", after).await.unwrap();
    assert_eq!(after, Standing::Leased, "the same incarnation goes on");
    assert!(a.is_leased() && !a.ended(a.me()));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_ends_nobody_and_numbers_only_rise() {
    let mut set = Sentinel::start(&[
        "--appendonly",
        "yes",
        "--min-replicas-to-write",
        "1",
        "--min-replicas-max-lag",
        "4",
    ])
    .unwrap();
    let link = link_to(&set.url(), Durability::D3).await;
    let a = join(&link, "a", 1).await;
    let b = join(&link, "b", 1).await;
    let gateway = watch(&link, 50).await;
    until("the gateway sees both", || gateway.now().view.members.len() == 2).await;
    let before = gateway.now().view.number;
    let mut views = gateway.subscribe();
    let follower = tokio::spawn(async move {
        let mut numbers = vec![views.borrow_and_update().view.number];
        while views.changed().await.is_ok() {
            numbers.push(views.borrow_and_update().view.number);
        }
        numbers
    });
    set.kill_primary().unwrap();
    until("the table of the new primary is followed", || gateway.now().view.number > before).await;
    until("both are leased there", || a.is_leased() && b.is_leased()).await;
    assert_eq!(gateway.now().view.members.len(), 2);
    assert!(!a.ended(b.me()) && !b.ended(a.me()));
    let silent = b.me().clone();
    drop(b);
    until("the new primary ends who falls silent", || a.ended(&silent)).await;
    assert!(a.is_leased());
    until("the gateway knows", || gateway.now().view.members.len() == 1).await;
    drop(gateway);
    let numbers = follower.await.unwrap();
    assert!(numbers.len() >= 3 && numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_table_whose_slot_moves_ends_nobody() {
    let cluster = Cluster::start(3, 0, &[]).unwrap();
    let link = link_to(&cluster.url(), Durability::D0).await;
    let a = join(&link, "a", 1).await;
    let b = join(&link, "b", 1).await;
    until("a sees b", || a.now().view.members.len() == 2).await;
    let before = a.now().view.number;
    let from = cluster.owner("{nodes:local}v").unwrap();
    cluster.migrate("{nodes:local}v", from, (from + 1) % 3).unwrap();
    until("the table is followed", || a.now().view.number > before + 1_000).await;
    until("both are leased there", || a.is_leased() && b.is_leased()).await;
    assert_eq!(a.now().view.members.len(), 2);
    assert!(!a.ended(b.me()) && !b.ended(a.me()));
}
