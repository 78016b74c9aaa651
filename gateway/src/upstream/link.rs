//! One long-lived stream to a node: calls go up, answers come down, matched by id.
//!
//! The stream is opened again when it ends, with a bounded back-off. A call that is dropped sends
//! a cancel. A call without an answer when the stream ends learns whether it had been sent.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use bytes::Bytes;
use http_body::Body;
use prometheus::IntGauge;
use proto::v1;
use proto::v1::room_node_client::RoomNodeClient;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio_stream::wrappers::ReceiverStream;
use tonic::client::GrpcService;

use super::retry::drawn;
use crate::metrics::Metrics;

/// Calls and cancels queued for one stream. The number of calls in flight is bounded before they
/// come here, so a full queue means that the node does not read.
pub const LINK_QUEUE_MAX: usize = 1_024;
/// How long opening a stream may take.
const OPEN_TIMEOUT: Duration = Duration::from_secs(2);
/// Back-off between openings: from, to.
const REOPEN_FIRST: Duration = Duration::from_millis(10);
const REOPEN_MAX: Duration = Duration::from_secs(1);

type Boxed = Box<dyn std::error::Error + Send + Sync>;

/// Whatever the generated client can run on: a channel to another process, or the generated
/// server itself.
pub trait Transport:
    GrpcService<
        tonic::body::Body,
        Error: Into<Boxed>,
        Future: Send,
        ResponseBody: Body<Data = Bytes, Error: Into<Boxed> + Send> + Send + 'static,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<T> Transport for T where
    T: GrpcService<
            tonic::body::Body,
            Error: Into<Boxed>,
            Future: Send,
            ResponseBody: Body<Data = Bytes, Error: Into<Boxed> + Send> + Send + 'static,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// Why a link has no answer for a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum NoAnswer {
    /// The call did not leave this process.
    NotSent,
    /// The stream ended after the call had been put on it.
    Lost,
}

/// A handle on one stream and whatever replaces it.
#[derive(Clone)]
pub(super) struct Link {
    state: Arc<Mutex<State>>,
    /// Told whenever a stream has been opened.
    opened: Arc<Notify>,
}

#[derive(Default)]
struct State {
    /// The way up, while a stream is open and takes calls.
    up: Option<mpsc::Sender<v1::Up>>,
    /// The view in which the node drains, once it has said so; until it takes calls again.
    draining: Option<u64>,
    /// Who waits for which answer on the present stream. Bounded by the calls in flight.
    waiting: HashMap<u64, oneshot::Sender<v1::Answer>>,
    last_id: u64,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Link")
            .field("open", &state.up.is_some())
            .field("waiting", &state.waiting.len())
            .finish()
    }
}

impl Link {
    /// A link without a stream; [`Link::run`] gives it one.
    pub(super) fn new(opened: Arc<Notify>) -> Self {
        Self { state: Arc::default(), opened }
    }

    /// Keeps a stream open for as long as the future is polled. `address` is for the log.
    pub(super) async fn run<T: Transport>(
        self,
        client: RoomNodeClient<T>,
        address: Arc<str>,
        metrics: Arc<Metrics>,
        streams_open: IntGauge,
    ) {
        let mut backoff = REOPEN_FIRST;
        loop {
            let (up, queue) = mpsc::channel(LINK_QUEUE_MAX);
            let mut client = client.clone();
            let opening = client.link(ReceiverStream::new(queue));
            match tokio::time::timeout(OPEN_TIMEOUT, opening).await {
                Ok(Ok(response)) => {
                    let counted = Counted::new(&streams_open);
                    self.open(up);
                    let end = self.read(response.into_inner()).await;
                    // A node that drains opens streams still, only to say so again.
                    if self.close().is_none() {
                        backoff = REOPEN_FIRST;
                    }
                    drop(counted);
                    tracing::info!(%address, reason = end, "node link ended");
                }
                Ok(Err(status)) => {
                    tracing::warn!(%address, code = ?status.code(), "node link refused");
                }
                Err(_elapsed) => tracing::warn!(%address, "node link not opened in time"),
            }
            metrics.link_reopens.inc();
            tokio::time::sleep(drawn(backoff)).await;
            backoff = (backoff * 2).min(REOPEN_MAX);
        }
    }

    /// Hands answers to those who wait until the stream ends; says why it did.
    async fn read(&self, mut down: tonic::Streaming<v1::Down>) -> &'static str {
        loop {
            match down.message().await {
                Ok(Some(v1::Down { what: Some(what) })) => self.take(what),
                Ok(Some(v1::Down { what: None })) => {
                    tracing::debug!("node sent a message of a newer kind");
                }
                Ok(None) => return "end of stream",
                Err(_status) => return "stream error",
            }
        }
    }

    fn take(&self, what: v1::down::What) {
        match what {
            v1::down::What::Answer(answer) => {
                let waiting = self.lock().waiting.remove(&answer.id);
                // Nobody waits for the answer of a cancelled call, or the caller has just gone.
                if let Some(waiting) = waiting {
                    let _gone = waiting.send(answer);
                }
            }
            // No connection is attached through this gateway yet.
            v1::down::What::Notice(_) => {}
            v1::down::What::Draining(draining) => {
                // Calls under way are still answered; new ones go elsewhere. With the last of
                // them goes the last sender, and the stream up ends: the node knows that nothing
                // more comes.
                let mut state = self.lock();
                (state.up, state.draining) = (None, Some(draining.view));
                drop(state);
                tracing::info!(view = draining.view, "node link draining");
            }
        }
    }

    fn open(&self, up: mpsc::Sender<v1::Up>) {
        let mut state = self.lock();
        (state.up, state.draining) = (Some(up), None);
        drop(state);
        self.opened.notify_waiters();
    }

    /// Gives up the stream; the view in which its node drains, if it said so.
    fn close(&self) -> Option<u64> {
        let mut state = self.lock();
        state.up = None;
        // Dropping the senders tells everybody that the answer is lost.
        let waiting = std::mem::take(&mut state.waiting);
        let draining = state.draining;
        drop(state);
        drop(waiting);
        draining
    }

    #[cfg(test)]
    pub(super) fn cut(&self) {
        self.close();
    }

    /// The view in which the node drains, if it has said so.
    pub(super) fn draining_view(&self) -> Option<u64> {
        self.lock().draining
    }

    /// Messages that wait to be put on the stream.
    pub(super) fn queued(&self) -> usize {
        let state = self.lock();
        state.up.as_ref().map_or(0, |up| up.max_capacity().saturating_sub(up.capacity()))
    }

    /// Whether a stream is open and takes calls.
    pub(super) fn is_open(&self) -> bool {
        self.lock().up.is_some()
    }

    /// Sends one call and waits for its answer. `id` of the call is set here. Dropping the future
    /// cancels the call at the node.
    pub(super) async fn call(&self, mut call: v1::Call) -> Result<v1::Answer, NoAnswer> {
        let (answer, receiver) = oneshot::channel();
        let (up, id) = {
            let mut state = self.lock();
            let up = state.up.clone().ok_or(NoAnswer::NotSent)?;
            state.last_id += 1;
            let id = state.last_id;
            state.waiting.insert(id, answer);
            (up, id)
        };
        let mut pending = Pending { link: self, up, id, sent: false };
        call.id = id;
        let message = v1::Up { what: Some(v1::up::What::Call(call)) };
        if pending.up.send(message).await.is_err() {
            return Err(NoAnswer::NotSent);
        }
        pending.sent = true;
        let answer = receiver.await.map_err(|_stream_ended| NoAnswer::Lost)?;
        pending.sent = false;
        Ok(answer)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One of those that a gauge counts, also when it is given up from outside.
pub(crate) struct Counted<'a>(&'a IntGauge);

impl<'a> Counted<'a> {
    pub(crate) fn new(gauge: &'a IntGauge) -> Self {
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A call under way: forgotten, and cancelled at the node, when it is dropped without an answer.
struct Pending<'a> {
    link: &'a Link,
    up: mpsc::Sender<v1::Up>,
    id: u64,
    sent: bool,
}

impl Drop for Pending<'_> {
    fn drop(&mut self) {
        let waited = self.link.lock().waiting.remove(&self.id).is_some();
        if self.sent && waited {
            let cancel = v1::Up { what: Some(v1::up::What::Cancel(v1::Cancel { id: self.id })) };
            // A full queue means a node that does not read: its own deadline ends the call.
            let _full = self.up.try_send(cancel);
        }
    }
}
