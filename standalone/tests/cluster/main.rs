//! The cluster as people run it: a real Redis, room nodes and gateways as processes of their own.
//!
//! The suites of the single process run here unchanged, over a [`server::Server`] that is made of
//! several processes; what only a cluster can show is in `nodes`, `cadence`,
//! `rolling` and `regions`. Nothing here sleeps on a guess: every wait is for a line, an answer, a metric or an
//! exit, with a deadline.
//!
//! A test needs `redis-server` and fails with one line where it is missing.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "clients of real processes live in real time and read their own switches"
    )
)]

#[cfg(test)]
mod admin;
#[cfg(test)]
mod backend;
#[cfg(test)]
mod cadence;
#[cfg(test)]
mod failover;
#[cfg(test)]
mod load;
#[cfg(test)]
mod nodes;
#[cfg(test)]
mod program;
#[cfg(test)]
mod programs;
#[cfg(test)]
mod regions;
#[cfg(test)]
mod rolling;
#[cfg(test)]
mod server;

#[cfg(test)]
#[path = "../all/canary.rs"]
mod canary;
#[cfg(test)]
#[path = "../all/hibernate.rs"]
mod hibernate;
#[cfg(test)]
#[path = "../all/http.rs"]
mod http;
#[cfg(test)]
#[expect(dead_code, reason = "the crash tests of the single process use the rest")]
#[path = "../all/mcp.rs"]
mod mcp;
#[cfg(test)]
#[path = "../all/metrics.rs"]
mod metrics;
#[cfg(test)]
#[path = "../all/parity/mod.rs"]
mod parity;
#[cfg(test)]
#[path = "../all/scenario.rs"]
mod scenario;
