//! A Redis Cluster of three primaries with two replicas each.

use redis_link::Durability;
use redis_link::redis::Value;
use redis_link::rig::Cluster;

use crate::{REPLICATED, add, adder, metric, open, read, settings, until};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn slots_that_move_and_primaries_that_fail_are_followed() {
    let mut cluster = Cluster::start(3, 2, &REPLICATED).unwrap();
    let (link, registry) = open(settings(&cluster.url(), Durability::D3)).await.unwrap();
    let keys: Vec<String> = (0..24).map(|n| format!("{{k{n}}}")).collect();
    for key in &keys {
        assert_eq!(link.call(add(key, 1)).await, Ok(Value::Int(1)), "{key}");
    }
    let owners: std::collections::BTreeSet<_> =
        keys.iter().map(|key| cluster.owner(key).unwrap()).collect();
    assert_eq!(owners.into_iter().collect::<Vec<_>>(), [0, 1, 2]);

    // A slot moves.
    let from = cluster.owner(&keys[0]).unwrap();
    cluster.migrate(&keys[0], from, (from + 1) % 3).unwrap();
    assert_eq!(link.call(add(&keys[0], 1)).await, Ok(Value::Int(2)));
    assert_eq!(link.call(read(&keys[0])).await, Ok(Value::Int(2)));

    // A primary fails under load.
    let changes = link.changes();
    let before = *changes.borrow();
    let stop = tokio::sync::watch::Sender::new(false);
    let adders: Vec<_> =
        (0..9).map(|n| adder(&link, format!("{{f{n}}}"), stop.subscribe())).collect();
    let acknowledged = || metric(&registry, "roomring_redis_calls_total{result=\"ok\"}");
    until("additions go on", async || acknowledged() > 300).await;
    cluster.servers[0].kill();
    until("a replica is promoted", async || {
        [3, 6].iter().any(|index| cluster.servers[*index].is_primary())
    })
    .await;
    until("all keys are served", async || {
        for key in &keys {
            if link.call(read(key)).await.is_err() {
                return false;
            }
        }
        link.is_open()
    })
    .await;
    stop.send_replace(true);
    for (n, adder) in adders.into_iter().enumerate() {
        adder.await.unwrap().check(&link, &format!("{{f{n}}}")).await;
    }
    assert!(*changes.borrow() > before);
    for key in &keys[1..] {
        assert_eq!(link.call(add(key, 1)).await, Ok(Value::Int(2)), "{key}");
    }
}

#[tokio::test]
async fn one_primary_that_comes_back_empty_closes_all() {
    let args = ["--appendonly", "yes"];
    let mut cluster = Cluster::start(3, 0, &args).unwrap();
    let (link, registry) = open(settings(&cluster.url(), Durability::D0)).await.unwrap();
    link.call(add("{a}x", 1)).await.unwrap();
    // Its node file stays, so that it is the same node with the same slots; its data is gone.
    cluster.servers[1].kill();
    std::fs::remove_dir_all(cluster.servers[1].dir().join("appendonlydir")).unwrap();
    cluster.servers[1].run().unwrap();
    until("the alarm", async || metric(&registry, "roomring_redis_generation_alarm") == 1).await;
    assert!(!link.is_open());
    assert!(link.call(read("{a}x")).await.is_err());
    // Nor does a new link take it for a new store.
    assert!(open(settings(&cluster.url(), Durability::D0)).await.is_err());
}

#[tokio::test]
async fn a_key_that_is_on_its_way_is_asked_for_where_it_went() {
    let cluster = Cluster::start(3, 0, &[]).unwrap();
    let (link, registry) = open(settings(&cluster.url(), Durability::D0)).await.unwrap();
    link.call(add("{a}x", 1)).await.unwrap();
    let from = cluster.owner("{a}x").unwrap();
    let to = (from + 1) % 3;
    let id = |index: usize| match cluster.servers[index].ask(&["CLUSTER", "MYID"]).unwrap() {
        Value::BulkString(id) => String::from_utf8(id).unwrap(),
        other => panic!("{other:?}"),
    };
    let slot = redis_link::slot(b"{a}x").to_string();
    let (from_id, to_id) = (id(from), id(to));
    cluster.servers[to].ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id]).unwrap();
    cluster.servers[from].ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).unwrap();
    let port = cluster.servers[to].port().to_string();
    cluster.servers[from].ask(&["MIGRATE", "127.0.0.1", &port, "{a}x", "0", "5000"]).unwrap();
    assert_eq!(link.call(add("{a}x", 1)).await, Ok(Value::Int(2)));
    assert!(metric(&registry, "roomring_redis_retries_total{cause=\"ask\"}") > 0);
    link.put("{a}b".into(), "blob".into(), 60_000, crate::soon()).await.unwrap();
    assert_eq!(link.get("{a}b".into(), crate::soon()).await, Ok(Some("blob".into())));
}
