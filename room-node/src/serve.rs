//! The gRPC server of a node's service: one connection per gateway, few streams on each.

mod place;

use std::error::Error as _;
use std::time::Duration;

use object::Object;
use process::flags::tls::Pems;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Certificate, Identity, Server, ServerTlsConfig};

use crate::host::Host;
use crate::rpc;

/// Connections open at a time; more are closed at once. A gateway needs one.
pub const CONNECTIONS_MAX: usize = 1_024;
/// Streams one gateway may have open at a time; it needs a few.
pub const CONNECTION_STREAMS_MAX: usize = 64;
/// A silent connection is probed this often.
const KEEPALIVE_INTERVAL: Duration = Duration::from_secs(2);
/// An answer to a probe may take this long; then the gateway is gone and its calls are cancelled.
const KEEPALIVE_TIMEOUT: Duration = Duration::from_secs(4);
/// Bytes under way on one stream, and on all of one connection, before the gateway waits: HTTP/2's
/// own 64 KiB would let one large upload stall the small calls behind it.
const STREAM_WINDOW_BYTES: u32 = 1024 * 1024;
const CONNECTION_WINDOW_BYTES: u32 = 4 * 1024 * 1024;

/// The configuration of a server that turns away whoever shows no certificate; checked.
///
/// # Errors
/// What cannot be used.
pub fn tls_of(pems: &Pems) -> Result<ServerTlsConfig, String> {
    let identity = Identity::from_pem(&pems.certificate, &pems.key);
    let authority = Certificate::from_pem(&pems.authority);
    let config = ServerTlsConfig::new().identity(identity).client_ca_root(authority);
    match Server::builder().tls_config(config.clone()) {
        Ok(_) => Ok(config),
        Err(error) => Err(error.source().map_or_else(|| error.to_string(), ToString::to_string)),
    }
}

/// Serves the host until `stop`; then no new streams, and the end comes with the last of them.
pub fn serve<O: Object>(
    host: Host<O>,
    listener: TcpListener,
    tls: Option<ServerTlsConfig>,
    stop: CancellationToken,
) -> Result<JoinHandle<Result<(), tonic::transport::Error>>, tonic::transport::Error> {
    let counted = host.clone();
    let incoming = place::bounded(
        TcpIncoming::from(listener).with_nodelay(Some(true)),
        CONNECTIONS_MAX,
        move || counted.metrics().bound_hit("connections_max"),
    );
    let server = match tls {
        Some(tls) => Server::builder().tls_config(tls)?,
        None => Server::builder(),
    };
    let server = server
        .http2_keepalive_interval(Some(KEEPALIVE_INTERVAL))
        .http2_keepalive_timeout(Some(KEEPALIVE_TIMEOUT))
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .concurrency_limit_per_connection(CONNECTION_STREAMS_MAX);
    let service = rpc::service(host);
    let served = server.serve_with_incoming_shutdown(service, incoming, stop.cancelled_owned());
    Ok(tokio::spawn(served))
}
