//! Nodes behind real sockets: what only a network can do.

use std::net::SocketAddr;

use proto::v1::room_node_server::RoomNodeServer;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use super::cluster::{member, now, room_of};
use super::*;
use crate::upstream::channel::{self, MESSAGE_BYTES_MAX, Settings};

/// Serves a scripted node.
async fn serve(node: Arc<FakeNode>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let service = RoomNodeServer::from_arc(node);
    let incoming = TcpIncoming::from(listener);
    tokio::spawn(Server::builder().serve_with_incoming(service, incoming));
    address
}

/// Carries bytes to `to` until `cut`; then connections stay open and nothing passes, as if all
/// packets were dropped.
async fn proxy(to: SocketAddr, cut: watch::Receiver<bool>) -> SocketAddr {
    async fn carry(mut from: impl AsyncReadExt + Unpin, mut to: impl AsyncWriteExt + Unpin) {
        let mut buffer = vec![0; 4_096];
        while let Ok(read @ 1..) = from.read(&mut buffer).await {
            if to.write_all(&buffer[..read]).await.is_err() {
                return;
            }
        }
    }
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let mut cut = cut.clone();
            tokio::spawn(async move {
                let mut far = None;
                if !*cut.borrow() {
                    far = Some(TcpStream::connect(to).await.unwrap());
                }
                let (near, far) = (near.into_split(), far.map(TcpStream::into_split));
                let work = async {
                    match far {
                        Some((read, write)) => {
                            tokio::join!(carry(near.0, write), carry(read, near.1));
                        }
                        None => std::future::pending().await,
                    }
                };
                tokio::pin!(work);
                tokio::select! {
                    () = &mut work => return,
                    _cut = cut.wait_for(|cut| *cut) => {}
                }
                // Nothing is read any more, and nothing closed.
                std::future::pending::<()>().await;
                work.await;
            });
        }
    });
    address
}

/// A node whose machine vanishes without a word: the connection stays, nothing comes back. The
/// settings are a tenth of the product's, so the four seconds of cluster 2.10 are 400 ms here.
#[tokio::test]
async fn a_black_hole_is_left_by_keep_alive() {
    let tenth = |duration: Duration| duration / 10;
    let product = Settings::default();
    let settings = Settings {
        connect_timeout: tenth(product.connect_timeout),
        keep_alive_interval: tenth(product.keep_alive_interval),
        keep_alive_timeout: tenth(product.keep_alive_timeout),
        tls: None,
    };
    let (hole, _client, _cancels) = FakeNode::start(|_| Act::Silence);
    let (other, _client, _cancels2) = FakeNode::start(|_| success("{}"));
    let (cut, is_cut) = watch::channel(false);
    let hole_at = proxy(serve(Arc::clone(&hole)).await, is_cut).await.to_string();
    let other_at = serve(Arc::clone(&other)).await.to_string();
    let of = |address: &str, node: &str| {
        let mut member = member("x:1", 1, membership::State::Active);
        member.incarnation = membership::Incarnation::new(node, 1).unwrap();
        member.address = address.to_owned();
        member
    };
    let both = now(1, vec![of(&hole_at, "hole"), of(&other_at, "other")]);
    let room = room_of(&both, &hole_at);
    let (views, receiver) = watch::channel(both);
    let metrics = metrics();
    let (of_dial, of_routes) = (Arc::clone(&metrics), Arc::clone(&metrics));
    let (least, most) = (settings.keep_alive_timeout, 2 * settings.keep_alive_interval);
    let dial: Dial = Arc::new(move |member| {
        let client = channel::client(&member.address, &settings).unwrap();
        Some(Upstream::start(&client, 1, &of_dial))
    });
    let (refresh, suspect): (Refresh, Suspect) = (Arc::new(|_| {}), Arc::new(|_, _| {}));
    let routes = Routes::follow(receiver, refresh, suspect, dial, INFLIGHT_MAX, of_routes);
    let open = async {
        while metrics.links_open.get() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), open).await.expect("both are reached");
    let call = {
        let (routes, room) = (routes.clone(), room.clone());
        let request = Request { object: room, ..request("{}") };
        tokio::spawn(async move { code(routes.call(&request).await) })
    };
    let arrived = async {
        while hole.seen().is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), arrived).await.expect("the call is there");
    cut.send_replace(true);
    let begun = clock::now();
    let noticed = async {
        while metrics.links_open.get() > 1 {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(10), noticed).await.expect("the silence is noticed");
    let took = begun.elapsed();
    views.send_replace(now(2, vec![of(&other_at, "other")]));
    assert_eq!(call.await.unwrap(), "success");
    assert_eq!(other.seen()[0].attempt, 2);
    // Half as much again for a machine that is busy with other tests.
    assert!(took >= least && took <= most + most / 2, "{took:?}");
    assert_eq!(
        product.keep_alive_interval + product.keep_alive_timeout,
        Duration::from_secs(4),
        "the product's own"
    );
}

#[tokio::test]
async fn an_answer_over_the_bound_of_a_message_ends_its_stream_and_the_next_one_serves() {
    let huge: &str = Box::leak("x".repeat(MESSAGE_BYTES_MAX + 1).into_boxed_str());
    let (node, _client, _cancels) = FakeNode::start(move |call| match &*call.args {
        b"{}" => success("{}"),
        _ => success(huge),
    });
    let at = serve(Arc::clone(&node)).await.to_string();
    let metrics = metrics();
    let client = channel::client(&at, &Settings::default()).unwrap();
    let upstream = Upstream::start(&client, 1, &metrics);
    let routes = Routes::single(upstream, INFLIGHT_MAX, Arc::clone(&metrics));
    routes.wait_open().await;
    let asked = Request { repeatable: false, ..request(r#"{"n":1}"#) };
    assert_eq!(code(routes.call(&asked).await), "outcome_unknown", "it has run");
    assert_eq!(code(routes.call(&request("{}")).await), "success");
    assert_eq!(node.seen().len(), 2);
}
