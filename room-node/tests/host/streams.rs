//! The node's server behind a real socket: streams of one connection.

use proto::v1::room_node_client::RoomNodeClient;
use proto::v1::{Call, Down, Up, up};
use room_node::serve::{CONNECTION_STREAMS_MAX, serve};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Channel;

use super::rig::Rig;

type Link = (mpsc::Sender<Up>, tonic::Streaming<Down>);

async fn open(mut client: RoomNodeClient<Channel>) -> Link {
    let (up, receiver) = mpsc::channel(8);
    (up, client.link(ReceiverStream::new(receiver)).await.unwrap().into_inner())
}

/// A round trip, after which the server has read all that was sent on the connection before it.
async fn answered((up, down): &mut Link) {
    let call = Call { id: 1, op: "nonsense".into(), kind: 1, ..Call::default() };
    up.send(Up { what: Some(up::What::Call(call)) }).await.unwrap();
    down.next().await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stream_over_the_bound_of_a_connection_waits_for_another_to_end() {
    let rig = Rig::new();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let at = format!("http://{}", listener.local_addr().unwrap());
    let stop = CancellationToken::new();
    let serving = serve(rig.host.clone(), listener, None, stop.clone());
    let channel = Channel::from_shared(at).unwrap().connect().await.unwrap();
    let client = RoomNodeClient::new(channel);
    let mut links = Vec::new();
    for _ in 0..CONNECTION_STREAMS_MAX {
        let mut link = open(client.clone()).await;
        answered(&mut link).await;
        links.push(link);
    }
    let streams = || rig.host.metrics().links.get();
    assert_eq!(streams(), i64::from(CONNECTION_STREAMS_MAX));
    let over = tokio::spawn(open(client.clone()));
    for link in &mut links {
        answered(link).await;
    }
    assert!(!over.is_finished(), "it waits");
    assert_eq!(streams(), i64::from(CONNECTION_STREAMS_MAX));
    drop(links.pop());
    let mut link = over.await.unwrap();
    answered(&mut link).await;
    drop((links, link));
    stop.cancel();
    drop(client);
    serving.await.unwrap().unwrap();
}
