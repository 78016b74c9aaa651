//! The gRPC server of a node's service: one connection per gateway, few streams on each.

mod place;

use std::sync::Arc;
use std::time::Duration;

use object::Object;
use process::tls::Links;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;

use crate::host::Host;
use crate::rpc;

/// Connections open at a time; more are closed at once. A gateway needs one.
pub const CONNECTIONS_MAX: usize = 1_024;
/// Streams one gateway may have open at a time; it needs a few.
pub const CONNECTION_STREAMS_MAX: u32 = 64;
/// A silent connection is probed this often.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// An answer to a probe may take this long; then the gateway is gone and its calls are cancelled.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(4);
/// Bytes under way on one stream, and on all of one connection, before the gateway waits: HTTP/2's
/// own 64 KiB would let one large upload stall the small calls behind it.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// Serves the host until `stop`; then no new streams, and the end comes with the last of them.
pub fn serve<O: Object>(
    host: Host<O>,
    listener: TcpListener,
    tls: Option<&Arc<Links>>,
    stop: CancellationToken,
) -> JoinHandle<Result<(), tonic::transport::Error>> {
    let counted = host.clone();
    let incoming = place::bounded(
        TcpIncoming::from(listener).with_nodelay(Some(true)),
        CONNECTIONS_MAX,
        move || counted.metrics().bound_hit("connections_max"),
    );
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_concurrent_streams(Some(CONNECTION_STREAMS_MAX));
    let service = rpc::service(host);
    let stop = stop.cancelled_owned();
    match tls {
        Some(links) => tokio::spawn(server.serve_with_incoming_shutdown(
            service,
            links.incoming(incoming),
            stop,
        )),
        None => tokio::spawn(server.serve_with_incoming_shutdown(service, incoming, stop)),
    }
}
