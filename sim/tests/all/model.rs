//! `cargo test -p sim -- --nocapture --test-threads 1` prints states, depth, seconds and traces.
//! `ROOMRING_SIM_DEPTH=17` searches deeper than the gate has time for.

use std::time::Instant;

use sim::model::search::{Searched, search};
use sim::model::{Bounds, Level, Mutant, Rules, Weakening};

/// Two nodes, two clients with a key each that they try twice; every kind of failure once.
const BOUNDS: Bounds = Bounds {
    keys: [1, 1],
    attempts: 2,
    nonces: 3,
    failovers: 1,
    lapses: 1,
    crashes: 0,
    depth: None,
};

/// Actions in a row that the gate has time for.
const DEPTH: usize = 14;

/// More than the longest trace of a mutant or a weakening.
const DEPTH_OF_TRACES: usize = 16;

fn depth() -> Option<usize> {
    let deeper = std::env::var("ROOMRING_SIM_DEPTH").ok();
    Some(deeper.map_or(DEPTH, |text| text.parse().expect("ROOMRING_SIM_DEPTH is a number")))
}

const fn protocol(level: Level) -> Rules {
    Rules { level, mutant: None, weakening: None }
}

fn run(name: &str, rules: Rules, bounds: Bounds) -> Searched {
    let begin = Instant::now();
    let found = search(rules, bounds);
    let took = begin.elapsed().as_secs_f64();
    println!("{name}: {} states, depth {}, {took:.1} s", found.states, found.depth);
    for (property, trace) in &found.broken {
        println!("  broken: {property}\n    {}", trace.join("\n    "));
    }
    found
}

/// Nothing is broken, and everything named was met on the way.
fn holds(name: &str, rules: Rules, bounds: Bounds, sometimes: &[&str]) {
    let found = run(name, rules, bounds);
    for (what, count) in found.seen {
        println!("    {what}: {count}");
    }
    assert_eq!(found.broken, [], "{name}");
    for what in sometimes {
        let met = found.seen.iter().any(|(name, count)| name == what && *count > 0);
        assert!(met, "{name}: the search never met: {what}");
    }
}

#[test]
fn it_holds_where_a_failover_may_lose_a_window() {
    let sometimes = [
        "takeover of a lapsed owner",
        "in doubt, found",
        "in doubt, not found and sent again",
        "epoch given twice after a failover",
        "append fenced",
        "append answered as a duplicate",
        "loss reported",
    ];
    let bounds = Bounds { depth: depth(), ..BOUNDS };
    holds("window", protocol(Level::Window), bounds, &sometimes);
}

#[test]
fn it_holds_where_the_replica_is_awaited() {
    let sometimes = ["takeover of a lapsed owner", "in doubt, found", "append fenced"];
    let bounds = Bounds { depth: depth(), ..BOUNDS };
    holds("replica", protocol(Level::Replica), bounds, &sometimes);
}

#[test]
fn it_holds_under_kills_with_more_keys() {
    let sometimes = ["in doubt, not found and sent again", "append fenced"];
    let bounds = Bounds {
        keys: [2, 1],
        nonces: 4,
        failovers: 0,
        lapses: 0,
        crashes: 1,
        depth: depth(),
        ..BOUNDS
    };
    holds("kills", protocol(Level::Window), bounds, &sometimes);
}

#[test]
fn six_mutants_are_caught() {
    let mut killed = 0;
    for mutant in Mutant::ALL {
        let rules = Rules { mutant: Some(mutant), ..protocol(Level::Window) };
        let bounds = Bounds { depth: Some(DEPTH_OF_TRACES), ..BOUNDS };
        let found = run(&format!("mutant {mutant:?}"), rules, bounds);
        killed += usize::from(!found.broken.is_empty());
    }
    println!("mutants killed {killed}/{}", Mutant::ALL.len());
    assert_eq!(killed, Mutant::ALL.len());
}

/// What the code must see to because the model assumes it: without each there is a trace.
#[test]
fn each_assumption_is_needed() {
    for weakening in Weakening::ALL {
        let rules = Rules { weakening: Some(weakening), ..protocol(Level::Window) };
        let kills = u8::from(weakening == Weakening::OwnClaimsUnchecked);
        let bounds = Bounds {
            crashes: kills,
            lapses: 1 - kills,
            failovers: 1 - kills,
            depth: Some(DEPTH_OF_TRACES),
            ..BOUNDS
        };
        let found = run(&format!("without {weakening:?}"), rules, bounds);
        assert!(!found.broken.is_empty(), "{weakening:?}");
    }
}

/// Where claims and tombstones are awaited on the replica, a node may learn late of a failover.
#[test]
fn a_late_notice_does_no_harm_where_the_replica_is_awaited() {
    let rules = Rules { weakening: Some(Weakening::LateNotice), ..protocol(Level::Replica) };
    holds("replica, late notice", rules, Bounds { depth: depth(), ..BOUNDS }, &[]);
}
