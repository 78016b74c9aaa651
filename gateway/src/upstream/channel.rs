//! The channel to a node in another process.
//!
//! One channel per incarnation, by the address of the node table, never balanced (cluster 3.3).
//! Without keep-alive a node whose machine is gone, or whose packets are dropped, looks alive for
//! as long as the kernel retransmits.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use proto::v1::room_node_client::RoomNodeClient;
use tonic::transport::{
    Certificate, Channel, ClientTlsConfig, Endpoint, Identity, Server, ServerTlsConfig,
};

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
    pub tls: Option<Arc<Tls>>,
}

/// What `--tls-cert`, `--tls-key` and `--tls-ca` name, as PEM.
pub struct Tls {
    /// Shown to the other side, whichever opened the connection.
    pub certificate: Vec<u8>,
    pub key: Vec<u8>,
    /// Whose certificates are accepted, and no others.
    pub authority: Vec<u8>,
}

// The key is a secret.
impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Tls(..)")
    }
}

impl From<&process::flags::tls::Pems> for Tls {
    fn from(pems: &process::flags::tls::Pems) -> Self {
        Self {
            certificate: pems.certificate.clone().into_bytes(),
            key: pems.key.clone().into_bytes(),
            authority: pems.authority.clone().into_bytes(),
        }
    }
}

impl Tls {
    /// Whether both sides can be made of it.
    ///
    /// # Errors
    /// One line that says what cannot be used.
    pub fn check(&self) -> Result<(), String> {
        let client = Endpoint::from_static("https://localhost").tls_config(self.client());
        let server = Server::builder().tls_config(self.server());
        let failed = client.map(drop).and_then(|()| server.map(drop)).err();
        failed.map_or(Ok(()), |error| {
            let why = error.source().map_or_else(|| error.to_string(), ToString::to_string);
            Err(format!("they cannot be used: {why}"))
        })
    }

    fn identity(&self) -> Identity {
        Identity::from_pem(&self.certificate, &self.key)
    }

    /// For the side that connects: the other's certificate must name the host that was dialled.
    fn client(&self) -> ClientTlsConfig {
        let authority = Certificate::from_pem(&self.authority);
        ClientTlsConfig::new().ca_certificate(authority).identity(self.identity())
    }

    /// For the side that listens: whoever shows no certificate is turned away.
    #[must_use]
    pub fn server(&self) -> ServerTlsConfig {
        let authority = Certificate::from_pem(&self.authority);
        ServerTlsConfig::new().identity(self.identity()).client_ca_root(authority)
    }
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
    #[error("the certificates cannot be used; correct --tls-cert, --tls-key and --tls-ca")]
    Tls(#[source] tonic::transport::Error),
}

/// A client of the node at `address` (`HOST:PORT`), which connects when it is first used and
/// again whenever the connection was lost. Must be called within a tokio runtime.
pub fn client(address: &str, settings: &Settings) -> Result<RoomNodeClient<Channel>, DialError> {
    let scheme = if settings.tls.is_some() { "https" } else { "http" };
    let mut endpoint =
        Endpoint::from_shared(format!("{scheme}://{address}")).map_err(DialError::Address)?;
    if let Some(tls) = &settings.tls {
        endpoint = endpoint.tls_config(tls.client()).map_err(DialError::Tls)?;
    }
    let channel = endpoint
        .connect_timeout(settings.connect_timeout)
        .tcp_nodelay(true)
        .http2_keep_alive_interval(settings.keep_alive_interval)
        .keep_alive_timeout(settings.keep_alive_timeout)
        .keep_alive_while_idle(true)
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .connect_lazy();
    Ok(RoomNodeClient::new(channel)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX))
}
