//! The host: runs durable objects of one kind over a store.
//!
//! [`Host::call`] is the whole way of a call: cadence, blob, mailbox, answer. One task per active
//! object decides and stores ([`actor`]); everything impure an object needs is made here.

mod activation;
mod actor;
mod batch;
mod call;
mod commit;
mod directory;
mod effects;
#[cfg(test)]
mod footprint;
mod lifecycle;
mod live;
mod mailbox;
mod sleep;
mod subscribers;
mod timers;
mod tokens;
mod trouble;
mod wheel;

use std::sync::Arc;

use object::{Activation, BlobId, Cx, Object, ObjectId, ParticipantId};
use prometheus::Registry;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

pub(crate) use self::call::{Pending, Verdict};
pub use self::call::{Request, Response, Success};
pub(crate) use self::commit::repeat;
pub(crate) use self::directory::{Active, Cause, Held, PassKey, Shard};
pub use self::subscribers::{Notice, Queued, Sink};

use self::directory::Directory;
use self::mailbox::Message;
use self::subscribers::Subscribers;
use self::tokens::Tokens;
use self::trouble::Trouble;
use self::wheel::Wheel;
use crate::clock::{Clock, Mono};
use crate::config::Config;
use crate::error::{self, StartError};
use crate::front::book::Book;
use crate::front::cadence::Rule;
use crate::front::projections::Projections;
use crate::metrics::Metrics;
use crate::store::{Error as StoreError, Incarnation, Store};

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
    pub(crate) metrics: Metrics,
    pub(crate) directory: Directory,
    pub(crate) subscribers: Subscribers,
    pub(crate) rule: Rule,
    pub(crate) projections: Projections,
    wheel: Wheel,
    wakes: Tokens,
    stub_claims: Tokens,
    timer_wakes: Tokens,
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
        registry: &Registry,
    ) -> Result<Self, StartError> {
        for warning in config.warnings() {
            tracing::warn!(warning, "odd setting");
        }
        let metrics = Metrics::register(registry)?;
        let inner = Arc::new(Inner {
            rule: Rule::of(&config),
            projections: Projections::default(),
            wheel: Wheel::default(),
            wakes: Tokens::new(config.wakes_per_second, clock.mono()),
            stub_claims: Tokens::new(config.stub_claims_per_second, clock.mono()),
            timer_wakes: Tokens::new(config.timer_wakes_per_second, clock.mono()),
            dead: CancellationToken::new(),
            subscribers: Subscribers::new(config.subscriber_frames_max, metrics.clone()),
            directory: Directory::new(),
            draining: CancellationToken::new(),
            me: incarnation,
            config,
            settings,
            store,
            clock,
            metrics,
        });
        tokio::spawn(Arc::clone(&inner).run_stub_timers());
        tokio::spawn(Arc::clone(&inner).run_due_scan());
        tokio::spawn(Arc::clone(&inner).run_sweep());
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

    /// True once [`Self::drain`] has begun.
    #[must_use]
    pub fn is_draining(&self) -> bool {
        self.inner.is_draining()
    }

    /// Waits until [`Self::drain`] begins.
    pub async fn drain_begun(&self) {
        self.inner.draining.cancelled().await;
    }

    /// Stops taking calls, lets every activation finish what it does, stores snapshots where
    /// worthwhile and gives all objects up. Returns true if all were given up within
    /// `within_ms`; whatever is left is found by the next claim.
    pub async fn drain(&self, within_ms: u64) -> bool {
        let host = &self.inner;
        host.draining.cancel();
        let give_up = host.clock.mono().plus(within_ms);
        loop {
            for shard in host.directory.shards() {
                for entry in shard.active.values() {
                    entry.mailbox.nudge();
                }
            }
            let done = host.directory.active_count() == 0;
            if done || host.clock.mono() >= give_up {
                let instant = host.clock.instant(give_up.plus(DRAIN_STEP_MS));
                let released = tokio::time::timeout_at(instant, host.release_stubs(None)).await;
                return done && released.is_ok();
            }
            host.clock.sleep_until(host.clock.mono().plus(DRAIN_STEP_MS)).await;
        }
    }

    /// Answers one call. Dropping the future cancels the call: a parked one is forgotten, one
    /// that is being stored is stored and its answer dropped.
    pub async fn call(&self, request: Request) -> Response {
        let host = &self.inner;
        if host.is_draining() {
            return Response::refused(error::draining());
        }
        let deadline = host.clock.instant(request.deadline);
        let answered = tokio::time::timeout_at(deadline, Box::pin(host.dispatch(request))).await;
        answered.unwrap_or_else(|_elapsed| Response::refused(error::deadline()))
    }

    /// Attaches a connection of a participant; its notices go to `sink`. False if the node holds
    /// as many connections as it may.
    #[must_use]
    pub fn attach(
        &self,
        object: &ObjectId,
        participant: ParticipantId,
        connection: u64,
        sink: Arc<dyn Sink>,
    ) -> bool {
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
    async fn dispatch(self: &Arc<Self>, request: Request) -> Response {
        if let Some(who) = request.caller.participant().filter(|_| request.op.wait) {
            return self.wait(request, who).await;
        }
        let object = request.object.clone();
        let verdict = match self.put_blob(&request).await {
            Ok(blob) => self.submit(request, blob).await,
            Err(reject) => Err(reject),
        };
        Response { result: self.success(&object, verdict).await, next_wait_ms: None }
    }

    // Hands a call over and waits for its verdict.
    async fn submit(self: &Arc<Self>, request: Request, blob: Option<BlobId>) -> Verdict {
        let object = request.object.clone();
        let (pending, verdict) = self.pending(request, blob);
        {
            let mut shard = self.directory.shard(&object);
            if let Some(verdict) = self.known_absent(&mut shard, &pending) {
                return verdict;
            }
            let entry = self.entry(&mut shard, &object, Cause::Call, Book::default)?;
            self.push(&entry, pending)?;
        }
        self.verdict(&object, verdict).await
    }

    /// A call ready for a mailbox, and where its verdict will come.
    pub(crate) fn pending(
        &self,
        request: Request,
        blob: Option<BlobId>,
    ) -> (Box<Pending>, oneshot::Receiver<Verdict>) {
        let (reply, verdict) = oneshot::channel();
        (Box::new(Pending { request, blob, since: self.clock.now(), pass: None, reply }), verdict)
    }

    /// Puts a call into a mailbox. The caller holds the shard's lock, so that an entry never
    /// leaves the directory with a call in it.
    pub(crate) fn push(&self, entry: &Active, call: Box<Pending>) -> Result<(), object::Reject> {
        if let Err(mailbox::Full(_call)) =
            entry.mailbox.push_call(call, self.config.mailbox_calls_max)
        {
            self.metrics.bound_hit("mailbox_calls_max");
            return Err(error::overloaded("Too many calls wait for this room; slow down."));
        }
        self.metrics.mailbox_calls.inc();
        Ok(())
    }

    /// Waits for a verdict; dropped before, it lets a parked call be forgotten.
    pub(crate) async fn verdict(
        self: &Arc<Self>,
        object: &ObjectId,
        verdict: oneshot::Receiver<Verdict>,
    ) -> Verdict {
        let mut cancel = CancelOnDrop { host: self, object, armed: true };
        let verdict = verdict.await.unwrap_or_else(|_dropped| Err(error::unavailable()));
        cancel.armed = false;
        verdict
    }

    async fn put_blob(&self, request: &Request) -> Result<Option<BlobId>, object::Reject> {
        let Some(bytes) = request.blob.clone() else { return Ok(None) };
        let id = BlobId::from_random(random_u128());
        let expires = self.clock.now().plus(self.config.blob_upload_ms);
        // A blob that may or may not be there is found missing by the append that names it.
        match self.store.put_blob(request.object.clone(), id, bytes, expires).await {
            Ok(()) | Err(StoreError::Unknown { .. }) => Ok(Some(id)),
            Err(reason) => {
                tracing::warn!(%reason, "blob was not stored");
                Err(error::unavailable())
            }
        }
    }

    /// Reads the blob a reply names; it may have been dropped since.
    pub(crate) async fn success(
        &self,
        object: &ObjectId,
        verdict: Verdict,
    ) -> Result<Success, object::Reject> {
        let reply = verdict?;
        let (blob, image_mime) = match reply.attached {
            None => return Ok(Success { body: reply.body, blob: None, image_mime: None }),
            Some(object::Attached::Image { blob, mime }) => (blob, Some(mime)),
            Some(object::Attached::Text { blob }) => (blob, None),
        };
        match self.store.get_blob(object.clone(), blob).await {
            Ok(Some(bytes)) => Ok(Success { body: reply.body, blob: Some(bytes), image_mime }),
            Ok(None) => Err(error::unavailable()),
            Err(reason) => {
                tracing::warn!(%reason, "blob was not read");
                Err(error::unavailable())
            }
        }
    }

    /// The activation of an object; begins one if there is none. A stub becomes an activation
    /// again, with its cadence, its lease ends and what is held beside it.
    pub(crate) fn entry(
        self: &Arc<Self>,
        shard: &mut Shard,
        id: &ObjectId,
        cause: Cause,
        book: impl FnOnce() -> Book,
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
                let book = Book::of(&stub, &held, self.clock.mono());
                let entry = Active::new(id.clone(), cause, book, Some(stub.ends()));
                self.metrics.parked_calls.sub(gauge(held.len()));
                let calls = held.into_iter().map(|held| Message::Call(held.call));
                self.put_back(&entry, calls.collect());
                entry
            }
            None => Active::new(id.clone(), cause, book(), None),
        });
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
        let mut shard = self.directory.shard(object);
        if let Ok(entry) = self.entry(&mut shard, object, Cause::Disconnect, Book::default) {
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
            self.clock.sleep_until(at).await;
        }
    }

    pub(crate) fn is_dead(&self) -> bool {
        self.dead.is_cancelled()
    }

    fn is_aside(&self, id: &ObjectId) -> bool {
        let now = self.clock.mono();
        self.directory.shard(id).trouble.get(id).is_some_and(|trouble| trouble.is_aside(now))
    }

    /// The answer to a call of an object that was absent a moment ago.
    pub(crate) fn known_absent(&self, shard: &mut Shard, call: &Pending) -> Option<Verdict> {
        let until = shard.absent.get(&call.request.object)?;
        let reads = match call.request.op.activation {
            Activation::Peek | Activation::MustExist => true,
            Activation::MayCreate | Activation::MustCreate => false,
        };
        if !reads || *until <= self.clock.mono() {
            shard.absent.remove(&call.request.object);
            self.metrics.absent.dec();
            return None;
        }
        let now = self.clock.now();
        let cx = Cx { now, random: random_u128(), settings: &self.settings };
        Some(O::absent(&cx, &call.as_call(None, now)))
    }

    fn note_absent(&self, id: &ObjectId) {
        let now = self.clock.mono();
        let mut shard = self.directory.shard(id);
        let before = shard.absent.len();
        if before >= self.directory.share(self.config.absent_max) {
            shard.absent.retain(|_, until| *until > now);
            if shard.absent.len() >= self.directory.share(self.config.absent_max) {
                shard.absent.clear();
            }
        }
        shard.absent.insert(id.clone(), now.plus(self.config.absent_ms));
        self.metrics.absent.add(gauge(shard.absent.len()) - gauge(before));
    }

    // Returns how long the object's timer should wait before it is tried again.
    fn note_panic(&self, id: &ObjectId) -> u64 {
        let now = self.clock.mono();
        let mut shard = self.directory.shard(id);
        let trouble = self.trouble(&mut shard, id, now);
        if trouble.panicked(&self.config, now) {
            self.metrics.quarantines.inc();
            tracing::error!("object set aside because it panics again and again");
        }
        trouble.retry_ms(now)
    }

    fn note_damage(&self, id: &ObjectId) {
        let now = self.clock.mono();
        let mut shard = self.directory.shard(id);
        self.trouble(&mut shard, id, now).damaged();
        self.metrics.quarantines.inc();
    }

    fn trouble<'a>(&self, shard: &'a mut Shard, id: &ObjectId, now: Mono) -> &'a mut Trouble {
        let share = self.directory.share(self.config.troubled_max);
        if !shard.trouble.contains_key(id) && shard.trouble.len() >= share {
            let before = shard.trouble.len();
            shard.trouble.retain(|_, trouble| !trouble.is_over(&self.config, now));
            if shard.trouble.len() >= share {
                // Full of live records: the one that ends first makes room.
                let first = shard.trouble.iter().min_by_key(|(_, trouble)| trouble.until);
                if let Some(first) = first.map(|(id, _)| id.clone()) {
                    shard.trouble.remove(&first);
                }
            }
            self.metrics.troubled.sub(gauge(before - shard.trouble.len()));
        }
        let metrics = &self.metrics;
        shard.trouble.entry(id.clone()).or_insert_with(|| {
            metrics.troubled.inc();
            Trouble::new(now)
        })
    }
}

pub(crate) fn gauge(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

// Wakes the object when a caller goes, so that a parked call is forgotten soon.
struct CancelOnDrop<'a, O: Object> {
    host: &'a Arc<Inner<O>>,
    object: &'a ObjectId,
    armed: bool,
}

impl<O: Object> Drop for CancelOnDrop<'_, O> {
    fn drop(&mut self) {
        if !self.armed {
            return;
        }
        let mut shard = self.host.directory.shard(self.object);
        match shard.active.get(self.object) {
            Some(entry) => entry.mailbox.nudge(),
            None => self.host.sweep_held(&mut shard, self.object),
        }
    }
}

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
