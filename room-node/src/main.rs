//! The `roomring-node` binary: read the flags, start, say where, wait for a signal, drain.
#![forbid(unsafe_code)]

use std::process::ExitCode;

use room_node::{compose, flags};

/// Small, short-lived allocations weigh in a call (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    process::run::main(&flags::PROGRAM, async |config| Ok(compose::start(config).await?))
}
