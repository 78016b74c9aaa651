//! What is shown on the real binary, over real sockets: one executable, so that it links once.
//!
//! Nothing here sleeps on a guess: every wait is for a line, an answer, a metric or an exit, with
//! a deadline, and polls keep the cadence the server asks for.
#![forbid(unsafe_code)]

#[cfg(test)]
mod history;
