//! What goes down one link. Its length is bounded by what may enter: one answer per call in
//! flight (`link_calls_max`), a bounded number of frames per attached connection
//! (`subscriber_frames_max`), one close per connection.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};

use futures_core::Stream;
use proto::v1;
use tonic::Status;

use super::convert;
use crate::host::{Notice, Queued, Sink};

struct Slot {
    down: v1::Down,
    _queued: Option<Queued>,
}

#[derive(Default)]
struct Queue {
    /// At most `link_calls_max` answers, and `subscriber_frames_max` frames a connection.
    slots: VecDeque<Slot>,
    reader: Option<Waker>,
    closed: bool,
    /// The reader is gone: nothing is kept any more.
    deaf: bool,
}

/// The writing end, shared by everything that answers on one link.
#[derive(Default)]
pub(super) struct Outbox {
    queue: Mutex<Queue>,
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("queued", &self.lock().slots.len()).finish()
    }
}

impl Outbox {
    pub(super) fn send(&self, down: v1::Down) {
        self.put(down, None);
    }

    /// Lets the reader end once the queue is empty.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        queue.closed = true;
        wake(queue);
    }

    fn put(&self, down: v1::Down, queued: Option<Queued>) {
        let mut queue = self.lock();
        if queue.deaf {
            return;
        }
        queue.slots.push_back(Slot { down, _queued: queued });
        wake(queue);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn wake(mut queue: std::sync::MutexGuard<'_, Queue>) {
    let reader = queue.reader.take();
    drop(queue);
    if let Some(reader) = reader {
        reader.wake();
    }
}

impl Sink for Outbox {
    fn push(&self, connection: u64, notice: Notice, queued: Option<Queued>) {
        self.put(convert::notice(connection, notice), queued);
    }
}

/// The reading end: the stream tonic sends. Dropping it tells the link by `on_drop`.
pub struct Reader {
    pub(super) outbox: Arc<Outbox>,
    pub(super) on_drop: tokio_util::sync::CancellationToken,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").finish_non_exhaustive()
    }
}

impl Stream for Reader {
    type Item = Result<v1::Down, Status>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let mut queue = self.outbox.lock();
        if let Some(slot) = queue.slots.pop_front() {
            return Poll::Ready(Some(Ok(slot.down)));
        }
        if queue.closed {
            return Poll::Ready(None);
        }
        queue.reader = Some(cx.waker().clone());
        Poll::Pending
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        let slots = {
            let mut queue = self.outbox.lock();
            queue.deaf = true;
            std::mem::take(&mut queue.slots)
        };
        drop(slots);
        self.on_drop.cancel();
    }
}
