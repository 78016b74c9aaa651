//! Puts the parts together: ports, store, host, and the gateway in front of it in one process.
//!
//! The gateway's generated client runs directly on the host's generated service: the same
//! messages as between two processes, without HTTP/2. Order of a start: ports, then the data
//! directory, then keys inside it, so that a failed start leaves everything as it was.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gateway::Gateway;
use gateway::handle::{KeyFileError, KeyRing};
use process::banner;
use process::run::Service;
use prometheus::Registry;
use proto::v1::room_node_client::RoomNodeClient;
use room::Room;
use room_node::clock::Clock;
use room_node::cluster::Alone;
use room_node::host::{Host, Machine};
use room_node::store::embedded::{Embedded, OpenError, Options};
use room_node::store::memory::Memory;
use room_node::store::{Incarnation, Store};
use tokio::net::TcpListener;

use crate::flags::{self, Config};
use crate::settings;

/// Where handle keys stand in a data directory.
const HANDLE_KEYS: &str = "keys/handle-keys";
/// The name of the only node, in the store's claims.
const NODE: &str = "standalone";
/// Said when the process gives up its data directory.
const DISK_FAILED: &str = "the data directory can no longer be written (is the disk full?); \
    all that was acknowledged is in it: make it writable and start again";
/// Longest time answers in flight may take to leave.
const GATEWAY_DRAIN: Duration = Duration::from_secs(25);
/// Longest time the host may take to give its rooms up, in milliseconds; what is left then is
/// found by the next start.
const HOST_DRAIN_MS: u64 = 10_000;

/// Why nothing was started. Each is one line for the operator.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("cannot listen on {address} (--{flag})")]
    Listen { flag: &'static str, address: SocketAddr, source: std::io::Error },
    #[error("cannot use --data-dir")]
    Store(#[from] OpenError),
    #[error("cannot use the handle keys in {}", path.display())]
    Keys { path: PathBuf, source: KeyFileError },
    #[error("cannot make a handle key")]
    FreshKey(#[source] KeyFileError),
    #[error("no randomness: {0}")]
    Random(getrandom::Error),
    #[error("cannot start the host of rooms")]
    Host(#[from] room_node::error::StartError),
    #[error("cannot start the gateway")]
    Gateway(#[from] gateway::StartError),
}

/// A running `roomring`.
#[derive(Debug)]
pub struct Running {
    /// Where agents connect, with the port that was picked.
    pub listen: SocketAddr,
    /// Where health and metrics are served.
    pub admin: SocketAddr,
    gateway: gateway::Running,
    host: Host<Room>,
    /// Where rooms are, in words for the banner.
    storage: String,
    /// `None` for `--ephemeral`.
    disk: Option<Arc<Embedded>>,
}

/// Starts everything; returns once the ports answer.
///
/// # Errors
/// See [`StartError`]. Nothing is left behind but an empty data directory at most.
pub async fn start(config: &Config) -> Result<Running, StartError> {
    let clock = Clock::system();
    let listener = bind("listen", config.listen).await?;
    let admin_listener = bind("admin-listen", config.admin_listen).await?;
    let (store, disk) = open_store(config, clock)?;
    let keys = open_keys(config)?;
    let me = Incarnation { node: NODE.into(), boot: getrandom::u64().map_err(StartError::Random)? };
    let registry = Registry::new();
    if let Some(disk) = &disk {
        disk.register(&registry)?;
    }
    let (of_host, of_rooms) = (settings::host(config), settings::room(config));
    let alone = Arc::new(Alone::default());
    let host = Host::<Room>::start(of_host, of_rooms, store, clock, me, alone, &registry)?;
    host.watch_cpu(Arc::new(Machine));
    // The service bounds its messages; in one process a second bound has nothing to add.
    let node = RoomNodeClient::new(room_node::rpc::service(host.clone()))
        .max_decoding_message_size(usize::MAX)
        .max_encoding_message_size(usize::MAX);
    let of_edge = settings::gateway(config);
    let gateway = Gateway::start(&of_edge, listener, admin_listener, keys, &node, registry).await?;
    let (listen, admin, storage) = (gateway.address(), gateway.admin_address(), storage(config));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        %listen,
        admin_listen = %admin,
        storage,
        sync = sync(config),
        "started"
    );
    Ok(Running { listen, admin, gateway, host, storage, disk })
}

impl Service for Running {
    fn greeting(&self) -> String {
        let first = banner::first_line(self.listen, self.admin);
        format!("{first}\n{}", banner::text(flags::PROGRAM.name, self.listen, &self.storage))
    }

    /// The data directory can no longer be written: everything is refused from then on, and only a
    /// new start looks at the disk again.
    async fn failure(&self) -> String {
        match &self.disk {
            Some(disk) => disk.failure().await,
            None => std::future::pending().await,
        }
        DISK_FAILED.to_owned()
    }

    /// Finishes what is in flight, gives the rooms up, syncs and closes the store.
    async fn drain(self) -> bool {
        let deadline = gateway::clock::now() + GATEWAY_DRAIN;
        let served = self.gateway.drain(deadline).await;
        let released = self.host.drain(HOST_DRAIN_MS).await;
        let closed = match self.disk {
            Some(disk) => tokio::task::spawn_blocking(move || disk.close()).await.is_ok(),
            None => true,
        };
        served && released && closed
    }
}

async fn bind(flag: &'static str, address: SocketAddr) -> Result<TcpListener, StartError> {
    let failed = |source| StartError::Listen { flag, address, source };
    TcpListener::bind(address).await.map_err(failed)
}

type OpenedStore = (Arc<dyn Store>, Option<Arc<Embedded>>);

fn open_store(config: &Config, clock: Clock) -> Result<OpenedStore, StartError> {
    if config.ephemeral {
        return Ok((Memory::new(clock.now()), None));
    }
    let sync = match config.sync {
        flags::Sync::Always => room_node::store::embedded::Sync::Always,
        flags::Sync::EveryMs(ms) => room_node::store::embedded::Sync::EveryMs(ms),
    };
    let disk = Embedded::open(&Options::new(&config.data_dir, sync, clock.now()))?;
    Ok((Arc::clone(&disk) as Arc<dyn Store>, Some(disk)))
}

/// The ring of handle keys; a file is followed for changes.
fn open_keys(config: &Config) -> Result<KeyRing, StartError> {
    let (path, generate) = match &config.handle_keys_file {
        Some(path) => (path.clone(), false),
        None if config.ephemeral => return KeyRing::ephemeral().map_err(StartError::FreshKey),
        None => (config.data_dir.join(HANDLE_KEYS), true),
    };
    let opened = if generate { KeyRing::load_or_generate(&path) } else { KeyRing::load(&path) };
    let ring = opened.map_err(|source| StartError::Keys { path: path.clone(), source })?;
    gateway::handle::follow(&ring, path);
    Ok(ring)
}

/// Where rooms are, in words for the banner.
fn storage(config: &Config) -> String {
    if config.ephemeral {
        "rooms in memory only (--ephemeral)".to_owned()
    } else {
        format!("rooms in {}", config.data_dir.display())
    }
}

/// When writes reach the disk, as on the command line.
fn sync(config: &Config) -> String {
    match config.sync {
        flags::Sync::Always => "always".to_owned(),
        flags::Sync::EveryMs(ms) => format!("every-ms={ms}"),
    }
}
