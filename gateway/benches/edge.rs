//! What the edge costs beside raw hyper (performance goals 1 and 3): CPU of the serving thread per
//! request, 64 keep-alive connections on loopback, one thread serving and one asking.
//!
//! Prints one JSON line a figure, as `cargo xtask bench` reads it. `ceiling_*` answers the same
//! bytes without looking at the request; `floor` parses, checks one rate cell and refuses.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking and prints its figures"
)]

mod edge {
    pub(crate) mod load;
    pub(crate) mod plain;
    pub(crate) mod served;
}

use edge::{load, plain, served};

/// Rounds of all cases, one after the other, so that what the machine does falls on all alike.
const ROUNDS: usize = 7;
/// Requests of one case in one round.
const REQUESTS: usize = 30_000;

fn main() {
    let served = served::Served::start();
    let cases = [
        ("ceiling_list", plain::ceiling(served.sample(&served.list)), served.list.clone()),
        ("list", served.running.clone(), served.list.clone()),
        (
            "ceiling_discover",
            plain::ceiling(served.sample(&served.discover)),
            served.discover.clone(),
        ),
        ("discover", served.running.clone(), served.discover.clone()),
        ("floor", plain::floor(), served.wait.clone()),
        ("refused_wait", served.running.clone(), served.wait.clone()),
    ];
    let mut figures = vec![Vec::with_capacity(ROUNDS); cases.len()];
    for _ in 0..ROUNDS {
        for ((_, server, request), figures) in cases.iter().zip(&mut figures) {
            let before = server.cpu_ns();
            load::run(server.at, request, REQUESTS);
            figures.push((server.cpu_ns() - before) as f64 / REQUESTS as f64 / 1_000.0);
        }
    }
    for ((name, ..), values) in cases.iter().zip(&figures) {
        print(&format!("{name}_cpu_us"), values.clone());
    }
    for (name, ours, other) in
        [("list_by_ceiling", 1, 0), ("discover_by_ceiling", 3, 2), ("floor_by_refused_wait", 4, 5)]
    {
        let ratios = figures
            .get(ours)
            .zip(figures.get(other))
            .map(|(ours, other)| ours.iter().zip(other).map(|(a, b)| a / b).collect())
            .unwrap_or_default();
        print(&format!("{name}_ratio"), ratios);
    }
}

fn print(name: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let at = |index: usize| values.get(index).copied().unwrap_or_default();
    let (min, median, max) = (at(0), at(values.len() / 2), at(values.len() - 1));
    let n = values.len();
    println!(
        "{}",
        serde_json::json!({ "name": name, "n": n, "min": min, "median": median, "max": max })
    );
}
