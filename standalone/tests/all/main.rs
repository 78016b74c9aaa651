//! What is shown on the real binary, over real sockets: one executable, so that it links once.
//!
//! Nothing here sleeps on a guess: every wait is for a line, an answer, a metric or an exit, with
//! a deadline, and polls keep the cadence the server asks for.
#![forbid(unsafe_code)]
#![cfg_attr(
    test,
    expect(
        clippy::disallowed_methods,
        reason = "clients of a real process live in real time and read their own switches"
    )
)]

#[cfg(test)]
mod canary;
#[cfg(test)]
mod crash;
#[cfg(test)]
mod hibernate;
#[cfg(test)]
mod http;
#[cfg(test)]
#[expect(dead_code, reason = "the fault campaign uses the rest")]
mod mcp;
#[cfg(test)]
mod metrics;
#[cfg(test)]
mod parity;
#[cfg(test)]
mod process;
#[cfg(test)]
mod scenario;
#[cfg(test)]
mod server;
