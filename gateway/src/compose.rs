//! Puts `roomring-gateway` together: ports, keys, the link to Redis, the view, the edge over it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use membership::{WatchError, Watcher, Watching};
use process::banner;
use process::flags::tls::Pems;
use process::run::Service;
use process::tls::{self, Links, TlsError};
use prometheus::Registry;
use redis_link::{Library, RedisLink};
use tokio::net::TcpListener;

use crate::flags::{Config, PROGRAM};
use crate::handle::{KeyFileError, KeyRing};
use crate::upstream::channel;
use crate::{Cluster, Gateway, Peering, Ports, clock, handle};

/// Longest time answers in flight may take to leave, from when idle connections are closed.
const DRAIN: Duration = Duration::from_secs(25);
/// What a gateway asks of Redis.
const LIBRARIES: &[Library] = &[membership::NODES];

/// Why nothing was started. Each is one line for the operator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("--{0} is missing")]
    Missing(&'static str),
    #[error("cannot listen on {address} (--{flag})")]
    Listen { flag: &'static str, address: SocketAddr, source: std::io::Error },
    #[error("cannot use the handle keys in {}", path.display())]
    Keys { path: PathBuf, source: KeyFileError },
    #[error("cannot use Redis")]
    Redis(#[from] redis_link::OpenError),
    #[error("cannot follow the view of the cluster")]
    Watch(#[from] WatchError),
    #[error("the certificates cannot be used; correct --tls-cert, --tls-key and --tls-ca")]
    Tls(#[from] TlsError),
    #[error("a metric's name is taken")]
    Metrics(#[from] prometheus::Error),
    #[error("cannot start the gateway")]
    Gateway(#[from] crate::StartError),
}

/// A running `roomring-gateway`.
#[derive(Debug)]
pub struct Running {
    gateway: crate::Running,
    drain_max: Duration,
    region: String,
    /// Keeps the view followed.
    _watcher: Arc<Watcher>,
}

/// Starts everything; returns once the ports answer.
///
/// # Errors
/// See [`StartError`].
pub async fn start(config: &Config) -> Result<Running, StartError> {
    let endpoint = config.redis_url.clone().ok_or(StartError::Missing("redis-url"))?;
    let path = config.handle_keys_file.clone().ok_or(StartError::Missing("handle-keys-file"))?;
    let listener = bind("listen", config.listen).await?;
    let admin_listener = bind("admin-listen", config.admin_listen).await?;
    let peer_listener = match config.peer_listen {
        Some(address) => Some(bind("peer-listen", address).await?),
        None => None,
    };
    let keys = KeyRing::load(&path);
    let keys = keys.map_err(|source| StartError::Keys { path: path.clone(), source })?;
    handle::follow(&keys, path);
    let registry = Registry::new();
    let settings = redis_link::Settings::new(endpoint, config.durability, LIBRARIES);
    let link = RedisLink::open(settings, &registry).await?;
    let watcher = Arc::new(Watcher::open(link, &Watching::new(&config.region), &registry).await?);
    let (refreshed, marked) = (Arc::clone(&watcher), Arc::clone(&watcher));
    let cluster = Cluster {
        views: watcher.subscribe(),
        refresh: Arc::new(move |at_least| refreshed.refresh(at_least)),
        suspect: Arc::new(
            move |node, suspect| {
                if suspect { marked.suspect(node) } else { marked.clear(node) }
            },
        ),
        channel: channel::Settings {
            tls: config.tls.is_given().then(|| links(&config.tls, &registry)).transpose()?,
            ..channel::Settings::default()
        },
    };
    let peering = config.regions.clone().zip(peer_listener);
    let peering = peering.map(|(regions, listener)| Peering { regions, listener });
    let drain_max = config.edge().farewell() + DRAIN;
    let (edge, ports) = (config.edge(), Ports { listener, admin_listener });
    let gateway = Gateway::start_in_region(&edge, ports, keys, cluster, peering, registry).await?;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        listen = %gateway.address(),
        admin_listen = %gateway.admin_address(),
        region = config.region,
        peer_listen = config.peer_listen.map(tracing::field::display),
        tls = config.tls.is_given(),
        durability = ?config.durability,
        "started"
    );
    Ok(Running { gateway, drain_max, region: config.region.clone(), _watcher: watcher })
}

impl Service for Running {
    fn greeting(&self) -> String {
        let (listen, admin) = (self.gateway.address(), self.gateway.admin_address());
        let storage = format!("rooms in the nodes of region {}", self.region);
        let first = banner::first_line(listen, admin);
        format!("{first}\n{}", banner::text(PROGRAM.name, listen, &storage))
    }

    /// A gateway has nothing of its own to lose: it waits for Redis and for nodes.
    async fn failure(&self) -> String {
        std::future::pending().await
    }

    async fn drain(self) -> bool {
        self.gateway.drain(clock::now() + self.drain_max).await
    }
}

/// Links with certificates, whose files are followed.
fn links(pems: &Pems, registry: &Registry) -> Result<Arc<Links>, StartError> {
    let links = Arc::new(Links::new(pems)?);
    links.register(registry)?;
    tokio::spawn(tls::follow(Arc::clone(&links), pems.clone(), tls::RELOAD_PERIOD));
    Ok(links)
}

async fn bind(flag: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    let failed = |source| StartError::Listen { flag, address, source };
    TcpListener::bind(address).await.map_err(failed)
}
