//! What can be seen of the membership from outside. No label holds a node's name.

use prometheus::{Gauge, IntCounter, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use crate::table::Now;
use crate::view::State;

/// What every process that follows the view shows.
#[derive(Clone, Debug)]
pub(crate) struct ViewMetrics {
    view: IntGauge,
    members: IntGaugeVec,
    buckets_max: IntGauge,
    buckets_mean: Gauge,
    /// Ends that this process's calls wrote into the table.
    pub(crate) tombstones: IntCounter,
    /// Questions to the table, by result.
    pub(crate) asked: IntCounterVec,
    /// Nodes marked as suspect; a gateway's.
    pub(crate) suspects: IntGauge,
}

/// What a node shows beside them.
#[derive(Clone, Debug)]
pub(crate) struct LeaseMetrics {
    pub(crate) remaining_ms: IntGauge,
    pub(crate) self_fences: IntCounter,
    pub(crate) gaps: IntCounter,
    /// Owners asked about that are in neither list of the table.
    pub(crate) questions: IntGauge,
}

impl ViewMetrics {
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        let made = Self {
            view: gauge(
                registry,
                "roomring_membership_view_number",
                "The view in force. Processes that differ for long do not reach the node table.",
            )?,
            members: registered(
                registry,
                IntGaugeVec::new(
                    Opts::new(
                        "roomring_membership_members",
                        "Live nodes by state. None active: nobody serves.",
                    ),
                    &["state"],
                )?,
            )?,
            buckets_max: gauge(
                registry,
                "roomring_membership_buckets_max",
                "Buckets of the node with most of them. Compare with the mean.",
            )?,
            buckets_mean: registered(
                registry,
                Gauge::new("roomring_membership_buckets_mean", "Buckets of a node on average.")?,
            )?,
            tombstones: counter(
                registry,
                "roomring_membership_tombstones_total",
                "Nodes that calls of this process declared ended. Rises when nodes die.",
            )?,
            asked: registered(
                registry,
                IntCounterVec::new(
                    Opts::new(
                        "roomring_membership_heartbeats_total",
                        "Heartbeats and polls of the node table by result. Look when leases lapse.",
                    ),
                    &["result"],
                )?,
            )?,
            suspects: gauge(
                registry,
                "roomring_membership_suspects",
                "Nodes in the view that calls of this process do not reach.",
            )?,
        };
        for result in ["ok", "refused", "failed"] {
            made.asked.with_label_values(&[result]).inc_by(0);
        }
        Ok(made)
    }

    /// Shows a view and its table.
    pub(crate) fn show(&self, now: &Now) {
        self.view.set(i64::try_from(now.view.number).unwrap_or(i64::MAX));
        for state in State::ALL {
            let count = now.view.count(state);
            let gauge = self.members.with_label_values(&[state.word()]);
            gauge.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        let (max, mean) = now.table.load();
        self.buckets_max.set(i64::try_from(max).unwrap_or(i64::MAX));
        self.buckets_mean.set(mean);
    }
}

impl LeaseMetrics {
    pub(crate) fn new(registry: &Registry) -> Result<Self, prometheus::Error> {
        Ok(Self {
            remaining_ms: gauge(
                registry,
                "roomring_membership_lease_remaining_ms",
                "What is left of the node lease. Near 0: this node hardly reaches the node table.",
            )?,
            self_fences: counter(
                registry,
                "roomring_membership_self_fences_total",
                "Times the node lease ran out and everything held was dropped.",
            )?,
            gaps: counter(
                registry,
                "roomring_membership_gaps_total",
                "Times the process stood still for more than 500 ms.",
            )?,
            questions: gauge(
                registry,
                "roomring_membership_questions",
                "Owners of rooms whose end is not known here and is asked for.",
            )?,
        })
    }
}

fn gauge(registry: &Registry, name: &str, help: &str) -> Result<IntGauge, prometheus::Error> {
    registered(registry, IntGauge::new(name, help)?)
}

fn counter(registry: &Registry, name: &str, help: &str) -> Result<IntCounter, prometheus::Error> {
    registered(registry, IntCounter::new(name, help)?)
}

fn registered<C>(registry: &Registry, collector: C) -> Result<C, prometheus::Error>
where
    C: prometheus::core::Collector + Clone + 'static,
{
    registry.register(Box::new(collector.clone()))?;
    Ok(collector)
}
