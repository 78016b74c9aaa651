//! The channel to a node in another process.
//!
//! One channel per incarnation, by the address of the node table, never balanced (cluster 3.3).
//! Without keep-alive a node whose machine is gone, or whose packets are dropped, looks alive for
//! as long as the kernel retransmits.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use hyper_util::rt::TokioIo;
use process::tls::Links;
use process::tls::client::TlsStream;
use proto::v1::room_node_client::RoomNodeClient;
use tokio::net::TcpStream;
use tonic::transport::{Channel, Endpoint};
use tower_service::Service;

/// Largest message of a link: a call with its blob, and room for the envelope. Not below the
/// node's own bound.
pub const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// Bytes under way to this process on one stream, and on all of one connection, before the peer
/// waits: HTTP/2's own 64 KiB would let one large answer stall the small ones behind it.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// How a node's silence is told from its absence.
#[derive(Clone, Debug)]
pub struct Settings {
    /// How long the connection may take.
    pub connect_timeout: Duration,
    /// How often an idle or silent connection is probed.
    pub keep_alive_interval: Duration,
    /// How long the answer to a probe may take.
    pub keep_alive_timeout: Duration,
    /// Both sides show certificates of one authority; `None` for a network that is trusted.
    pub tls: Option<Arc<Links>>,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(1),
            // Together four seconds: less than a node lease, so that a call in flight to a node
            // that is gone is on its way again when the lease ends.
            keep_alive_interval: Duration::from_secs(2),
            keep_alive_timeout: Duration::from_secs(2),
            tls: None,
        }
    }
}

/// Why a node cannot be dialled.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("the address is no HOST:PORT; correct the node's --advertise, or the regions file")]
    Address(#[source] tonic::transport::Error),
}

/// A client of the node at `address` (`HOST:PORT`), which connects when it is first used and
/// again whenever the connection was lost. Must be called within a tokio runtime.
pub fn client(address: &str, settings: &Settings) -> Result<RoomNodeClient<Channel>, DialError> {
    // TLS is the connector's part, which knows the certificates of the moment.
    let endpoint =
        Endpoint::from_shared(format!("http://{address}")).map_err(DialError::Address)?;
    let endpoint = endpoint
        .connect_timeout(settings.connect_timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(settings.keep_alive_interval)
        .keep_alive_timeout(settings.keep_alive_timeout)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES);
    let channel = match &settings.tls {
        Some(links) => endpoint.connect_with_connector_lazy(Connector { links: Arc::clone(links) }),
        None => endpoint.connect_lazy(),
    };
    Ok(RoomNodeClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX))
}

/// Opens connections with certificates.
#[derive(Clone, Debug)]
struct Connector {
    links: Arc<Links>,
}

impl Service<Uri> for Connector {
    type Response = TokioIo<TlsStream<TcpStream>>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Self::Response>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let links = Arc::clone(&self.links);
        Box::pin(async move {
            let (Some(host), Some(port)) = (uri.host(), uri.port_u16()) else {
                return Err(io::Error::new(io::ErrorKind::InvalidInput, "no HOST:PORT"));
            };
            // An IPv6 address stands in brackets in a URI, and nowhere else.
            let host = host.trim_start_matches('[').trim_end_matches(']');
            let stream = TcpStream::connect((host, port)).await?;
            stream.set_nodelay(true)?;
            links.connect(host, stream).await.map(TokioIo::new)
        })
    }
}
