//! The cluster, a Redis, a node and a gateway, beside its peers (performance goals 6 to 12, 16, 18
//! and 19): all servers on one core, the asking on another, loopback without TLS.
//!
//! Run by `cargo xtask bench cluster`, which builds the programs and the peers first. Prints one
//! JSON line a figure. All cases take turns within a round; a ratio is always taken within one.
//! `ROOMRING_BENCH_SLEEPERS` makes a run smaller, `ROOMRING_BENCH_CASE=send` (or `hot_send`, `poll`)
//! asks one case over and over.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking and prints its figures"
)]
#![expect(
    clippy::disallowed_methods,
    reason = "a benchmark reads the clock and how large it is to be"
)]

mod fleet;
mod pace;
mod saturation;
#[expect(dead_code, reason = "the benchmark of one process uses the rest")]
#[path = "../serve"]
mod serve {
    pub(crate) mod ask;
    pub(crate) mod figure;
    pub(crate) mod server;
    pub(crate) mod words;
}
mod waits;

/// Sleeping rooms beside the ones that are asked, for goal 19.
const SLEEPERS: usize = 100_000;

fn main() {
    serve::server::pin_this_process();
    if let Ok(case) = std::env::var("ROOMRING_BENCH_CASE") {
        return saturation::alone(&case);
    }
    let variable = std::env::var("ROOMRING_BENCH_SLEEPERS");
    let sleepers = variable.map_or(SLEEPERS, |text| text.parse().unwrap());
    waits::report();
    saturation::run(sleepers);
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}
