//! A TCP proxy that misbehaves on demand.

use std::io::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::Address;

/// Bytes that are copied at once.
const CHUNK: usize = 16 * 1024;

/// What the proxy does with the bytes of all its connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Pass,
    /// Takes connections and reads nothing: neither side hears of the other again.
    Hold,
    /// Passes requests on; when the first byte of an answer comes, cuts that connection instead.
    CutAnswers,
    /// Puts an answer that nobody asked for before each of the server's.
    ExtraAnswers,
    /// Cuts each connection at once.
    Cut,
}

/// A proxy in front of one server. Dropping it cuts everything.
#[derive(Debug)]
pub struct Proxy {
    address: Address,
    mode: watch::Sender<Mode>,
    /// Bytes of requests that were passed on.
    requested: Arc<AtomicU64>,
    task: JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
        self.mode.send_replace(Mode::Cut);
    }
}

impl Proxy {
    /// Starts on a port of its own.
    ///
    /// # Errors
    /// That there is no port.
    pub async fn start(to: Address) -> Result<Self, Error> {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let at: SocketAddr = listener.local_addr()?;
        let mode = watch::Sender::new(Mode::Pass);
        let requested = Arc::new(AtomicU64::new(0));
        let (watched, counter) = (mode.clone(), Arc::clone(&requested));
        let task = tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                let to = (to.host.clone(), to.port);
                let (mode, counter) = (watched.subscribe(), Arc::clone(&counter));
                tokio::spawn(async move {
                    if let Ok(server) = TcpStream::connect(to).await {
                        join(client, server, mode, counter).await;
                    }
                });
            }
        });
        let address = Address { host: at.ip().to_string(), port: at.port() };
        Ok(Self { address, mode, requested, task })
    }

    /// Changes what it does, for connections that exist too.
    pub fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address.clone()
    }

    /// `redis://127.0.0.1:PORT`
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address)
    }

    /// Bytes of requests that were passed on so far.
    #[must_use]
    pub fn requested(&self) -> u64 {
        self.requested.load(Ordering::Relaxed)
    }
}

async fn join(
    client: TcpStream,
    server: TcpStream,
    mode: watch::Receiver<Mode>,
    count: Arc<AtomicU64>,
) {
    // Without this each small answer would wait for the next one.
    drop((client.set_nodelay(true), server.set_nodelay(true)));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    // Either direction's end is the end of both: the halves are dropped together.
    tokio::select! {
        () = copy(from_client, to_server, mode.clone(), Some(&count)) => {}
        () = copy(from_server, to_client, mode, None) => {}
    }
}

async fn copy(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
    count: Option<&AtomicU64>,
) {
    let mut chunk = vec![0; CHUNK];
    loop {
        // An answer that is cut must have come first.
        let stops = |mode: &Mode| *mode == Mode::Cut;
        let now = *mode.borrow_and_update();
        match now {
            Mode::Cut => return,
            Mode::Hold => {
                if mode.changed().await.is_err() {
                    return;
                }
                continue;
            }
            Mode::Pass | Mode::CutAnswers | Mode::ExtraAnswers => {}
        }
        let read = tokio::select! {
            read = from.read(&mut chunk) => read,
            changed = mode.changed() => {
                if changed.is_err() || stops(&mode.borrow()) {
                    return;
                }
                continue;
            }
        };
        let Ok(length @ 1..) = read else { return };
        if count.is_none() && *mode.borrow() == Mode::CutAnswers {
            return;
        }
        if count.is_none()
            && *mode.borrow() == Mode::ExtraAnswers
            && to.write_all(b"+EXTRA\r\n").await.is_err()
        {
            return;
        }
        // What was read just before the mode changed is held too.
        while *mode.borrow_and_update() == Mode::Hold {
            if mode.changed().await.is_err() {
                return;
            }
        }
        let bytes = chunk.get(..length).unwrap_or_default();
        if to.write_all(bytes).await.is_err() {
            return;
        }
        if let Some(count) = count {
            count.fetch_add(u64::try_from(length).unwrap_or(0), Ordering::Relaxed);
        }
    }
}
