//! A TCP proxy that can be a bad network: silent in one direction or both, resetting, or cutting a
//! link after the server has received a request and before its answer is through.
//!
//! Bytes that are held back arrive when the network heals, in order, as TCP would send them again.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// What the network does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    Open,
    /// Nothing passes; links stay.
    Silent,
    /// Nothing passes towards the server.
    SilentToServer,
    /// Nothing passes towards the client.
    SilentToClient,
    /// Links are reset, new ones too.
    Reset,
    /// Requests pass; with the first byte of an answer the link is reset.
    CutAfterReceive,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToServer,
    ToClient,
}

impl Mode {
    const fn holds(self, direction: Direction) -> bool {
        match (self, direction) {
            (Self::Silent, _)
            | (Self::SilentToServer, Direction::ToServer)
            | (Self::SilentToClient, Direction::ToClient) => true,
            (
                Self::Open
                | Self::Reset
                | Self::CutAfterReceive
                | Self::SilentToServer
                | Self::SilentToClient,
                _,
            ) => false,
        }
    }
}

/// One proxied address.
#[derive(Debug)]
pub(crate) struct Proxy {
    pub(crate) listen: SocketAddr,
    mode: watch::Sender<Mode>,
}

/// Longest a connection to the server behind may take.
const CONNECT: Duration = Duration::from_secs(5);

impl Proxy {
    pub(crate) async fn start(server: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let listen = listener.local_addr().unwrap();
        let (mode, seen) = watch::channel(Mode::Open);
        tokio::spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                tokio::spawn(carry(client, server, seen.clone()));
            }
        });
        Self { listen, mode }
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.mode.send_replace(mode);
    }
}

async fn carry(client: TcpStream, server: SocketAddr, mut mode: watch::Receiver<Mode>) {
    let held = |mode: &Mode| mode.holds(Direction::ToServer);
    if mode.wait_for(|mode| !held(mode)).await.is_err() || *mode.borrow() == Mode::Reset {
        return reset(&client);
    }
    let Ok(Ok(server)) = tokio::time::timeout(CONNECT, TcpStream::connect(server)).await else {
        return reset(&client);
    };
    let both = [client.set_nodelay(true), server.set_nodelay(true)];
    drop(both);
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let mut watched = mode.clone();
    // Whichever ends first ends both: these protocols never close only one half.
    tokio::select! {
        () = pump(from_client, to_server, mode.clone(), Direction::ToServer) => {}
        () = pump(from_server, to_client, mode, Direction::ToClient) => {}
        _ = watched.wait_for(|mode| *mode == Mode::Reset) => {}
    }
}

/// Forwards until an end, or until the network cuts it.
async fn pump(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    mut mode: watch::Receiver<Mode>,
    direction: Direction,
) {
    let mut chunk = vec![0; 16 * 1024];
    while let Ok(n @ 1..) = from.read(&mut chunk).await {
        let Ok(now) = mode.wait_for(|mode| !mode.holds(direction)).await.map(|mode| *mode) else {
            return;
        };
        let cut = now == Mode::CutAfterReceive && direction == Direction::ToClient;
        if cut || now == Mode::Reset {
            reset(to.as_ref());
            reset(from.as_ref());
            return;
        }
        if to.write_all(&chunk[..n]).await.is_err() {
            return;
        }
    }
}

/// The end of this link will be a reset, not an orderly close.
fn reset(stream: &TcpStream) {
    drop(stream.set_zero_linger());
}
