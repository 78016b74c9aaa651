//! A small HTTP client: one connection kept alive, and a tap that knows when a request has left
//! and when its answer begins.

use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::{Method, Request, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;

/// Hears what passes on a connection.
pub(crate) trait Tap: Send + Sync {
    /// All bytes of a request have been given to the operating system.
    fn sent(&self) {}
    /// Bytes of the answer are here; `false` breaks the connection before anybody reads them.
    fn deliver(&self) -> bool {
        true
    }
}

/// A tap that hears nothing.
#[derive(Debug)]
pub(crate) struct Deaf;

impl Tap for Deaf {}

/// Why there is no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// No connection: the server has seen nothing of the request.
    NotSent,
    /// The connection broke before the answer was complete: it happened or it did not.
    Unanswered,
}

/// A complete answer.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn text(&self) -> &str {
        std::str::from_utf8(&self.body).unwrap()
    }
}

/// One connection, opened at the first request and again after the peer has closed it.
pub(crate) struct Http {
    address: SocketAddr,
    tap: Arc<dyn Tap>,
    sender: Option<SendRequest<Full<Bytes>>>,
    /// Longest a request may take, its connection included.
    deadline: Duration,
}

/// Deadline of a request of a client that sets none: far above any answer of a healthy server.
const DEADLINE: Duration = Duration::from_secs(600);

impl Http {
    pub(crate) fn new(address: SocketAddr) -> Self {
        Self::tapped(address, Arc::new(Deaf))
    }

    pub(crate) fn tapped(address: SocketAddr, tap: Arc<dyn Tap>) -> Self {
        Self { address, tap, sender: None, deadline: DEADLINE }
    }

    pub(crate) const fn within(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    pub(crate) async fn get(&mut self, path: &str) -> Result<Answer, Lost> {
        self.send(Method::GET, path, &[], Bytes::new()).await
    }

    pub(crate) async fn send(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Answer, Lost> {
        let deadline = self.deadline;
        let exchange = self.exchange(method, path, headers, body);
        match tokio::time::timeout(deadline, exchange).await {
            Ok(answer) => answer,
            Err(_elapsed) => {
                // Its late answer must not meet the next request.
                self.sender = None;
                Err(Lost::Unanswered)
            }
        }
    }

    async fn exchange(
        &mut self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: Bytes,
    ) -> Result<Answer, Lost> {
        let mut open = self.sender.take();
        if let Some(sender) = &mut open
            && sender.ready().await.is_err()
        {
            open = None;
        }
        let sender = match open {
            Some(sender) => sender,
            None => self.connect().await.map_err(|_| Lost::NotSent)?,
        };
        let mut request = Request::builder().method(method).uri(path);
        request = request.header("host", self.address.to_string());
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Full::new(body)).unwrap();
        let sender = self.sender.insert(sender);
        let answer = sender.send_request(request).await.map_err(|_| Lost::Unanswered)?;
        let (parts, body) = answer.into_parts();
        let body = body.collect().await.map_err(|_| Lost::Unanswered)?.to_bytes();
        Ok(Answer { status: parts.status, body })
    }

    async fn connect(&self) -> io::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let tapped = Tapped { stream, tap: Arc::clone(&self.tap), dirty: false };
        let (sender, connection) =
            handshake(TokioIo::new(tapped)).await.map_err(io::Error::other)?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

struct Tapped {
    stream: TcpStream,
    tap: Arc<dyn Tap>,
    /// Bytes were written since the last complete flush.
    dirty: bool,
}

impl AsyncRead for Tapped {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        let read = Pin::new(&mut self.stream).poll_read(cx, buf);
        if buf.filled().len() > before && !self.tap.deliver() {
            buf.set_filled(before);
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        read
    }
}

impl AsyncWrite for Tapped {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.dirty = true;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        if flushed.is_ready() && std::mem::take(&mut self.dirty) {
            self.tap.sent();
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
