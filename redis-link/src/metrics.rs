//! What the link counts.

use prometheus::{Histogram, HistogramOpts, IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use crate::Failure;

/// Calls per pipeline.
const SIZES: [f64; 8] = [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0];

#[derive(Clone, Debug)]
pub(crate) struct Metrics {
    /// Calls that wait in lanes.
    pub(crate) queued: IntGauge,
    calls: IntCounterVec,
    pub(crate) pipeline: Histogram,
    retries: IntCounterVec,
    /// Connections of lanes made anew.
    pub(crate) reconnects: IntCounter,
    /// Primaries put in place of others, or of none.
    pub(crate) primaries: IntCounter,
    /// 1 while the store is not the one it was.
    pub(crate) generation: IntGauge,
    /// Waits that fewer replicas confirmed than asked.
    pub(crate) short: IntCounter,
    /// 1 while every primary is verified and reachable.
    pub(crate) open: IntGauge,
}

impl Metrics {
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let gauge = |name: &str, help: &str| {
            let gauge = IntGauge::new(name, help)?;
            registry.register(Box::new(gauge.clone()))?;
            Ok::<_, prometheus::Error>(gauge)
        };
        let counter = |name: &str, help: &str| {
            let counter = IntCounter::new(name, help)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let by = |name: &str, help: &str, label: &str| {
            let counter = IntCounterVec::new(Opts::new(name, help), &[label])?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let pipeline = HistogramOpts::new("roomring_redis_pipeline_calls", "Calls per pipeline.");
        let pipeline = Histogram::with_opts(pipeline.buckets(SIZES.to_vec()))?;
        registry.register(Box::new(pipeline.clone()))?;
        Ok(Self {
            queued: gauge("roomring_redis_queued_calls", "Calls that wait in lanes.")?,
            calls: by("roomring_redis_calls_total", "Calls by result.", "result")?,
            pipeline,
            retries: by("roomring_redis_retries_total", "Calls tried again, by cause.", "cause")?,
            reconnects: counter("roomring_redis_reconnects_total", "Links of lanes made anew.")?,
            primaries: counter("roomring_redis_primary_changes_total", "Primaries replaced.")?,
            generation: gauge(
                "roomring_redis_generation_alarm",
                "1 while Redis is not the store it was: nothing is served.",
            )?,
            short: counter(
                "roomring_redis_wait_short_total",
                "Pipelines that fewer replicas confirmed than the durability level asks.",
            )?,
            open: gauge("roomring_redis_open", "1 while every primary is verified.")?,
        })
    }

    pub(crate) fn called<T>(&self, result: &Result<T, Failure>) {
        let label = match result {
            Ok(_) => "ok",
            Err(Failure::NotSent { .. }) => "not_sent",
            Err(Failure::Unknown { .. }) => "unknown",
            Err(Failure::Refused { .. }) => "refused",
        };
        self.calls.with_label_values(&[label]).inc();
    }

    pub(crate) fn retried(&self, cause: &'static str) {
        self.retries.with_label_values(&[cause]).inc();
    }
}
