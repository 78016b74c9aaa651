//! Nodes: joining, ending, losing the lease, losing the table.

use membership::{
    BUCKETS, BucketSet, Incarnation, JoinError, Lost, Membership, Refusal, Standing, State,
};
use prometheus::Registry;
use redis_link::rig::Server;
use tokio::time::Instant;

use crate::{command, join, link, settings, soon, until, within};

fn owned(member: &Membership) -> BucketSet {
    member.owned().borrow().clone()
}

fn all_of(server: &Server, signal: &str) {
    let pid = server.pid().unwrap().to_string();
    assert!(std::process::Command::new("kill").args([signal, &pid]).status().unwrap().success());
}

#[tokio::test]
async fn two_nodes_share_all_buckets_and_the_one_that_stays_gets_all() {
    let server = Server::start(&[]).unwrap();
    let link = link(&server).await;
    let a = join(&link, "a", 1).await;
    assert!(a.is_leased() && a.up_since_ms() > 0);
    assert_eq!(owned(&a).len(), usize::from(BUCKETS));
    let b = join(&link, "b", 1).await;
    until("a sees b", || a.now().view.members.len() == 2).await;
    assert_eq!(owned(&a).without(&owned(&b)), owned(&a), "nothing is owned twice");
    assert_eq!(owned(&a).len() + owned(&b).len(), usize::from(BUCKETS));
    let gone = b.me().clone();
    assert!(!a.ended(&gone));
    b.drain(soon()).await.unwrap();
    assert!(owned(&b).is_empty() && b.is_leased(), "it owns nothing and lives on");
    until("a has all", || owned(&a).len() == usize::from(BUCKETS)).await;
    assert_eq!(a.now().view.count(State::Draining), 1);
    assert!(!a.ended(&gone));
    b.leave(soon()).await.unwrap();
    assert!(!b.is_leased() && *b.standing().borrow() == Standing::Left);
    until("a knows that b ended", || a.ended(&gone)).await;
    assert_eq!(a.now().view.members.len(), 1);
}

#[tokio::test]
async fn a_node_that_falls_silent_is_ended_and_a_late_heartbeat_is_refused() {
    let server = Server::start(&[]).unwrap();
    let link = link(&server).await;
    let a = join(&link, "a", 1).await;
    let b = join(&link, "b", 1).await;
    let silent = b.me().clone();
    drop(b);
    until("a knows that b ended", || a.ended(&silent)).await;
    assert!(a.is_leased());
    assert_eq!(owned(&a).len(), usize::from(BUCKETS));
    let again = Membership::join(link, settings("b", 1), &Registry::new()).await;
    let Err(JoinError::Refused(why)) = again else { panic!("it ended: {again:?}") };
    assert_eq!(why, Refusal::Ended);
}

#[tokio::test]
async fn a_node_that_was_declared_ended_is_lost() {
    let server = Server::start(&[]).unwrap();
    let link = link(&server).await;
    let a = join(&link, "a", 1).await;
    let b = join(&link, "b", 1).await;
    // As another's poll would, had its lease run out.
    let name = b.me().to_string();
    command(&link, &["ZADD", "{nodes:local}t", "1", &name]).await;
    command(&link, &["HDEL", "{nodes:local}m", &name]).await;
    command(&link, &["ZREM", "{nodes:local}x", &name]).await;
    assert_eq!(within("b is lost", b.lost()).await, Lost::Ended);
    assert!(!b.is_leased());
    assert_eq!(*b.standing().borrow(), Standing::Lost(Lost::Ended));
    assert!(a.is_leased());
    let drained = b.drain(soon()).await.unwrap_err().to_string();
    assert!(drained.contains("restart as a new one"), "{drained}");
}

#[tokio::test]
async fn redis_away_for_longer_than_a_lease_ends_nobody() {
    let server = Server::start(&[]).unwrap();
    let link = link(&server).await;
    let patient = async |node| {
        let mut settings = settings(node, 1);
        // A busy machine may take its time to connect again.
        settings.grace_ms = 5_000;
        Membership::join(link.clone(), settings, &Registry::new()).await.unwrap()
    };
    let (a, b) = (patient("a").await, patient("b").await);
    let began = a.up_since_ms();
    until("a sees b", || a.now().view.members.len() == 2).await;
    let before = a.now();
    let mut seen = [a.standing(), b.standing()];
    all_of(&server, "-STOP");
    for standing in &mut seen {
        within("the lease runs out", standing.wait_for(|s| *s == Standing::Lapsed)).await.unwrap();
    }
    assert!(!a.is_leased() && !b.is_leased(), "both have fenced themselves");
    let lapsed_at = Instant::now();
    until("it is over in the table too", || lapsed_at.elapsed().as_millis() > 900).await;
    all_of(&server, "-CONT");
    for standing in &mut seen {
        within("it is taken up", standing.wait_for(|s| *s == Standing::Leased)).await.unwrap();
    }
    until("service began anew", || a.up_since_ms() > began).await;
    assert_eq!(a.now().view.members, before.view.members, "the same incarnations");
    assert!(!a.ended(b.me()) && !b.ended(a.me()));
}

#[tokio::test]
async fn a_lost_table_is_joined_only_by_new_incarnations() {
    let server = Server::start(&[]).unwrap();
    let link = link(&server).await;
    let a = join(&link, "a", 1).await;
    let before = a.now().view.number;
    let keys = ["v", "m", "x", "l", "t", "q"].map(|part| format!("{{nodes:local}}{part}"));
    let mut words = vec!["DEL"];
    words.extend(keys.iter().map(String::as_str));
    command(&link, &words).await;
    assert_eq!(within("a is lost", a.lost()).await, Lost::Unknown);
    assert!(!a.is_leased());
    let again = join(&link, "a", 2).await;
    assert!(again.is_leased() && again.now().view.number > before);
    assert_eq!(owned(&again).len(), usize::from(BUCKETS));
    // Rooms still name the first one as their owner: it is nowhere in the table, and not ended yet.
    assert!(!again.ended(a.me()));
    until("the forgotten one is ended", || again.ended(a.me())).await;
}

#[tokio::test]
async fn the_same_node_waits_for_its_earlier_incarnation() {
    let server = Server::start(&[]).unwrap();
    let link = link(&server).await;
    let first = join(&link, "a", 1).await;
    let taken = first.me().clone();
    let refused = {
        let mut impatient = settings("a", 2);
        impatient.terms = membership::Terms::new(100, 25).unwrap();
        impatient.grace_ms = 1;
        Membership::join(link.clone(), impatient, &Registry::new()).await
    };
    let Err(JoinError::Refused(why)) = refused else { panic!("it is taken: {refused:?}") };
    assert_eq!(why, Refusal::NodeIdTaken);
    assert!(first.is_leased());
    drop(first);
    let second = join(&link, "a", 3).await;
    assert!(second.ended(&taken) && second.is_leased());
}

#[tokio::test]
async fn an_unknown_owner_is_asked_for_and_a_live_one_never_ends_by_it() {
    let server = Server::start(&[]).unwrap();
    let link = link(&server).await;
    let a = join(&link, "a", 1).await;
    let unknown = Incarnation::new("of-last-year", 7).unwrap();
    assert!(!a.ended(&unknown));
    let asked_at = a.redis_now_ms();
    until("it is ended", || a.ended(&unknown)).await;
    let waited = a.redis_now_ms() - asked_at;
    assert!(waited >= 2 * crate::TTL_MS, "only {waited} ms");
    assert!(!a.ended(a.me()) && a.is_leased());
}
