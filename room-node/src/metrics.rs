//! The node's metrics. Names are `roomring_<area>_<what>_<unit>`; the golden list is in the test.
//!
//! No label ever holds an object's id.

use prometheus::{
    Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry,
};

/// Every counter and gauge of one host.
#[derive(Clone, Debug)]
pub struct Metrics {
    /// Objects in memory, by state.
    pub active: IntGauge,
    pub stubs: IntGauge,
    /// Activations that read a sleeping object back, by cause.
    pub wakes: IntCounterVec,
    /// Objects created.
    pub creations: IntCounter,
    /// Claims that only built a stub.
    pub stub_claims: IntCounter,
    /// Waits refused before the object, by tier.
    pub waits_refused: IntCounterVec,
    /// Waits answered from stubs.
    pub stub_answers: IntCounter,
    /// Calls refused for a bound, by the bound's name.
    pub bounds_hit: IntCounterVec,
    /// Calls that wait in mailboxes.
    pub mailbox_calls: IntGauge,
    /// Calls parked, beside activations and beside stubs.
    pub parked_calls: IntGauge,
    /// Attached connections.
    pub subscribers: IntGauge,
    /// Frames queued for attached connections.
    pub subscriber_frames: IntGauge,
    /// Attached connections closed because they were slow.
    pub subscribers_slow: IntCounter,
    /// Unknown objects remembered as absent.
    pub absent: IntGauge,
    /// Objects under observation or quarantine.
    pub troubled: IntGauge,
    /// Bytes of roster projections kept for stubs.
    pub projection_bytes: IntGauge,
    /// Appends, by result.
    pub appends: IntCounterVec,
    /// Events in one append.
    pub batch_events: Histogram,
    /// Lease horizon writes without an event.
    pub lease_writes: IntCounter,
    /// Snapshots written.
    pub snapshots: IntCounter,
    /// Panics caught in objects' code.
    pub panics: IntCounter,
    /// Objects put into quarantine.
    pub quarantines: IntCounter,
    /// Timers fired on sleeping objects.
    pub timers: IntCounter,
    /// Lateness of those timers.
    pub timer_lateness: Histogram,
    /// Calls in flight on links.
    pub link_calls: IntGauge,
}

impl Metrics {
    /// Makes the metrics and registers them; fails if the registry holds one of the names.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let rooms = IntGaugeVec::new(
            Opts::new("roomring_rooms", "Objects in memory by state."),
            &["state"],
        )?;
        registry.register(Box::new(rooms.clone()))?;
        let maker = Maker { registry };
        Ok(Self {
            active: rooms.with_label_values(&["active"]),
            stubs: rooms.with_label_values(&["stub"]),
            wakes: maker.counters(
                "roomring_room_wakes_total",
                "Sleeping objects read back, by cause.",
                "cause",
                &["call", "poll", "timer", "disconnect"],
            )?,
            creations: maker.counter("roomring_room_creations_total", "Objects created.")?,
            stub_claims: maker
                .counter("roomring_room_stub_claims_total", "Claims that only built a stub.")?,
            waits_refused: maker.counters(
                "roomring_waits_refused_total",
                "Waits refused by cadence, by tier.",
                "tier",
                &["owner"],
            )?,
            stub_answers: maker
                .counter("roomring_waits_stub_answers_total", "Waits answered from stubs.")?,
            bounds_hit: maker.counters(
                "roomring_node_bounds_hit_total",
                "Calls refused for a bound.",
                "bound",
                &["mailbox_calls_max", "parked_calls_max", "objects_active_max", "link_calls_max"],
            )?,
            mailbox_calls: maker
                .gauge("roomring_mailbox_queued_calls", "Calls that wait in mailboxes.")?,
            parked_calls: maker.gauge("roomring_parked_held_calls", "Calls parked.")?,
            subscribers: maker
                .gauge("roomring_subscribers_attached_connections", "Attached connections.")?,
            subscriber_frames: maker
                .gauge("roomring_subscribers_queued_frames", "Frames queued for connections.")?,
            subscribers_slow: maker.counter(
                "roomring_subscribers_slow_total",
                "Connections closed because they were slow.",
            )?,
            absent: maker
                .gauge("roomring_directory_absent_entries", "Objects remembered as absent.")?,
            troubled: maker.gauge(
                "roomring_directory_troubled_entries",
                "Objects under observation or quarantine.",
            )?,
            projection_bytes: maker
                .gauge("roomring_stub_projection_bytes", "Bytes of projections kept for stubs.")?,
            appends: maker.counters(
                "roomring_store_appends_total",
                "Appends by result.",
                "result",
                &["stored", "resolved", "failed", "unknown"],
            )?,
            batch_events: maker.histogram(
                "roomring_batch_size_events",
                "Events in one append.",
                &[1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0],
            )?,
            lease_writes: maker
                .counter("roomring_store_lease_writes_total", "Lease writes without an event.")?,
            snapshots: maker.counter("roomring_store_snapshots_total", "Snapshots written.")?,
            panics: maker.counter("roomring_room_panics_total", "Panics caught in objects.")?,
            quarantines: maker
                .counter("roomring_room_quarantines_total", "Objects put into quarantine.")?,
            timers: maker
                .counter("roomring_timers_fired_total", "Timers fired on sleeping objects.")?,
            timer_lateness: maker.histogram(
                "roomring_timers_lateness_seconds",
                "Lateness of timers of sleeping objects.",
                &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 30.0],
            )?,
            link_calls: maker.gauge("roomring_link_inflight_calls", "Calls in flight on links.")?,
        })
    }

    /// Counts a call that met a bound.
    pub(crate) fn bound_hit(&self, bound: &str) {
        self.bounds_hit.with_label_values(&[bound]).inc();
    }
}

struct Maker<'a> {
    registry: &'a Registry,
}

impl Maker<'_> {
    fn counter(&self, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
        let made = IntCounter::new(name, help)?;
        self.registry.register(Box::new(made.clone()))?;
        Ok(made)
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        let made = IntGauge::new(name, help)?;
        self.registry.register(Box::new(made.clone()))?;
        Ok(made)
    }

    // Label values are touched at once, so that a counter that stands at 0 is seen as 0.
    fn counters(
        &self,
        name: &str,
        help: &str,
        label: &str,
        values: &[&str],
    ) -> Result<IntCounterVec, prometheus::Error> {
        let made = IntCounterVec::new(Opts::new(name, help), &[label])?;
        self.registry.register(Box::new(made.clone()))?;
        for value in values {
            made.with_label_values(&[value]).inc_by(0);
        }
        Ok(made)
    }

    fn histogram(
        &self,
        name: &str,
        help: &str,
        buckets: &[f64],
    ) -> Result<Histogram, prometheus::Error> {
        let made = Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))?;
        self.registry.register(Box::new(made.clone()))?;
        Ok(made)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &[&str] = &[
        "roomring_batch_size_events",
        "roomring_directory_absent_entries",
        "roomring_directory_troubled_entries",
        "roomring_link_inflight_calls",
        "roomring_mailbox_queued_calls",
        "roomring_node_bounds_hit_total",
        "roomring_parked_held_calls",
        "roomring_room_creations_total",
        "roomring_room_panics_total",
        "roomring_room_quarantines_total",
        "roomring_room_stub_claims_total",
        "roomring_room_wakes_total",
        "roomring_rooms",
        "roomring_store_appends_total",
        "roomring_store_lease_writes_total",
        "roomring_store_snapshots_total",
        "roomring_stub_projection_bytes",
        "roomring_subscribers_attached_connections",
        "roomring_subscribers_queued_frames",
        "roomring_subscribers_slow_total",
        "roomring_timers_fired_total",
        "roomring_timers_lateness_seconds",
        "roomring_waits_refused_total",
        "roomring_waits_stub_answers_total",
    ];

    #[test]
    fn names_are_the_golden_list_and_cannot_be_registered_twice() {
        let registry = Registry::new();
        let first = Metrics::register(&registry);
        assert!(first.is_ok());
        let names: Vec<String> =
            registry.gather().iter().map(|family| family.name().to_owned()).collect();
        assert_eq!(names, GOLDEN);
        assert!(Metrics::register(&registry).is_err());
    }
}
