use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
use crate::clock;
use crate::fake_node::{FakeNode, success};

async fn start() -> Running {
    let (_node, client, _cancels) = FakeNode::start(|_| success("{}"));
    let listen = || TcpListener::bind("127.0.0.1:0");
    Gateway::start(
        &Config::default(),
        listen().await.unwrap(),
        listen().await.unwrap(),
        KeyRing::ephemeral().unwrap(),
        &client,
        Registry::new(),
    )
    .await
    .unwrap()
}

/// One request on a connection of its own; the whole answer.
async fn ask(address: SocketAddr, head: &str, body: &str) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let request = format!(
        "{head} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
         content-type: application/json\r\naccept: application/json, text/event-stream\r\n\
         content-length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.unwrap();
    answer
}

#[tokio::test]
async fn a_gateway_serves_tells_of_itself_and_drains() {
    let running = start().await;
    let (address, admin) = (running.address(), running.admin_address());
    let ping = r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#;
    let answer = ask(address, "POST /mcp", ping).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    for (port, path) in
        [(admin, "/livez"), (admin, "/readyz"), (address, "/livez"), (address, "/readyz")]
    {
        let answer = ask(port, &format!("GET {path}"), "").await;
        assert!(answer.starts_with("HTTP/1.1 200"), "{path}: {answer}");
    }
    let metrics = ask(admin, "GET /metrics", "").await;
    for line in ["roomring_gateway_links 2", "roomring_waits_refused_total{tier=\"gateway\"} 0"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
    let requests = metrics.lines().find(|line| line.starts_with("roomring_http_requests_total"));
    assert_eq!(requests, Some("roomring_http_requests_total 3"));

    assert!(running.drain(clock::now() + Duration::from_secs(10)).await);
    assert!(TcpStream::connect(address).await.is_err());
}

#[tokio::test]
async fn a_bad_region_is_refused_at_the_start() {
    let (_node, client, _cancels) = FakeNode::start(|_| success("{}"));
    let config = Config { region: "No Region".to_owned(), ..Config::default() };
    let (one, two) = (TcpListener::bind("127.0.0.1:0"), TcpListener::bind("127.0.0.1:0"));
    let keys = KeyRing::ephemeral().unwrap();
    let started = Gateway::start(
        &config,
        one.await.unwrap(),
        two.await.unwrap(),
        keys,
        &client,
        Registry::new(),
    )
    .await;
    assert!(matches!(started, Err(StartError::Region(_))));
}
