//! The whole process beside its peers (performance goals 1 to 4): CPU of the server per request,
//! 64 keep-alive connections on loopback, servers on one core and the asking on another.
//!
//! Run by `cargo xtask bench serve`, which builds the peers of `bench/` first. Prints one JSON line
//! a figure; `n` is the number of rounds. All cases take turns within a round, so that what the
//! machine does meanwhile falls on all alike; a ratio is always taken within one round.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::indexing_slicing,
    clippy::panic,
    clippy::print_stdout,
    reason = "a benchmark fails by panicking and prints its figures"
)]

#[expect(dead_code, reason = "the benchmark of the cluster uses the rest")]
mod serve {
    pub(crate) mod ask;
    pub(crate) mod figure;
    pub(crate) mod server;
    pub(crate) mod words;
}

use std::path::Path;

use serve::ask::{self, CONNECTIONS};
use serve::figure::{print, ratios};
use serve::server::{self, Server};
use serve::words;

/// Rounds of all cases.
const ROUNDS: usize = 3;
/// Requests before the first round, per case: code, allocator and buckets are warm then.
const WARM_UP: usize = 3_200;
/// Where `cargo xtask bench` puts the peers, from the workspace's root.
const PEERS: &str = "target/bench/release";

/// One server asked one thing.
struct Case {
    name: &'static str,
    server: usize,
    /// One request per connection.
    requests: Vec<Vec<u8>>,
    /// What every answer contains.
    answer: &'static str,
    /// Requests a round.
    count: usize,
}

fn main() {
    server::pin_this_process();
    let peers = Path::new(PEERS);
    assert!(peers.join("floor").is_file(), "no peers in {PEERS}: run `cargo xtask bench serve`");
    let scratch = tempfile::tempdir_in("target/bench").unwrap();
    let ours = server::ours(&scratch.path().join("data"));
    let handles: Vec<String> =
        (0..CONNECTIONS).map(|_| words::handle(&ask::once(ours.at, &words::create()))).collect();

    let each = |request: &dyn Fn(&str) -> Vec<u8>| handles.iter().map(|h| request(h)).collect();
    let list = vec![words::list(); CONNECTIONS];
    let discover = vec![words::discover(); CONNECTIONS];
    let waits: Vec<Vec<u8>> = each(&words::wait);
    let sends: Vec<Vec<u8>> = each(&words::send);
    let rmcp_sends = (0..CONNECTIONS).map(words::peer_send).collect();
    // Uses up every participant's burst: from here on each poll is refused.
    ask::run(ours.at, &waits, CONNECTIONS * 4, "");

    let ceiling = |name: &str, request: &[u8]| {
        let file = scratch.path().join(name);
        std::fs::write(&file, ask::once(ours.at, request)).unwrap();
        server::peer(&peers.join("ceiling"), &[file.to_str().unwrap()])
    };
    let list_ceiling = ceiling("list", &words::list());
    let discover_ceiling = ceiling("discover", &words::discover());
    let floor = server::peer(&peers.join("floor"), &[]);
    let rmcp = server::peer(&peers.join("rmcp"), &[]);
    let mut servers = vec![ours, list_ceiling, discover_ceiling, floor, rmcp];
    servers.extend(server::worker());

    let case =
        |name, server, requests, answer, count| Case { name, server, requests, answer, count };
    let refused = "wait_rate_limited";
    let mut cases = vec![
        case("ceiling_list", 1, list.clone(), "\"tools\"", 8_000),
        case("list", 0, list, "\"tools\"", 8_000),
        case("ceiling_discover", 2, discover.clone(), "supportedVersions", 16_000),
        case("discover", 0, discover, "supportedVersions", 16_000),
        case("floor", 3, waits.clone(), refused, 16_000),
        case("refused_wait", 0, waits.clone(), refused, 16_000),
        case("rmcp_send", 4, rmcp_sends, "sequence", 8_000),
        case("send_text", 0, sends, "sequence", 8_000),
    ];
    if servers.len() > 5 {
        cases.push(case("worker", 5, waits, refused, 3_200));
    } else {
        println!("workerd is not installed: goal 2 is not measured");
    }
    report(&cases, &measure(&servers, &cases));
}

/// CPU of the server per request in microseconds: a row a case, a column a round.
fn measure(servers: &[Server], cases: &[Case]) -> Vec<Vec<f64>> {
    let mut figures = vec![Vec::with_capacity(ROUNDS); cases.len()];
    for case in cases {
        ask::run(servers[case.server].at, &case.requests, WARM_UP, "");
    }
    for _ in 0..ROUNDS {
        for (case, figures) in cases.iter().zip(&mut figures) {
            let server = &servers[case.server];
            let before = server.cpu_us();
            let asked = ask::run(server.at, &case.requests, case.count, case.answer);
            figures.push((server.cpu_us() - before) / asked as f64);
        }
    }
    figures
}

fn report(cases: &[Case], figures: &[Vec<f64>]) {
    for (case, values) in cases.iter().zip(figures) {
        print(&format!("{}_cpu_us", case.name), values.clone());
    }
    let of = |name: &str| {
        let at = cases.iter().position(|case| case.name == name)?;
        figures.get(at)
    };
    for (name, above, below) in [
        ("goal1_refused_waits_by_floor_ratio", "floor", "refused_wait"),
        ("goal2_worker_by_refused_wait_ratio", "worker", "refused_wait"),
        ("goal3_list_by_ceiling_ratio", "list", "ceiling_list"),
        ("goal3_discover_by_ceiling_ratio", "discover", "ceiling_discover"),
        ("goal4_send_text_by_rmcp_ratio", "send_text", "rmcp_send"),
    ] {
        if let (Some(above), Some(below)) = (of(above), of(below)) {
            print(name, ratios(above, below));
        }
    }
}
