//! A stream on which a request's head must be complete in time, and an idle connection need not.
//!
//! The HTTP library starts its head timer when the last answer is out, so it can only bound how
//! long a connection is idle. A client that polls at the pace of the contract is idle for ten
//! seconds at a time; a head that drips in may not take as long as that.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::clock;

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

/// The stream. A new one is expected to send its first head at once.
#[derive(Debug)]
pub(super) struct HeadTimer {
    stream: TcpStream,
    phase: Phase,
    header_timeout: Duration,
    timer: Option<Pin<Box<Sleep>>>,
    is_armed: bool,
}

impl HeadTimer {
    pub(super) fn new(stream: TcpStream, header_timeout: Duration) -> (Self, Phase) {
        let phase = Phase(Arc::new(AtomicU8::new(HEAD)));
        let timer =
            Self { stream, phase: phase.clone(), header_timeout, timer: None, is_armed: false };
        (timer, phase)
    }

    /// Called while a head is incomplete and nothing more is there. The timer is set only here:
    /// a head that comes in one piece, as nearly all do, costs nothing.
    fn is_late(&mut self, cx: &mut Context<'_>) -> bool {
        let timer =
            self.timer.get_or_insert_with(|| Box::pin(tokio::time::sleep_until(clock::now())));
        if !self.is_armed {
            self.is_armed = true;
            timer.as_mut().reset(clock::now() + self.header_timeout);
        }
        timer.as_mut().poll(cx).is_ready()
    }
}

impl AsyncRead for HeadTimer {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        if !this.phase.is(HEAD) {
            this.is_armed = false;
        }
        match Pin::new(&mut this.stream).poll_read(cx, buffer) {
            Poll::Ready(done) => {
                if this.phase.is(IDLE) {
                    this.phase.0.store(HEAD, Ordering::Relaxed);
                }
                Poll::Ready(done)
            }
            Poll::Pending if this.phase.is(HEAD) && this.is_late(cx) => {
                Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, "the head came too late")))
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
