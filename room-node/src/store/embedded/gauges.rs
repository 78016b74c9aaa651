//! The store's figures as gauges, read when they are asked for.

use std::sync::{Arc, Weak};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGauge, Registry};

use super::{Embedded, Stats};
use crate::error::StartError;
use crate::metrics::bounds_hit;

type Figure = fn(&Stats) -> u64;

/// Name, help and value of each gauge.
const GAUGES: [(&str, &str, Figure); 7] = [
    ("roomring_store_queued_calls", "Calls that wait for the writer.", |stats| stats.queued),
    ("roomring_store_queued_reads", "Reads that wait for the reader.", |stats| stats.reads),
    ("roomring_store_queued_bytes", "Bytes of uploads that wait for the writer.", |stats| {
        stats.queued_bytes
    }),
    ("roomring_store_waiting_bytes", "Bytes of uploads that no append has kept yet.", |stats| {
        stats.upload_bytes
    }),
    ("roomring_store_cached_records", "Records of objects in memory.", |stats| stats.cached),
    ("roomring_store_waiting_uploads", "Uploads that no append has kept yet.", |stats| {
        stats.uploads
    }),
    ("roomring_store_failed_state", "1 once a write has failed and all is refused.", |stats| {
        u64::from(stats.failed)
    }),
];

/// Bounds that put work off, or that refuse it.
pub(super) const BOUNDS: [&str; 8] = [
    "queue_blob_bytes_max",
    "commit_calls_max",
    "commit_bytes_max",
    "gather_turns_max",
    "sweep_max",
    "reads_taken_max",
    "due_page_max",
    "quarantine_scan_max",
];

impl Embedded {
    /// Registers the store's gauges and the counter of the bounds it meets; they end with the store.
    ///
    /// # Errors
    ///
    /// If the registry holds one of the names.
    pub fn register(self: &Arc<Self>, registry: &Registry) -> Result<(), StartError> {
        let gauges = GAUGES
            .iter()
            .map(|(name, help, figure)| Ok((IntGauge::new(*name, *help)?, *figure)))
            .collect::<Result<Vec<_>, prometheus::Error>>()?;
        let hits = bounds_hit([])?;
        registry.register(Box::new(Gauges { store: Arc::downgrade(self), gauges, hits }))?;
        Ok(())
    }
}

struct Gauges {
    store: Weak<Embedded>,
    gauges: Vec<(IntGauge, Figure)>,
    /// Never counted up: what is shown is made of the store's own figures each time.
    hits: IntCounterVec,
}

impl Collector for Gauges {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges.iter().flat_map(|(gauge, _)| gauge.desc()).chain(self.hits.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(store) = self.store.upgrade() else { return Vec::new() };
        let stats = store.stats();
        let hits = bounds_hit(store.shared.bounds_hit()).map(|hits| hits.collect());
        let hits = hits.unwrap_or_default();
        let show = |(gauge, figure): &(IntGauge, Figure)| {
            gauge.set(i64::try_from(figure(&stats)).unwrap_or(i64::MAX));
            gauge.collect()
        };
        self.gauges.iter().flat_map(show).chain(hits).collect()
    }
}
