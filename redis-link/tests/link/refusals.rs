//! What a link refuses to serve.

use redis_link::redis::Value;
use redis_link::rig::Server;
use redis_link::{Durability, Failure, Library, OpenError, Settings, Unsent};

use crate::{ALWAYS, REPLICATED, add, adder, metric, open, read, settings, until, within};

#[tokio::test]
async fn an_empty_reborn_server_is_refused() {
    let mut server = Server::start(&ALWAYS).unwrap();
    let (link, registry) = open(settings(&server.url(), Durability::D2)).await.unwrap();
    assert_eq!(link.call(add("{a}x", 2)).await, Ok(Value::Int(2)));
    // Calls keep coming: none may reach the empty one before it is looked at.
    let stop = tokio::sync::watch::Sender::new(false);
    let adders: Vec<_> =
        (0..8).map(|n| adder(&link, format!("{{k{n}}}"), stop.subscribe())).collect();
    server.wipe().unwrap();
    server.run().unwrap();
    until("the alarm", async || metric(&registry, "roomring_redis_generation_alarm") == 1).await;
    stop.send_replace(true);
    for adder in adders {
        adder.await.unwrap();
    }
    assert!(!link.is_open());
    let closed = Failure::NotSent { reason: Unsent::Closed };
    assert_eq!(link.call(add("{a}x", 2)).await, Err(closed.clone()));
    let blob = bytes::Bytes::from("{a}b");
    assert_eq!(link.get(blob, within(1_000)).await, Err(closed));
    // It stays empty: nothing was served, nothing was begun.
    assert_eq!(server.ask(&["DBSIZE"]).unwrap(), Value::Int(0));
    // Another generation is no better.
    let (other, _) = open(settings(&server.url(), Durability::D2)).await.unwrap();
    assert_eq!(other.call(add("{a}x", 2)).await, Ok(Value::Int(2)));
    let changes = link.changes();
    let seen = *changes.borrow();
    until("another look", async || !link.is_open() && *changes.borrow() >= seen).await;
    assert!(link.call(add("{a}x", 2)).await.is_err());
}

#[tokio::test]
async fn a_flushed_store_closes_every_link() {
    let server = Server::start(&[]).unwrap();
    let (link, _) = open(settings(&server.url(), Durability::D0)).await.unwrap();
    server.ask(&["FLUSHALL"]).unwrap();
    until("it is closed", async || !link.is_open()).await;
}

#[tokio::test]
async fn keys_without_a_generation_are_refused() {
    let server = Server::start(&[]).unwrap();
    server.ask(&["SET", "somebody", "else"]).unwrap();
    let refused = open(settings(&server.url(), Durability::D0)).await.unwrap_err();
    assert!(matches!(refused, OpenError::Generation { .. }), "{refused}");
}

#[tokio::test]
async fn two_openers_of_a_new_store_agree() {
    let server = Server::start(&[]).unwrap();
    let opens = (0..8).map(|_| tokio::spawn(open(settings(&server.url(), Durability::D0))));
    let mut links = Vec::new();
    for opened in opens.collect::<Vec<_>>() {
        links.push(opened.await.unwrap().unwrap().0);
    }
    for link in &links {
        link.call(add("{a}x", 1)).await.unwrap();
    }
    assert_eq!(links[0].call(read("{a}x")).await, Ok(Value::Int(8)));
}

#[tokio::test]
async fn settings_that_break_the_promise_are_refused() {
    let bare = Server::start(&[]).unwrap();
    let file = Server::start(&["--appendonly", "yes"]).unwrap();
    let evicting = ["--appendonly", "yes", "--maxmemory-policy", "allkeys-lru"];
    let evicting = Server::start(&evicting).unwrap();
    let lagging = ["--appendonly", "yes", "--min-replicas-to-write", "1"];
    let lagging = Server::start(&lagging).unwrap();
    let replicated = Server::start(&REPLICATED).unwrap();
    for (server, level, wrong) in [
        (&bare, Durability::D1, "appendonly"),
        (&evicting, Durability::D1, "maxmemory-policy"),
        (&file, Durability::D2, "appendfsync"),
        (&file, Durability::D3, "min-replicas-to-write"),
        (&lagging, Durability::D3, "min-replicas-max-lag"),
        (&replicated, Durability::D4, "WAITAOF"),
    ] {
        let refused = open(settings(&server.url(), level)).await.unwrap_err();
        let OpenError::Setting { setting, .. } = &refused else { panic!("{refused}") };
        assert_eq!(*setting, wrong, "{refused}");
    }
    let refused = open(settings(&bare.url(), Durability::D1)).await.unwrap_err().to_string();
    let said = "has appendonly = no, and d1 needs yes";
    assert!(refused.contains(said), "{refused}");
}

#[tokio::test]
async fn settings_that_cannot_be_read_are_only_warned_of() {
    let server = Server::start(&[]).unwrap();
    server.ask(&["ACL", "SETUSER", "default", "-config"]).unwrap();
    assert!(open(settings(&server.url(), Durability::D2)).await.is_ok());
}

#[tokio::test]
async fn what_is_wrong_at_the_start_is_named() {
    let server = Server::start(&["--requirepass", "geheim"]).unwrap();
    let url = server.url();
    let refused = open(settings(&url, Durability::D0)).await.unwrap_err();
    assert!(matches!(refused, OpenError::Credentials { .. }), "{refused}");
    let url = url.replace("redis://", "redis://:geheim@");
    assert!(open(settings(&url, Durability::D0)).await.is_ok());

    let bad = Library { code: "local function add(keys, args) retur 1 end", ..crate::COUNTER[0] };
    let bad: &'static [Library] = vec![bad].leak();
    let settings = Settings { library: bad, ..settings(&url, Durability::D0) };
    let refused = open(settings).await.unwrap_err();
    assert!(matches!(refused, OpenError::Library { .. }), "{refused}");
}

#[tokio::test]
async fn a_demoted_server_is_refused_while_its_sockets_stay_open() {
    let server = Server::start(&[]).unwrap();
    let (link, registry) = open(settings(&server.url(), Durability::D0)).await.unwrap();
    assert_eq!(link.call(add("{a}x", 2)).await, Ok(Value::Int(2)));
    let changes = link.changes();
    let before = *changes.borrow();
    // Of a primary that is not there: it keeps its data, and answers READONLY.
    server.ask(&["REPLICAOF", "127.0.0.1", "1"]).unwrap();
    let mut call = add("{a}x", 2);
    call.deadline = within(2_000);
    let refused = link.call(call).await.unwrap_err();
    assert!(matches!(refused, Failure::NotSent { .. }), "{refused}");
    assert!(metric(&registry, "roomring_redis_retries_total{cause=\"read_only\"}") > 0);
    assert!(!link.is_open() && *changes.borrow() > before);
    let before = *changes.borrow();
    server.ask(&["REPLICAOF", "NO", "ONE"]).unwrap();
    assert_eq!(link.call(add("{a}x", 2)).await, Ok(Value::Int(4)));
    assert!(*changes.borrow() > before);
}
