//! The mailbox of one activation: a bounded queue of boxed messages and one wake-up.
//!
//! A queue by value or a ready-made channel costs more memory per idle object than this
//! (performance.md, parts), and the bound has to count calls only.

use std::collections::VecDeque;
use std::sync::{Mutex, PoisonError};

use object::ParticipantId;
use tokio::sync::Notify;

use super::call::Pending;

/// What reaches an actor.
#[derive(Debug)]
pub(super) enum Message {
    Call(Box<Pending>),
    /// An attached connection is gone.
    Disconnect {
        participant: ParticipantId,
        connection: u64,
    },
}

/// Why a message was not taken.
#[derive(Debug)]
pub(super) struct Full(pub(super) Box<Pending>);

#[derive(Debug, Default)]
struct Queue {
    /// At most `mailbox_calls_max` calls, and one disconnect a connection.
    messages: VecDeque<Message>,
    calls: usize,
}

#[derive(Debug, Default)]
pub(super) struct Mailbox {
    queue: Mutex<Queue>,
    wake: Notify,
}

impl Mailbox {
    /// Takes a call unless `calls_max` of them wait already.
    pub(super) fn push_call(&self, call: Box<Pending>, calls_max: usize) -> Result<(), Full> {
        let mut queue = self.lock();
        if queue.calls >= calls_max {
            return Err(Full(call));
        }
        queue.calls += 1;
        queue.messages.push_back(Message::Call(call));
        drop(queue);
        self.wake.notify_one();
        Ok(())
    }

    /// Takes word of a lost connection; bounded by the number of attached connections.
    pub(super) fn push_disconnect(&self, participant: ParticipantId, connection: u64) {
        self.lock().messages.push_back(Message::Disconnect { participant, connection });
        self.wake.notify_one();
    }

    /// Puts calls back in front, in their order: they were not decided for good.
    pub(super) fn put_back(&self, messages: Vec<Message>) {
        let mut queue = self.lock();
        for message in messages.into_iter().rev() {
            if matches!(message, Message::Call(_)) {
                queue.calls += 1;
            }
            queue.messages.push_front(message);
        }
    }

    pub(super) fn pop(&self) -> Option<Message> {
        let mut queue = self.lock();
        let message = queue.messages.pop_front()?;
        if matches!(message, Message::Call(_)) {
            queue.calls -= 1;
        }
        // An idle object keeps no queue memory.
        if queue.messages.is_empty() && queue.messages.capacity() > KEPT_CAPACITY {
            queue.messages = VecDeque::new();
        }
        Some(message)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lock().messages.is_empty()
    }

    /// Looks at the waiting calls without taking them.
    pub(super) fn any_call(&self, mut test: impl FnMut(&Pending) -> bool) -> bool {
        self.lock().messages.iter().any(|message| match message {
            Message::Call(call) => test(call),
            Message::Disconnect { .. } => false,
        })
    }

    /// Wakes the actor without a message: a parked caller is gone, or the host drains.
    pub(super) fn nudge(&self) {
        self.wake.notify_one();
    }

    /// Waits for a message or a nudge.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Slots an emptied queue may keep.
const KEPT_CAPACITY: usize = 8;
