//! What sleeping rooms cost (performance goals 11, 13, 14 and 17): counts and bytes, which hold
//! on a busy machine too, and the time to read one back. `cargo xtask bench sleep` prints one JSON line a figure.
//!
//! Needs redis-server. `ROOMRING_SLEEPERS` and `ROOMRING_STUBS` make a run smaller.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::indexing_slicing,
    clippy::cast_possible_truncation,
    reason = "a benchmark fails by panicking and prints its figures"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and how large it is to be"
)]

#[path = "../tests/host/counter.rs"]
#[expect(unreachable_pub, reason = "written for the tests of the host")]
mod counter;
#[path = "host/nothing.rs"]
mod nothing;
mod sleep {
    pub(crate) mod flood;
    pub(crate) mod link;
    pub(crate) mod rehydrate;
    pub(crate) mod stored;
    pub(crate) mod stubs;
}

use std::time::Duration;

use bytes::Bytes;
use object::{Caller, Object, ObjectId, RequestId};
use room::Room;
use room_node::host::{Host, Request};
use tokio::time::{Instant, interval_at};

use counter::{Counter, Settings};

/// As the node itself: the figures hold for its allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Sleeping rooms that are polled.
const SLEEPERS: usize = 100_000;
/// Stubs of one node, and those with a roster of their own.
const STUBS: usize = 1_000_000;
const STUBS_OF_ROOMS: usize = 200_000;

/// Each in a process of its own: memory freed by one would hide the next.
const PARTS: [&str; 5] = ["flood", "stubs", "rooms", "stored", "rehydrate"];

fn main() {
    match std::env::args().nth(1).as_deref() {
        Some("flood") => sleep::flood::run(count("ROOMRING_SLEEPERS", SLEEPERS)),
        Some("stubs") => {
            let settings = Settings { lease_ms: sleep::stubs::LEASE_MS, hold_ms: 0 };
            let ops = [("join", ""), ("join", "")];
            sleep::stubs::run::<Counter>("stub", settings, ops, count("ROOMRING_STUBS", STUBS));
        }
        Some("rooms") => {
            let lease = sleep::stubs::LEASE_MS;
            let settings = room::Settings { agent_lease_ms: lease, ..room::Settings::default() };
            let ops = [
                ("create_room", r#"{"name":"Ana"}"#),
                ("join_room", r#"{"roomId":"x","name":"Bo Scout"}"#),
            ];
            let stubs = count("ROOMRING_STUBS", STUBS_OF_ROOMS).min(STUBS_OF_ROOMS);
            sleep::stubs::run::<Room>("stub_and_roster", settings, ops, stubs);
        }
        Some("stored") => sleep::stored::run(),
        Some("rehydrate") => sleep::rehydrate::run(),
        _ => {
            for part in PARTS {
                let mut child = std::process::Command::new(std::env::current_exe().unwrap());
                assert!(child.arg(part).status().unwrap().success(), "{part} failed");
            }
        }
    }
}

fn count(variable: &str, default: usize) -> usize {
    std::env::var(variable).map_or(default, |text| text.parse().unwrap())
}

/// A name as long as those that rooms are given.
fn name(number: usize) -> String {
    format!("amber-falcon-{number:013x}")
}

/// Ends when so much time has passed: the rate at which a condition is looked at.
async fn tick(period: Duration) {
    interval_at(Instant::now() + period, period).tick().await;
}

fn request<O: Object>(
    host: &Host<O>,
    op: &str,
    name: &str,
    caller: Caller,
    number: u128,
    args: Bytes,
) -> Request {
    Request {
        op: O::op(op).unwrap(),
        object: ObjectId::new(O::KIND, name).unwrap(),
        caller,
        args,
        blob: None,
        request: RequestId(number),
        attempt: 1,
        age_ms: 0,
        deadline: host.clock().mono().plus(60_000),
        connection: 0,
        view: 0,
        hops: 0,
    }
}

/// A figure that was counted once.
fn print(name: &str, n: usize, value: f64) {
    println!(
        "{{\"name\":\"{name}\",\"n\":{n},\"min\":{value:.4},\"median\":{value:.4},\"max\":{value:.4}}}"
    );
}

/// A figure of many values.
fn print_all(name: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let (n, min, max) = (values.len(), values[0], values[values.len() - 1]);
    let median = values[n / 2];
    println!(
        "{{\"name\":\"{name}\",\"n\":{n},\"min\":{min:.4},\"median\":{median:.4},\"max\":{max:.4}}}"
    );
}
