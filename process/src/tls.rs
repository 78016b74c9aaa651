//! TLS of links between processes, both ways with certificates of one authority, and its files
//! followed for changes: certificates end, and a link should not have to.
//!
//! A connection keeps what it was opened with; only new ones see what was read since.

mod follow;

use std::io;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::rustls::client::WebPkiServerVerifier;
use tokio_rustls::rustls::crypto::{CryptoProvider, ring};
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::server::WebPkiClientVerifier;
use tokio_rustls::rustls::{self, ClientConfig, RootCertStore, ServerConfig};
use tokio_rustls::{TlsAcceptor, TlsConnector};

use crate::flags::tls::Pems;

pub use follow::{RELOAD_PERIOD, follow};
pub use tokio_rustls::{client, server};

/// Handshakes of one listener under way at a time; more connections wait to be accepted.
pub const HANDSHAKES_MAX: usize = 256;
/// Longest the other side may take for one.
pub const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);
/// What links speak.
const HTTP2: &[u8] = b"h2";

/// Why certificates are not taken. Says which file, never what is in it.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("no certificate in --tls-cert, or a broken one")]
    Certificate,
    #[error("no private key in --tls-key, or a broken one")]
    Key,
    #[error("no certificate in --tls-ca, or a broken one")]
    Authority,
    #[error("{0}")]
    Refused(#[from] rustls::Error),
    #[error("--tls-ca makes no authority: {0}")]
    Verifier(#[from] rustls::server::VerifierBuilderError),
    #[error("a certificate file cannot be read")]
    Read(#[source] io::Error),
    #[error("a certificate file is larger than {} bytes", follow::PEM_BYTES_MAX)]
    TooLarge,
}

/// What connections are opened with at the moment.
#[derive(Clone)]
struct Configs {
    client: Arc<ClientConfig>,
    server: Arc<ServerConfig>,
}

/// The links of one process. New connections use the certificates that were taken last.
pub struct Links {
    configs: RwLock<Configs>,
    reloads: IntCounterVec,
    under_way: IntGauge,
    failed: IntCounter,
}

impl std::fmt::Debug for Links {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Links(secret)")
    }
}

impl Links {
    /// Takes certificates, registers no metrics yet.
    ///
    /// # Errors
    /// They cannot be used; says which.
    pub fn new(pems: &Pems) -> Result<Self, TlsError> {
        // Cannot fail: the names are constants that a test registers.
        let counters = || -> Result<_, prometheus::Error> {
            let reloads = Opts::new(
                "roomring_tls_reloads_total",
                "Changes of the certificate files, by whether they were taken.",
            );
            let failed = IntCounter::new(
                "roomring_tls_handshakes_failed_total",
                "Connections whose TLS handshake failed or took too long, on the listening side.",
            )?;
            let under_way = IntGauge::new(
                "roomring_tls_handshakes",
                "TLS handshakes under way, on the listening side.",
            )?;
            Ok((IntCounterVec::new(reloads, &["result"])?, under_way, failed))
        };
        let (reloads, under_way, failed) =
            counters().map_err(|error| rustls::Error::General(error.to_string()))?;
        for result in [TAKEN, REFUSED] {
            reloads.with_label_values(&[result]);
        }
        Ok(Self { configs: RwLock::new(configs(pems)?), reloads, under_way, failed })
    }

    /// Adds the metrics.
    ///
    /// # Errors
    /// A name is taken.
    pub fn register(&self, registry: &Registry) -> Result<(), prometheus::Error> {
        registry.register(Box::new(self.reloads.clone()))?;
        registry.register(Box::new(self.under_way.clone()))?;
        registry.register(Box::new(self.failed.clone()))
    }

    /// Takes other certificates for the connections that are opened from now on.
    ///
    /// # Errors
    /// They cannot be used; nothing has changed.
    pub fn replace(&self, pems: &Pems) -> Result<(), TlsError> {
        let taken = configs(pems).map(|configs| {
            *self.configs.write().unwrap_or_else(PoisonError::into_inner) = configs;
        });
        self.told(&taken);
        taken
    }

    /// Counts a change of the files.
    fn told(&self, taken: &Result<(), TlsError>) {
        let result = if taken.is_ok() { TAKEN } else { REFUSED };
        self.reloads.with_label_values(&[result]).inc();
    }

    fn now(&self) -> Configs {
        self.configs.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The side that connects: the other's certificate must name `host`.
    ///
    /// # Errors
    /// The host cannot be in a certificate, or the handshake fails.
    pub async fn connect<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        host: &str,
        stream: S,
    ) -> io::Result<client::TlsStream<S>> {
        let name = ServerName::try_from(host.to_owned()).map_err(io::Error::other)?;
        TlsConnector::from(self.now().client).connect(name, stream).await
    }

    /// The side that listens: whoever shows no certificate of the authority is turned away.
    pub fn incoming<S: AsyncRead + AsyncWrite + Unpin, C: Stream<Item = io::Result<S>>>(
        self: &Arc<Self>,
        connections: C,
    ) -> impl Stream<Item = io::Result<server::TlsStream<S>>> + use<S, C> {
        let links = Arc::clone(self);
        let handshakes = connections.map(move |connection| {
            let links = Arc::clone(&links);
            async move {
                match connection {
                    Ok(stream) => links.accept(stream).await.map(Ok),
                    Err(error) => Some(Err(error)),
                }
            }
        });
        handshakes.buffer_unordered(HANDSHAKES_MAX).filter_map(std::future::ready)
    }

    async fn accept<S: AsyncRead + AsyncWrite + Unpin>(
        &self,
        stream: S,
    ) -> Option<server::TlsStream<S>> {
        let handshake = TlsAcceptor::from(self.now().server).accept(stream);
        self.under_way.inc();
        let handshake = tokio::time::timeout(HANDSHAKE_TIMEOUT, handshake).await;
        self.under_way.dec();
        let failure = match handshake {
            Ok(Ok(stream)) => return Some(stream),
            Ok(Err(error)) => error.to_string(),
            Err(late) => late.to_string(),
        };
        self.failed.inc();
        tracing::debug!(error = failure, "a tls handshake failed");
        None
    }
}

const TAKEN: &str = "taken";
const REFUSED: &str = "refused";

fn configs(pems: &Pems) -> Result<Configs, TlsError> {
    let provider: Arc<CryptoProvider> = Arc::new(ring::default_provider());
    let chain = certificates(&pems.certificate.text).ok_or(TlsError::Certificate)?;
    let key = PrivateKeyDer::from_pem_slice(pems.key.text.as_bytes());
    let key = key.map_err(|_broken| TlsError::Key)?;
    let mut roots = RootCertStore::empty();
    for authority in certificates(&pems.authority.text).ok_or(TlsError::Authority)? {
        roots.add(authority).map_err(|_broken| TlsError::Authority)?;
    }
    let roots = Arc::new(roots);
    let of_server =
        WebPkiServerVerifier::builder_with_provider(Arc::clone(&roots), Arc::clone(&provider));
    let mut client = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()?
        .with_webpki_verifier(of_server.build()?)
        .with_client_auth_cert(chain.clone(), key.clone_key())?;
    let of_client = WebPkiClientVerifier::builder_with_provider(roots, Arc::clone(&provider));
    let mut server = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(of_client.build()?)
        .with_single_cert(chain, key)?;
    client.alpn_protocols = vec![HTTP2.to_vec()];
    server.alpn_protocols = vec![HTTP2.to_vec()];
    Ok(Configs { client: Arc::new(client), server: Arc::new(server) })
}

/// All certificates of a PEM text; `None` if there is none or one is broken.
fn certificates(pem: &str) -> Option<Vec<CertificateDer<'static>>> {
    let all: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(pem.as_bytes()).collect();
    all.ok().filter(|all| !all.is_empty())
}

#[cfg(test)]
mod tests;
