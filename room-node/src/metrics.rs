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
    /// How often a bound was met, by its name: a call refused, or work put off to the next turn.
    pub bounds_hit: IntCounterVec,
    /// Objects whose fence is being checked, or that are being given up, by what is done.
    pub inflight: IntGaugeVec,
    /// Batches ended before the mailbox was empty, by the bound they met.
    pub batches_full: IntCounterVec,
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
    /// Claims, by what the store said.
    pub claims: IntCounterVec,
    /// Calls refused because their object belongs elsewhere.
    pub not_owner: IntCounter,
    /// Calls that waited for a view their sender knew.
    pub view_waits: IntCounter,
    /// Objects known to be owned elsewhere.
    pub away: IntGauge,
    /// Objects given up, by what they were.
    pub handoffs: IntCounterVec,
    /// Activations that wait for their turn to leave.
    pub handoffs_waiting: IntGauge,
    /// 1 while the node lease holds.
    pub leased: IntGauge,
    /// Times the node lease lapsed.
    pub lease_lapses: IntCounter,
    /// Fences checked after a change of the primary, by result.
    pub fence_checks: IntCounterVec,
    /// Streams of gateways.
    pub links: IntGauge,
    /// 1 while no gateway reaches the node, though other nodes are there.
    pub cut_off: IntGauge,
    /// Memory in use, once it is watched.
    pub memory_used: IntGauge,
    /// Stubs released because memory was short.
    pub pressure_stubs: IntCounter,
    /// What is refused for overload: 0 nothing, 1 wakes, 2 polls and reads, too, 3 writes, too.
    pub shed_level: IntGauge,
    /// Calls refused for overload, by kind.
    pub shed_calls: IntCounterVec,
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
        let results = ["stored", "resolved", "failed", "unknown"];
        Ok(Self {
            active: rooms.with_label_values(&["active"]),
            stubs: rooms.with_label_values(&["stub"]),
            wakes: make.counters(WAKES, "cause", &["call", "poll", "timer", "disconnect"])?,
            creations: make.counter(CREATIONS)?,
            stub_claims: make.counter(STUB_CLAIMS)?,
            waits_refused: make.counters(WAITS_REFUSED, "tier", &["owner"])?,
            stub_answers: make.counter(STUB_ANSWERS)?,
            bounds_hit: make.counters(BOUNDS_HIT, "bound", &BOUNDS)?,
            inflight: make.gauges(INFLIGHT, "what", &["checks", "leaves", "releases"])?,
            batches_full: make.counters(
                BATCHES_FULL,
                "bound",
                &["batch_events_max", "batch_bytes_max"],
            )?,
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
            claims: make.counters(CLAIMS, "result", &["granted", "lapsed", "owned"])?,
            not_owner: make.counter(NOT_OWNER)?,
            view_waits: make.counter(VIEW_WAITS)?,
            away: make.gauge(AWAY)?,
            handoffs: make.counters(HANDOFFS, "what", &["active", "stub", "given_back"])?,
            handoffs_waiting: make.gauge(HANDOFFS_WAITING)?,
            leased: make.gauge(LEASED)?,
            lease_lapses: make.counter(LEASE_LAPSES)?,
            fence_checks: make.counters(FENCE_CHECKS, "result", &["ours", "lost", "unsure"])?,
            links: make.gauge(LINKS)?,
            cut_off: make.gauge(CUT_OFF)?,
            memory_used: make.gauge(MEMORY_USED)?,
            pressure_stubs: make.counter(PRESSURE_STUBS)?,
            shed_level: make.gauge(SHED_LEVEL)?,
            shed_calls: make.counters(SHED_CALLS, "kind", &["wake", "poll", "write"])?,
        })
    }

    /// Counts one meeting of a bound.
    pub(crate) fn bound_hit(&self, bound: &str) {
        self.bounds_hit.with_label_values(&[bound]).inc();
    }

    /// Counts one piece of work as being in flight until the answer is dropped.
    pub(crate) fn in_flight(&self, what: &str) -> InFlight {
        InFlight::of(&self.inflight.with_label_values(&[what]))
    }
}

/// The counter of the bounds that a store meets, with how often that was so far.
pub(crate) fn bounds_hit(
    bounds: impl IntoIterator<Item = (&'static str, u64)>,
) -> Result<IntCounterVec, prometheus::Error> {
    let what = Opts::new("roomring_store_bounds_hit_total", "Times a bound was met, by bound.");
    let made = IntCounterVec::new(what, &["bound"])?;
    for (bound, hits) in bounds {
        made.with_label_values(&[bound]).inc_by(hits);
    }
    Ok(made)
}

/// One piece of work in flight.
#[derive(Debug)]
pub(crate) struct InFlight(IntGauge);

impl InFlight {
    /// Counts it in a gauge.
    pub(crate) fn of(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Name and help of a metric.
type Named = (&'static str, &'static str);

const WAKES: Named = ("roomring_room_wakes_total", "Sleeping objects read back, by cause.");
const CREATIONS: Named = ("roomring_room_creations_total", "Objects created.");
const STUB_CLAIMS: Named = ("roomring_room_stub_claims_total", "Claims that only built a stub.");
const WAITS_REFUSED: Named = ("roomring_waits_refused_total", "Waits refused by cadence, by tier.");
const STUB_ANSWERS: Named = ("roomring_waits_stub_answers_total", "Waits answered from stubs.");
const BOUNDS_HIT: Named = ("roomring_node_bounds_hit_total", "Times a bound was met, by bound.");
const INFLIGHT: Named = (
    "roomring_node_inflight_objects",
    "Objects whose fence is checked, or that are given up, at this moment.",
);
const BATCHES_FULL: Named =
    ("roomring_batch_full_total", "Batches ended by a bound while calls waited.");
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
const CLAIMS: Named = ("roomring_store_claims_total", "Claims by what the store said.");
const NOT_OWNER: Named =
    ("roomring_node_not_owner_total", "Calls sent on because their object belongs elsewhere.");
const VIEW_WAITS: Named =
    ("roomring_node_view_waits_total", "Calls that waited for a view their sender knew.");
const AWAY: Named = ("roomring_directory_away_entries", "Objects known to be owned elsewhere.");
const HANDOFFS: Named = ("roomring_handoff_rooms_total", "Objects given up to other nodes.");
const HANDOFFS_WAITING: Named =
    ("roomring_handoff_queued_rooms", "Active objects that wait for their turn to leave.");
const LEASED: Named = ("roomring_node_leased", "1 while the node lease holds.");
const LEASE_LAPSES: Named = ("roomring_node_lease_lapses_total", "Times the node lease lapsed.");
const FENCE_CHECKS: Named =
    ("roomring_store_fence_checks_total", "Fences checked after a change of the primary.");
const LINKS: Named = ("roomring_link_open_streams", "Streams of gateways.");
const CUT_OFF: Named =
    ("roomring_node_cut_off", "1 while no gateway reaches the node, though other nodes are there.");
const MEMORY_USED: Named = ("roomring_memory_used_bytes", "Resident memory of the process.");
const PRESSURE_STUBS: Named =
    ("roomring_memory_released_stubs_total", "Sleeping objects released because memory was short.");
const SHED_LEVEL: Named = (
    "roomring_node_shed_level",
    "What is refused for overload: 1 wakes, 2 polls and reads, 3 writes.",
);
const SHED_CALLS: Named =
    ("roomring_node_shed_calls_total", "Calls refused for overload, by kind.");

/// The bounds that are counted, by the names of `docs/bounds.md`.
const BOUNDS: [&str; 19] = [
    "mailbox_calls_max",
    "parked_calls_max",
    "objects_active_max",
    "connections_max",
    "link_calls_max",
    "hops_max",
    "subscribers_max",
    "away_max",
    "checks_max",
    "leaves_max",
    "releases_max",
    "evictions_max",
    "page_slots_max",
    "sweep_slots_max",
    "take_max",
    "ahead_ms_max",
    "lease_ms_max",
    "due_rounds_max",
    "claim_ms_max",
];

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

    fn gauges(
        &self,
        (name, help): Named,
        label: &str,
        values: &[&str],
    ) -> Result<IntGaugeVec, prometheus::Error> {
        let made = IntGaugeVec::new(Opts::new(name, help), &[label])?;
        self.registry.register(Box::new(made.clone()))?;
        for value in values {
            made.with_label_values(&[value]).set(0);
        }
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
        "roomring_batch_full_total",
        "roomring_batch_size_events",
        "roomring_cadence_kept_entries",
        "roomring_directory_absent_entries",
        "roomring_directory_away_entries",
        "roomring_directory_troubled_entries",
        "roomring_handoff_queued_rooms",
        "roomring_handoff_rooms_total",
        "roomring_link_inflight_calls",
        "roomring_link_open_streams",
        "roomring_mailbox_queued_calls",
        "roomring_memory_released_stubs_total",
        "roomring_memory_used_bytes",
        "roomring_node_bounds_hit_total",
        "roomring_node_cut_off",
        "roomring_node_inflight_objects",
        "roomring_node_lease_lapses_total",
        "roomring_node_leased",
        "roomring_node_not_owner_total",
        "roomring_node_shed_calls_total",
        "roomring_node_shed_level",
        "roomring_node_view_waits_total",
        "roomring_parked_held_calls",
        "roomring_room_creations_total",
        "roomring_room_panics_total",
        "roomring_room_quarantines_total",
        "roomring_room_stub_claims_total",
        "roomring_room_wakes_total",
        "roomring_rooms",
        "roomring_store_appends_total",
        "roomring_store_claims_total",
        "roomring_store_fence_checks_total",
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
