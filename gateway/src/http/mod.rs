//! HTTP: accepting, bounding and classifying requests.
//!
//! [`server`] accepts and drains connections, [`route`] finds what a path means, [`body`] bounds
//! what is read, [`cors`] decides who may speak, [`budget`] bounds what is written. Nothing here
//! knows what a tool does.

pub mod accept;
pub mod body;
pub mod budget;
pub mod cors;
mod detach;
mod head_timer;
pub mod reply;
pub mod route;
pub mod server;
pub mod stats;

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::sync::Semaphore;

use crate::client_addr::{ClientAddr, TrustedProxies};
use crate::config::Config;
use crate::mcp::tools::{Backend, Catalog};
use crate::pages::Pages;
use budget::Budget;
use cors::Rules;
use stats::Stats;

pub use server::serve;

/// What the HTTP side of a gateway may be told.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Largest request body, in bytes.
    pub body_bytes_max: usize,
    /// Most open connections.
    pub connections_max: usize,
    /// Most requests in flight, held waits included.
    pub inflight_max: usize,
    /// Memory of all request bodies, in bytes, beyond [`body::UNCHARGED_BYTES_MAX`] of each.
    pub request_bytes_max: usize,
    /// Memory of all responses being written, in bytes.
    pub response_bytes_max: usize,
    /// A request's head must be complete within this after its first byte, or after the connection
    /// was opened. How long a connection may be idle between requests is [`server::IDLE_MAX`].
    pub header_timeout: Duration,
    /// A request's body must be complete within this.
    pub body_timeout: Duration,
    /// Longest time of one call, held time apart.
    pub call_timeout: Duration,
    /// Longest held wait, on top of `call_timeout`.
    pub hold_max: Duration,
    /// How long everything goes on as before when this is to end, and how long idle connections stay
    /// open after that; see [`serve`].
    pub pre_stop: Duration,
    /// How long a drain may take, from when idle connections are closed, before what is still open
    /// is cut.
    pub drain_max: Duration,
    /// Host names that pass besides loopback.
    pub allowed_hosts: Vec<String>,
    /// Origins that pass besides those of allowed hosts.
    pub allowed_origins: Vec<String>,
    /// Turns the checks of host and origin off.
    pub allow_any_host: bool,
    /// Whether a host that is an address passes.
    pub allow_ip_literal_hosts: bool,
    /// Peers whose forwarding headers are believed.
    pub trusted_proxies: TrustedProxies,
    /// Base of `roomUrl`, without a trailing slash; its host is allowed.
    pub app_url: Option<String>,
}

impl Settings {
    /// Longest drain: held waits are refused at once, calls end within their timeout.
    const DRAIN_MAX: Duration = Duration::from_secs(20);

    /// The HTTP part of a gateway's settings, for a gateway that listens at `listen`. With an
    /// outside address and no names given, addresses pass as hosts (interfaces.md).
    #[must_use]
    pub fn new(config: &Config, listen: SocketAddr) -> Self {
        Self {
            body_bytes_max: config.body_bytes_max,
            connections_max: config.connections_max,
            inflight_max: config.inflight_max,
            request_bytes_max: config.request_bytes_max,
            response_bytes_max: config.response_bytes_max,
            header_timeout: config.header_timeout,
            body_timeout: config.body_timeout,
            call_timeout: config.call_timeout,
            hold_max: config.hold_max,
            pre_stop: config.pre_stop,
            drain_max: Self::DRAIN_MAX,
            allowed_hosts: config.allowed_hosts.clone(),
            allowed_origins: config.allowed_origins.clone(),
            allow_any_host: config.allow_any_host,
            allow_ip_literal_hosts: !listen.ip().is_loopback() && config.allowed_hosts.is_empty(),
            trusted_proxies: TrustedProxies::new(config.trusted_proxies.clone()),
            app_url: config.app_url.clone(),
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self::new(&Config::default(), SocketAddr::from(([127, 0, 0, 1], 0)))
    }
}

/// One gateway's edge: everything a request needs. Shared by all connections.
#[derive(Debug)]
pub struct Edge<B> {
    pub(crate) backend: B,
    pub(crate) catalog: Catalog,
    pub(crate) pages: Pages,
    pub(crate) rules: Rules,
    pub(crate) settings: Settings,
    pub(crate) stats: Stats,
    /// Memory of request bodies.
    pub(crate) bodies: Arc<Budget>,
    /// Memory of responses.
    pub(crate) budget: Arc<Budget>,
    pub(crate) inflight: Arc<Semaphore>,
    pub(crate) connections: Arc<Semaphore>,
    /// Connections that are only told 503.
    pub(crate) surplus: Arc<Semaphore>,
    /// Bodies read on after an early refusal.
    pub(crate) discards: Arc<Semaphore>,
    draining: AtomicBool,
}

/// Numbers of the moment, for gauges.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Gauges {
    pub connections: usize,
    pub surplus: usize,
    pub discards: usize,
    pub inflight: usize,
    pub request_bytes: usize,
    pub response_bytes: usize,
}

impl<B: Backend> Edge<B> {
    /// Prepares all answers and bounds. `app_url` is where the pages say this service is.
    #[must_use]
    pub fn new(backend: B, catalog: Catalog, settings: Settings, app_url: &str) -> Self {
        Self {
            pages: Pages::new(catalog.tools(), app_url),
            rules: Rules::new(&settings),
            bodies: Arc::new(Budget::new(settings.request_bytes_max)),
            budget: Arc::new(Budget::new(settings.response_bytes_max)),
            inflight: Arc::new(Semaphore::new(settings.inflight_max.min(Semaphore::MAX_PERMITS))),
            connections: Arc::new(Semaphore::new(
                settings.connections_max.min(Semaphore::MAX_PERMITS),
            )),
            surplus: Arc::new(Semaphore::new(server::SURPLUS_CONNECTIONS_MAX)),
            discards: Arc::new(Semaphore::new(route::DISCARDS_MAX)),
            stats: Stats::default(),
            draining: AtomicBool::new(false),
            backend,
            catalog,
            settings,
        }
    }

    /// Counters since the start.
    #[must_use]
    pub const fn stats(&self) -> &Stats {
        &self.stats
    }

    /// Numbers of the moment.
    #[must_use]
    pub fn gauges(&self) -> Gauges {
        let used = |max: usize, semaphore: &Semaphore| {
            max.min(Semaphore::MAX_PERMITS).saturating_sub(semaphore.available_permits())
        };
        Gauges {
            connections: used(self.settings.connections_max, &self.connections),
            surplus: used(server::SURPLUS_CONNECTIONS_MAX, &self.surplus),
            discards: used(route::DISCARDS_MAX, &self.discards),
            inflight: used(self.settings.inflight_max, &self.inflight),
            request_bytes: self.bodies.used(),
            response_bytes: self.budget.used(),
        }
    }

    /// Whether new calls can be served here.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        !self.is_draining() && self.backend.ready()
    }

    /// Whether this is to end.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.draining.load(Ordering::Relaxed)
    }

    /// From now on `/readyz` says no, and every answer ends its connection.
    pub fn start_draining(&self) {
        self.draining.store(true, Ordering::Relaxed);
    }

    /// The address admission counts for a peer.
    pub(crate) fn client(&self, peer: IpAddr, headers: &::http::HeaderMap) -> ClientAddr {
        self.settings.trusted_proxies.client(peer, headers)
    }
}
