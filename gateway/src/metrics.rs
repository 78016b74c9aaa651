//! The gateway's metrics: resolved once, so that counting costs one atomic addition.
//!
//! No label ever holds a room, a participant, an address, or text of a client.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Mutex, PoisonError};

use prometheus::core::Collector;
use prometheus::{Histogram, HistogramOpts, IntCounter, IntGauge, Opts, Registry};

use crate::http::Gauges;
use crate::http::stats::{Stats, Turned};

/// All metrics of one gateway.
pub struct Metrics {
    /// Tool calls answered with a success.
    pub successes: IntCounter,
    /// Tool calls answered with a refusal, whoever refused.
    pub refusals: IntCounter,
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
    /// Calls sent again.
    pub retries: IntCounter,
    /// Open streams to nodes.
    pub links_open: IntGauge,
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
            retries: new.counter("roomring_gateway_retries_total", "Calls sent again.")?,
            links_open: new.gauge("roomring_gateway_links", "Open streams to nodes.")?,
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
}

struct Register<'a>(&'a Registry);

impl Register<'_> {
    fn add<C: Collector + Clone + 'static>(&self, metric: C) -> Result<C, prometheus::Error> {
        self.0.register(Box::new(metric.clone()))?;
        Ok(metric)
    }

    fn counter(&self, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
        self.add(IntCounter::new(name, help)?)
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

    #[test]
    fn the_names_are_the_golden_list() {
        let registry = Registry::new();
        let metrics = Metrics::register(&registry).unwrap();
        metrics.waits_refused.inc();
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
        assert_eq!(
            lines,
            [
                "roomring_gateway_cadence_participants",
                "roomring_gateway_call_duration_seconds",
                "roomring_gateway_calls_total outcome=refused",
                "roomring_gateway_calls_total outcome=success",
                "roomring_gateway_inflight_blob_bytes",
                "roomring_gateway_inflight_calls",
                "roomring_gateway_link_reopens_total",
                "roomring_gateway_links",
                "roomring_gateway_refused_total reason=guard",
                "roomring_gateway_refused_total reason=handle",
                "roomring_gateway_refused_total reason=overload",
                "roomring_gateway_retries_total",
                "roomring_http_connections",
                "roomring_http_detached_calls_total",
                "roomring_http_inflight_requests",
                "roomring_http_panics_total",
                "roomring_http_request_bytes",
                "roomring_http_requests_total",
                "roomring_http_response_bytes",
                "roomring_http_turned_away_total reason=body_too_large",
                "roomring_http_turned_away_total reason=body_too_slow",
                "roomring_http_turned_away_total reason=connections",
                "roomring_http_turned_away_total reason=forbidden",
                "roomring_http_turned_away_total reason=inflight",
                "roomring_http_turned_away_total reason=json_too_deep",
                "roomring_http_turned_away_total reason=memory",
                "roomring_waits_refused_total tier=gateway",
            ]
        );
        assert!(Metrics::register(&registry).is_err(), "twice in one registry");
    }
}
