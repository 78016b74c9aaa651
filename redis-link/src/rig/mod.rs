//! Redis servers as child processes, for tests: each in a directory of its own, killed when
//! dropped.

mod server;

pub use server::Server;
