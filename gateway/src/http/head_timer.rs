//! A stream on which a request's head must be complete in time, and an idle connection may wait.
//!
//! Two limits of one connection: from the first byte of a head to its end, and from one answer to
//! the first byte of the next head. The second is far longer: a client that polls at the pace of
//! the contract is idle for ten seconds at a time, while a head that drips in may not take as long
//! as that. One timer serves both and is moved only when it has to fire earlier, or has fired too
//! early: requests on a busy connection cost it nothing.
//!
//! A third limit holds for answers: a client that does not take one would keep its memory, and so
//! that of all answers, for as long as it likes. Its time runs from the first byte that found no
//! room to the last one, so that taking a byte now and then gains nothing.
//!
//! A server that goes asks each connection whether it may be closed. Only here is it known whether
//! bytes of a next request have come, in our buffers or still in the system's.

use std::io;
use std::mem::MaybeUninit;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use socket2::SockRef;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::clock::{self, Instant};

/// Nothing of a next request has come.
const IDLE: u8 = 0;
/// A head has begun.
const HEAD: u8 = 1;
/// A head is complete, its answer is not.
const BUSY: u8 = 2;

/// Nobody has asked whether the connection may be closed.
const STAY: u8 = 0;
/// Somebody has.
const ASKED: u8 = 1;
/// It may: nothing of a next request has come.
const SILENT: u8 = 2;

/// Where a connection is, told by whoever answers its requests.
#[derive(Clone, Debug)]
pub(super) struct Phase(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    at: AtomicU8,
    leave: AtomicU8,
}

impl Phase {
    /// A head is complete.
    pub(super) fn busy(&self) {
        self.0.at.store(BUSY, Ordering::Relaxed);
    }

    /// Its answer is made.
    pub(super) fn idle(&self) {
        self.0.at.store(IDLE, Ordering::Relaxed);
    }

    /// Asks whether the connection may be closed; known when it has been read from next.
    pub(super) fn ask_to_leave(&self) {
        self.0.leave.store(ASKED, Ordering::Relaxed);
    }

    /// Whether it may: no byte of a next request had come when it was read from last.
    pub(super) fn is_silent(&self) -> bool {
        self.0.leave.load(Ordering::Relaxed) == SILENT
    }

    fn now(&self) -> u8 {
        self.0.at.load(Ordering::Relaxed)
    }
}

/// How long each phase may last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) head: Duration,
    pub(super) idle: Duration,
    /// From the first byte of an answer that had to wait to the last one.
    pub(super) write: Duration,
}

/// The stream. A new one is expected to send its first head at once.
#[derive(Debug)]
pub(super) struct HeadTimer {
    stream: TcpStream,
    phase: Phase,
    /// Whether any byte has come yet.
    heard: bool,
    limits: Limits,
    /// The phase whose waiting `deadline` bounds; [`BUSY`] where none does.
    awaited: u8,
    deadline: Instant,
    timer: Option<Pin<Box<Sleep>>>,
    /// Runs while an answer waits to be taken.
    write_timer: Option<Pin<Box<Sleep>>>,
}

impl HeadTimer {
    pub(super) fn new(stream: TcpStream, limits: Limits) -> (Self, Phase) {
        let shared = Shared { at: AtomicU8::new(HEAD), leave: AtomicU8::new(STAY) };
        let phase = Phase(Arc::new(shared));
        let timer = Self {
            stream,
            phase: phase.clone(),
            heard: false,
            limits,
            awaited: BUSY,
            deadline: clock::now(),
            timer: None,
            write_timer: None,
        };
        (timer, phase)
    }

    /// The result of a write: an answer that is not taken in time is an error.
    fn written<T>(
        &mut self,
        cx: &mut Context<'_>,
        wrote: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        if wrote.is_ready() {
            return wrote;
        }
        let limit = self.limits.write;
        let timer = self.write_timer.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match timer.as_mut().poll(cx) {
            Poll::Ready(()) => {
                let text = "the answer was not taken in time";
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, text)))
            }
            Poll::Pending => Poll::Pending,
        }
    }

    /// Called when nothing more was there to read: answers whether the connection may be closed.
    /// What the system has received and not yet told us of counts as come.
    fn answer_leave(&self) {
        let leave = &self.phase.0.leave;
        if leave.load(Ordering::Relaxed) != ASKED || (self.heard && self.phase.now() != IDLE) {
            return;
        }
        let next = SockRef::from(&self.stream).peek(&mut [MaybeUninit::uninit()]);
        if next.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock) {
            leave.store(SILENT, Ordering::Relaxed);
        }
    }

    /// Called when nothing more is there to read: whether what is awaited came too late.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let phase = self.phase.now();
        if phase == BUSY {
            self.awaited = BUSY;
            return false;
        }
        if self.awaited != phase {
            self.awaited = phase;
            let limit = if phase == HEAD { self.limits.head } else { self.limits.idle };
            self.deadline = clock::now() + limit;
        }
        let deadline = self.deadline;
        let timer = self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(deadline)));
        if timer.deadline() > deadline {
            timer.as_mut().reset(deadline);
        }
        while timer.as_mut().poll(cx).is_ready() {
            if timer.deadline() >= deadline {
                return true;
            }
            // It was set for an earlier wait that has ended.
            timer.as_mut().reset(deadline);
        }
        false
    }
}

impl AsyncRead for HeadTimer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if let Poll::Ready(done) = Pin::new(&mut this.stream).poll_read(cx, buffer) {
            this.heard = true;
            if this.phase.now() == IDLE {
                this.phase.0.at.store(HEAD, Ordering::Relaxed);
                this.awaited = BUSY;
            }
            return Poll::Ready(done);
        }
        this.answer_leave();
        if this.is_late(cx) {
            let late = io::Error::new(io::ErrorKind::TimedOut, "no request came in time");
            return Poll::Ready(Err(late));
        }
        Poll::Pending
    }
}

impl AsyncWrite for HeadTimer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.written(cx, wrote)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        // Asked for once all that was buffered is written.
        self.write_timer = None;
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        pieces: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let wrote = Pin::new(&mut self.stream).poll_write_vectored(cx, pieces);
        self.written(cx, wrote)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    const LIMITS: Limits = Limits {
        head: Duration::from_secs(1),
        idle: Duration::from_secs(2),
        write: Duration::from_secs(3),
    };
    /// More than the buffers of both sockets hold, in bytes.
    const LARGE: usize = 64 * 1024 * 1024;

    async fn pair() -> (TcpStream, HeadTimer) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        (client, HeadTimer::new(server, LIMITS).0)
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_nobody_takes_is_given_up() {
        let (client, mut server) = pair().await;
        let begun = clock::now();
        let error = server.write_all(&vec![0; LARGE]).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(begun.elapsed() >= LIMITS.write);
        drop(client);
    }

    #[tokio::test]
    async fn taking_a_little_gains_no_time_and_taking_all_ends_it() {
        let (mut client, mut server) = pair().await;
        let bytes = vec![0; LARGE];
        let mut sent = 0;
        let fill = async |server: &mut HeadTimer, sent: &mut usize| {
            std::future::poll_fn(|cx| {
                while let Poll::Ready(wrote) = Pin::new(&mut *server).poll_write(cx, &bytes) {
                    *sent += wrote.unwrap();
                }
                Poll::Ready(())
            })
            .await;
        };
        fill(&mut server, &mut sent).await;
        let deadline = server.write_timer.as_ref().unwrap().deadline();
        client.read_exact(&mut vec![0; sent / 2]).await.unwrap();
        fill(&mut server, &mut sent).await;
        assert_eq!(server.write_timer.as_ref().unwrap().deadline(), deadline);
        server.flush().await.unwrap();
        assert!(server.write_timer.is_none());
    }

    /// Reads once: how many bytes came, if any did.
    fn read_once(server: &mut HeadTimer, cx: &mut Context<'_>) -> Option<usize> {
        let mut bytes = [0; 16];
        let mut buffer = ReadBuf::new(&mut bytes);
        match Pin::new(server).poll_read(cx, &mut buffer) {
            Poll::Ready(read) => read.map(|()| Some(buffer.filled().len())).unwrap(),
            Poll::Pending => None,
        }
    }

    #[tokio::test]
    async fn what_only_the_system_has_received_keeps_a_connection_open() {
        let (client, mut server) = pair().await;
        let phase = server.phase.clone();
        std::future::poll_fn(|cx| {
            assert_eq!(read_once(&mut server, cx), None);
            assert!(!phase.is_silent(), "nobody has asked");
            assert_eq!(client.try_write(b"x").unwrap(), 1);
            phase.ask_to_leave();
            // The runtime has had no chance to hear of the byte.
            assert_eq!(read_once(&mut server, cx), None);
            assert!(!phase.is_silent());
            Poll::Ready(())
        })
        .await;
        let read = std::future::poll_fn(|cx| {
            read_once(&mut server, cx).map_or(Poll::Pending, Poll::Ready)
        });
        assert_eq!(read.await, 1);
        let once = async |server: &mut HeadTimer| {
            std::future::poll_fn(|cx| Poll::Ready(read_once(server, cx))).await
        };
        assert_eq!(once(&mut server).await, None);
        assert!(!phase.is_silent(), "a head has begun");
        phase.busy();
        assert_eq!(once(&mut server).await, None);
        assert!(!phase.is_silent(), "it is being answered");
        phase.idle();
        assert_eq!(once(&mut server).await, None);
        assert!(phase.is_silent());
    }
}
