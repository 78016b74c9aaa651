//! What an operator may turn on a host, each with its default and the reason for it.

/// Settings of one host. Every bound is named with its unit last.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Idle time after which an activation becomes a stub. Longer than two wait periods, else
    /// agents that poll in rhythm find their room asleep again and again.
    pub idle_to_stub_ms: u64,
    /// Unpolled time after which a stub is released and forgotten.
    pub stub_to_cold_ms: u64,
    /// How long a silent agent stays a participant; renewed by every admitted wait.
    pub agent_lease_ms: u64,
    /// A stored lease end lies this far after the true one, so that most renewals write nothing.
    pub lease_step_ms: u64,
    /// Time a poll without news must wait for the next (P of the quiet case, ours 7).
    pub wait_period_ms: u64,
    /// Time one answer with news costs (P, ours 7).
    pub wait_active_period_ms: u64,
    /// Answers with news that may follow each other at once (B, ours 7).
    pub wait_burst: u32,
    /// Longest time a wait is held, whatever the object asks for.
    pub hold_ms_max: u64,
    /// Calls waiting for one object; more are refused as overloaded.
    pub mailbox_calls_max: usize,
    /// Events in one append.
    pub batch_events_max: usize,
    /// Bytes of events in one append; the call that reaches it is the last of its batch.
    pub batch_bytes_max: usize,
    /// Parked calls of one object.
    pub parked_calls_max: usize,
    /// Participants of one object whose cadence is remembered; the stalest is forgotten first,
    /// which can only make the next wait stricter.
    pub cadence_entries_max: usize,
    /// Activations in memory.
    pub objects_active_max: usize,
    /// Stubs in memory; over it the least recently polled of a shard is released.
    pub stubs_max: usize,
    /// Unknown objects remembered as absent.
    pub absent_max: usize,
    /// How long an unknown object is remembered as absent; a creation forgets it at once.
    pub absent_ms: u64,
    /// Objects remembered as owned by another node.
    pub away_max: usize,
    /// Objects under observation or quarantine.
    pub troubled_max: usize,
    /// Panics of one object within `trouble_window_ms` that quarantine it.
    pub panics_max: u32,
    /// The window of the panic count, and how long a panic quarantine lasts.
    pub trouble_window_ms: u64,
    /// Activations a second that read an object back.
    pub wakes_per_second: u32,
    /// Claims a second that only build a stub.
    pub stub_claims_per_second: u32,
    /// Attached connections of the whole node.
    pub subscribers_max: usize,
    /// Frames queued for one attached connection; a slower one is closed.
    pub subscriber_frames_max: usize,
    /// Calls in flight on one link.
    pub link_calls_max: usize,
    /// Snapshot once the tail has this many frames (cluster 2.8).
    pub snapshot_frames: usize,
    /// Snapshot once the tail has this many bytes.
    pub snapshot_bytes: usize,
    /// How long an unknown outcome is looked into before its callers are told so.
    pub in_doubt_ms_max: u64,
    /// How long a claim is tried again while the store cannot be reached.
    pub claim_ms_max: u64,
    /// Life of an uploaded blob that no append has kept.
    pub blob_upload_ms: u64,
    /// Activations a second that a timer causes.
    pub timer_wakes_per_second: u32,
    /// Entries of one page of the due scan.
    pub due_page_max: usize,
    /// Longest sleep of the due scan, so that a missed nudge heals.
    pub due_scan_ms_max: u64,
    /// Sheds when every call of a second waited longer in its mailbox; 0 for never.
    pub shed_queue_age_ms: u64,
    /// Sheds when the process uses more of the processors it may use, in percent; 0 for never.
    pub shed_cpu_percent: u64,
    /// Sheds when one in a hundred calls of the store takes longer; 0 for never.
    pub shed_store_p99_ms: u64,
}

/// Calls that all wait this long arrive faster than they are decided (cluster 2.10).
pub const QUEUE_AGE_MS: u64 = 100;
/// Of the processors this process may use: the rest is for what it cannot refuse.
pub const CPU_PERCENT: u64 = 90;
/// Far above a round trip to a store that keeps up, far below the deadline of a call.
pub const STORE_P99_MS: u64 = 250;

impl Default for Config {
    fn default() -> Self {
        Self {
            idle_to_stub_ms: 30_000,
            stub_to_cold_ms: 600_000,
            agent_lease_ms: 90_000,
            lease_step_ms: 30_000,
            wait_period_ms: 10_000,
            wait_active_period_ms: 2_000,
            wait_burst: 3,
            hold_ms_max: 5_000,
            mailbox_calls_max: 256,
            batch_events_max: 64,
            batch_bytes_max: 256 * 1024,
            parked_calls_max: 256,
            cadence_entries_max: 256,
            objects_active_max: 200_000,
            stubs_max: 2_000_000,
            absent_max: 65_536,
            absent_ms: 1_000,
            away_max: 65_536,
            troubled_max: 4_096,
            panics_max: 3,
            trouble_window_ms: 60_000,
            wakes_per_second: 500,
            stub_claims_per_second: 5_000,
            subscribers_max: 65_536,
            subscriber_frames_max: 256,
            link_calls_max: 4_096,
            snapshot_frames: 256,
            snapshot_bytes: 64 * 1024,
            in_doubt_ms_max: 2_000,
            claim_ms_max: 1_000,
            blob_upload_ms: 600_000,
            timer_wakes_per_second: 2_000,
            due_page_max: 64,
            due_scan_ms_max: 1_000,
            shed_queue_age_ms: QUEUE_AGE_MS,
            shed_cpu_percent: CPU_PERCENT,
            shed_store_p99_ms: STORE_P99_MS,
        }
    }
}

impl Config {
    /// What is odd about these settings, in words for the operator's log.
    #[must_use]
    pub fn warnings(&self) -> Vec<&'static str> {
        let mut found = Vec::new();
        if self.idle_to_stub_ms < self.wait_period_ms.saturating_mul(2) {
            found.push("idle-to-stub-ms is below two wait periods: polled rooms sleep and wake");
        }
        if self.agent_lease_ms < self.wait_period_ms.saturating_mul(2) {
            found.push("agent-lease-ms is below two wait periods: one lost poll ends a lease");
        }
        found
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_are_not_odd_and_short_idle_is() {
        assert!(Config::default().warnings().is_empty());
        let odd = Config { idle_to_stub_ms: 15_000, agent_lease_ms: 1_000, ..Config::default() };
        assert_eq!(odd.warnings().len(), 2);
    }
}
