//! The way to one node: a few streams, calls matched by id. Which node it is, and what is safe to
//! repeat, is decided in [`crate::routing`].

pub mod channel;
mod link;
pub(crate) mod retry;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use object::{ObjectId, ParticipantId, RequestId};
use prometheus::IntGauge;
use proto::v1;
use proto::v1::room_node_client::RoomNodeClient;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

pub(crate) use link::Counted;
pub use link::{LINK_QUEUE_MAX, Transport};

use self::link::{Link, NoAnswer};
use self::retry::Failure;
use crate::clock::Instant;
use crate::error::Refusal;
use crate::metrics::Metrics;

/// How long is waited for a stream to open, if there is none.
pub(crate) const OPEN_WAIT: Duration = Duration::from_secs(1);

/// One call as the node gets it, whatever the number of attempts.
#[derive(Clone)]
pub struct Request {
    pub op: &'static str,
    pub object: ObjectId,
    pub participant: Option<ParticipantId>,
    /// The participant id was minted for this very call.
    pub joining: bool,
    /// Arguments as received, without the blob's member.
    pub args: Bytes,
    pub blob: Option<Bytes>,
    pub request: RequestId,
    /// Number of its first sending from here: above 1 where it may have run already.
    pub attempt: u32,
    /// How long ago it was sent first, before it came here.
    pub age: Duration,
    /// The room recognises the request id: sending the call twice changes nothing twice.
    pub repeatable: bool,
    /// A lost answer leaves nothing in doubt (reads, waits).
    pub harmless: bool,
    /// The room may park it: sending it again is parking the same wait elsewhere.
    pub wait: bool,
    pub deadline: Instant,
}

// Arguments hold handles and messages.
impl std::fmt::Debug for Request {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Request")
            .field("op", &self.op)
            .field("request", &self.request)
            .finish_non_exhaustive()
    }
}

/// What came back.
pub struct Reply {
    pub result: Result<v1::Success, Refusal>,
    /// Milliseconds until the owner admits this participant's next wait.
    pub next_wait_ms: Option<u64>,
}

impl std::fmt::Debug for Reply {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reply").field("success", &self.result.is_ok()).finish_non_exhaustive()
    }
}

/// The streams to one node. Dropping the last clone closes them.
#[derive(Clone, Debug)]
pub struct Upstream {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    links: Box<[Link]>,
    /// Told whenever one of the links has opened a stream.
    opened: Arc<Notify>,
    tasks: Vec<AbortHandle>,
    turn: AtomicUsize,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

/// What can be said of the streams to a node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// At least one stream takes calls.
    Open,
    /// The node has said that it goes; calls under way are still answered.
    Draining,
    /// No stream takes calls: not yet, or not any more.
    Closed,
}

impl Upstream {
    /// Opens `streams` streams (at least one) over clones of the client and keeps them open.
    /// Must be called within a tokio runtime.
    #[must_use]
    pub fn start<T: Transport>(
        client: &RoomNodeClient<T>,
        streams: usize,
        metrics: &Arc<Metrics>,
    ) -> Self {
        Self::start_to("of this process", client, streams, metrics)
    }

    /// As [`Upstream::start`], with the address that the log names when a stream does not open.
    #[must_use]
    pub fn start_to<T: Transport>(
        address: &str,
        client: &RoomNodeClient<T>,
        streams: usize,
        metrics: &Arc<Metrics>,
    ) -> Self {
        Self::counted(address, client, streams, metrics, &metrics.links_open)
    }

    /// As [`Upstream::start_to`], where a gateway of another region is at the other end.
    #[must_use]
    pub fn start_to_peer<T: Transport>(
        address: &str,
        client: &RoomNodeClient<T>,
        streams: usize,
        metrics: &Arc<Metrics>,
    ) -> Self {
        Self::counted(address, client, streams, metrics, &metrics.peer_links_open)
    }

    fn counted<T: Transport>(
        address: &str,
        client: &RoomNodeClient<T>,
        streams: usize,
        metrics: &Arc<Metrics>,
        open: &IntGauge,
    ) -> Self {
        let address: Arc<str> = Arc::from(address);
        let opened = Arc::new(Notify::new());
        let links: Box<[Link]> =
            (0..streams.max(1)).map(|_| Link::new(Arc::clone(&opened))).collect();
        let run = |link: &Link| {
            let (client, address) = (client.clone(), Arc::clone(&address));
            let metrics = Arc::clone(metrics);
            tokio::spawn(link.clone().run(client, address, metrics, open.clone())).abort_handle()
        };
        let tasks = links.iter().map(run).collect();
        Self { inner: Arc::new(Inner { links, opened, tasks, turn: AtomicUsize::new(0) }) }
    }

    /// Whether at least one stream takes calls.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.inner.links.iter().any(Link::is_open)
    }

    /// Open, draining or closed, over all streams.
    #[must_use]
    pub fn state(&self) -> State {
        match (self.is_open(), self.draining_view()) {
            (true, _) => State::Open,
            (false, Some(_)) => State::Draining,
            (false, None) => State::Closed,
        }
    }

    /// The view in which the node drains, if it has said on any stream that it does.
    #[must_use]
    pub fn draining_view(&self) -> Option<u64> {
        self.inner.links.iter().filter_map(Link::draining_view).max()
    }

    /// Calls and cancels that wait to be put on a stream.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.inner.links.iter().map(Link::queued).sum()
    }

    /// Ends all streams now, as a network would.
    #[cfg(test)]
    pub(crate) fn cut(&self) {
        self.inner.links.iter().for_each(Link::cut);
    }

    /// Waits a moment for a stream to open.
    pub async fn wait_open(&self) {
        // Opened or not, the caller looks.
        let _in_time = tokio::time::timeout(OPEN_WAIT, self.opened()).await;
    }

    /// Resolves once a stream takes calls.
    pub(crate) async fn opened(&self) {
        loop {
            let mut opened = std::pin::pin!(self.inner.opened.notified());
            // Listens before it looks: no opening is missed between the two.
            opened.as_mut().enable();
            if self.is_open() {
                return;
            }
            opened.await;
        }
    }

    /// Sends a call once and says what came of it before the deadline. `id` of the call is set
    /// here. Dropping the future cancels the call at the node.
    pub(crate) async fn attempt(
        &self,
        call: v1::Call,
        deadline: Instant,
    ) -> Result<v1::Answer, Failure> {
        let link = self.pick().ok_or(Failure::NotSent)?;
        match tokio::time::timeout_at(deadline, link.call(call)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(NoAnswer::NotSent)) => Err(Failure::NotSent),
            Ok(Err(NoAnswer::Lost)) => Err(Failure::Lost),
            Err(_elapsed) => Err(Failure::TimedOut),
        }
    }

    /// The next open stream in turn.
    fn pick(&self) -> Option<&Link> {
        let links = &self.inner.links;
        let turn = self.inner.turn.fetch_add(1, Ordering::Relaxed);
        (0..links.len())
            .filter_map(|step| links.get(turn.wrapping_add(step) % links.len()))
            .find(|link| link.is_open())
    }
}
