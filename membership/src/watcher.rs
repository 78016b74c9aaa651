//! How a gateway follows the view.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use redis_link::RedisLink;
use thiserror::Error;
use tokio::sync::{Notify, watch};
use tokio::task::AbortHandle;

use crate::book::Book;
use crate::clock::{Clock, Mono};
use crate::metrics::ViewMetrics;
use crate::nodes::{NodeTable, Word};
use crate::settings::{SPACING_MS, SettingsError, Watching};
use crate::table::Now;
use crate::view::{Incarnation, MEMBERS_MAX, View};

/// How long a mark of suspicion lasts, ms: then a call is tried again.
pub const SUSPECT_MS: u64 = 2_000;

/// One poll of the table is given up after this, ms.
const POLL_DEADLINE_MS: u64 = 2_000;

/// Why a view cannot be followed.
#[derive(Debug, Error)]
pub enum WatchError {
    #[error(transparent)]
    Settings(#[from] SettingsError),
    #[error("the metrics cannot be registered: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// Follows the view of a region: polls the table, and at once when somebody has seen a later view.
/// While Redis does not answer, the last view stays in force. Where the nodes place rooms by another
/// [`PLACEMENT_VERSION`](crate::PLACEMENT_VERSION) nobody is in the view: whoever routed by it would
/// ask the wrong nodes. Dropping it ends the polling.
#[derive(Debug)]
pub struct Watcher {
    shared: Arc<Shared>,
    task: AbortHandle,
}

#[derive(Debug)]
struct Shared {
    book: Book,
    table: NodeTable,
    clock: Clock,
    poll_ms: u64,
    nudge: Notify,
    suspects: Suspects,
    /// The nodes place rooms in another way than this process.
    misplaced: AtomicBool,
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Watcher {
    /// Begins to follow, after one poll, whether Redis answered it or not.
    ///
    /// # Errors
    /// What is wrong with the settings.
    pub async fn open(
        link: Arc<RedisLink>,
        watching: &Watching,
        registry: &prometheus::Registry,
    ) -> Result<Self, WatchError> {
        watching.check()?;
        let shared = Arc::new(Shared {
            book: Book::new(ViewMetrics::new(registry)?),
            table: NodeTable::new(link, &watching.region, watching.grace_ms),
            clock: Clock::system(),
            poll_ms: watching.poll_ms,
            nudge: Notify::new(),
            suspects: Suspects::default(),
            misplaced: AtomicBool::new(false),
        });
        let sent = shared.poll().await;
        let task = tokio::spawn(Arc::clone(&shared).run(sent)).abort_handle();
        Ok(Self { shared, task })
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

    /// Somebody has seen view `at_least`: polls at once if ours is older. However many ask, one
    /// poll is under way, and the next begins no sooner than [`SPACING_MS`] after it began.
    pub fn refresh(&self, at_least: u64) {
        if self.shared.book.number() < at_least {
            self.shared.nudge.notify_one();
        }
    }

    /// A call did not reach this node. For [`SUSPECT_MS`], or until a call does reach it, calls to
    /// its buckets should fail fast or hold back rather than each wait for a connection.
    ///
    /// They should not go to the next node instead. As long as the node's lease lasts, the next one
    /// must refuse what is not its own, and a lease is never shortened by anybody's suspicion: the
    /// node may be alive and cut off from this gateway alone.
    pub fn suspect(&self, incarnation: &Incarnation) {
        let shared = &self.shared;
        shared.suspects.mark(incarnation, shared.clock.now(), &shared.book.now().view);
        shared.show_suspects();
    }

    /// A call reached this node.
    pub fn clear(&self, incarnation: &Incarnation) {
        if self.shared.suspects.clear(incarnation) {
            self.shared.show_suspects();
        }
    }

    /// Whether the node is marked as suspect.
    #[must_use]
    pub fn is_suspect(&self, incarnation: &Incarnation) -> bool {
        self.shared.suspects.is_marked(incarnation, self.shared.clock.now())
    }
}

impl Shared {
    async fn run(self: Arc<Self>, mut sent: Mono) {
        loop {
            let next = sent.plus(self.poll_ms);
            tokio::select! {
                () = self.clock.sleep_until(next) => {}
                () = self.nudge.notified() => {
                    self.clock.sleep_until(sent.plus(SPACING_MS).min(next)).await;
                }
            }
            sent = self.poll().await;
        }
    }

    /// Polls once; says when it was sent.
    async fn poll(&self) -> Mono {
        let sent = self.clock.now();
        let by = self.clock.instant(sent.plus(POLL_DEADLINE_MS));
        let asked = &self.book.metrics.asked;
        match self.table.view(self.book.seen(), by).await {
            Ok(answer) if answer.word != Word::Ok => {
                asked.with_label_values(&["refused"]).inc();
                self.refused(answer.word);
            }
            Ok(answer) => {
                asked.with_label_values(&["ok"]).inc();
                if self.misplaced.swap(false, Ordering::Relaxed) {
                    tracing::info!("the view is followed again");
                }
                if self.book.take(&answer, sent, self.clock.now()) {
                    self.suspects.keep(&self.book.now().view);
                    self.show_suspects();
                }
            }
            Err(error) => {
                asked.with_label_values(&["failed"]).inc();
                tracing::debug!(%error, "the view was not polled; the last one stays in force");
            }
        }
        sent
    }

    /// Says so once.
    fn refused(&self, word: Word) {
        if self.misplaced.swap(true, Ordering::Relaxed) {
            return;
        }
        self.book.forget();
        match word {
            Word::Refused(why) => tracing::error!("nothing is routed any more: {why}"),
            other => tracing::error!(?other, "nothing is routed any more: no view is given"),
        }
    }

    fn show_suspects(&self) {
        let count = self.suspects.count.load(Ordering::Relaxed);
        self.book.metrics.suspects.set(i64::try_from(count).unwrap_or(i64::MAX));
    }
}

/// Marks of suspicion: only of members, so never more than [`MEMBERS_MAX`].
#[derive(Debug, Default)]
struct Suspects {
    marks: Mutex<HashMap<Incarnation, Mono>>,
    /// Their number, so that asking is free while there are none.
    count: AtomicUsize,
}

impl Suspects {
    fn mark(&self, incarnation: &Incarnation, now: Mono, view: &View) {
        if view.member(incarnation).is_none() {
            return;
        }
        self.change(|marks| {
            marks.retain(|_, since| now.since(*since) < SUSPECT_MS);
            if marks.len() < MEMBERS_MAX {
                marks.insert(incarnation.clone(), now);
            }
        });
    }

    fn clear(&self, incarnation: &Incarnation) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        self.change(|marks| marks.remove(incarnation).is_some())
    }

    fn is_marked(&self, incarnation: &Incarnation, now: Mono) -> bool {
        if self.count.load(Ordering::Relaxed) == 0 {
            return false;
        }
        let marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        marks.get(incarnation).is_some_and(|since| now.since(*since) < SUSPECT_MS)
    }

    /// Drops the marks of those that are in the view no more.
    fn keep(&self, view: &View) {
        self.change(|marks| marks.retain(|incarnation, _| view.member(incarnation).is_some()));
    }

    fn change<T>(&self, with: impl FnOnce(&mut HashMap<Incarnation, Mono>) -> T) -> T {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let out = with(&mut marks);
        self.count.store(marks.len(), Ordering::Relaxed);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::{Member, State};

    fn view(nodes: &[&str]) -> View {
        let member = |node: &&str| Member {
            incarnation: Incarnation::new(node, 1).unwrap(),
            address: "10.0.0.1:1".into(),
            zone: String::new(),
            weight: 1,
            state: State::Active,
            schema: (1, 1),
            load: 0,
        };
        View { number: 1, members: nodes.iter().map(member).collect() }
    }

    #[test]
    fn marks_age_are_cleared_and_go_with_the_member() {
        let view_of_two = view(&["a", "b"]);
        let [a, b, c] = ["a", "b", "c"].map(|node| Incarnation::new(node, 1).unwrap());
        let suspects = Suspects::default();
        for one in [&a, &b, &c] {
            suspects.mark(one, Mono(1_000), &view_of_two);
        }
        assert!(!suspects.is_marked(&c, Mono(1_000)), "no member");
        assert!(suspects.is_marked(&a, Mono(2_999)) && !suspects.is_marked(&a, Mono(3_000)));
        assert!(suspects.clear(&a) && !suspects.clear(&a));
        assert!(!suspects.is_marked(&a, Mono(1_000)) && suspects.is_marked(&b, Mono(1_000)));
        suspects.keep(&view(&["a"]));
        assert!(!suspects.is_marked(&b, Mono(1_000)));
        assert_eq!(suspects.count.load(Ordering::Relaxed), 0);
    }
}
