//! Members and watchers against a real server.

#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::disallowed_methods,
    reason = "tests stop at the first surprise, and a real server lives in real time"
)]

mod faults;
mod following;
mod living;

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use membership::{Incarnation, Membership, NODES, Settings, Terms, Watcher, Watching};
use prometheus::Registry;
use redis_link::rig::Server;
use redis_link::{Durability, Library, RedisLink, redis};
use tokio::time::Instant;

const TABLE: &[Library] = &[NODES];

/// Short enough for tests, long enough for a machine with much else to do.
const TTL_MS: u64 = 2_000;
const HEARTBEAT_MS: u64 = 100;

pub(crate) fn soon() -> Instant {
    Instant::now() + Duration::from_secs(20)
}

pub(crate) async fn link(server: &Server) -> Arc<RedisLink> {
    link_to(&server.url(), Durability::D0).await
}

pub(crate) async fn link_to(url: &str, durability: Durability) -> Arc<RedisLink> {
    let settings = redis_link::Settings::new(url.parse().unwrap(), durability, TABLE);
    RedisLink::open(settings, &Registry::new()).await.unwrap()
}

pub(crate) fn settings(node: &str, boot: u64) -> Settings {
    let me = Incarnation::new(node, boot).unwrap();
    let terms = Terms::new(TTL_MS, HEARTBEAT_MS).unwrap();
    let mut settings = Settings::new("local", me, &format!("{node}:7070"), terms);
    settings.join_delay_ms = 0;
    settings.grace_ms = 300;
    settings
}

pub(crate) async fn join(link: &Arc<RedisLink>, node: &str, boot: u64) -> Arc<Membership> {
    Membership::join(Arc::clone(link), settings(node, boot), &Registry::new()).await.unwrap()
}

pub(crate) async fn watch(link: &Arc<RedisLink>, poll_ms: u64) -> Watcher {
    let watching = Watching { poll_ms, grace_ms: 300, ..Watching::new("local") };
    Watcher::open(Arc::clone(link), &watching, &Registry::new()).await.unwrap()
}

pub(crate) async fn command(link: &RedisLink, words: &[&str]) {
    let mut command = redis::cmd(words[0]);
    command.arg(&words[1..]);
    link.command(b"{nodes:local}v", command, soon()).await.unwrap();
}

/// Waits until something is so.
pub(crate) async fn until(what: &str, is_so: impl Fn() -> bool) {
    let mut tick = tokio::time::interval(Duration::from_millis(5));
    let end = soon();
    while !is_so() {
        assert!(Instant::now() < end, "never: {what}");
        tick.tick().await;
    }
}

pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout_at(soon(), future).await.unwrap_or_else(|_| panic!("never: {what}"))
}
