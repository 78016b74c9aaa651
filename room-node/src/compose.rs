//! Puts `roomring-node` together: ports, the link to Redis, membership, store, host, server; and
//! takes it down in the order that lets others take over.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use membership::{Incarnation, JoinError, Membership, Standing, Terms, TermsError};
use object::{Millis, Object as _};
use process::admin::Admin;
use process::banner;
use process::flags::tls::Pems;
use process::run::Service;
use process::tls::{self, Links, TlsError};
use prometheus::Registry;
use redis_link::{Library, RedisLink};
use room::Room;
use tokio::net::TcpListener;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;
use crate::cluster::member::Member;
use crate::flags::{Config, PROGRAM};
use crate::host::{DRAIN_MS, Host, Machine};
use crate::store::redis::{LIBRARY, Options, RedisStore};
use crate::{serve, store};

/// What a node asks of Redis.
const LIBRARIES: &[Library] = &[membership::NODES, LIBRARY];
/// The oldest stored schema that is read.
const SCHEMA_MIN: u32 = 1;
/// Longest time to say in the node table that this node drains, or leaves.
const SAY: Duration = Duration::from_secs(3);
/// Longest time gateways may take to let go of their streams.
const GOODBYE: Duration = Duration::from_secs(2);

/// Why nothing was started. Each is one line for the operator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("--redis-url is missing")]
    NoRedis,
    #[error("cannot listen on {address} (--{flag})")]
    Listen { flag: &'static str, address: SocketAddr, source: std::io::Error },
    #[error("the certificates cannot be used; correct --tls-cert, --tls-key and --tls-ca")]
    Tls(#[from] TlsError),
    #[error("a metric's name is taken")]
    Metrics(#[from] prometheus::Error),
    #[error("a listener has no address")]
    Listener(#[from] std::io::Error),
    #[error("no randomness: {0}")]
    Random(getrandom::Error),
    #[error("cannot use Redis")]
    Redis(#[from] redis_link::OpenError),
    #[error("the node cannot have this name")]
    Name(#[from] membership::ParseError),
    #[error("the node lease cannot be this long")]
    Terms(#[from] TermsError),
    #[error("cannot join the cluster")]
    Join(#[from] JoinError),
    #[error("cannot start the host of rooms")]
    Host(#[from] crate::error::StartError),
}

/// A running `roomring-node`.
#[derive(Debug)]
pub struct Running {
    listen: SocketAddr,
    admin_listen: SocketAddr,
    clock: Clock,
    membership: Arc<Membership>,
    host: Host<Room>,
    region: String,
    /// No new streams from now on.
    stop: CancellationToken,
    /// Nothing at all from now on.
    end: CancellationToken,
    server: JoinHandle<Result<(), tonic::transport::Error>>,
}

/// Starts everything; returns once the ports answer and the node is a member.
///
/// # Errors
/// See [`StartError`].
pub async fn start(config: &Config) -> Result<Running, StartError> {
    let endpoint = config.redis_url.clone().ok_or(StartError::NoRedis)?;
    let terms = Terms::new(config.node_ttl_ms, config.node_heartbeat_ms)?;
    let listener = bind("listen", config.listen).await?;
    let admin_listener = bind("admin-listen", config.admin_listen).await?;
    let (listen, admin_listen) = (listener.local_addr()?, admin_listener.local_addr()?);
    let registry = Registry::new();
    let (stop, end) = (CancellationToken::new(), CancellationToken::new());
    let parts = Arc::new(Parts::default());
    // First of all: a node that waits for its predecessor's lease can be looked at.
    tokio::spawn(admin(&registry, &parts).serve(admin_listener, end.clone()));
    let starting = end.clone().drop_guard();
    let links = config.tls.is_given().then(|| links(&config.tls, &registry)).transpose()?;
    let of_redis = redis_link::Settings {
        node_ttl_ms: config.node_ttl_ms,
        ..redis_link::Settings::new(endpoint, config.durability, LIBRARIES)
    };
    let link = parts.opened(RedisLink::open(of_redis, &registry).await?);
    let address = config.advertise.clone().unwrap_or_else(|| listen.to_string());
    let name = config.node_id.as_deref().unwrap_or(&address);
    let me = Incarnation::new(name, getrandom::u64().map_err(StartError::Random)?)?;
    let mut of_member = membership::Settings::new(&config.region, me.clone(), &address, terms);
    of_member.schema = (SCHEMA_MIN, Room::SCHEMA);
    let membership = Membership::join(Arc::clone(&link), of_member, &registry).await?;
    // It lives as long as the process, as the clocks that follow it do.
    let kept: &'static Arc<Membership> = Box::leak(Box::new(Arc::clone(&membership)));
    let clock = Clock::following(kept.as_ref());
    let host = start_host(config, clock, &membership, &link, &registry)?;
    parts.joined(&membership, &host);
    let server = serve::serve(host.clone(), listener, links.as_ref(), stop.clone());
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        %listen,
        %admin_listen,
        node = %me.node,
        advertise = address,
        region = config.region,
        tls = config.tls.is_given(),
        durability = ?config.durability,
        "started"
    );
    let (region, end) = (config.region.clone(), starting.disarm());
    Ok(Running { listen, admin_listen, clock, membership, host, region, stop, end, server })
}

fn start_host(
    config: &Config,
    clock: Clock,
    membership: &Arc<Membership>,
    link: &Arc<RedisLink>,
    registry: &Registry,
) -> Result<Host<Room>, StartError> {
    let me = membership.me();
    let me = store::Incarnation { node: Arc::clone(&me.node), boot: me.boot };
    let up_since = Millis(membership.up_since_ms());
    let options = Options { up_since, schema_max: Room::SCHEMA, clock };
    let store = RedisStore::open(Arc::clone(link), membership.owned(), options, registry)?;
    let cluster = Arc::new(Member::new(Arc::clone(membership), Arc::clone(link)));
    let (of_host, of_rooms) = (config.host(), config.room());
    let host = Host::start(of_host, of_rooms, store, clock, me, cluster, registry)?;
    host.watch_cpu(Arc::new(Machine));
    if let Some(limit_bytes) = Machine::limit_bytes() {
        host.watch_memory(limit_bytes, Arc::new(Machine));
    }
    Ok(host)
}

fn admin(registry: &Registry, parts: &Arc<Parts>) -> Admin {
    let parts = Arc::clone(parts);
    Admin {
        registries: vec![registry.clone()],
        ready: Box::new(move || parts.ready()),
        refresh: Box::new(|| {}),
    }
}

/// What readiness looks at, as far as the start has come.
#[derive(Default)]
struct Parts {
    link: Mutex<Option<Arc<RedisLink>>>,
    joined: Mutex<Option<(Arc<Membership>, Host<Room>)>>,
}

impl Parts {
    fn opened(&self, link: Arc<RedisLink>) -> Arc<RedisLink> {
        *self.link.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&link));
        link
    }

    fn joined(&self, membership: &Arc<Membership>, host: &Host<Room>) {
        let joined = Some((Arc::clone(membership), host.clone()));
        *self.joined.lock().unwrap_or_else(PoisonError::into_inner) = joined;
    }

    /// Ready: the store can be reached, the node lease holds, and nothing is being given up.
    fn ready(&self) -> Result<(), &'static str> {
        let link = self.link.lock().unwrap_or_else(PoisonError::into_inner);
        let link = link.as_ref().ok_or("it looks for Redis")?;
        let joined = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        let (membership, host) = joined.as_ref().ok_or("it waits to join its region")?;
        if host.is_draining() {
            Err("it gives its rooms up")
        } else if !link.is_open() {
            Err("Redis is away")
        } else if !membership.is_leased() {
            Err("it has no node lease")
        } else {
            Ok(())
        }
    }
}

impl Service for Running {
    fn greeting(&self) -> String {
        let first = banner::first_line_of_node(self.listen, self.admin_listen);
        let (name, version) = (PROGRAM.name, env!("CARGO_PKG_VERSION"));
        let node = &self.membership.me().node;
        format!("{first}\n\n{name} {version}: node {node} of region {}\n", self.region)
    }

    /// Another incarnation must take this one's place: whatever it still holds belongs to others.
    async fn failure(&self) -> String {
        format!("the node lease is lost: {}", self.membership.lost().await)
    }

    /// Others learn first that this node drains, and only then does readiness fail; rooms are
    /// released while calls are still answered; the last word is that nothing is held any more.
    async fn drain(self) -> bool {
        if matches!(*self.membership.standing().borrow(), Standing::Lost(_)) {
            return self.end_now();
        }
        let by = || self.clock.instant(self.clock.mono()) + SAY;
        let told = self.membership.drain(by()).await;
        if let Err(error) = &told {
            tracing::warn!(%error, "the others were not told of the drain");
        }
        let released = self.host.drain(DRAIN_MS).await;
        self.stop.cancel();
        let mut server = self.server;
        let closed = tokio::time::timeout(GOODBYE, &mut server).await.is_ok();
        if !closed {
            // Gateways that keep their streams learn by the end of the connection.
            server.abort();
        }
        let left = self.membership.leave(by()).await;
        if let Err(error) = &left {
            tracing::warn!(%error, "the others were not told of the end; the node lease ends by itself");
        }
        self.end.cancel();
        told.is_ok() && released && left.is_ok()
    }
}

impl Running {
    /// Drops everything where it stands, as a kill would: it is all somebody else's.
    fn end_now(self) -> bool {
        self.stop.cancel();
        self.server.abort();
        self.end.cancel();
        false
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
