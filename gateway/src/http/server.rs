//! Accepting connections under a bound, serving them, and draining.

use std::convert::Infallible;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;

use super::Edge;
use super::head_timer::{HeadTimer, Limits};
use super::route::{self, Arrival};
use super::stats::Turned;
use crate::clock;
use crate::mcp::tools::Backend;

/// Largest request head, in bytes; a larger one is 431.
pub const HEAD_BYTES_MAX: usize = 64 * 1024;
/// Read buffer of a connection, in bytes: a head fits.
pub const BUFFER_BYTES_MAX: usize = 128 * 1024;
const _: () = assert!(HEAD_BYTES_MAX < BUFFER_BYTES_MAX);
/// Connections served beyond `connections_max` only to be told 503; more are closed unanswered.
pub const SURPLUS_CONNECTIONS_MAX: usize = 64;
/// An idle connection is closed after this: longer than the idle time of common balancers, and
/// than the pause between two polls, so that it is not us who closes under a request.
pub const IDLE_MAX: Duration = Duration::from_secs(120);
/// An answer must be taken within this once it has to wait for its reader: the largest fits a
/// slow line, and what a reader that takes nothing holds comes back.
pub const ANSWER_TAKEN_MAX: Duration = Duration::from_secs(60);
/// Pause after a failed accept: the process is out of descriptors or memory.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Serves until `shutdown`, then drains: no new connections, requests in flight finish, and after
/// `drain_max` what is still open is cut. Returns whether everything ended by itself.
pub async fn serve<B: Backend>(
    listener: TcpListener,
    edge: Arc<Edge<B>>,
    shutdown: CancellationToken,
) -> bool {
    let cut = CancellationToken::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = shutdown.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(permit) = admit(&edge) else { continue };
        let connection =
            Connection { edge: Arc::clone(&edge), shutdown: shutdown.clone(), cut: cut.clone() };
        tokio::spawn(connection.run(stream, peer.ip(), permit));
    }
    drop(listener);
    edge.start_draining();
    drain(&edge, &cut).await
}

/// A place among the connections, or among those that are only told 503.
fn admit<B>(edge: &Edge<B>) -> Option<(OwnedSemaphorePermit, bool)> {
    if let Ok(permit) = Arc::clone(&edge.connections).try_acquire_owned() {
        return Some((permit, false));
    }
    match Arc::clone(&edge.surplus).try_acquire_owned() {
        Ok(permit) => Some((permit, true)),
        Err(_) => {
            edge.stats.turn_away(Turned::Connections);
            None
        }
    }
}

/// Waits for all connections and all detached work; cuts the connections when time is up.
async fn drain<B: Backend>(edge: &Edge<B>, cut: &CancellationToken) -> bool {
    let deadline = clock::now() + edge.settings.drain_max;
    let connections = all(&edge.connections, edge.settings.connections_max);
    let surplus = all(&edge.surplus, SURPLUS_CONNECTIONS_MAX);
    let inflight = all(&edge.inflight, edge.settings.inflight_max);
    let everything = async {
        connections.await;
        surplus.await;
        inflight.await;
    };
    let in_time = tokio::time::timeout_at(deadline, everything).await.is_ok();
    cut.cancel();
    if in_time {
        tracing::info!("drained");
    } else {
        let left = edge.gauges();
        tracing::warn!(left.connections, left.inflight, "drain ran out of time");
    }
    in_time
}

async fn all(semaphore: &Semaphore, count: usize) {
    // More places than u32::MAX cannot be taken at once; nobody configures as many.
    let count = u32::try_from(count.min(Semaphore::MAX_PERMITS)).unwrap_or(u32::MAX);
    // It is never closed.
    drop(semaphore.acquire_many(count).await);
}

struct Connection<B> {
    edge: Arc<Edge<B>>,
    shutdown: CancellationToken,
    cut: CancellationToken,
}

impl<B: Backend> Connection<B> {
    async fn run(self, stream: TcpStream, peer: IpAddr, place: (OwnedSemaphorePermit, bool)) {
        let (_permit, surplus) = place;
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "setting nodelay failed");
        }
        let arrival = Arrival { peer, surplus };
        let edge = &self.edge;
        let head = edge.settings.header_timeout;
        let limits = Limits { head, idle: IDLE_MAX, write: ANSWER_TAKEN_MAX };
        let (stream, phase) = HeadTimer::new(stream, limits);
        let phase = &phase;
        let service = service_fn(move |request: hyper::Request<Incoming>| async move {
            phase.busy();
            let response = route::answer(edge, arrival, request).await;
            phase.idle();
            Ok::<_, Infallible>(response)
        });
        let connection = http1::Builder::new()
            .header_read_timeout(None)
            .max_header_size(HEAD_BYTES_MAX)
            .max_buf_size(BUFFER_BYTES_MAX)
            .serve_connection(TokioIo::new(stream), service);
        let mut connection = std::pin::pin!(connection);
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => Some(ended),
            () = self.shutdown.cancelled() => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                tokio::select! {
                    ended = connection.as_mut() => ended,
                    () = self.cut.cancelled() => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
    }
}
