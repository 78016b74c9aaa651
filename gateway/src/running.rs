//! Putting a gateway together, and taking it down.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use membership::Now;
use process::admin::Admin;
use process::tls::Links;
use prometheus::Registry;
use proto::v1::room_node_client::RoomNodeClient;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::call::{Parts, Pipeline};
use crate::clock::{self, Clock, Instant};
use crate::config::Config;
use crate::handle::{KeyRing, RegionError, Sealer};
use crate::http::{Edge, Settings, serve};
use crate::mcp::tools::Catalog;
use crate::metrics::Metrics;
use crate::region::Regions;
use crate::relay;
use crate::routing::{Dial, Peers, Refresh, Routes, Suspect};
use crate::upstream::channel;
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
    #[error(
        "other regions are only reached with certificates: give --tls-cert, --tls-key, --tls-ca"
    )]
    PeersWithoutTls,
    #[error("the regions file was read for another region than --region")]
    OtherRegion,
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
        let own = Registry::new();
        let metrics = Arc::new(Metrics::register(&own)?);
        let upstream = Upstream::start(node, config.link_streams, &metrics);
        let routes = Routes::single(upstream, config.inflight_max, Arc::clone(&metrics));
        let ports = Ports { listener, admin_listener };
        let parts = Assembly { keyring, routes, metrics, registries: vec![own, registry] };
        serve_over(config, ports, parts, None).await
    }

    /// As [`Gateway::start`], for a gateway in front of the nodes of a cluster: calls go to the
    /// owner of their room in the view that is followed.
    pub async fn start_in_cluster(
        config: &Config,
        listener: TcpListener,
        admin_listener: TcpListener,
        keyring: KeyRing,
        cluster: Cluster,
        registry: Registry,
    ) -> Result<Running, StartError> {
        let ports = Ports { listener, admin_listener };
        Self::start_in_region(config, ports, keyring, cluster, None, registry).await
    }

    /// As [`Gateway::start_in_cluster`], where there are other regions too.
    pub async fn start_in_region(
        config: &Config,
        ports: Ports,
        keyring: KeyRing,
        cluster: Cluster,
        peering: Option<Peering>,
        registry: Registry,
    ) -> Result<Running, StartError> {
        let own = Registry::new();
        let metrics = Arc::new(Metrics::register(&own)?);
        let of_peers = peering
            .map(|peering| Abroad::new(peering, &cluster.channel, config, &metrics))
            .transpose()?;
        let dial = dial(cluster.channel, config.link_streams, Arc::clone(&metrics));
        let routes = Routes::follow(
            cluster.views,
            cluster.refresh,
            cluster.suspect,
            dial,
            config.inflight_max,
            Arc::clone(&metrics),
        );
        let parts = Assembly { keyring, routes, metrics, registries: vec![own, registry] };
        serve_over(config, ports, parts, of_peers).await
    }
}

/// The other regions, as a gateway is told of them.
#[derive(Debug)]
pub struct Peering {
    pub regions: Regions,
    /// Where the gateways of other regions connect. They are believed what they say of their
    /// clients' addresses, so that only holders of a certificate may.
    pub listener: TcpListener,
}

/// The ways to other regions, opened, and the way from them.
struct Abroad {
    peers: Peers,
    listener: TcpListener,
    tls: Arc<Links>,
}

impl Abroad {
    fn new(
        peering: Peering,
        settings: &channel::Settings,
        config: &Config,
        metrics: &Arc<Metrics>,
    ) -> Result<Self, StartError> {
        let tls = settings.tls.clone().ok_or(StartError::PeersWithoutTls)?;
        if peering.regions.own() != config.region {
            return Err(StartError::OtherRegion);
        }
        let peers = Peers::open(peering.regions, |address| {
            let client = channel::client(address, settings);
            let logged = client.inspect_err(|error| {
                tracing::error!(address, %error, "peer gateway not dialled");
            });
            logged.ok().map(|client| {
                Upstream::start_to_peer(address, &client, config.link_streams, metrics)
            })
        });
        Ok(Self { peers, listener: peering.listener, tls })
    }
}

/// The nodes of a cluster, as a gateway is told of them.
pub struct Cluster {
    /// The view of the moment, and what comes after it.
    pub views: watch::Receiver<Arc<Now>>,
    /// Asks for a view of at least a number that a node has seen. Must not block.
    pub refresh: Refresh,
    /// Is told of nodes that do not answer. Must not block.
    pub suspect: Suspect,
    /// How channels to nodes are kept.
    pub channel: channel::Settings,
}

impl std::fmt::Debug for Cluster {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Cluster").field("channel", &self.channel).finish_non_exhaustive()
    }
}

/// Opens streams to members by the address in the node table.
fn dial(settings: channel::Settings, streams: usize, metrics: Arc<Metrics>) -> Dial {
    Arc::new(move |member| match channel::client(&member.address, &settings) {
        Ok(client) => Some(Upstream::start_to(&member.address, &client, streams, &metrics)),
        Err(error) => {
            let node = &member.incarnation.node;
            tracing::error!(%node, address = member.address, %error, "node not dialled");
            None
        }
    })
}

/// The ports of a gateway, bound.
#[derive(Debug)]
pub struct Ports {
    pub listener: TcpListener,
    pub admin_listener: TcpListener,
}

/// What a gateway is put together from, however it reaches its nodes.
struct Assembly {
    keyring: KeyRing,
    routes: Routes,
    metrics: Arc<Metrics>,
    registries: Vec<Registry>,
}

/// Serves over the routes. The gateway's own metrics are registered apart: other parts of the
/// process may use the same names with other labels.
async fn serve_over(
    config: &Config,
    ports: Ports,
    parts: Assembly,
    abroad: Option<Abroad>,
) -> Result<Running, StartError> {
    let Assembly { keyring, routes, metrics, registries } = parts;
    let address = ports.listener.local_addr()?;
    let admin_address = ports.admin_listener.local_addr()?;
    let app_url = config
        .app_url
        .as_deref()
        .map_or_else(|| format!("http://{address}"), |url| url.trim_end_matches('/').to_owned());
    routes.wait_open().await;
    let (peers, entry) = match abroad {
        Some(Abroad { peers, listener, tls }) => (peers, Some((listener, tls))),
        None => (Peers::none(&config.region), None),
    };
    let pipeline = Arc::new(Pipeline::new(
        config,
        Parts {
            sealer: Sealer::new(&config.region, keyring)?,
            routes,
            peers,
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
    let relay = entry
        .map(|(listener, tls)| relay::serve(listener, &tls, Arc::clone(&pipeline), stop.clone()));
    let admin = admin(Arc::clone(&pipeline), &edge, metrics, registries);
    let admin = tokio::spawn(admin.serve(ports.admin_listener, end.clone()));
    let edge = tokio::spawn(serve(ports.listener, edge, stop.clone()));
    let farewell = config.farewell();
    Ok(Running { address, admin_address, farewell, pipeline, stop, end, edge, relay, admin })
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
        ready: Box::new(move || match (ready.is_draining(), ready.is_ready()) {
            (true, _) => Err("it is about to end"),
            (false, false) => Err("no node takes calls"),
            (false, true) => Ok(()),
        }),
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
    /// From the signal to end until idle connections are closed.
    farewell: Duration,
    pipeline: Arc<Pipeline>,
    /// This is to end.
    stop: CancellationToken,
    /// Nothing at all from now on.
    end: CancellationToken,
    edge: JoinHandle<bool>,
    /// Serves the gateways of other regions.
    relay: Option<JoinHandle<()>>,
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

    /// Sends clients elsewhere for twice `pre_stop` (see [`serve`]), then refuses held waits, lets
    /// what else is under way finish until `deadline`, and cuts the rest. Returns whether everything
    /// finished by itself. The node must outlive this.
    pub async fn drain(mut self, deadline: Instant) -> bool {
        self.stop.cancel();
        let parted = clock::now() + self.farewell;
        let left = tokio::time::timeout_at(deadline.min(parted), &mut self.edge).await;
        self.pipeline.end_waits();
        let finished = match left {
            Ok(ended) => Ok(ended),
            Err(_elapsed) => tokio::time::timeout_at(deadline, &mut self.edge).await,
        };
        let relayed = match &mut self.relay {
            Some(relay) => tokio::time::timeout_at(deadline, relay).await.is_ok(),
            None => true,
        };
        self.end.cancel();
        relayed && matches!(finished, Ok(Ok(true)))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.stop.cancel();
        self.end.cancel();
        self.edge.abort();
        if let Some(relay) = &self.relay {
            relay.abort();
        }
        self.admin.abort();
    }
}

#[cfg(test)]
mod tests;
