//! A node's membership: joining, the heartbeat, what it may rely on.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use redis_link::RedisLink;
use thiserror::Error;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use crate::book::Book;
use crate::bucket::BucketSet;
use crate::clock::{Clock, Mono};
use crate::lease::{GAP_MS, Lease, Lost, Standing};
use crate::metrics::{LeaseMetrics, ViewMetrics};
use crate::nodes::{Answer, AskError, Joining, NodeTable, Refusal, Word};
use crate::renewals::Renewals;
use crate::settings::{SPACING_MS, Settings, SettingsError};
use crate::table::Now;
use crate::view::Incarnation;

/// How many owners whose end is not known here may be asked for in one call.
const QUESTIONS_MAX: usize = 256;

/// Between two attempts to join, drain or leave, ms.
const AGAIN_MS: u64 = 100;

/// One attempt at that is given up after this, ms.
const ATTEMPT_MS: u64 = 1_000;

/// Why a node is no member.
#[derive(Debug, Error)]
pub enum JoinError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("the region does not take this node: {0}")]
    Refused(#[from] Refusal),
    #[error("the node table cannot be asked: {0}")]
    Asking(#[from] AskError),
    #[error("the metrics cannot be registered: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Why a member could not say that it drains or leaves.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub enum SayError {
    #[error(transparent)]
    Lost(#[from] Lost),
    #[error("the node table cannot be asked: {0}")]
    Asking(#[from] AskError),
}

/// One incarnation's membership. Dropping it ends the heartbeat, as a crash would; [`Self::leave`]
/// says so to the others.
#[derive(Debug)]
pub struct Membership {
    shared: Arc<Shared>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    settings: Settings,
    book: Book,
    table: NodeTable,
    clock: Clock,
    lease: Mutex<Lease>,
    /// The end of the lease in monotonic ms, 0 without one: what every answer looks at.
    leased_until: AtomicU64,
    sent_at: AtomicU64,
    standing: watch::Sender<Standing>,
    owned: watch::Sender<BucketSet>,
    /// At most [`QUESTIONS_MAX`].
    questions: Mutex<BTreeSet<Incarnation>>,
    nudge: Notify,
    load: AtomicU32,
    renewals: Renewals,
    metrics: LeaseMetrics,
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Membership {
    /// Joins the region and begins the heartbeat. Waits for the lease of an earlier incarnation of
    /// this node to end, if there is one, and for a Redis that is away, two leases and twice the
    /// grace at most.
    ///
    /// Heartbeats should not queue behind appends: a link of its own with one lane keeps the lease
    /// of a busy node.
    ///
    /// # Errors
    /// Why the node is no member. Trying again with the same registry is fine.
    pub async fn join(
        link: Arc<RedisLink>,
        settings: Settings,
        registry: &prometheus::Registry,
    ) -> Result<Arc<Self>, JoinError> {
        settings.check()?;
        let clock = Clock::system();
        let table = NodeTable::new(link, &settings.region, settings.grace_ms);
        let (answer, sent) = enter(&table, &settings, &clock).await?;
        // Only now: who could not join may try again with the same registry.
        let book = Book::new(ViewMetrics::new(registry)?);
        let metrics = LeaseMetrics::new(registry)?;
        let now = clock.now();
        let shared = Arc::new(Shared {
            lease: Mutex::new(Lease::joined(settings.terms, sent, now)),
            settings,
            book,
            table,
            clock,
            leased_until: AtomicU64::new(0),
            sent_at: AtomicU64::new(sent.0),
            standing: watch::Sender::new(Standing::Lapsed),
            owned: watch::Sender::new(BucketSet::empty()),
            questions: Mutex::default(),
            nudge: Notify::new(),
            load: AtomicU32::new(0),
            renewals: Renewals::default(),
            metrics,
        });
        shared.take(&answer, sent, now);
        shared.publish();
        let task = tokio::spawn(Arc::clone(&shared).run()).abort_handle();
        Ok(Arc::new(Self { shared, task }))
    }

    /// Who this member is.
    #[must_use]
    pub fn me(&self) -> &Incarnation {
        &self.shared.settings.incarnation
    }

    /// Whether the node may answer from memory at this moment. Reads the clock each time, so that
    /// after a pause of any length the answer is true again: ask right before answering.
    #[must_use]
    pub fn is_leased(&self) -> bool {
        self.shared.clock.now().0 < self.shared.leased_until.load(Ordering::Acquire)
    }

    /// Where the node stands, whenever that changes. At [`Standing::Lapsed`] everything held is
    /// dropped; at [`Standing::Lost`] the process ends and comes back as a new incarnation.
    #[must_use]
    pub fn standing(&self) -> watch::Receiver<Standing> {
        self.shared.standing.subscribe()
    }

    /// Why this incarnation is lost, once it is.
    pub async fn lost(&self) -> Lost {
        let mut standing = self.standing();
        loop {
            if let Standing::Lost(why) = *standing.borrow_and_update() {
                return why;
            }
            if standing.changed().await.is_err() {
                // The sender lives in `self`: this is not reached.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Whether an owner's end was seen in the table: a tombstone, or its leaving. Never concluded
    /// from this node's own clock. An owner that is in no list the node knows is asked for; the
    /// answer comes with a later question.
    #[must_use]
    pub fn ended(&self, owner: &Incarnation) -> bool {
        if self.shared.book.has_ended(owner) {
            return true;
        }
        if self.now().view.member(owner).is_none() {
            self.shared.ask_for(owner);
        }
        false
    }

    /// The view in force and its table.
    #[must_use]
    pub fn now(&self) -> Arc<Now> {
        self.shared.book.now()
    }

    /// The view in force, whenever it changes.
    #[must_use]
    pub fn subscribe(&self) -> watch::Receiver<Arc<Now>> {
        self.shared.book.subscribe()
    }

    /// The view's number, whenever it changes.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.shared.book.numbers()
    }

    /// The buckets of this node in the view in force, whenever they change.
    #[must_use]
    pub fn owned(&self) -> watch::Receiver<BucketSet> {
        self.shared.owned.subscribe()
    }

    /// Somebody has seen view `at_least`: asks the table at once if ours is older, but not more
    /// often than every [`SPACING_MS`].
    pub fn refresh(&self, at_least: u64) {
        if self.shared.book.number() < at_least {
            self.shared.nudge.notify_one();
        }
    }

    /// When service began after a time in which no node held a lease, Redis's ms.
    #[must_use]
    pub fn up_since_ms(&self) -> u64 {
        self.shared.book.up_since_ms()
    }

    /// Redis's clock as estimated here, ms; never goes back. Due times are in this clock.
    #[must_use]
    pub fn redis_now_ms(&self) -> u64 {
        self.shared.book.redis_now_ms(self.shared.clock.now()).unwrap_or_default()
    }

    /// Redis's clock minus this process's monotonic clock, ms.
    #[must_use]
    pub fn redis_offset_ms(&self) -> i64 {
        self.shared.book.redis_offset_ms().unwrap_or_default()
    }

    /// How loaded this node is, in thousandths of what it can carry; told with the next heartbeat
    /// and shown in the view after it.
    pub fn set_load(&self, thousandths: u32) {
        self.shared.load.store(thousandths, Ordering::Relaxed);
    }

    /// Gives up all buckets, for good, and goes on living. Repeats until `by`.
    ///
    /// # Errors
    /// That it could not be said, or that there is nothing to give up any more.
    pub async fn drain(&self, by: Instant) -> Result<(), SayError> {
        let shared = &self.shared;
        let drain = |by| shared.table.drain(shared.book.seen(), self.me(), by);
        let (answer, sent) = insist(&shared.clock, by, drain).await?;
        let now = shared.clock.now();
        shared.take(&answer, sent, now);
        let lost = match answer.word {
            Word::Ended => Lost::Ended,
            Word::Unknown => Lost::Unknown,
            Word::Ok | Word::Refused(_) => return Ok(()),
        };
        shared.lease().refused(lost, now);
        shared.publish();
        Err(lost.into())
    }

    /// Says that this incarnation has ended, so that others need not wait for its lease. Everything
    /// held must have been let go of before: from here on nothing is answered. Repeats until `by`;
    /// if it cannot be said, the lease ends by itself.
    ///
    /// # Errors
    /// That it could not be said.
    pub async fn leave(&self, by: Instant) -> Result<(), SayError> {
        let shared = &self.shared;
        shared.lease().left();
        shared.publish();
        self.task.abort();
        let leave = |by| shared.table.leave(shared.book.seen(), self.me(), by);
        let (answer, sent) = insist(&shared.clock, by, leave).await?;
        shared.take(&answer, sent, shared.clock.now());
        Ok(())
    }
}

impl Shared {
    async fn run(self: Arc<Self>) {
        while let Some(beat_at) = self.beat_at() {
            tokio::select! {
                () = self.clock.sleep_until(beat_at.min(self.look_at())) => {}
                () = self.nudge.notified() => {
                    let soonest = Mono(self.sent_at.load(Ordering::Relaxed)).plus(SPACING_MS);
                    self.lease().hurry(soonest.max(self.clock.now()));
                }
            }
            self.look();
            if self.beat_at().is_some_and(|at| at <= self.clock.now()) {
                self.beat().await;
                self.inquire().await;
            }
        }
    }

    /// One heartbeat. While it flies, the lease is looked at all the same.
    async fn beat(&self) {
        let terms = self.settings.terms;
        let sent = self.clock.now();
        self.sent_at.store(sent.0, Ordering::Relaxed);
        let by = self.clock.instant(sent.plus(terms.ttl_ms() / 4));
        let load = self.load.load(Ordering::Relaxed);
        let me = &self.settings.incarnation;
        let renew = self.table.renew(self.book.seen(), me, terms.ttl_ms(), load, by);
        let answer = self.looking(renew).await;
        let now = self.clock.now();
        let result = match &answer {
            Ok(answer) => {
                self.take(answer, sent, now);
                self.renewals.succeeded();
                let mut lease = self.lease();
                match answer.word {
                    Word::Ok => lease.renewed(sent, now),
                    Word::Ended => lease.refused(Lost::Ended, now),
                    Word::Unknown => lease.refused(Lost::Unknown, now),
                    Word::Refused(_) => lease.failed(now),
                }
                if answer.word == Word::Ok { "ok" } else { "refused" }
            }
            Err(error) => {
                self.lease().failed(now);
                self.renewals.failed(now, &error);
                "failed"
            }
        };
        self.book.metrics.asked.with_label_values(&[result]).inc();
        self.publish();
    }

    /// Asks for ends: of owners the table may have forgotten, and again of members that came back
    /// from the dead with a primary that had not heard of their end.
    async fn inquire(&self) {
        let risen = self.book.risen();
        let mut unknown: Vec<Incarnation> = self.questions().iter().cloned().collect();
        unknown.retain(|incarnation| !self.book.has_ended(incarnation));
        for (witnessed, which) in [(true, risen), (false, unknown)] {
            if which.is_empty() {
                continue;
            }
            let sent = self.clock.now();
            let by = self.clock.instant(sent.plus(self.settings.terms.ttl_ms() / 4));
            let expire = self.table.expire(self.book.seen(), witnessed, &which, by);
            if let Ok(answer) = self.looking(expire).await {
                self.take(&answer, sent, self.clock.now());
            }
        }
        // Whoever still needs to know asks again.
        let mut questions = self.questions();
        questions.clear();
        self.metrics.questions.set(0);
    }

    fn ask_for(&self, owner: &Incarnation) {
        let mut questions = self.questions();
        if questions.len() < QUESTIONS_MAX && questions.insert(owner.clone()) {
            self.metrics.questions.set(i64::try_from(questions.len()).unwrap_or(i64::MAX));
        }
    }

    async fn looking<T>(&self, call: impl Future<Output = T>) -> T {
        tokio::pin!(call);
        loop {
            tokio::select! {
                biased;
                done = &mut call => return done,
                () = self.clock.sleep_until(self.look_at()) => self.look(),
            }
        }
    }

    /// When the lease is to be looked at next: at its end, and often enough to notice a pause.
    fn look_at(&self) -> Mono {
        let soon = self.clock.now().plus(GAP_MS / 2);
        self.lease().until().map_or(soon, |until| soon.min(until))
    }

    fn look(&self) {
        let now = self.clock.now();
        self.lease().look(now);
        self.publish();
    }

    fn beat_at(&self) -> Option<Mono> {
        self.lease().beat_at()
    }

    fn take(&self, answer: &Answer, sent: Mono, now: Mono) {
        if !self.book.take(answer, sent, now) {
            return;
        }
        let owned = self.book.now().table.owned_by(&self.settings.incarnation);
        self.owned.send_if_modified(|was| {
            let changed = *was != owned;
            if changed {
                *was = owned;
            }
            changed
        });
    }

    /// Makes known where the lease stands.
    fn publish(&self) {
        let lease = self.lease();
        let until = lease.until();
        self.leased_until.store(until.map_or(0, |until| until.0), Ordering::Release);
        let left = until.map_or(0, |until| until.since(self.clock.now()));
        let metrics = &self.metrics;
        metrics.remaining_ms.set(i64::try_from(left).unwrap_or(i64::MAX));
        metrics.self_fences.inc_by(lease.self_fences().saturating_sub(metrics.self_fences.get()));
        metrics.gaps.inc_by(lease.gaps().saturating_sub(metrics.gaps.get()));
        let standing = lease.standing();
        self.standing.send_if_modified(|was| {
            let changed = *was != standing;
            if changed {
                tracing::info!(?standing, "the node's standing changed");
                *was = standing;
            }
            changed
        });
    }

    fn lease(&self) -> MutexGuard<'_, Lease> {
        self.lease.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn questions(&self) -> MutexGuard<'_, BTreeSet<Incarnation>> {
        self.questions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Asks to be let in until the table decides. Says what it answered, and when that was sent.
async fn enter(
    table: &NodeTable,
    settings: &Settings,
    clock: &Clock,
) -> Result<(Answer, Mono), JoinError> {
    let patience_ms = 2 * (settings.terms.ttl_ms() + settings.grace_ms) + ATTEMPT_MS;
    let end = clock.now().plus(patience_ms);
    let joining = Joining {
        me: &settings.incarnation,
        ttl_ms: settings.terms.ttl_ms(),
        join_delay_ms: settings.join_delay_ms,
        schema: settings.schema,
        address: &settings.address,
        zone: &settings.zone,
        weight: settings.weight,
        supersedes: settings.supersedes(),
    };
    let mut said = false;
    loop {
        let sent = clock.now();
        let by = clock.instant(sent.plus(ATTEMPT_MS));
        let error = match table.join(crate::nodes::Seen::default(), &joining, by).await {
            Ok(answer) => match answer.word {
                Word::Ok => return Ok((answer, sent)),
                Word::Refused(Refusal::NodeIdTaken) => JoinError::from(Refusal::NodeIdTaken),
                Word::Refused(why) => return Err(why.into()),
                Word::Ended | Word::Unknown => return Err(Refusal::Ended.into()),
            },
            Err(error) => JoinError::from(error),
        };
        let again = clock.now().plus(AGAIN_MS);
        if again >= end {
            return Err(error);
        }
        if !said {
            // Once: whoever looks at a program that does not come up wants to know what it awaits.
            said = true;
            let node = &settings.incarnation.node;
            tracing::warn!(%node, %error, patience_ms, "cannot join yet; trying again");
        }
        clock.sleep_until(again).await;
    }
}

/// Repeats a call that may be repeated until it is answered or time is up. Says what was answered,
/// and when that was sent.
async fn insist<F>(
    clock: &Clock,
    by: Instant,
    call: impl Fn(Instant) -> F,
) -> Result<(Answer, Mono), AskError>
where
    F: Future<Output = Result<Answer, AskError>>,
{
    loop {
        let sent = clock.now();
        let attempt = clock.instant(sent.plus(ATTEMPT_MS)).min(by);
        match call(attempt).await {
            Ok(answer) => return Ok((answer, sent)),
            Err(error) => {
                let again = clock.now().plus(AGAIN_MS);
                if clock.instant(again) >= by {
                    return Err(error);
                }
                clock.sleep_until(again).await;
            }
        }
    }
}
