//! The gateway's metrics: resolved once, so that counting costs one atomic addition.
//!
//! No label ever holds a room, a participant, an address, or text of a client.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use object::Class;
use prometheus::core::Collector;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};
use room::reject::Code;

use crate::http::Gauges;
use crate::http::stats::{Stats, Turned};
use crate::upstream::State;
use crate::upstream::retry::Failure;

/// All metrics of one gateway.
pub struct Metrics {
    /// Tool calls answered with a success.
    pub successes: IntCounter,
    /// Tool calls answered with a refusal, whoever refused.
    pub refusals: IntCounter,
    /// The same refusals by code; asked by [`Metrics::refused`] only.
    refusals_by_code: IntCounterVec,
    /// Polls refused by this gateway's tier of the cadence.
    pub waits_refused: IntCounter,
    /// Calls over a budget of the guard.
    pub guard_refused: IntCounter,
    /// Handles that did not open.
    pub handles_refused: IntCounter,
    /// Calls refused because too much was in flight.
    pub overloaded: IntCounter,
    /// Calls on their way to nodes.
    pub inflight: IntGauge,
    /// Bytes of uploads on their way to nodes.
    pub blob_inflight: IntGauge,
    /// Calls tried again, by why the last try came to nothing.
    retries: Vec<(&'static str, IntCounter)>,
    /// Hints followed to another node.
    pub hops: IntCounter,
    /// Calls held until their room has an owner that answers.
    pub held: IntGauge,
    /// Calls refused because as many were held for their room already.
    pub held_refused: IntCounter,
    /// Nodes, by the state of the streams to them.
    pub upstreams: Vec<(State, IntGauge)>,
    /// Number of the view that is followed.
    pub view: IntGauge,
    /// Later views asked for because a node had seen one.
    pub view_refreshes: IntCounter,
    /// Calls forwarded to other regions. Regions are few and named by the operator.
    forwarded: IntCounterVec,
    /// Calls of gateways of other regions under way here.
    pub relayed: IntGauge,
    /// Messages that wait to be put on a stream.
    pub link_queued: IntGauge,
    /// Open streams to nodes.
    pub links_open: IntGauge,
    /// Open streams to gateways of other regions.
    pub peer_links_open: IntGauge,
    /// Cells of the guard whose payers have not got their whole budget back yet.
    pub guard_cells: IntGauge,
    /// Streams that ended or could not be opened.
    pub link_reopens: IntCounter,
    /// Participants whose next poll is remembered.
    pub cadence_participants: IntGauge,
    /// Time from sending a call to its answer, waits apart.
    pub call_seconds: Histogram,
    /// What the HTTP side counts by itself.
    pub http: HttpMetrics,
}

/// The HTTP side's counters and gauges, brought up to date when they are read.
pub struct HttpMetrics {
    requests: IntCounter,
    detached: IntCounter,
    panics: IntCounter,
    turned_away: Vec<(Turned, IntCounter)>,
    connections: IntGauge,
    surplus: IntGauge,
    discards: IntGauge,
    inflight: IntGauge,
    request_bytes: IntGauge,
    response_bytes: IntGauge,
    /// Two readers at once must not add the same difference twice.
    reading: Mutex<()>,
}

impl fmt::Debug for HttpMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HttpMetrics").finish_non_exhaustive()
    }
}

impl HttpMetrics {
    fn register(new: &Register<'_>) -> Result<Self, prometheus::Error> {
        let away = |reason: Turned| {
            let name = "roomring_http_turned_away_total";
            let help = "What the edge turned away before the protocol saw it, by reason.";
            Ok((reason, new.counter_with(name, help, "reason", reason.label())?))
        };
        Ok(Self {
            requests: new
                .counter("roomring_http_requests_total", "Requests that reached a route.")?,
            detached: new.counter(
                "roomring_http_detached_calls_total",
                "Calls finished after their caller had gone.",
            )?,
            panics: new.counter("roomring_http_panics_total", "Panics caught while answering.")?,
            turned_away: Turned::ALL
                .into_iter()
                .map(away)
                .collect::<Result<_, prometheus::Error>>()?,
            connections: new.gauge("roomring_http_connections", "Open client connections.")?,
            surplus: new.gauge(
                "roomring_http_surplus_connections",
                "Connections over the bound, open only to be told 503.",
            )?,
            discards: new.gauge(
                "roomring_http_discarded_bodies",
                "Bodies being read on and dropped after an early refusal.",
            )?,
            inflight: new.gauge("roomring_http_inflight_requests", "Requests being answered.")?,
            request_bytes: new.gauge(
                "roomring_http_request_bytes",
                "Memory of all request bodies beyond a small part of each, in bytes.",
            )?,
            response_bytes: new.gauge(
                "roomring_http_response_bytes",
                "Memory of all responses being written, in bytes.",
            )?,
            reading: Mutex::new(()),
        })
    }

    /// Takes over what the HTTP side has counted.
    pub fn refresh(&self, stats: &Stats, gauges: Gauges) {
        let _alone = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let raise = |counter: &IntCounter, to: u64| {
            counter.inc_by(to.saturating_sub(counter.get()));
        };
        raise(&self.requests, stats.requests());
        raise(&self.detached, stats.detached());
        raise(&self.panics, stats.panics());
        for (reason, count) in stats.turned() {
            for (_, counter) in self.turned_away.iter().filter(|(known, _)| *known == reason) {
                raise(counter, count);
            }
        }
        let set = |gauge: &IntGauge, to: usize| gauge.set(i64::try_from(to).unwrap_or(i64::MAX));
        set(&self.connections, gauges.connections);
        set(&self.surplus, gauges.surplus);
        set(&self.discards, gauges.discards);
        set(&self.inflight, gauges.inflight);
        set(&self.request_bytes, gauges.request_bytes);
        set(&self.response_bytes, gauges.response_bytes);
    }
}

impl fmt::Debug for Metrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metrics").finish_non_exhaustive()
    }
}

/// Call durations, in seconds: from a call within one process to the longest retries.
const CALL_SECONDS_BUCKETS: &[f64] =
    &[0.000_1, 0.000_25, 0.000_5, 0.001, 0.002_5, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 10.0];

impl Metrics {
    /// Makes all metrics and registers them. An error means that a name is registered already.
    pub fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let new = Register(registry);
        let calls = |outcome| {
            let help = "Tool calls, by what became of them.";
            new.counter_with("roomring_gateway_calls_total", help, "outcome", outcome)
        };
        let admission = "Calls refused before they were sent, by reason.";
        let refused = |reason| {
            new.counter_with("roomring_gateway_refused_total", admission, "reason", reason)
        };
        Ok(Self {
            successes: calls("success")?,
            refusals: calls("refused")?,
            refusals_by_code: refusals_by_code(&new)?,
            waits_refused: new.counter_with(
                "roomring_waits_refused_total",
                "Polls refused by the cadence, by tier.",
                "tier",
                "gateway",
            )?,
            guard_refused: refused("guard")?,
            handles_refused: refused("handle")?,
            overloaded: refused("overload")?,
            inflight: new
                .gauge("roomring_gateway_inflight_calls", "Calls on their way to nodes.")?,
            blob_inflight: new.gauge(
                "roomring_gateway_inflight_blob_bytes",
                "Bytes of uploads on their way to nodes.",
            )?,
            retries: new.retries()?,
            hops: new.counter("roomring_gateway_hops_total", "Hints followed to another node.")?,
            held: new.gauge(
                "roomring_gateway_held_calls",
                "Calls held until their room has an owner that answers.",
            )?,
            held_refused: refused("held")?,
            upstreams: new.upstreams()?,
            view: new.gauge("roomring_gateway_view", "Number of the view that is followed.")?,
            view_refreshes: new.counter(
                "roomring_gateway_view_refreshes_total",
                "Later views asked for because a node had seen one.",
            )?,
            link_queued: link_queued(&new)?,
            forwarded: forwarded(&new)?,
            relayed: relayed(&new)?,
            links_open: new.gauge("roomring_gateway_links", "Open streams to nodes.")?,
            peer_links_open: new.gauge(
                "roomring_gateway_peer_links",
                "Open streams to gateways of other regions.",
            )?,
            guard_cells: guard_cells(&new)?,
            link_reopens: new.counter(
                "roomring_gateway_link_reopens_total",
                "Streams to nodes that ended or could not be opened.",
            )?,
            cadence_participants: new.gauge(
                "roomring_gateway_cadence_participants",
                "Participants whose next poll is remembered.",
            )?,
            call_seconds: new.histogram(
                "roomring_gateway_call_duration_seconds",
                "Time from sending a call to its answer, waits apart.",
                CALL_SECONDS_BUCKETS,
            )?,
            http: HttpMetrics::register(&new)?,
        })
    }

    /// Counts a refused call under its code. Codes come over the wire, too: one that is not
    /// published must not make a new series.
    pub(crate) fn refused(&self, code: &str) {
        self.refusals.inc();
        let unpublished = ["overloaded", "internal_error"];
        let known = Code::find(code).map(Code::code);
        let known = known.or_else(|| unpublished.into_iter().find(|known| *known == code));
        self.refusals_by_code.with_label_values(&[known.unwrap_or("other")]).inc();
    }
}

impl Metrics {
    /// A call is tried again after this failure.
    pub(crate) fn retried(&self, after: Failure) {
        let cause = cause(after);
        for (_, counter) in self.retries.iter().filter(|(known, _)| *known == cause) {
            counter.inc();
        }
    }

    /// A call goes to another region.
    pub(crate) fn forwarded(&self, region: &str) {
        self.forwarded.with_label_values(&[region]).inc();
    }

    /// Calls tried again for one of the causes.
    #[cfg(test)]
    pub(crate) fn retries(&self, cause: &str) -> u64 {
        let counters = self.retries.iter().filter(|(known, _)| *known == cause);
        counters.map(|(_, counter)| counter.get()).sum()
    }
}

fn refusals_by_code(new: &Register<'_>) -> Result<IntCounterVec, prometheus::Error> {
    let help = "Refused tool calls by code; `other` for a code that is not published.";
    new.counters("roomring_gateway_refusals_total", help, "code")
}

fn link_queued(new: &Register<'_>) -> Result<IntGauge, prometheus::Error> {
    let help = "Messages that wait to be put on a stream.";
    new.gauge("roomring_gateway_link_queued_messages", help)
}

fn relayed(new: &Register<'_>) -> Result<IntGauge, prometheus::Error> {
    new.gauge("roomring_gateway_relayed_calls", "Calls of gateways of other regions under way.")
}

fn guard_cells(new: &Register<'_>) -> Result<IntGauge, prometheus::Error> {
    let help = "Cells of the guard's tables whose payers have not got their whole budget back yet.";
    new.gauge("roomring_guard_used_cells", help)
}

/// Why a call may be tried again.
const RETRY_CAUSES: [&str; 4] = ["not_sent", "not_owner", "lost", "outcome_unknown"];

/// What every state of an upstream is called.
const UPSTREAM_STATES: [(State, &str); 3] =
    [(State::Open, "open"), (State::Draining, "draining"), (State::Closed, "closed")];

const fn cause(failure: Failure) -> &'static str {
    match failure {
        Failure::NotSent => "not_sent",
        Failure::Lost | Failure::TimedOut => "lost",
        Failure::Refused(Class::OutcomeUnknown) => "outcome_unknown",
        // Only refusals of which nothing ran are tried again.
        Failure::Refused(_) => "not_owner",
    }
}

fn forwarded(new: &Register<'_>) -> Result<IntCounterVec, prometheus::Error> {
    let opts = Opts::new("roomring_gateway_forwarded_total", "Calls forwarded, by region.");
    new.add(IntCounterVec::new(opts, &["region"])?)
}

struct Register<'a>(&'a Registry);

impl Register<'_> {
    fn add<C: Collector + Clone + 'static>(&self, metric: C) -> Result<C, prometheus::Error> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn retries(&self) -> Result<Vec<(&'static str, IntCounter)>, prometheus::Error> {
        let (name, help) = (
            "roomring_gateway_retries_total",
            "Calls tried again, by why the last try came to nothing.",
        );
        let of = |cause| Ok((cause, self.counter_with(name, help, "cause", cause)?));
        RETRY_CAUSES.into_iter().map(of).collect()
    }

    fn upstreams(&self) -> Result<Vec<(State, IntGauge)>, prometheus::Error> {
        let (name, help) =
            ("roomring_gateway_upstreams", "Nodes, by the state of the streams to them.");
        let of = |(state, word)| Ok((state, self.gauge_with(name, help, "state", word)?));
        UPSTREAM_STATES.into_iter().map(of).collect()
    }

    fn counter(&self, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
        self.add(IntCounter::new(name, help)?)
    }

    /// A counter for each value of a label, seen once it has counted something.
    fn counters(
        &self,
        name: &str,
        help: &str,
        label: &str,
    ) -> Result<IntCounterVec, prometheus::Error> {
        self.add(IntCounterVec::new(Opts::new(name, help), &[label])?)
    }

    /// A counter with one fixed label. Another part of the process may register the same name
    /// with the same help and another value.
    fn counter_with(
        &self,
        name: &str,
        help: &str,
        label: &str,
        value: &str,
    ) -> Result<IntCounter, prometheus::Error> {
        let labels = HashMap::from([(label.to_owned(), value.to_owned())]);
        self.add(IntCounter::with_opts(Opts::new(name, help).const_labels(labels))?)
    }

    /// A gauge with one fixed label.
    fn gauge_with(
        &self,
        name: &str,
        help: &str,
        label: &str,
        value: &str,
    ) -> Result<IntGauge, prometheus::Error> {
        let labels = HashMap::from([(label.to_owned(), value.to_owned())]);
        self.add(IntGauge::with_opts(Opts::new(name, help).const_labels(labels))?)
    }

    fn gauge(&self, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
        self.add(IntGauge::new(name, help)?)
    }

    fn histogram(
        &self,
        name: &str,
        help: &str,
        buckets: &[f64],
    ) -> Result<Histogram, prometheus::Error> {
        self.add(Histogram::with_opts(HistogramOpts::new(name, help).buckets(buckets.to_vec()))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOLDEN: &[&str] = &[
        "roomring_gateway_cadence_participants",
        "roomring_gateway_call_duration_seconds",
        "roomring_gateway_calls_total outcome=refused",
        "roomring_gateway_calls_total outcome=success",
        "roomring_gateway_held_calls",
        "roomring_gateway_hops_total",
        "roomring_gateway_inflight_blob_bytes",
        "roomring_gateway_inflight_calls",
        "roomring_gateway_link_queued_messages",
        "roomring_gateway_link_reopens_total",
        "roomring_gateway_links",
        "roomring_gateway_peer_links",
        "roomring_gateway_refusals_total code=other",
        "roomring_gateway_refusals_total code=overloaded",
        "roomring_gateway_refusals_total code=room_full",
        "roomring_gateway_refused_total reason=guard",
        "roomring_gateway_refused_total reason=handle",
        "roomring_gateway_refused_total reason=held",
        "roomring_gateway_refused_total reason=overload",
        "roomring_gateway_relayed_calls",
        "roomring_gateway_retries_total cause=lost",
        "roomring_gateway_retries_total cause=not_owner",
        "roomring_gateway_retries_total cause=not_sent",
        "roomring_gateway_retries_total cause=outcome_unknown",
        "roomring_gateway_upstreams state=closed",
        "roomring_gateway_upstreams state=draining",
        "roomring_gateway_upstreams state=open",
        "roomring_gateway_view",
        "roomring_gateway_view_refreshes_total",
        "roomring_guard_used_cells",
        "roomring_http_connections",
        "roomring_http_detached_calls_total",
        "roomring_http_discarded_bodies",
        "roomring_http_inflight_requests",
        "roomring_http_panics_total",
        "roomring_http_request_bytes",
        "roomring_http_requests_total",
        "roomring_http_response_bytes",
        "roomring_http_surplus_connections",
        "roomring_http_turned_away_total reason=body_too_large",
        "roomring_http_turned_away_total reason=body_too_slow",
        "roomring_http_turned_away_total reason=connections",
        "roomring_http_turned_away_total reason=forbidden",
        "roomring_http_turned_away_total reason=inflight",
        "roomring_http_turned_away_total reason=json_too_deep",
        "roomring_http_turned_away_total reason=memory",
        "roomring_waits_refused_total tier=gateway",
    ];

    #[test]
    fn the_names_are_the_golden_list() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        metrics.waits_refused.inc();
        for code in ["room_full", "overloaded", "of a newer node", "of another"] {
            metrics.refused(code);
        }
        let mut lines: Vec<String> = registry
            .gather()
            .iter()
            .flat_map(|family| {
                family.get_metric().iter().map(|metric| {
                    let labels: Vec<String> = metric
                        .get_label()
                        .iter()
                        .map(|label| format!("{}={}", label.name(), label.value()))
                        .collect();
                    format!("{} {}", family.name(), labels.join(",")).trim_end().to_owned()
                })
            })
            .collect();
        lines.sort();
        assert_eq!(lines, GOLDEN);
        assert!(Metrics::register(&registry).is_err(), "twice in one registry");
    }
}
