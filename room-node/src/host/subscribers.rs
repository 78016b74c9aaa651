//! Attached connections: who gets which frame, each with a bounded queue.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use object::{ObjectId, ParticipantId};

use crate::metrics::Metrics;

/// What goes down an attached connection.
#[derive(Clone, PartialEq, Eq)]
pub enum Notice {
    Frame(Vec<u8>),
    /// The connection is to be closed with this code.
    Close(u16),
}

impl std::fmt::Debug for Notice {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Frame(frame) => write!(f, "Frame({} bytes)", frame.len()),
            Self::Close(code) => write!(f, "Close({code})"),
        }
    }
}

/// Where notices go. Never blocks: the queue behind it is bounded by [`Queued`] tickets.
pub trait Sink: Send + Sync + std::fmt::Debug {
    /// Takes a notice for a connection. The ticket is dropped once the notice has left.
    fn push(&self, connection: u64, notice: Notice, queued: Option<Queued>);
}

/// Counts a frame as queued for as long as it lives.
#[derive(Debug)]
pub struct Queued {
    frames: Arc<AtomicUsize>,
    gauge: prometheus::IntGauge,
}

impl Drop for Queued {
    fn drop(&mut self) {
        self.frames.fetch_sub(1, Ordering::Relaxed);
        self.gauge.dec();
    }
}

/// A slow connection is closed with this code: try again later.
const CLOSE_SLOW: u16 = 1013;
/// The object has lost what it knew of its connections: come again.
const CLOSE_RESTART: u16 = 1012;

#[derive(Clone, Debug)]
struct Subscriber {
    connection: u64,
    participant: ParticipantId,
    sink: Arc<dyn Sink>,
    frames: Arc<AtomicUsize>,
}

#[derive(Debug, Default)]
struct Attached {
    /// At most `subscribers_max` connections in all.
    by_object: HashMap<ObjectId, Vec<Subscriber>>,
    count: usize,
}

/// All attached connections of the node, by object.
#[derive(Debug)]
pub(crate) struct Subscribers {
    attached: Mutex<Attached>,
    frames_max: usize,
    metrics: Metrics,
}

impl Subscribers {
    pub(crate) fn new(frames_max: usize, metrics: Metrics) -> Self {
        Self { attached: Mutex::default(), frames_max, metrics }
    }

    /// Attaches a connection; false if the node holds `subscribers_max` of them.
    pub(crate) fn attach(
        &self,
        object: &ObjectId,
        participant: ParticipantId,
        connection: u64,
        sink: Arc<dyn Sink>,
        subscribers_max: usize,
    ) -> bool {
        let mut attached = self.lock();
        if attached.count >= subscribers_max {
            return false;
        }
        let list = attached.by_object.entry(object.clone()).or_default();
        let before = list.len();
        list.retain(|known| known.connection != connection);
        let replaced = before - list.len();
        list.push(Subscriber { connection, participant, sink, frames: Arc::default() });
        attached.count = attached.count + 1 - replaced;
        self.show(attached.count);
        true
    }

    /// Detaches a connection; returns whose it was.
    pub(crate) fn detach(&self, object: &ObjectId, connection: u64) -> Option<ParticipantId> {
        let gone = self.remove(object, |known| known.connection == connection);
        gone.first().map(|known| known.participant)
    }

    /// True while this connection of this participant is attached.
    pub(crate) fn holds(
        &self,
        object: &ObjectId,
        participant: ParticipantId,
        connection: u64,
    ) -> bool {
        let attached = self.lock();
        let list = attached.by_object.get(object).map_or(&[][..], Vec::as_slice);
        list.iter().any(|known| known.connection == connection && known.participant == participant)
    }

    /// Sends a frame to one connection. Returns the connection if it was closed for being slow.
    pub(crate) fn notify(
        &self,
        object: &ObjectId,
        connection: u64,
        frame: &[u8],
    ) -> Vec<(ParticipantId, u64)> {
        self.send(object, frame, |known| known.connection == connection)
    }

    /// Sends a frame to every connection of a participant; returns the slow ones it closed.
    pub(crate) fn notify_participant(
        &self,
        object: &ObjectId,
        participant: ParticipantId,
        frame: &[u8],
    ) -> Vec<(ParticipantId, u64)> {
        self.send(object, frame, |known| known.participant == participant)
    }

    /// Closes every connection of an object: what it knew of them is lost.
    pub(crate) fn close_all(&self, object: &ObjectId) {
        for known in self.remove(object, |_| true) {
            known.sink.push(known.connection, Notice::Close(CLOSE_RESTART), None);
        }
    }

    /// Closes every connection of a participant.
    pub(crate) fn disconnect(
        &self,
        object: &ObjectId,
        participant: ParticipantId,
        code: u16,
    ) -> Vec<(ParticipantId, u64)> {
        let gone = self.remove(object, |known| known.participant == participant);
        for known in &gone {
            known.sink.push(known.connection, Notice::Close(code), None);
        }
        gone.into_iter().map(|known| (known.participant, known.connection)).collect()
    }

    fn send(
        &self,
        object: &ObjectId,
        frame: &[u8],
        to: impl Fn(&Subscriber) -> bool,
    ) -> Vec<(ParticipantId, u64)> {
        let mut slow = Vec::new();
        if let Some(list) = self.lock().by_object.get(object) {
            for known in list.iter().filter(|known| to(known)) {
                if known.frames.load(Ordering::Relaxed) >= self.frames_max {
                    slow.push(known.connection);
                    continue;
                }
                known.frames.fetch_add(1, Ordering::Relaxed);
                self.metrics.subscriber_frames.inc();
                let gauge = self.metrics.subscriber_frames.clone();
                let queued = Queued { frames: Arc::clone(&known.frames), gauge };
                known.sink.push(known.connection, Notice::Frame(frame.to_vec()), Some(queued));
            }
        }
        if slow.is_empty() {
            return Vec::new();
        }
        let gone = self.remove(object, |known| slow.contains(&known.connection));
        self.metrics.subscribers_slow.inc_by(gone.len() as u64);
        for known in &gone {
            known.sink.push(known.connection, Notice::Close(CLOSE_SLOW), None);
        }
        gone.into_iter().map(|known| (known.participant, known.connection)).collect()
    }

    fn remove(&self, object: &ObjectId, which: impl Fn(&Subscriber) -> bool) -> Vec<Subscriber> {
        let mut attached = self.lock();
        let Some(list) = attached.by_object.get_mut(object) else { return Vec::new() };
        let (gone, kept): (Vec<_>, Vec<_>) = std::mem::take(list).into_iter().partition(&which);
        *list = kept;
        if list.is_empty() {
            attached.by_object.remove(object);
        }
        attached.count -= gone.len();
        self.show(attached.count);
        gone
    }

    fn show(&self, count: usize) {
        self.metrics.subscribers.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    fn lock(&self) -> MutexGuard<'_, Attached> {
        self.attached.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
