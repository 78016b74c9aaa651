//! The store's figures as gauges, read when they are asked for.

use std::sync::{Arc, Weak};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, Registry};

use super::{Embedded, Stats};
use crate::error::StartError;

type Figure = fn(&Stats) -> u64;

/// Name, help and value of each gauge.
const GAUGES: [(&str, &str, Figure); 4] = [
    ("roomring_store_queued_calls", "Calls that wait for the writer.", |stats| stats.queued),
    ("roomring_store_cached_records", "Records of objects in memory.", |stats| stats.cached),
    ("roomring_store_waiting_uploads", "Uploads that no append has kept yet.", |stats| {
        stats.uploads
    }),
    ("roomring_store_failed_state", "1 once a write has failed and all is refused.", |stats| {
        u64::from(stats.failed)
    }),
];

impl Embedded {
    /// Registers the store's gauges; they end with the store.
    ///
    /// # Errors
    ///
    /// If the registry holds one of the names.
    pub fn register(self: &Arc<Self>, registry: &Registry) -> Result<(), StartError> {
        let gauges = GAUGES
            .iter()
            .map(|(name, help, figure)| Ok((IntGauge::new(*name, *help)?, *figure)))
            .collect::<Result<Vec<_>, prometheus::Error>>()?;
        registry.register(Box::new(Gauges { store: Arc::downgrade(self), gauges }))?;
        Ok(())
    }
}

struct Gauges {
    store: Weak<Embedded>,
    gauges: Vec<(IntGauge, Figure)>,
}

impl Collector for Gauges {
    fn desc(&self) -> Vec<&Desc> {
        self.gauges.iter().flat_map(|(gauge, _)| gauge.desc()).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(store) = self.store.upgrade() else { return Vec::new() };
        let stats = store.stats();
        let show = |(gauge, figure): &(IntGauge, Figure)| {
            gauge.set(i64::try_from(figure(&stats)).unwrap_or(i64::MAX));
            gauge.collect()
        };
        self.gauges.iter().flat_map(show).collect()
    }
}
