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
    /// Cadences of participants kept beside activations.
    pub cadences: IntGauge,
    /// Timers of stubs, stale ones included.
    pub timer_entries: IntGauge,
    /// Activations that wait for their turn to read an object.
    pub wakes_waiting: IntGauge,
}

impl Metrics {
    /// Makes the metrics and registers them; fails if the registry holds one of the names.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let rooms = IntGaugeVec::new(
            Opts::new("roomring_rooms", "Objects in memory by state."),
            &["state"],
        )?;
        registry.register(Box::new(rooms.clone()))?;
        let make = Maker { registry };
        let bounds =
            ["mailbox_calls_max", "parked_calls_max", "objects_active_max", "link_calls_max"];
        let results = ["stored", "resolved", "failed", "unknown"];
        Ok(Self {
            active: rooms.with_label_values(&["active"]),
            stubs: rooms.with_label_values(&["stub"]),
            wakes: make.counters(WAKES, "cause", &["call", "poll", "timer", "disconnect"])?,
            creations: make.counter(CREATIONS)?,
            stub_claims: make.counter(STUB_CLAIMS)?,
            waits_refused: make.counters(WAITS_REFUSED, "tier", &["owner"])?,
            stub_answers: make.counter(STUB_ANSWERS)?,
            bounds_hit: make.counters(BOUNDS_HIT, "bound", &bounds)?,
            mailbox_calls: make.gauge(MAILBOX_CALLS)?,
            parked_calls: make.gauge(PARKED_CALLS)?,
            subscribers: make.gauge(SUBSCRIBERS)?,
            subscriber_frames: make.gauge(SUBSCRIBER_FRAMES)?,
            subscribers_slow: make.counter(SUBSCRIBERS_SLOW)?,
            absent: make.gauge(ABSENT)?,
            troubled: make.gauge(TROUBLED)?,
            projection_bytes: make.gauge(PROJECTION_BYTES)?,
            appends: make.counters(APPENDS, "result", &results)?,
            batch_events: make.histogram(BATCH_EVENTS, &BATCH_EVENTS_BUCKETS)?,
            lease_writes: make.counter(LEASE_WRITES)?,
            snapshots: make.counter(SNAPSHOTS)?,
            panics: make.counter(PANICS)?,
            quarantines: make.counter(QUARANTINES)?,
            timers: make.counter(TIMERS)?,
            timer_lateness: make.histogram(TIMER_LATENESS, &LATENESS_BUCKETS)?,
            link_calls: make.gauge(LINK_CALLS)?,
            cadences: make.gauge(CADENCES)?,
            timer_entries: make.gauge(TIMER_ENTRIES)?,
            wakes_waiting: make.gauge(WAKES_WAITING)?,
        })
    }

    /// Counts a call that met a bound.
    pub(crate) fn bound_hit(&self, bound: &str) {
        self.bounds_hit.with_label_values(&[bound]).inc();
    }
}

/// Name and help of a metric.
type Named = (&'static str, &'static str);

const WAKES: Named = ("roomring_room_wakes_total", "Sleeping objects read back, by cause.");
const CREATIONS: Named = ("roomring_room_creations_total", "Objects created.");
const STUB_CLAIMS: Named = ("roomring_room_stub_claims_total", "Claims that only built a stub.");
const WAITS_REFUSED: Named = ("roomring_waits_refused_total", "Waits refused by cadence, by tier.");
const STUB_ANSWERS: Named = ("roomring_waits_stub_answers_total", "Waits answered from stubs.");
const BOUNDS_HIT: Named = ("roomring_node_bounds_hit_total", "Calls refused for a bound.");
const MAILBOX_CALLS: Named = ("roomring_mailbox_queued_calls", "Calls that wait in mailboxes.");
const PARKED_CALLS: Named = ("roomring_parked_held_calls", "Calls parked.");
const SUBSCRIBERS: Named = ("roomring_subscribers_attached_connections", "Attached connections.");
const SUBSCRIBER_FRAMES: Named =
    ("roomring_subscribers_queued_frames", "Frames queued for connections.");
const SUBSCRIBERS_SLOW: Named =
    ("roomring_subscribers_slow_total", "Connections closed because they were slow.");
const ABSENT: Named = ("roomring_directory_absent_entries", "Objects remembered as absent.");
const TROUBLED: Named =
    ("roomring_directory_troubled_entries", "Objects under observation or quarantine.");
const PROJECTION_BYTES: Named =
    ("roomring_stub_projection_bytes", "Bytes of projections kept for stubs.");
const APPENDS: Named = ("roomring_store_appends_total", "Appends by result.");
const BATCH_EVENTS: Named = ("roomring_batch_size_events", "Events in one append.");
const BATCH_EVENTS_BUCKETS: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];
const LEASE_WRITES: Named = ("roomring_store_lease_writes_total", "Lease writes without an event.");
const SNAPSHOTS: Named = ("roomring_store_snapshots_total", "Snapshots written.");
const PANICS: Named = ("roomring_room_panics_total", "Panics caught in objects.");
const QUARANTINES: Named = ("roomring_room_quarantines_total", "Objects put into quarantine.");
const TIMERS: Named = ("roomring_timers_fired_total", "Timers fired on sleeping objects.");
const TIMER_LATENESS: Named =
    ("roomring_timers_lateness_seconds", "Lateness of timers of sleeping objects.");
const LATENESS_BUCKETS: [f64; 9] = [0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 30.0];
const LINK_CALLS: Named = ("roomring_link_inflight_calls", "Calls in flight on links.");
const CADENCES: Named =
    ("roomring_cadence_kept_entries", "Cadences of participants kept beside active objects.");
const TIMER_ENTRIES: Named =
    ("roomring_timers_stub_entries", "Timers of sleeping objects, stale ones included.");
const WAKES_WAITING: Named =
    ("roomring_wakes_queued_objects", "Objects that wait for their turn to be read back.");

struct Maker<'a> {
    registry: &'a Registry,
}

impl Maker<'_> {
    fn counter(&self, (name, help): Named) -> Result<IntCounter, prometheus::Error> {
        let made = IntCounter::new(name, help)?;
        self.registry.register(Box::new(made.clone()))?;
        Ok(made)
    }

    fn gauge(&self, (name, help): Named) -> Result<IntGauge, prometheus::Error> {
        let made = IntGauge::new(name, help)?;
        self.registry.register(Box::new(made.clone()))?;
        Ok(made)
    }

    // Label values are touched at once, so that a counter that stands at 0 is seen as 0.
    fn counters(
        &self,
        (name, help): Named,
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
        (name, help): Named,
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
        "roomring_cadence_kept_entries",
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
        "roomring_timers_stub_entries",
        "roomring_waits_refused_total",
        "roomring_waits_stub_answers_total",
        "roomring_wakes_queued_objects",
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
