//! One lane: a bounded queue in front of one link to one primary.
//!
//! Calls that wait together leave as one pipeline. Where a replica must confirm, the pipeline ends
//! in one wait for all of them (group commit), and the next one gathers meanwhile.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use redis::{Cmd, Pipeline, Value};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::Instant;

use crate::core::Core;
use crate::exchange::{Confirm, Wait, exchange};
use crate::identity::{Identity, rejoin};
use crate::library::{Form, Function};
use crate::random::random;
use crate::retry::{Again, Verdict, judge, pause};
use crate::socket::Socket;
use crate::{Address, Call, Doubt, Failure, Unsent, clock};

/// Calls in one pipeline.
const PIPELINE_CALLS_MAX: usize = 128;
/// Bytes of arguments after which a pipeline takes no further call.
const PIPELINE_BYTES_MAX: usize = 1024 * 1024;
/// Pipelines in flight on one link where nobody waits for replicas.
const OVERLAP_MAX: usize = 4;
/// The same where a wait blocks the link anyway: more would only split the groups.
const OVERLAP_WAITING_MAX: usize = 1;

/// What is to be run.
#[derive(Debug)]
pub(crate) enum Body {
    Call { call: Call, function: Arc<Function> },
    Command(Cmd),
}

impl Body {
    fn is_durable(&self) -> bool {
        matches!(self, Self::Call { call, .. } if call.durable)
    }

    fn bytes(&self) -> usize {
        match self {
            Self::Call { call, .. } => {
                call.keys.iter().chain(&call.args).map(|part| part.len()).sum()
            }
            Self::Command(command) => command.get_packed_command().len(),
        }
    }
}

/// What came of it.
pub(crate) type Outcome = Result<Value, Missed>;

/// Why there is no answer.
#[derive(Debug)]
pub(crate) enum Missed {
    Again(Again),
    Final(Failure),
}

/// One call in the queue.
#[derive(Debug)]
pub(crate) struct Item {
    pub(crate) body: Arc<Body>,
    /// Whether the server is told that the slot is on its way to it.
    pub(crate) asking: bool,
    pub(crate) deadline: Instant,
    /// Whoever sets it first decides: the lane, that it is sent; the caller, that it never will be.
    pub(crate) taken: Arc<AtomicBool>,
    pub(crate) reply: oneshot::Sender<Outcome>,
}

impl Item {
    fn answer(self, outcome: Outcome) {
        // A caller that is gone needs no answer.
        drop(self.reply.send(outcome));
    }
}

/// The way into a lane.
#[derive(Clone, Debug)]
pub(crate) struct Lane {
    queue: mpsc::Sender<Item>,
    core: Arc<Core>,
}

impl Lane {
    pub(crate) fn start(
        core: &Arc<Core>,
        address: Address,
        identity: Identity,
        form: Form,
    ) -> Self {
        let queue_max = core.settings.queue_max.max(1);
        let (queue, items) = mpsc::channel(queue_max);
        let wait = Wait::new(core.settings.durability, core.settings.response_ms);
        let overlap_max = if wait.is_some() { OVERLAP_WAITING_MAX } else { OVERLAP_MAX };
        let task = Task {
            core: Arc::clone(core),
            address,
            identity,
            form,
            wait,
            is_met: Arc::new(AtomicBool::new(true)),
            items,
            overlap: Arc::new(Semaphore::new(overlap_max)),
            socket: None,
            failures: 0,
            next_attempt: None,
        };
        tokio::spawn(task.run());
        Self { queue, core: Arc::clone(core) }
    }

    /// Puts a call into the queue.
    pub(crate) fn push(&self, item: Item) -> Result<(), Missed> {
        let place = self.queue.try_reserve().map_err(|e| match e {
            mpsc::error::TrySendError::Full(()) => {
                Missed::Final(Failure::not_sent(Unsent::QueueFull))
            }
            mpsc::error::TrySendError::Closed(()) => Missed::Again(Again::NoPrimary),
        })?;
        self.core.metrics.queued.inc();
        place.send(item);
        Ok(())
    }
}

struct Task {
    core: Arc<Core>,
    address: Address,
    /// Only this life of the server is served.
    identity: Identity,
    form: Form,
    wait: Option<Wait>,
    is_met: Arc<AtomicBool>,
    items: mpsc::Receiver<Item>,
    overlap: Arc<Semaphore>,
    socket: Option<Arc<Socket>>,
    failures: u32,
    next_attempt: Option<Instant>,
}

impl Drop for Task {
    fn drop(&mut self) {
        self.turn_away();
    }
}

impl Task {
    async fn run(mut self) {
        // The place in flight comes before the first call, so that calls gather while it is taken.
        while let Ok(place) = Arc::clone(&self.overlap).acquire_owned().await {
            let Some(first) = self.items.recv().await else { return };
            self.core.metrics.queued.dec();
            let Some(socket) = self.socket().await else {
                first.answer(Err(Missed::Again(Again::NoPrimary)));
                self.turn_away();
                continue;
            };
            let group = self.gather(first);
            if !group.is_empty() {
                let run = Run {
                    core: Arc::clone(&self.core),
                    form: self.form,
                    wait: self.wait,
                    is_met: Arc::clone(&self.is_met),
                    socket,
                    _place: place,
                };
                tokio::spawn(run.run(group));
            }
        }
    }

    /// Answers all that wait: not now.
    fn turn_away(&mut self) {
        while let Ok(item) = self.items.try_recv() {
            self.core.metrics.queued.dec();
            item.answer(Err(Missed::Again(Again::NoPrimary)));
        }
    }

    /// The link, made anew if it was lost. None while the server is not reached, or is another.
    async fn socket(&mut self) -> Option<Arc<Socket>> {
        if let Some(socket) = self.socket.as_ref().filter(|socket| socket.is_alive()) {
            return Some(Arc::clone(socket));
        }
        if self.next_attempt.is_some_and(|at| clock::now() < at) {
            return None;
        }
        let was_linked = self.socket.take().is_some() || self.failures > 0;
        match self.connect().await {
            Ok(socket) => {
                let socket = Arc::new(socket);
                self.socket = Some(Arc::clone(&socket));
                self.failures = 0;
                self.next_attempt = None;
                if was_linked {
                    self.core.metrics.reconnects.inc();
                    self.core.changed();
                }
                Some(socket)
            }
            Err(why) => {
                self.failures = self.failures.saturating_add(1);
                self.next_attempt = Some(clock::now() + pause(self.failures, random()));
                if self.failures == 1 {
                    tracing::warn!(address = %self.address, why, "a lane has no link");
                }
                self.core.nudge.notify_one();
                None
            }
        }
    }

    async fn connect(&self) -> Result<Socket, String> {
        let core = Arc::clone(&self.core);
        let pushed = move |push: redis::PushInfo| {
            if push.kind == redis::PushKind::Disconnection {
                core.changed();
                core.nudge.notify_one();
            }
            Ok(())
        };
        let socket = Socket::listening(&self.address, &self.core.login, pushed).await;
        let socket = socket.map_err(|e| e.to_string())?;
        rejoin(socket, &self.identity).await.map_err(|e| e.to_string())
    }

    /// The first call and those behind it that fit into one pipeline, without those that nobody
    /// waits for any more.
    fn gather(&mut self, first: Item) -> Vec<Item> {
        let now = clock::now();
        let mut group = Vec::new();
        let mut bytes = 0;
        let mut next = Some(first);
        while let Some(item) = next {
            if item.deadline <= now {
                item.answer(Err(Missed::Final(Failure::not_sent(Unsent::Deadline))));
            } else if !item.taken.swap(true, Ordering::AcqRel) {
                bytes += item.body.bytes();
                group.push(item);
            }
            let is_full = group.len() >= PIPELINE_CALLS_MAX || bytes >= PIPELINE_BYTES_MAX;
            next = if is_full { None } else { self.items.try_recv().ok() };
            if next.is_some() {
                self.core.metrics.queued.dec();
            }
        }
        group
    }
}

/// One pipeline in flight.
struct Run {
    core: Arc<Core>,
    form: Form,
    wait: Option<Wait>,
    /// Whether the last wait of this lane was met.
    is_met: Arc<AtomicBool>,
    socket: Arc<Socket>,
    _place: OwnedSemaphorePermit,
}

impl Run {
    async fn run(self, mut group: Vec<Item>) {
        self.core.metrics.pipeline.observe(f64::from(u32::try_from(group.len()).unwrap_or(0)));
        let mut commands = Pipeline::with_capacity(group.len() + 1);
        for item in &group {
            if item.asking {
                commands.cmd("ASKING");
            }
            commands.add_command(match &*item.body {
                Body::Command(command) => command.clone(),
                Body::Call { call, function } => function.command(call, self.form),
            });
        }
        let is_eager = self.is_met.load(Ordering::Relaxed);
        let wait = self.wait.filter(|_| group.iter().any(|item| item.body.is_durable()));
        let confirm = wait.map(|wait| Confirm { wait, is_eager });
        let mut held = Vec::new();
        let first = |values| {
            held = deliver(std::mem::take(&mut group), values, wait.is_some());
            !held.is_empty()
        };
        match exchange(&self.socket, commands, confirm, first).await {
            Ok(is_met) => {
                if wait.is_some() {
                    self.is_met.store(is_met && !held.is_empty(), Ordering::Relaxed);
                }
                if !is_met {
                    self.core.metrics.short.inc();
                }
                for (item, value) in held {
                    let short = Missed::Final(Failure::unknown(Doubt::ShortWait));
                    item.answer(if is_met { Ok(value) } else { Err(short) });
                }
            }
            Err(reason) => {
                let doubted = group.into_iter().chain(held.into_iter().map(|(item, _)| item));
                let doubted: Vec<Item> = doubted.collect();
                tracing::warn!(%reason, calls = doubted.len(), "a pipeline is in doubt");
                self.core.changed();
                self.core.nudge.notify_one();
                for item in doubted {
                    item.answer(Err(Missed::Final(Failure::unknown(reason))));
                }
            }
        }
    }
}

/// Gives each call its answer, except those that are still to be confirmed: these are returned.
fn deliver(group: Vec<Item>, values: Vec<Value>, confirms: bool) -> Vec<(Item, Value)> {
    let mut values = values.into_iter();
    let mut held = Vec::new();
    for item in group {
        if item.asking {
            values.next();
        }
        match judge(values.next().unwrap_or(Value::Nil)) {
            Verdict::Done(value) if confirms && item.body.is_durable() => held.push((item, value)),
            Verdict::Done(value) => item.answer(Ok(value)),
            Verdict::Again(again) => item.answer(Err(Missed::Again(again))),
            Verdict::Final(failure) => item.answer(Err(Missed::Final(failure))),
        }
    }
    held
}
