//! Putting a gateway together, and taking it down.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use process::admin::Admin;
use prometheus::Registry;
use proto::v1::room_node_client::RoomNodeClient;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::call::{Parts, Pipeline};
use crate::clock::{Clock, Instant};
use crate::config::Config;
use crate::handle::{KeyRing, RegionError, Sealer};
use crate::http::{Edge, Settings, serve};
use crate::mcp::tools::Catalog;
use crate::metrics::Metrics;
use crate::routing::Routes;
use crate::upstream::{Transport, Upstream};

/// Why a gateway does not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the region cannot be a handle's tag")]
    Region(#[from] RegionError),
    #[error("a metric's name is taken")]
    Metrics(#[from] prometheus::Error),
    #[error("the system gives no random numbers")]
    Random,
    #[error("a listener has no address")]
    Listener(#[from] io::Error),
}

/// The edge of one process.
#[derive(Debug)]
pub struct Gateway;

impl Gateway {
    /// Starts to serve MCP on `listener` and health and metrics on `admin_listener`. Calls go to
    /// `node`: the generated client over a channel, or running directly on the generated server.
    /// `registry` holds the metrics of the rest of the process and is gathered together with the
    /// gateway's own. Must be called within a tokio runtime. Returns once a stream to the node is
    /// open, or after a moment without one; then `/readyz` says so until there is.
    pub async fn start<T: Transport>(
        config: &Config,
        listener: TcpListener,
        admin_listener: TcpListener,
        keyring: KeyRing,
        node: &RoomNodeClient<T>,
        registry: Registry,
    ) -> Result<Running, StartError> {
        let address = listener.local_addr()?;
        let admin_address = admin_listener.local_addr()?;
        let app_url = config.app_url.as_deref().map_or_else(
            || format!("http://{address}"),
            |url| url.trim_end_matches('/').to_owned(),
        );
        // Registered apart: other parts of the process may use the same names with other labels.
        let own = Registry::new();
        let metrics = Arc::new(Metrics::register(&own)?);
        let upstream =
            Upstream::start(node, config.link_streams, config.inflight_max, Arc::clone(&metrics));
        upstream.wait_open().await;
        let pipeline = Arc::new(Pipeline::new(
            config,
            Parts {
                sealer: Sealer::new(&config.region, keyring)?,
                routes: Routes::single(upstream),
                clock: Clock::machine(),
                metrics: Arc::clone(&metrics),
                app_url: app_url.clone(),
                seed: getrandom::u64().map_err(|_no_random| StartError::Random)?,
            },
        ));
        let edge = Arc::new(Edge::new(
            Arc::clone(&pipeline),
            Catalog::new(room::catalog::tools()),
            Settings::new(config, address),
            &app_url,
        ));
        let (stop, end) = (CancellationToken::new(), CancellationToken::new());
        let admin = admin(Arc::clone(&pipeline), &edge, metrics, vec![own, registry]);
        let admin = tokio::spawn(admin.serve(admin_listener, end.clone()));
        let edge = tokio::spawn(serve(listener, edge, stop.clone()));
        Ok(Running { address, admin_address, pipeline, stop, end, edge, admin })
    }
}

fn admin(
    pipeline: Arc<Pipeline>,
    edge: &Arc<Edge<Arc<Pipeline>>>,
    metrics: Arc<Metrics>,
    registries: Vec<Registry>,
) -> Admin {
    let ready = Arc::clone(edge);
    let edge = Arc::clone(edge);
    Admin {
        registries,
        ready: Box::new(move || ready.is_ready()),
        refresh: Box::new(move || {
            pipeline.refresh_gauges();
            metrics.http.refresh(edge.stats(), edge.gauges());
        }),
    }
}

/// A gateway that serves. Dropping it cuts everything.
#[derive(Debug)]
pub struct Running {
    address: SocketAddr,
    admin_address: SocketAddr,
    pipeline: Arc<Pipeline>,
    /// No new connections from now on.
    stop: CancellationToken,
    /// Nothing at all from now on.
    end: CancellationToken,
    edge: JoinHandle<bool>,
    admin: JoinHandle<()>,
}

impl Running {
    /// Where MCP is served.
    #[must_use]
    pub const fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where health and metrics are served.
    #[must_use]
    pub const fn admin_address(&self) -> SocketAddr {
        self.admin_address
    }

    /// Stops to accept, refuses held waits, lets what else is under way finish until `deadline`,
    /// then cuts the rest. Returns whether everything finished by itself. The node must outlive
    /// this.
    pub async fn drain(mut self, deadline: Instant) -> bool {
        self.stop.cancel();
        self.pipeline.end_waits();
        let finished = tokio::time::timeout_at(deadline, &mut self.edge).await;
        self.end.cancel();
        matches!(finished, Ok(Ok(true)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        self.end.cancel();
        self.edge.abort();
        self.admin.abort();
    }
}

#[cfg(test)]
mod tests;
