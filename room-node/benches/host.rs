//! What an awake, idle object costs in memory (performance goal 15): growth of the resident set over
//! many activations, over a store that keeps nothing. Task, mailbox, directory entry, cadence and
//! state all count, and so does what the allocator loses.
//!
//! `cargo xtask bench host` prints one JSON line a figure. The room has one participant: a room
//! without any is never awake and idle for long.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a benchmark fails by panicking and prints its figures"
)]

#[path = "../tests/host/counter.rs"]
#[expect(unreachable_pub, reason = "written for the tests of the host")]
mod counter;
mod host {
    pub(crate) mod nothing;
}

use std::sync::Arc;

use bytes::Bytes;
use object::{Caller, Object, ObjectId, ParticipantId, RequestId};
use prometheus::Registry;
use room::Room;
use room_node::clock::Clock;
use room_node::cluster::Alone;
use room_node::config::Config;
use room_node::host::{Host, Request};
use room_node::store::Incarnation;

use counter::{Counter, Settings};
use host::nothing::Nothing;

/// Activations between two readings.
const STEP: u64 = 10_000;
const STEPS: u64 = 5;

/// The kinds, each measured in a process of its own: memory freed by one would hide the next.
const KINDS: [&str; 2] = ["counter", "room"];

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("counter") => {
            let settings = Settings { lease_ms: 3_600_000, hold_ms: 0 };
            measure::<Counter>("counter", settings, "join", "");
        }
        Some("room") => {
            let args = r#"{"name":"bench"}"#;
            measure::<Room>("room", room::Settings::default(), "create_room", args);
        }
        _ => {
            for kind in KINDS {
                let mut child = std::process::Command::new(std::env::current_exe().unwrap());
                assert!(child.arg(kind).status().unwrap().success());
            }
        }
    }
}

/// Wakes objects by `op` and prints bytes per object, a sample per step.
fn measure<O: Object>(name: &str, settings: O::Settings, op: &str, args: &'static str) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let host = start::<O>(settings);
        let mut awake = 0;
        // Tables, buffers and the runtime itself have grown by then.
        wake(&host, op, args, &mut awake).await;
        let mut samples = Vec::new();
        for _ in 0..STEPS {
            let before = resident_bytes();
            wake(&host, op, args, &mut awake).await;
            samples.push((resident_bytes() - before) as f64 / STEP as f64);
        }
        assert_eq!(host.metrics().active.get(), awake as i64);
        print(&format!("goal15_awake_idle_{name}_bytes"), samples);
    });
}

fn start<O: Object>(settings: O::Settings) -> Host<O> {
    let config = Config {
        idle_to_stub_ms: 3_600_000,
        objects_active_max: usize::MAX,
        wakes_per_second: u32::MAX,
        ..Config::default()
    };
    let me = Incarnation { node: "node".into(), boot: 1 };
    let (clock, alone) = (Clock::system(), Arc::new(Alone::default()));
    Host::start(config, settings, Arc::new(Nothing), clock, me, alone, &Registry::new()).unwrap()
}

async fn wake<O: Object>(host: &Host<O>, op: &str, args: &'static str, awake: &mut u64) {
    for _ in 0..STEP {
        *awake += 1;
        let request = Request {
            op: O::op(op).unwrap(),
            object: ObjectId::new(O::KIND, &format!("o-{awake}")).unwrap(),
            caller: Caller::Joining(ParticipantId(u128::from(*awake))),
            args: Bytes::from_static(args.as_bytes()),
            blob: None,
            request: RequestId(u128::from(*awake)),
            attempt: 1,
            age_ms: 0,
            deadline: host.clock().mono().plus(60_000),
            connection: 0,
            view: 0,
            hops: 0,
        };
        let response = host.call(request).await;
        assert!(response.result.is_ok(), "{response:?}");
    }
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() * 1_024
}

fn print(name: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let (n, min, median) = (values.len(), values[0], values[values.len() / 2]);
    let max = values[n - 1];
    println!(
        "{{\"name\":\"{name}\",\"n\":{n},\"min\":{min:.1},\"median\":{median:.1},\"max\":{max:.1}}}"
    );
}
