//! Places for connections. The port has no authentication, and every open connection costs a file
//! that the link to Redis may need.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::{Stream, StreamExt as _};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Sleep;
use tonic::transport::server::Connected;

/// Bytes that every HTTP/2 client sends first. The probes of HTTP/2 begin only after them.
const PREFACE_BYTES: usize = 24;
/// Longest time they may take.
const PREFACE_TIMEOUT: Duration = Duration::from_secs(10);

/// Closes what comes while `open_max` connections are open, and says so to `turned_away`.
pub(super) fn bounded<S>(
    incoming: impl Stream<Item = io::Result<S>>,
    open_max: usize,
    turned_away: impl Fn(),
) -> impl Stream<Item = io::Result<Placed<S>>> {
    let places = Arc::new(Semaphore::new(open_max));
    incoming.filter_map(move |accepted| {
        let placed = match (accepted, Arc::clone(&places).try_acquire_owned()) {
            (Ok(stream), Ok(place)) => Some(Ok(Placed::new(stream, place))),
            (Ok(_surplus), Err(_none_left)) => {
                turned_away();
                None
            }
            (Err(error), _) => Some(Err(error)),
        };
        std::future::ready(placed)
    })
}

/// A connection that holds its place until it is dropped.
#[derive(Debug)]
pub(super) struct Placed<S> {
    stream: S,
    /// Until when the preface must be here; `None` once it is.
    awaited: Option<Pin<Box<Sleep>>>,
    read_bytes: usize,
    _place: OwnedSemaphorePermit,
}

impl<S> Placed<S> {
    fn new(stream: S, place: OwnedSemaphorePermit) -> Self {
        let awaited = Some(Box::pin(tokio::time::sleep(PREFACE_TIMEOUT)));
        Self { stream, awaited, read_bytes: 0, _place: place }
    }
}

impl<S: Connected> Connected for Placed<S> {
    type ConnectInfo = S::ConnectInfo;

    fn connect_info(&self) -> Self::ConnectInfo {
        self.stream.connect_info()
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Placed<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let me = &mut *self;
        let Some(awaited) = &mut me.awaited else {
            return Pin::new(&mut me.stream).poll_read(context, buffer);
        };
        let before = buffer.filled().len();
        match Pin::new(&mut me.stream).poll_read(context, buffer) {
            Poll::Ready(done) => {
                me.read_bytes += buffer.filled().len() - before;
                if me.read_bytes >= PREFACE_BYTES {
                    me.awaited = None;
                }
                Poll::Ready(done)
            }
            Poll::Pending => {
                ready!(awaited.as_mut().poll(context));
                Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Placed<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(context, slices)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream, duplex};

    use super::*;

    fn connection() -> (DuplexStream, DuplexStream) {
        duplex(1_024)
    }

    #[tokio::test]
    async fn what_comes_beyond_the_places_is_closed() {
        let (mut clients, servers): (Vec<_>, Vec<_>) = (0..4).map(|_| connection()).unzip();
        let turned_away = Cell::new(0);
        let incoming = futures_util::stream::iter(servers.into_iter().map(Ok));
        let mut bounded =
            std::pin::pin!(bounded(incoming, 2, || turned_away.set(turned_away.get() + 1)));
        let first = bounded.next().await.unwrap().unwrap();
        let _second = bounded.next().await.unwrap().unwrap();
        assert!(bounded.next().await.is_none(), "no third or fourth");
        assert_eq!(turned_away.get(), 2);
        assert_eq!(clients[3].read(&mut [0; 8]).await.unwrap(), 0, "it was closed");
        drop(first);
        assert_eq!(clients[0].read(&mut [0; 8]).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_closed_connection_gives_its_place_back() {
        let places = Arc::new(Semaphore::new(1));
        let place = Arc::clone(&places).try_acquire_owned().unwrap();
        let placed = Placed::new(connection().1, place);
        assert_eq!(places.available_permits(), 0);
        drop(placed);
        assert_eq!(places.available_permits(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_never_says_its_preface_is_closed() {
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let (mut client, server) = connection();
        let mut placed = Placed::new(server, place);
        client.write_all(b"PRI * HTTP/2.0").await.unwrap();
        let error = placed.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_with_a_preface_may_be_silent() {
        let place = Arc::new(Semaphore::new(1)).try_acquire_owned().unwrap();
        let (mut client, server) = connection();
        let mut placed = Placed::new(server, place);
        client.write_all(&[b'x'; PREFACE_BYTES]).await.unwrap();
        placed.read_exact(&mut [0; PREFACE_BYTES]).await.unwrap();
        let mut more = [0; 8];
        let silent = tokio::time::timeout(10 * PREFACE_TIMEOUT, placed.read(&mut more));
        assert!(silent.await.is_err(), "its probes are HTTP/2's");
    }
}
