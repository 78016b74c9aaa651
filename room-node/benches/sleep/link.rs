//! A redis-server of its own, and the store in it.

use std::sync::Arc;

use membership::BucketSet;
use prometheus::Registry;
use redis_link::rig::Server;
use redis_link::{Durability, Library, RedisLink, Settings};
use room_node::clock::Clock;
use room_node::store::redis::{LIBRARY, Options, RedisStore};
use tokio::sync::watch;

static LIBRARIES: &[Library] = &[LIBRARY];

pub(crate) fn server() -> Server {
    Server::start(&["--appendonly", "yes"]).expect("install redis-server 7")
}

pub(crate) async fn store(server: &Server, clock: Clock, registry: &Registry) -> Arc<RedisStore> {
    let endpoint = server.url().parse().unwrap();
    let settings = Settings::new(endpoint, Durability::D1, LIBRARIES);
    let link = RedisLink::open(settings, registry).await.unwrap();
    let owned = watch::Sender::new(BucketSet::all()).subscribe();
    let options = Options { up_since: clock.now(), schema_max: 1, clock };
    RedisStore::open(link, owned, options, registry).unwrap()
}
