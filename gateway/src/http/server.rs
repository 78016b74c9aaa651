//! Accepting connections under a bound, serving them, and draining.

use std::convert::Infallible;
use std::future::Future as _;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use http::HeaderValue;
use http::header::CONNECTION;
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

/// How connections end, each for all of them.
#[derive(Clone, Debug, Default)]
struct Ends {
    /// Those on which nothing of a request has come.
    idle: CancellationToken,
    /// Every one, where it stands.
    cut: CancellationToken,
}

/// Serves until `shutdown`, then goes without losing a request (cluster 2.9):
///
/// 1. for `pre_stop`, everything as before, but `/readyz` says no and every answer ends its
///    connection: balancers and clients go elsewhere, in their own time;
/// 2. for as long again, no new connections; those that are open may bring one last request;
/// 3. idle connections are closed, requests in flight finish, and after `drain_max` what is still
///    open is cut.
///
/// Returns whether everything ended by itself.
pub async fn serve<B: Backend>(
    listener: TcpListener,
    edge: Arc<Edge<B>>,
    shutdown: CancellationToken,
) -> bool {
    let ends = Ends::default();
    tokio::select! {
        biased;
        () = shutdown.cancelled() => {}
        () = accept(&listener, &edge, &ends) => {}
    }
    edge.start_draining();
    let pre_stop = edge.settings.pre_stop;
    if !pre_stop.is_zero() {
        tokio::select! {
            biased;
            () = tokio::time::sleep(pre_stop) => {}
            () = accept(&listener, &edge, &ends) => {}
        }
    }
    drop(listener);
    drain(&edge, &ends).await
}

/// Accepts for as long as it is polled.
async fn accept<B: Backend>(listener: &TcpListener, edge: &Arc<Edge<B>>, ends: &Ends) {
    loop {
        let (stream, peer) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "accepting a connection failed");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(permit) = admit(edge) else { continue };
        let connection = Connection { edge: Arc::clone(edge), ends: ends.clone() };
        tokio::spawn(connection.run(stream, peer.ip(), permit));
    }
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

/// Waits for all connections and all detached work; closes idle connections after a while, and cuts
/// all when time is up.
async fn drain<B: Backend>(edge: &Edge<B>, ends: &Ends) -> bool {
    let linger_end = clock::now() + edge.settings.pre_stop;
    let connections = all(&edge.connections, edge.settings.connections_max);
    let surplus = all(&edge.surplus, SURPLUS_CONNECTIONS_MAX);
    let inflight = all(&edge.inflight, edge.settings.inflight_max);
    let mut everything = std::pin::pin!(async {
        connections.await;
        surplus.await;
        inflight.await;
    });
    let left_early = tokio::time::timeout_at(linger_end, everything.as_mut()).await.is_ok();
    ends.idle.cancel();
    let deadline = linger_end + edge.settings.drain_max;
    let in_time = left_early || tokio::time::timeout_at(deadline, everything).await.is_ok();
    ends.cut.cancel();
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
    ends: Ends,
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
            let mut response = route::answer(edge, arrival, request).await;
            if edge.is_draining() {
                // The client sends its next request elsewhere.
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
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
            () = self.ends.idle.cancelled() => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                phase.ask_to_leave();
                // One that is not silent has its last request answered, which ends it.
                let last = std::future::poll_fn(|cx| {
                    let ended = connection.as_mut().poll(cx);
                    if ended.is_pending() && phase.is_silent() {
                        connection.as_mut().graceful_shutdown();
                        return connection.as_mut().poll(cx);
                    }
                    ended
                });
                tokio::select! {
                    ended = last => ended,
                    () = self.ends.cut.cancelled() => Ok(()),
                }
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection broke");
        }
    }
}
