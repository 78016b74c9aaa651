//! What this process's HTTP side counts; `metrics` reads it.

use std::sync::atomic::{AtomicU64, Ordering};

/// Why the edge turned something away before the protocol saw it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Turned {
    /// Over `--connections-max`.
    Connections,
    /// Over `--inflight-max`.
    Inflight,
    /// Over the memory of request bodies or of responses.
    Memory,
    BodyTooLarge,
    BodyTooSlow,
    /// Nested deeper than the bound.
    JsonTooDeep,
    /// `Host` or `Origin` not allowed.
    Forbidden,
}

impl Turned {
    /// All reasons, in a fixed order.
    pub const ALL: [Self; 7] = [
        Self::Connections,
        Self::Inflight,
        Self::Memory,
        Self::BodyTooLarge,
        Self::BodyTooSlow,
        Self::JsonTooDeep,
        Self::Forbidden,
    ];

    /// The value of the metric's label.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::Connections => "connections",
            Self::Inflight => "inflight",
            Self::Memory => "memory",
            Self::BodyTooLarge => "body_too_large",
            Self::BodyTooSlow => "body_too_slow",
            Self::JsonTooDeep => "json_too_deep",
            Self::Forbidden => "forbidden",
        }
    }
}

/// Counters since the process started.
#[derive(Debug, Default)]
pub struct Stats {
    turned: [AtomicU64; Turned::ALL.len()],
    /// Requests that reached a route.
    requests: AtomicU64,
    /// Calls finished after their caller had gone.
    detached: AtomicU64,
    /// Panics caught while answering.
    panics: AtomicU64,
}

impl Stats {
    pub(crate) fn turn_away(&self, why: Turned) {
        for (reason, counter) in Turned::ALL.iter().zip(&self.turned) {
            if *reason == why {
                counter.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    pub(crate) fn request(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn detach(&self) {
        self.detached.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn panic(&self) {
        self.panics.fetch_add(1, Ordering::Relaxed);
    }

    /// How often each reason turned something away.
    pub fn turned(&self) -> impl Iterator<Item = (Turned, u64)> + '_ {
        Turned::ALL
            .into_iter()
            .zip(&self.turned)
            .map(|(reason, counter)| (reason, counter.load(Ordering::Relaxed)))
    }

    /// Requests that reached a route.
    #[must_use]
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Calls finished after their caller had gone.
    #[must_use]
    pub fn detached(&self) -> u64 {
        self.detached.load(Ordering::Relaxed)
    }

    /// Panics caught while answering.
    #[must_use]
    pub fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }
}
