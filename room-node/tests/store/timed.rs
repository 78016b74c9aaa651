//! A store in a Redis of its own whose clock the test moves.
//!
//! Redis ends dead marks and uploads by its own clock; the tests name times of their own. So this
//! ends them in its place, as soon as a call has named a time after their end, and only what
//! Redis would end too: keys that have an expiry.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use membership::{Bucket, BucketSet, bucket};
use object::{BlobId, Millis, ObjectId, ParticipantId};
use redis_link::redis::{Connection, cmd};
use redis_link::rig::{Cluster, Sentinel, Server};
use redis_link::{Durability, Library, RedisLink, Settings};
use room_node::clock::Clock;
use room_node::store::redis::{LIBRARY, Options, RedisStore};
use room_node::store::{
    Append, Appended, ClaimRequest, Claimed, DEAD_MARK_MS, Due, Fence, Result, Snapshot, Store,
};
use tokio::sync::watch;

use crate::harness::{START, starting};

static LIBRARIES: &[Library] = &[LIBRARY];

/// Links to a running server; the durability level has to be the server's.
pub(crate) async fn link(server: &Server, durability: Durability) -> Arc<RedisLink> {
    link_to(&server.url(), durability).await
}

pub(crate) async fn link_to(url: &str, durability: Durability) -> Arc<RedisLink> {
    let endpoint = url.parse().expect("an endpoint");
    let mut settings = Settings::new(endpoint, durability, LIBRARIES);
    settings.lanes = 2;
    RedisLink::open(settings, &prometheus::Registry::new()).await.expect("a link")
}

/// A store over a link that looks after `owned` buckets.
pub(crate) fn store(link: &Arc<RedisLink>, owned: watch::Receiver<BucketSet>) -> Arc<RedisStore> {
    store_since(link, owned, START)
}

fn store_since(
    link: &Arc<RedisLink>,
    owned: watch::Receiver<BucketSet>,
    up_since: Millis,
) -> Arc<RedisStore> {
    let options = Options { up_since, schema_max: 1, clock: Clock::system() };
    RedisStore::open(Arc::clone(link), owned, options, &prometheus::Registry::new())
        .expect("a store")
}

pub(crate) fn all_buckets() -> watch::Receiver<BucketSet> {
    watch::Sender::new(BucketSet::all()).subscribe()
}

/// A plain connection for what a test does behind the store's back.
pub(crate) fn raw(server: &Server) -> Connection {
    redis_link::redis::Client::open(server.url()).unwrap().get_connection().unwrap()
}

/// `{b0371}m:r:name`, as the store names it.
pub(crate) fn key(kind: &str, object: &ObjectId) -> String {
    let Bucket(number) = bucket(object.name().as_bytes());
    format!("{{b{number:04}}}{kind}:r:{}", object.name())
}

pub(crate) fn due_key(object: &ObjectId) -> String {
    format!("{{b{:04}}}due", bucket(object.name().as_bytes()).0)
}

pub(crate) struct Timed {
    store: Arc<RedisStore>,
    link: Arc<RedisLink>,
    ends: Mutex<Ends>,
}

/// Servers of a test, whichever way they stand together.
pub(crate) enum Servers {
    One(Server),
    /// A primary with its replica.
    Pair(Server, #[expect(dead_code, reason = "kept running")] Server),
    Sentinel(Sentinel),
    Cluster(Cluster),
}

impl Servers {
    pub(crate) fn url(&self) -> String {
        match self {
            Self::One(server) | Self::Pair(server, _) => server.url(),
            Self::Sentinel(set) => set.url(),
            Self::Cluster(cluster) => cluster.url(),
        }
    }

    /// The one that has a key, as long as no other is promoted and no slot moves.
    fn of(&self, key: &str) -> usize {
        match self {
            Self::One(_) | Self::Pair(..) => 0,
            Self::Sentinel(set) => set.primary_index().unwrap(),
            Self::Cluster(cluster) => cluster.owner(key).unwrap(),
        }
    }

    fn server(&self, index: usize) -> &Server {
        match self {
            Self::One(server) | Self::Pair(server, _) => server,
            Self::Sentinel(set) => &set.servers[index],
            Self::Cluster(cluster) => &cluster.servers[index],
        }
    }
}

struct Ends {
    servers: Servers,
    /// By the slot of their keys.
    raw: HashMap<u16, Connection>,
    now: Millis,
    /// When keys end unless their expiry is taken away, and whether they are uploads.
    ends: HashMap<String, (Millis, bool)>,
}

impl std::fmt::Debug for Timed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.store.fmt(f)
    }
}

impl Timed {
    pub(crate) async fn start() -> Self {
        let server = starting(|| Server::start(&["--appendonly", "yes"])).expect("redis-server");
        Self::over(Servers::One(server), Durability::D1).await
    }

    pub(crate) async fn over(servers: Servers, durability: Durability) -> Self {
        let link = link_to(&servers.url(), durability).await;
        let ends = Ends { servers, raw: HashMap::new(), now: START, ends: HashMap::new() };
        let store = store(&link, all_buckets());
        Self { store, link, ends: Mutex::new(ends) }
    }

    pub(crate) fn reopen(&mut self, now: Millis) {
        self.store = store_since(&self.link, all_buckets(), now);
        let ends = self.ends.get_mut().unwrap();
        ends.now = ends.now.max(now);
        ends.end(|at, upload, now| upload || at <= now);
    }

    fn tick(&self, now: Millis) {
        let mut ends = self.ends.lock().unwrap();
        ends.now = ends.now.max(now);
        ends.end(|at, _, now| at <= now);
    }

    fn ends_at(&self, key: String, at: Millis, upload: bool) {
        self.ends.lock().unwrap().ends.insert(key, (at, upload));
    }
}

impl Ends {
    fn end(&mut self, over: impl Fn(Millis, bool, Millis) -> bool) {
        let is_over = |(at, upload): &(Millis, bool)| over(*at, *upload, self.now);
        let ended: Vec<String> =
            self.ends.iter().filter(|(_, end)| is_over(end)).map(|(key, _)| key.clone()).collect();
        for key in ended {
            if self.left(&key) >= 0 {
                cmd("DEL").arg(&key).exec(self.raw(&key)).unwrap();
            }
            self.ends.remove(&key);
        }
    }

    /// Milliseconds until Redis ends a key; below 0 when it does not.
    fn left(&mut self, key: &str) -> i64 {
        cmd("PTTL").arg(key).query(self.raw(key)).unwrap()
    }

    fn raw(&mut self, key: &str) -> &mut Connection {
        let servers = &self.servers;
        let at = redis_link::slot(key.as_bytes());
        self.raw.entry(at).or_insert_with(|| raw(servers.server(servers.of(key))))
    }
}

impl Store for Timed {
    fn claim(&self, request: ClaimRequest, now: Millis) -> BoxFuture<'_, Result<Claimed>> {
        self.tick(now);
        self.store.claim(request, now)
    }

    fn refence(
        &self,
        object: ObjectId,
        old: Fence,
        nonce: u64,
        now: Millis,
    ) -> BoxFuture<'_, Result<Claimed>> {
        self.tick(now);
        self.store.refence(object, old, nonce, now)
    }

    fn check(&self, object: ObjectId, fence: Fence) -> BoxFuture<'_, Result<()>> {
        self.store.check(object, fence)
    }

    fn append(&self, append: Append) -> BoxFuture<'_, Result<Appended>> {
        self.tick(append.now);
        self.store.append(append)
    }

    fn lease(
        &self,
        object: ObjectId,
        fence: Fence,
        leases: Vec<(ParticipantId, Millis)>,
        due: Option<Millis>,
    ) -> BoxFuture<'_, Result<()>> {
        self.store.lease(object, fence, leases, due)
    }

    fn snapshot(
        &self,
        object: ObjectId,
        fence: Fence,
        snapshot: Snapshot,
    ) -> BoxFuture<'_, Result<()>> {
        self.store.snapshot(object, fence, snapshot)
    }

    fn release(&self, object: ObjectId, fence: Fence) -> BoxFuture<'_, Result<()>> {
        self.store.release(object, fence)
    }

    fn destroy(
        &self,
        object: ObjectId,
        fence: Fence,
        lsn: u64,
        now: Millis,
    ) -> BoxFuture<'_, Result<()>> {
        self.tick(now);
        Box::pin(async move {
            let mark = key("m", &object);
            let before = self.ends.lock().unwrap().left(&mark);
            self.store.destroy(object, fence, lsn, now).await?;
            // A repeat does not make the mark stand longer.
            if before < 0 {
                self.ends_at(mark, now.plus(DEAD_MARK_MS), false);
            }
            Ok(())
        })
    }

    fn due(
        &self,
        now: Millis,
        after: Option<Due>,
        limit: usize,
    ) -> BoxFuture<'_, Result<(Vec<Due>, Option<Millis>)>> {
        self.tick(now);
        self.store.due(now, after, limit)
    }

    fn set_due(
        &self,
        object: ObjectId,
        fence: Fence,
        due: Option<Millis>,
    ) -> BoxFuture<'_, Result<()>> {
        self.store.set_due(object, fence, due)
    }

    fn put_blob(
        &self,
        object: ObjectId,
        blob: BlobId,
        bytes: Bytes,
        expires: Millis,
    ) -> BoxFuture<'_, Result<()>> {
        Box::pin(async move {
            let key = format!("{}:{:032x}", key("b", &object), blob.0);
            self.store.put_blob(object, blob, bytes, expires).await?;
            self.ends_at(key, expires, true);
            Ok(())
        })
    }

    fn get_blob(&self, object: ObjectId, blob: BlobId) -> BoxFuture<'_, Result<Option<Bytes>>> {
        self.store.get_blob(object, blob)
    }

    fn up_since(&self) -> Millis {
        self.store.up_since()
    }
}
