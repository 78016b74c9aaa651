use process::flags::tls::{Pem, Pems};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::*;
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

/// The certificates in `tls/`.
fn tls(certificate: &[u8], key: &[u8], authority: &[u8]) -> channel::Settings {
    let tls = Some(Arc::new(Links::new(&pems(certificate, key, authority)).unwrap()));
    channel::Settings { tls, ..channel::Settings::default() }
}

fn pems(certificate: &[u8], key: &[u8], authority: &[u8]) -> Pems {
    let [certificate, key, authority] = [certificate, key, authority].map(|text| Pem {
        path: std::path::PathBuf::new(),
        text: String::from_utf8(text.to_vec()).unwrap(),
    });
    Pems { certificate, key, authority }
}

fn peer() -> channel::Settings {
    let ca = include_bytes!("tls/ca.pem");
    tls(include_bytes!("tls/peer.pem"), include_bytes!("tls/peer.key"), ca)
}

/// A gateway of region `us`, in a cluster without nodes.
async fn us(peers: TcpListener, channel: channel::Settings) -> Result<Running, StartError> {
    let listen = || TcpListener::bind("127.0.0.1:0");
    let ports =
        Ports { listener: listen().await.unwrap(), admin_listener: listen().await.unwrap() };
    let file = r#"{"default_region":"eu","regions":{"eu":["127.0.0.1:1"],"us":[]}}"#;
    let regions = Regions::parse("us", file).unwrap();
    let config = Config { region: "us".to_owned(), ..Config::default() };
    let views = watch::channel(Arc::new(Now::nobody())).1;
    let cluster = Cluster {
        views,
        refresh: Arc::new(|_view| {}),
        suspect: Arc::new(|_node, _suspect| {}),
        channel,
    };
    let peering = Some(Peering { regions, listener: peers });
    let keys = KeyRing::ephemeral().unwrap();
    Gateway::start_in_region(&config, ports, keys, cluster, peering, Registry::new()).await
}

#[tokio::test]
async fn only_holders_of_a_certificate_enter_from_another_region() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let running = us(listener, peer()).await.unwrap();
    let stranger = || {
        let ca = include_bytes!("tls/ca.pem");
        tls(include_bytes!("tls/stranger.pem"), include_bytes!("tls/stranger.key"), ca)
    };
    let deceived = {
        let other = include_bytes!("tls/other-ca.pem");
        tls(include_bytes!("tls/peer.pem"), include_bytes!("tls/peer.key"), other)
    };
    for (settings, enters) in [
        (peer(), true),
        (stranger(), false),
        // One who trusts another authority does not talk to us.
        (deceived, false),
        (channel::Settings::default(), false),
        (peer(), true),
    ] {
        let metrics = Arc::new(Metrics::register(&Registry::new()).unwrap());
        let client = channel::client(&address, &settings).unwrap();
        let upstream = Upstream::start(&client, 1, &metrics);
        if enters {
            let open = tokio::time::timeout(Duration::from_secs(10), upstream.opened()).await;
            assert!(open.is_ok(), "a peer enters");
            continue;
        }
        let tried = async {
            while metrics.link_reopens.get() < 2 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(20), tried).await.expect("it is refused");
        assert!(!upstream.is_open());
    }
    assert!(running.drain(clock::now() + Duration::from_secs(10)).await);
}

#[tokio::test]
async fn other_regions_need_certificates() {
    let listener = || TcpListener::bind("127.0.0.1:0");
    let plain = us(listener().await.unwrap(), channel::Settings::default()).await;
    assert!(matches!(plain, Err(StartError::PeersWithoutTls)));
}

/// Opens a stream to the peers' port; whether that is let in.
async fn enters(address: &str, settings: &channel::Settings) -> Option<Upstream> {
    let metrics = Arc::new(Metrics::register(&Registry::new()).unwrap());
    let upstream = Upstream::start(&channel::client(address, settings).unwrap(), 1, &metrics);
    let refused = async {
        while metrics.link_reopens.get() < 2 {
            tokio::task::yield_now().await;
        }
    };
    let entered = tokio::time::timeout(Duration::from_secs(20), async {
        tokio::select! {
            () = upstream.opened() => true,
            () = refused => false,
        }
    });
    entered.await.unwrap().then_some(upstream)
}

#[tokio::test]
async fn new_certificates_are_for_new_connections() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let of_us = peer();
    let running = us(listener, of_us.clone()).await.unwrap();
    let (other, other_key) =
        (include_bytes!("tls/stranger.pem"), include_bytes!("tls/stranger.key"));
    let other_ca = include_bytes!("tls/other-ca.pem");
    let of_client = peer();
    let old = enters(&address, &of_client).await.expect("both have the same authority");

    let links = of_us.tls.as_ref().unwrap();
    links.replace(&pems(other, other_key, other_ca)).unwrap();
    assert!(enters(&address, &of_client).await.is_none(), "it knows another authority");
    // The same channel settings, that is what a gateway has, with what its files say later.
    of_client.tls.as_ref().unwrap().replace(&pems(other, other_key, other_ca)).unwrap();
    let new = enters(&address, &of_client).await.expect("both have changed");

    let broken = pems(other, include_bytes!("tls/peer.key"), other_ca);
    assert!(links.replace(&broken).is_err(), "the key of another certificate");
    assert!(enters(&address, &of_client).await.is_some(), "what was there goes on");
    assert!(old.is_open() && new.is_open(), "old connections live on");
    drop(running);
}
