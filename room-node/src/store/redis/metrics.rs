//! Figures of the store: calls by function and result, and what was lost.

use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use super::super::Error;
use super::wire::Code;
use crate::metrics::bounds_hit;

/// Bounds that put work off to the next turn.
const BOUNDS: [&str; 3] = ["bucket_entries_max", "reads_inflight_max", "looks_inflight_max"];

#[derive(Debug)]
pub(super) struct Metrics {
    calls: IntCounterVec,
    /// Objects of which acknowledged events were lost.
    pub(super) lost: IntCounter,
    /// The events of these.
    pub(super) lost_events: IntCounter,
    /// Objects of which it cannot be told.
    pub(super) unverified: IntCounter,
    /// Entries of a due index that no node of ours wrote.
    pub(super) foreign_due: IntCounter,
    /// Bounds that put work off to the next turn.
    pub(super) bounds_hit: IntCounterVec,
    /// Reads of due buckets in flight.
    pub(super) scans: IntGauge,
    /// Objects looked at after a change of the primary, in flight.
    pub(super) looks: IntGauge,
    pub(super) known_frames: IntGauge,
    pub(super) known: IntGauge,
    pub(super) known_bytes: IntGauge,
}

impl Metrics {
    pub(super) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str| -> Result<IntCounter, prometheus::Error> {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok(counter)
        };
        let gauge = |name: &str, help: &str| -> Result<IntGauge, prometheus::Error> {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok(gauge)
        };
        let calls = Opts::new("roomring_store_calls_total", "Calls of Redis by function, result.");
        let calls = IntCounterVec::new(calls, &["function", "result"])?;
        registry.register(Box::new(calls.clone()))?;
        let bounds_hit = bounds_hit(BOUNDS.map(|bound| (bound, 0)))?;
        registry.register(Box::new(bounds_hit.clone()))?;
        Ok(Self {
            calls,
            bounds_hit,
            scans: gauge("roomring_store_inflight_scans", "Reads of due buckets in flight.")?,
            looks: gauge("roomring_store_inflight_looks", "Objects being looked at for losses.")?,
            known_frames: gauge(
                "roomring_store_followed_frames",
                "Frames kept to tell what was lost.",
            )?,
            lost: counter("roomring_store_lost_acked_total", "Objects that lost stored events.")?,
            lost_events: counter("roomring_store_lost_events_total", "Stored events lost.")?,
            unverified: counter(
                "roomring_store_unverified_total",
                "Objects of which it cannot be told whether they lost stored events.",
            )?,
            foreign_due: counter(
                "roomring_store_foreign_due_total",
                "Entries of a due index that cannot be read.",
            )?,
            known: gauge(
                "roomring_store_followed_objects",
                "Objects whose stored events are followed.",
            )?,
            known_bytes: gauge(
                "roomring_store_followed_bytes",
                "Bytes of frames kept to tell what was lost.",
            )?,
        })
    }

    pub(super) fn bound_hit(&self, bound: &str) {
        self.bounds_hit.with_label_values(&[bound]).inc();
    }

    pub(super) fn count(&self, function: &str, result: Result<Code, &Error>) {
        let result = match result {
            Ok(Code::Done) => "ok",
            Ok(Code::Duplicate) => "duplicate",
            Err(Error::Absent) => "absent",
            Err(Error::Owned { .. }) => "owned",
            Err(Error::Fenced) => "fenced",
            Err(Error::Lsn { .. }) => "lsn",
            Err(Error::BlobMissing { .. }) => "blob_missing",
            Err(Error::Newer { .. }) => "newer",
            Err(Error::Damaged { .. }) => "damaged",
            Err(Error::Full { .. }) => "full",
            Err(Error::Unknown { .. }) => "unknown",
            Err(Error::Unavailable { .. }) => "unavailable",
        };
        self.calls.with_label_values(&[function, result]).inc();
    }
}
