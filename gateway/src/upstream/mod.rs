//! The way to a node: a few streams, calls matched by id, repeats only where they are safe.

mod link;
mod retry;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use object::{Class, ObjectId, ParticipantId, RequestId};
use proto::v1;
use proto::v1::room_node_client::RoomNodeClient;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

pub use link::{LINK_QUEUE_MAX, Transport};

use self::link::{Link, NoAnswer};
use self::retry::{Budget, Failure, Next, Safety};
use crate::clock::{self, Instant};
use crate::error::Refusal;
use crate::metrics::Metrics;

/// Taken off what a node is told of the deadline, so that its own refusal arrives in time.
const DEADLINE_MARGIN: Duration = Duration::from_millis(20);

/// How long one attempt waits for a stream to open, if there is none.
const OPEN_WAIT: Duration = Duration::from_secs(1);

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
    /// The room recognises the request id: sending the call twice changes nothing twice.
    pub repeatable: bool,
    /// A lost answer leaves nothing in doubt (reads, waits).
    pub harmless: bool,
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
    inflight: AtomicUsize,
    inflight_max: usize,
    budget: Budget,
    metrics: Arc<Metrics>,
}

impl Drop for Inner {
    fn drop(&mut self) {
        for task in &self.tasks {
            task.abort();
        }
    }
}

impl Upstream {
    /// Opens `streams` streams (at least one) over clones of the client and keeps them open.
    /// Must be called within a tokio runtime.
    #[must_use]
    pub fn start<T: Transport>(
        client: &RoomNodeClient<T>,
        streams: usize,
        inflight_max: usize,
        metrics: Arc<Metrics>,
    ) -> Self {
        let opened = Arc::new(Notify::new());
        let links: Box<[Link]> =
            (0..streams.max(1)).map(|_| Link::new(Arc::clone(&opened))).collect();
        let run = |link: &Link| {
            tokio::spawn(link.clone().run(client.clone(), Arc::clone(&metrics))).abort_handle()
        };
        let tasks = links.iter().map(run).collect();
        Self {
            inner: Arc::new(Inner {
                links,
                opened,
                tasks,
                turn: AtomicUsize::new(0),
                inflight: AtomicUsize::new(0),
                inflight_max,
                budget: Budget::full(),
                metrics,
            }),
        }
    }

    /// Whether at least one stream takes calls.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.inner.links.iter().any(Link::is_open)
    }

    /// Waits a moment for a stream to open.
    pub async fn wait_open(&self) {
        let _open = self.opening(clock::now() + OPEN_WAIT).await;
    }

    /// Calls on their way, held waits included.
    #[must_use]
    pub fn inflight(&self) -> usize {
        self.inner.inflight.load(Ordering::Relaxed)
    }

    /// Sends a call, repeats it where that is safe, and says what came of it before the deadline.
    /// Dropping the future cancels the call at the node.
    pub async fn call(&self, request: &Request) -> Reply {
        let Some(_slot) = Slot::take(&self.inner) else {
            self.inner.metrics.overloaded.inc();
            return Reply { result: Err(Refusal::overloaded()), next_wait_ms: None };
        };
        self.inner.budget.earn();
        let started = clock::now();
        let mut course = Course { attempts: 0, failed_at: None, in_doubt: false };
        loop {
            course.attempts += 1;
            let (failure, refused) = match self.attempt(request, started, course.attempts).await {
                Ok(v1::Answer {
                    what: Some(v1::answer::What::Success(success)),
                    next_wait_ms,
                    ..
                }) => {
                    return Reply { result: Ok(success), next_wait_ms };
                }
                Ok(v1::Answer {
                    what: Some(v1::answer::What::Refusal(refusal)),
                    next_wait_ms,
                    ..
                }) => {
                    let class = proto::class::class(refusal.class);
                    let reply = Reply { result: Err(Refusal::from(refusal)), next_wait_ms };
                    (Failure::Refused(class), Some(reply))
                }
                // An answer of a newer kind: it ran, and nobody knows how it went.
                Ok(v1::Answer { what: None, .. }) => (Failure::Lost, None),
                Err(failure) => (failure, None),
            };
            if !self.again(request, &mut course, failure).await {
                return course.end(request, failure, refused);
            }
        }
    }

    /// Waits for the repeat's turn; false if there is none.
    async fn again(&self, request: &Request, course: &mut Course, failure: Failure) -> bool {
        let now = clock::now();
        let failed_at = *course.failed_at.get_or_insert(now);
        course.in_doubt |= matches!(
            failure,
            Failure::Lost | Failure::TimedOut | Failure::Refused(Class::OutcomeUnknown)
        );
        let next = retry::next(
            failure,
            Safety { repeatable: request.repeatable },
            course.attempts,
            now.duration_since(failed_at),
            request.deadline.saturating_duration_since(now),
        );
        let Next::Repeat { backoff_max } = next else { return false };
        if !self.inner.budget.spend() {
            return false;
        }
        self.inner.metrics.retries.inc();
        tokio::time::sleep(retry::jitter(backoff_max, getrandom::u32().unwrap_or(u32::MAX))).await;
        true
    }

    async fn attempt(
        &self,
        request: &Request,
        started: Instant,
        attempt: u32,
    ) -> Result<v1::Answer, Failure> {
        let now = clock::now();
        let remaining = request.deadline.saturating_duration_since(now);
        if remaining.is_zero() {
            return Err(if attempt == 1 { Failure::NotSent } else { Failure::TimedOut });
        }
        let link = match self.pick() {
            Some(link) => link,
            None => self.opening(request.deadline).await.ok_or(Failure::NotSent)?,
        };
        let call = v1::Call {
            id: 0,
            op: request.op.to_owned(),
            kind: u32::from(request.object.kind().0),
            object: request.object.name().to_owned(),
            participant: request
                .participant
                .map(|id| Bytes::copy_from_slice(&id.0.to_be_bytes()))
                .unwrap_or_default(),
            joining: request.joining,
            args: request.args.clone(),
            blob: request.blob.clone(),
            request: Bytes::copy_from_slice(&request.request.0.to_be_bytes()),
            attempt,
            age_ms: millis(now.duration_since(started)),
            deadline_ms: millis(remaining.saturating_sub(DEADLINE_MARGIN)).max(1),
            view: 0,
            hops: 0,
            connection: 0,
        };
        match tokio::time::timeout_at(request.deadline, link.call(call)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(NoAnswer::NotSent)) => Err(Failure::NotSent),
            Ok(Err(NoAnswer::Lost)) => Err(Failure::Lost),
            Err(_elapsed) => Err(Failure::TimedOut),
        }
    }

    /// Waits a moment for a stream to open.
    async fn opening(&self, deadline: Instant) -> Option<&Link> {
        let mut opened = std::pin::pin!(self.inner.opened.notified());
        // Listens before it looks again: no opening is missed between the two.
        opened.as_mut().enable();
        if let Some(link) = self.pick() {
            return Some(link);
        }
        let until = deadline.min(clock::now() + OPEN_WAIT);
        // Opened or not, the look decides.
        let _in_time = tokio::time::timeout_at(until, opened).await;
        self.pick()
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

/// How far a call has come.
struct Course {
    attempts: u32,
    failed_at: Option<Instant>,
    /// Some attempt may have run without an answer.
    in_doubt: bool,
}

impl Course {
    /// The end of a call that is not repeated any more.
    fn end(&self, request: &Request, failure: Failure, refused: Option<Reply>) -> Reply {
        // Only these say nothing about the call itself.
        let says_nothing = match failure {
            Failure::NotSent | Failure::Lost | Failure::TimedOut => true,
            Failure::Refused(class) => matches!(class, Class::NotOwner | Class::Fenced),
        };
        match refused {
            Some(reply) if !says_nothing => reply,
            Some(_) | None => {
                let refusal = if self.in_doubt && !request.harmless {
                    Refusal::outcome_unknown()
                } else {
                    Refusal::room_unavailable()
                };
                Reply { result: Err(refusal), next_wait_ms: None }
            }
        }
    }
}

/// One of the calls in flight.
struct Slot<'a>(&'a Inner);

impl<'a> Slot<'a> {
    fn take(inner: &'a Inner) -> Option<Self> {
        let slot = Self(inner);
        let before = inner.inflight.fetch_add(1, Ordering::Relaxed);
        inner.metrics.inflight.inc();
        (before < inner.inflight_max).then_some(slot)
    }
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        self.0.inflight.fetch_sub(1, Ordering::Relaxed);
        self.0.metrics.inflight.dec();
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
