//! The host: runs durable objects of one kind over a store.
//!
//! [`Host::call`] is the whole way of a call: cadence, blob, mailbox, answer. One task per active
//! object decides and stores (`actor`); everything impure an object needs is made here.
#![warn(clippy::wildcard_enum_match_arm)]

mod activation;
mod actor;
mod batch;
mod call;
mod commit;
mod cpu;
#[cfg(test)]
mod crowd;
mod directory;
mod effects;
mod enter;
mod entrance;
#[cfg(test)]
mod footprint;
mod guard;
mod leave;
mod lifecycle;
mod live;
mod mailbox;
mod memory;
mod pressure;
mod rest;
mod shed;
mod sleep;
mod subscribers;
mod timers;
mod tokens;
mod trouble;
mod wheel;

use std::sync::Arc;

use object::{Object, ObjectId, ParticipantId};
use prometheus::Registry;
use tokio::sync::{Semaphore, SemaphorePermit, watch};
use tokio_util::sync::CancellationToken;

pub use self::call::{Elsewhere, Request, Response, Success};
pub(crate) use self::call::{Pending, Verdict};
pub(crate) use self::commit::repeat;
pub use self::cpu::CpuUse;
pub(crate) use self::directory::{Active, Cause, Held, PassKey, Shard};
pub(crate) use self::guard::Checked;
pub use self::leave::{DRAIN_MS, DRAIN_RELEASE_MS, PARK_MS_MAX};
pub use self::pressure::{Machine, MemoryUse};
pub use self::subscribers::{Notice, Queued, Sink};

use self::activation::Exact;
use self::directory::Directory;
use self::mailbox::Message;
use self::shed::Gate;
use self::subscribers::Subscribers;
use self::tokens::Tokens;
use self::wheel::Wheel;
use crate::clock::Clock;
use crate::cluster::Cluster;
use crate::config::Config;
use crate::error::{self, StartError};
use crate::front::book::Book;
use crate::front::cadence::Rule;
use crate::front::projections::Projections;
use crate::metrics::Metrics;
use crate::store::{Incarnation, Store};

/// A running host. Cheap to clone; all clones are one host.
#[derive(Debug)]
pub struct Host<O: Object> {
    inner: Arc<Inner<O>>,
    alive: Arc<Alive>,
}

impl<O: Object> Clone for Host<O> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner), alive: Arc::clone(&self.alive) }
    }
}

/// Ends the host's tasks when its last handle goes.
#[derive(Debug)]
struct Alive(CancellationToken);

impl Drop for Alive {
    fn drop(&mut self) {
        self.0.cancel();
    }
}

/// What all activations share.
#[derive(Debug)]
pub(crate) struct Inner<O: Object> {
    pub(crate) config: Config,
    pub(crate) settings: O::Settings,
    pub(crate) store: Arc<dyn Store>,
    pub(crate) clock: Clock,
    pub(crate) me: Incarnation,
    pub(crate) cluster: Arc<dyn Cluster>,
    pub(crate) metrics: Metrics,
    pub(crate) directory: Directory,
    pub(crate) subscribers: Subscribers,
    pub(crate) rule: Rule,
    pub(crate) projections: Projections,
    gate: Gate,
    wheel: Wheel,
    wakes: Tokens,
    stub_claims: Tokens,
    timer_wakes: Tokens,
    /// Number of the store's primary.
    primaries: watch::Receiver<u64>,
    leaves: Semaphore,
    checks: Semaphore,
    evictions: Arc<Semaphore>,
    draining: CancellationToken,
    /// Cancelled when the last handle is gone: everything stops where it stands, as by a kill.
    dead: CancellationToken,
}

impl<O: Object> Host<O> {
    /// Starts a host. Must be called within a tokio runtime; fails only if the registry already
    /// holds one of its metrics.
    pub fn start(
        config: Config,
        settings: O::Settings,
        store: Arc<dyn Store>,
        clock: Clock,
        incarnation: Incarnation,
        cluster: Arc<dyn Cluster>,
        registry: &Registry,
    ) -> Result<Self, StartError> {
        for warning in config.warnings() {
            tracing::warn!(warning, "odd setting");
        }
        let metrics = Metrics::register(registry)?;
        let inner = Arc::new(Inner {
            rule: Rule::of(&config),
            projections: Projections::default(),
            gate: Gate::new(&config),
            wheel: Wheel::default(),
            wakes: Tokens::new(config.wakes_per_second, clock.mono()),
            stub_claims: Tokens::new(config.stub_claims_per_second, clock.mono()),
            timer_wakes: Tokens::new(config.timer_wakes_per_second, clock.mono()),
            dead: CancellationToken::new(),
            subscribers: Subscribers::new(config.subscriber_frames_max, metrics.clone()),
            directory: Directory::new(),
            draining: CancellationToken::new(),
            primaries: cluster.primaries(),
            leaves: Semaphore::new(leave::LEAVES_MAX),
            checks: Semaphore::new(guard::CHECKS_MAX),
            evictions: Arc::new(Semaphore::new(sleep::EVICTIONS_MAX)),
            me: incarnation,
            cluster,
            config,
            settings,
            store,
            clock,
            metrics,
        });
        tokio::spawn(Arc::clone(&inner).run_stub_timers());
        tokio::spawn(Arc::clone(&inner).run_due_scan());
        tokio::spawn(Arc::clone(&inner).run_sweep());
        tokio::spawn(Arc::clone(&inner).run_handoff());
        tokio::spawn(Arc::clone(&inner).run_guard());
        tokio::spawn(Arc::clone(&inner).run_primaries());
        let alive = Arc::new(Alive(inner.dead.clone()));
        Ok(Self { inner, alive })
    }

    /// The host's clock.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.inner.clock
    }

    /// The host's settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.inner.config
    }

    /// The host's metrics.
    #[must_use]
    pub fn metrics(&self) -> &Metrics {
        &self.inner.metrics
    }

    /// Which run of which node this is.
    #[must_use]
    pub fn incarnation(&self) -> &Incarnation {
        &self.inner.me
    }

    /// Number of the membership view the host knows; 0 where there is no cluster.
    #[must_use]
    pub fn view(&self) -> u64 {
        self.inner.cluster.view()
    }

    /// Whether this node may serve now: its lease holds and it is not being drained.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.inner.cluster.is_leased() && !self.is_draining()
    }

    /// True once [`Self::drain`] has begun.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.inner.is_draining()
    }

    /// Waits until [`Self::drain`] begins.
    pub async fn drain_begun(&self) {
        self.inner.draining.cancelled().await;
    }

    /// Gives all objects up: what is in flight is finished, snapshots are stored where worthwhile,
    /// releases are durable, and then whoever waits is sent elsewhere. Calls of objects that are
    /// not in memory are refused at once. An object with parked work that nobody can repeat leaves
    /// last. Returns true if all were given up within `within_ms` ([`DRAIN_MS`] unless there is a
    /// reason); whatever is left is found by the next claim.
    pub async fn drain(&self, within_ms: u64) -> bool {
        let host = &self.inner;
        host.draining.cancel();
        let begun = host.clock.mono();
        let give_up = begun.plus(within_ms);
        // A short drain keeps a part of its time for the releases, too.
        let by = begun.plus(within_ms - DRAIN_RELEASE_MS.min(within_ms / 2));
        let mut ask_at = begun;
        loop {
            let now = host.clock.mono();
            if now >= ask_at {
                host.all_leave(by);
                ask_at = now.plus(DRAIN_ASK_MS);
            }
            let done = host.directory.active_count() == 0;
            if done || now >= give_up {
                let instant = host.clock.instant(give_up.plus(DRAIN_STEP_MS));
                let released = tokio::time::timeout_at(instant, host.hand_off_stubs()).await;
                return done && released.is_ok();
            }
            host.clock.sleep_until(now.plus(DRAIN_STEP_MS)).await;
        }
    }

    /// Answers one call. Dropping the future cancels the call: a parked one is forgotten, one
    /// that is being stored is stored and its answer dropped.
    pub async fn call(&self, request: Request) -> Response {
        let host = &self.inner;
        let object = request.object.clone();
        let deadline = host.clock.instant(request.deadline);
        let answered = tokio::time::timeout_at(deadline, Box::pin(host.dispatch(request))).await;
        let mut response = answered.unwrap_or_else(|_elapsed| Response::refused(error::deadline()));
        host.direct(&object, &mut response);
        response
    }

    /// Attaches a connection of a participant; its notices go to `sink`. False if the node holds
    /// as many connections as it may, or the object belongs elsewhere.
    #[must_use]
    pub fn attach(
        &self,
        object: &ObjectId,
        participant: ParticipantId,
        connection: u64,
        sink: Arc<dyn Sink>,
    ) -> bool {
        if self.inner.admits(object, 0).is_err() {
            return false;
        }
        let attached_max = self.inner.config.subscribers_max;
        self.inner.subscribers.attach(object, participant, connection, sink, attached_max)
    }

    /// Detaches a connection and tells its object.
    pub fn detach(&self, object: &ObjectId, connection: u64) {
        if let Some(participant) = self.inner.subscribers.detach(object, connection) {
            self.inner.connection_lost(object, participant, connection);
        }
    }
}

impl<O: Object> Inner<O> {
    /// The activation of an object; begins one if there is none. A stub becomes an activation
    /// again, with its cadence, its lease ends and what is held beside it.
    pub(crate) fn entry(
        self: &Arc<Self>,
        shard: &mut Shard,
        id: &ObjectId,
        cause: Cause,
    ) -> Result<Arc<Active>, object::Reject> {
        if let Some(entry) = shard.active.get(id) {
            return Ok(Arc::clone(entry));
        }
        if !self.directory.reserve(self.config.objects_active_max) {
            self.metrics.bound_hit("objects_active_max");
            return Err(error::overloaded("This server holds as many rooms as it can."));
        }
        let entry = Arc::new(match self.take_stub(shard, id) {
            Some(stub) => {
                let held = shard.held.remove(id).unwrap_or_default();
                let cadences = self.metrics.cadences.clone();
                let book = Book::of(&stub, &held, self.clock.mono(), cadences);
                let kept = Exact { fence: Some(stub.fence), ends: stub.ends() };
                let entry = Active::new(id.clone(), cause, book, Some(kept));
                self.metrics.parked_calls.sub(gauge(held.len()));
                let calls = held.into_iter().map(|held| Message::Call(held.call));
                self.put_back(&entry, calls.collect());
                entry
            }
            None => {
                let book = Book::new(self.metrics.cadences.clone());
                Active::new(id.clone(), cause, book, None)
            }
        });
        entry.touch(self.clock.mono());
        shard.active.insert(id.clone(), Arc::clone(&entry));
        self.metrics.active.inc();
        tokio::spawn(actor::run(Arc::clone(self), Arc::clone(&entry)));
        Ok(entry)
    }

    /// Tells an object that a connection is gone.
    pub(crate) fn connection_lost(
        self: &Arc<Self>,
        object: &ObjectId,
        participant: ParticipantId,
        connection: u64,
    ) {
        if self.admits(object, 0).is_err() {
            return;
        }
        let mut shard = self.directory.shard(object);
        if let Ok(entry) = self.entry(&mut shard, object, Cause::Disconnect) {
            entry.mailbox.push_disconnect(participant, connection);
        }
    }

    // An entry leaves the directory only while its mailbox is empty, under the shard's lock.
    fn retire(&self, entry: &Arc<Active>) -> bool {
        let mut shard = self.directory.shard(&entry.id);
        if !entry.mailbox.is_empty() {
            return false;
        }
        self.leave(&mut shard, entry);
        true
    }

    fn leave(&self, shard: &mut Shard, entry: &Arc<Active>) {
        if shard.active.get(&entry.id).is_some_and(|known| Arc::ptr_eq(known, entry)) {
            shard.active.remove(&entry.id);
            self.directory.unreserve();
            self.metrics.active.dec();
        }
    }

    fn sweep_held(&self, shard: &mut Shard, id: &ObjectId) {
        let gone = shard.forget_abandoned(id);
        self.metrics.parked_calls.sub(gauge(gone));
    }

    /// Forgets waits held beside a stub whose callers are gone.
    pub(crate) fn forget_abandoned(&self, id: &ObjectId) {
        let mut shard = self.directory.shard(id);
        self.sweep_held(&mut shard, id);
    }

    fn put_back(&self, entry: &Active, messages: Vec<Message>) {
        let calls = messages.iter().filter(|message| matches!(message, Message::Call(_))).count();
        self.metrics.mailbox_calls.add(i64::try_from(calls).unwrap_or(0));
        entry.mailbox.put_back(messages);
    }

    pub(crate) fn is_draining(&self) -> bool {
        self.draining.is_cancelled()
    }

    // Polls and timers have budgets of their own: neither may starve calls, or be starved.
    async fn wake_token(&self, cause: Cause) {
        let tokens = match cause {
            Cause::Call | Cause::Disconnect => &self.wakes,
            Cause::Poll => &self.stub_claims,
            Cause::Timer => &self.timer_wakes,
        };
        let now = self.clock.mono();
        let at = tokens.reserve(now);
        if at > now {
            self.metrics.wakes_waiting.inc();
            self.clock.sleep_until(at).await;
            self.metrics.wakes_waiting.dec();
        }
    }

    // Waits for one of a bounded number of places, and counts that it had to. The semaphores of a
    // host are never closed, so the permit is always got.
    async fn turn<'a>(&self, places: &'a Semaphore, bound: &str) -> Option<SemaphorePermit<'a>> {
        if let Ok(permit) = places.try_acquire() {
            return Some(permit);
        }
        self.metrics.bound_hit(bound);
        places.acquire().await.ok()
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.is_cancelled()
    }
}

pub(crate) fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

/// How often a drain asks activations to leave that were begun in the meantime.
const DRAIN_ASK_MS: u64 = 250;
/// How often a drain looks whether it is done.
const DRAIN_STEP_MS: u64 = 10;

/// Random bits of the operating system.
pub(crate) fn random_u128() -> u128 {
    let mut bytes = [0; 16];
    // A machine without randomness could mint equal fences: nothing may go on.
    if getrandom::fill(&mut bytes).is_err() {
        std::process::abort();
    }
    u128::from_ne_bytes(bytes)
}

/// Random bits of the operating system.
pub(crate) fn random_u64() -> u64 {
    // A machine without randomness could mint equal fences: nothing may go on.
    match getrandom::u64() {
        Ok(bits) => bits,
        Err(_) => std::process::abort(),
    }
}
