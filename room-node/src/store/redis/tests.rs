//! What only the inside can see: how much is in flight while a server says nothing.

use std::sync::Arc;
use std::time::Duration;

use membership::BucketSet;
use object::{KindTag, Millis, ObjectId};
use prometheus::{IntGauge, Registry};
use redis_link::rig::Server;
use redis_link::{Durability, Library, RedisLink, Settings};
use tokio::sync::watch;

use super::super::{ClaimRequest, Incarnation, Store as _};
use super::loss::LOOKS_INFLIGHT_MAX;
use super::scan::READS_INFLIGHT_MAX;
use super::{LIBRARY, Options, RedisStore};
use crate::clock::Clock;

const START: Millis = Millis(1_000);
static LIBRARIES: &[Library] = &[LIBRARY];

struct Rig {
    server: Server,
    store: Arc<RedisStore>,
}

impl Rig {
    async fn start() -> Self {
        let server = Server::start(&["--appendonly", "yes"]).expect("redis-server");
        let endpoint = server.url().parse().unwrap();
        let settings = Settings::new(endpoint, Durability::D1, LIBRARIES);
        let link = RedisLink::open(settings, &Registry::new()).await.unwrap();
        let options = Options { up_since: START, schema_max: 1, clock: Clock::system() };
        let owned = watch::Sender::new(BucketSet::all()).subscribe();
        let store = RedisStore::open(link, owned, options, &Registry::new()).unwrap();
        Self { server, store }
    }

    fn hit(&self, bound: &str) -> u64 {
        self.store.metrics.bounds_hit.with_label_values(&[bound]).get()
    }

    /// Looks for as long as the server is stopped; then the most that was seen in flight.
    async fn most(&self, gauge: &IntGauge, expected: usize) -> usize {
        let expected = i64::try_from(expected).unwrap();
        while gauge.get() < expected {
            tokio::task::yield_now().await;
        }
        // Whoever would go beyond it has had its turns.
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        let most = gauge.get();
        self.server.resume().unwrap();
        usize::try_from(most).unwrap()
    }
}

fn block_on<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let timed = async { tokio::time::timeout(Duration::from_secs(60), future).await };
    runtime.block_on(timed).expect("an end within a minute")
}

#[test]
fn so_many_buckets_are_read_at_the_same_time_and_then_the_others() {
    block_on(async {
        let rig = Rig::start().await;
        rig.server.pause().unwrap();
        let most = rig.most(&rig.store.metrics.scans, READS_INFLIGHT_MAX);
        let (page, most) = tokio::join!(rig.store.due(START, None, 9), most);
        assert_eq!((page, most), (Ok((vec![], None)), READS_INFLIGHT_MAX));
        assert_eq!((rig.hit("reads_inflight_max"), rig.store.metrics.scans.get()), (1, 0));
    });
}

#[test]
fn a_bucket_is_read_so_many_entries_at_a_time() {
    block_on(async {
        let rig = Rig::start().await;
        let room = ObjectId::new(KindTag(b'r'), "one of many").unwrap();
        let key = super::keys::due(membership::bucket(room.name().as_bytes()));
        let key = String::from_utf8(key.to_vec()).unwrap();
        let count = super::due::BUCKET_ENTRIES_MAX + 1;
        for number in 0..count {
            let member = format!("r:{number:02}");
            rig.server.ask(&["ZADD", &key, "1000", &member]).unwrap();
        }
        let (page, next) = rig.store.due(START, None, 99).await.unwrap();
        assert_eq!((page.len(), next), (count, None));
        assert_eq!(rig.hit("bucket_entries_max"), 1);
    });
}

#[test]
fn so_many_objects_are_looked_at_at_the_same_time_and_then_the_others() {
    block_on(async {
        let rig = Rig::start().await;
        let me = Incarnation { node: "a".into(), boot: 1 };
        let mut all = Vec::new();
        for number in 0..2 * LOOKS_INFLIGHT_MAX + 5 {
            let object = ObjectId::new(KindTag(b'r'), &number.to_string()).unwrap();
            let request = ClaimRequest {
                object: object.clone(),
                me: me.clone(),
                nonce: 7,
                may_create: true,
                observed: None,
            };
            rig.store.claim(request, START).await.unwrap();
            all.push(object);
        }
        rig.server.pause().unwrap();
        rig.store.loss.suspects().extend(all);
        let most = rig.most(&rig.store.metrics.looks, LOOKS_INFLIGHT_MAX);
        let (again, most) = tokio::join!(rig.store.look_at_suspects(), most);
        assert_eq!((again, most), (false, LOOKS_INFLIGHT_MAX));
        assert_eq!((rig.hit("looks_inflight_max"), rig.store.metrics.looks.get()), (2, 0));
        assert!(rig.store.loss.suspects().is_empty());
    });
}
