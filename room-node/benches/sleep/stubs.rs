//! Goal 13: the resident set of a node with very many stubs, over a store that keeps nothing.
//!
//! The counter's roster is the same for all and so kept once: what is left is the stub, its index
//! and its timer. A room's roster is its own and counted apart.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use object::{Caller, Object, ParticipantId};
use prometheus::Registry;
use room_node::clock::Clock;
use room_node::cluster::Alone;
use room_node::config::Config;
use room_node::host::Host;
use room_node::store::Incarnation;

use crate::nothing::Nothing;
use crate::{name, print, request, tick};

/// No agent lease may end while stubs are counted.
pub(crate) const LEASE_MS: u64 = 3_600_000;
/// Objects awake at the same time: their memory is used again by the next ones.
const AWAKE_MAX: usize = 500;

pub(crate) fn run<O: Object>(
    figure: &str,
    settings: O::Settings,
    ops: [(&str, &'static str); 2],
    stubs: usize,
) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let config = Config {
            idle_to_stub_ms: 1,
            stub_to_cold_ms: LEASE_MS,
            agent_lease_ms: LEASE_MS,
            wakes_per_second: u32::MAX,
            ..Config::default()
        };
        let me = Incarnation { node: "node".into(), boot: 1 };
        let (clock, alone) = (Clock::system(), Arc::new(Alone::default()));
        let registry = Registry::new();
        let store = Arc::new(Nothing);
        let host = Host::<O>::start(config, settings, store, clock, me, alone, &registry).unwrap();
        // The runtime, the buffers and the activations' memory have grown by then.
        let warm = stubs / 100;
        fall_asleep(&host, ops, 0, warm).await;
        let (before, rosters) = (resident_bytes(), host.metrics().projection_bytes.get());
        fall_asleep(&host, ops, warm, warm + stubs).await;
        let bytes = (resident_bytes() - before) as f64;
        let rosters = (host.metrics().projection_bytes.get() - rosters) as f64;
        print(&format!("goal13_{figure}_resident_bytes"), stubs, bytes / stubs as f64);
        print(&format!("goal13_{figure}_roster_bytes"), stubs, rosters / stubs as f64);
        let timers = host.metrics().timer_entries.get() as f64;
        print(&format!("goal13_{figure}_timer_entries"), stubs, timers / (warm + stubs) as f64);
    });
}

async fn fall_asleep<O: Object>(
    host: &Host<O>,
    ops: [(&str, &'static str); 2],
    from: usize,
    to: usize,
) {
    for at in from..to {
        let name = name(at);
        for (agent, (op, args)) in ops.into_iter().enumerate() {
            let who = ParticipantId((agent as u128 + 1) << 100 | at as u128);
            let number = (at * 2 + agent) as u128;
            let args = Bytes::from_static(args.as_bytes());
            let call = request(host, op, &name, Caller::Joining(who), number, args);
            let response = host.call(call).await;
            assert!(response.result.is_ok(), "{op}: {response:?}");
        }
        if (at + 1 - from).is_multiple_of(AWAKE_MAX) {
            all_stubs(host, at + 1).await;
        }
    }
    all_stubs(host, to).await;
}

/// Waits until all objects are asleep; nothing tells when an activation has ended.
async fn all_stubs<O: Object>(host: &Host<O>, stubs: usize) {
    while host.metrics().stubs.get() < stubs as i64 {
        tick(Duration::from_millis(1)).await;
    }
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}
