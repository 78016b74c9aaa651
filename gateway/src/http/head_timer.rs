//! A stream on which a request's head must be complete in time, and an idle connection may wait.
//!
//! Two limits of one connection: from the first byte of a head to its end, and from one answer to
//! the first byte of the next head. The second is far longer: a client that polls at the pace of
//! the contract is idle for ten seconds at a time, while a head that drips in may not take as long
//! as that. One timer serves both and is moved only when it has to fire earlier, or has fired too
//! early: requests on a busy connection cost it nothing.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

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

/// Where a connection is, told by whoever answers its requests.
#[derive(Clone, Debug)]
pub(super) struct Phase(Arc<AtomicU8>);

impl Phase {
    /// A head is complete.
    pub(super) fn busy(&self) {
        self.0.store(BUSY, Ordering::Relaxed);
    }

    /// Its answer is made.
    pub(super) fn idle(&self) {
        self.0.store(IDLE, Ordering::Relaxed);
    }

    fn is(&self, phase: u8) -> bool {
        self.0.load(Ordering::Relaxed) == phase
    }
}

/// How long each phase may last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) head: Duration,
    pub(super) idle: Duration,
}

/// The stream. A new one is expected to send its first head at once.
#[derive(Debug)]
pub(super) struct HeadTimer {
    stream: TcpStream,
    phase: Phase,
    limits: Limits,
    /// The phase whose waiting `deadline` bounds; [`BUSY`] where none does.
    awaited: u8,
    deadline: Instant,
    timer: Option<Pin<Box<Sleep>>>,
}

impl HeadTimer {
    pub(super) fn new(stream: TcpStream, limits: Limits) -> (Self, Phase) {
        let phase = Phase(Arc::new(AtomicU8::new(HEAD)));
        let timer = Self {
            stream,
            phase: phase.clone(),
            limits,
            awaited: BUSY,
            deadline: clock::now(),
            timer: None,
        };
        (timer, phase)
    }

    /// Called when nothing more is there to read: whether what is awaited came too late.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let phase = self.phase.0.load(Ordering::Relaxed);
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
        match Pin::new(&mut this.stream).poll_read(cx, buffer) {
            Poll::Ready(done) => {
                if this.phase.is(IDLE) {
                    this.phase.0.store(HEAD, Ordering::Relaxed);
                    this.awaited = BUSY;
                }
                Poll::Ready(done)
            }
            Poll::Pending if this.is_late(cx) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "no request came in time")))
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl AsyncWrite for HeadTimer {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
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
        Pin::new(&mut self.stream).poll_write_vectored(cx, pieces)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
