//! Bounds of a link that no other test reaches (docs/bounds.md).

use std::sync::Arc;

use bytes::Bytes;
use prometheus::Registry;
use redis_link::redis::Value;
use redis_link::rig::Server;
use redis_link::{Call, Durability, Failure, RedisLink, Unsent};
use tokio::task::JoinHandle;

use crate::{REPLICATED, add, metric, open, read, settings, soon, until};

type Answered = JoinHandle<Result<Value, Failure>>;

/// One lane to a server, which has answered a first call.
async fn one_lane(server: &Server, level: Durability) -> (Arc<RedisLink>, Registry) {
    let mut settings = settings(&server.url(), level);
    (settings.lanes, settings.response_ms) = (1, 10_000);
    let (link, registry) = open(settings).await.unwrap();
    link.call(add("{a}x", 1)).await.unwrap();
    (link, registry)
}

fn pipelines(registry: &Registry) -> u64 {
    metric(registry, "roomring_redis_pipeline_calls_count")
}

fn queued(registry: &Registry) -> u64 {
    metric(registry, "roomring_redis_queued_calls")
}

/// Makes calls that all wait before the lane has its turn.
fn spawn(link: &Arc<RedisLink>, count: usize, call: &Call) -> Vec<Answered> {
    let spawned = (0..count).map(|_| {
        let (link, call) = (Arc::clone(link), call.clone());
        tokio::spawn(async move { link.call(call).await })
    });
    spawned.collect()
}

async fn all_answered(calls: Vec<Answered>) {
    for call in calls {
        call.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn four_pipelines_of_so_many_calls_are_in_flight_and_the_others_wait() {
    let server = Server::start(&[]).unwrap();
    let (link, registry) = one_lane(&server, Durability::D0).await;
    let before = pipelines(&registry);
    server.pause().unwrap();
    let calls = spawn(&link, 1_000, &add("{a}x", 1));
    until("four pipelines have left", async || pipelines(&registry) == before + 4).await;
    assert_eq!(queued(&registry), 1_000 - 4 * 128);
    server.resume().unwrap();
    all_answered(calls).await;
    assert_eq!((pipelines(&registry), queued(&registry)), (before + 8, 0));
    assert_eq!(link.call(read("{a}x")).await, Ok(Value::Int(1_001)));
}

#[tokio::test]
async fn where_a_replica_confirms_one_pipeline_is_in_flight_and_the_others_wait() {
    let primary = Server::start(&REPLICATED).unwrap();
    let of = format!("127.0.0.1 {}", primary.port());
    let replica = ["--repl-diskless-sync-delay", "0", "--appendonly", "yes", "--replicaof", &of];
    let replica = Server::start(&replica).unwrap();
    replica.until_in_step().unwrap();
    primary.until_replicas(1).unwrap();
    let (link, registry) = one_lane(&primary, Durability::D3).await;
    let before = pipelines(&registry);
    primary.pause().unwrap();
    let calls = spawn(&link, 300, &add("{a}x", 1));
    until("a pipeline has left", async || pipelines(&registry) > before).await;
    assert_eq!((pipelines(&registry), queued(&registry)), (before + 1, 300 - 128));
    primary.resume().unwrap();
    all_answered(calls).await;
    assert_eq!((pipelines(&registry), queued(&registry)), (before + 3, 0));
}

#[tokio::test]
async fn a_pipeline_of_so_many_bytes_takes_no_further_call() {
    let server = Server::start(&[]).unwrap();
    let (link, registry) = one_lane(&server, Durability::D0).await;
    for (bytes, count, left) in [(300 * 1_024, 10, 3), (1_024 * 1_024, 3, 3), (90 * 1_024, 10, 1)] {
        let before = pipelines(&registry);
        let call = Call { args: vec![Bytes::from(vec![b'x'; bytes])], ..read("{a}x") };
        all_answered(spawn(&link, count, &call)).await;
        assert_eq!(pipelines(&registry), before + left, "{count} calls of {bytes} bytes");
    }
}

#[tokio::test]
async fn blobs_have_so_many_links_and_so_many_places() {
    let server = Server::start(&[]).unwrap();
    let (link, _) = one_lane(&server, Durability::D0).await;
    let connected = || server.info("connected_clients").unwrap().parse::<usize>().unwrap();
    let put = |from: usize, count: usize| {
        let spawned = (from..from + count).map(|number| {
            let (link, key) = (Arc::clone(&link), Bytes::from(format!("{{a}}{number}")));
            tokio::spawn(
                async move { link.put(key, Bytes::from_static(b"x"), 60_000, soon()).await },
            )
        });
        spawned.collect::<Vec<_>>()
    };
    let before = connected();
    for call in put(0, 200) {
        call.await.unwrap().unwrap();
    }
    assert_eq!(connected(), before + 4);
    server.pause().unwrap();
    let puts = put(200, 300);
    until("the others are refused", async || {
        puts.iter().filter(|put| put.is_finished()).count() >= 300 - 256
    })
    .await;
    server.resume().unwrap();
    let mut refused = 0;
    for call in puts {
        match call.await.unwrap() {
            Ok(()) => {}
            Err(Failure::NotSent { reason: Unsent::QueueFull }) => refused += 1,
            Err(other) => panic!("{other:?}"),
        }
    }
    assert_eq!((refused, connected()), (300 - 256, before + 4));
    let last = link.get(Bytes::from_static(b"{a}200"), soon()).await;
    assert_eq!(last, Ok(Some(Bytes::from_static(b"x"))));
}
