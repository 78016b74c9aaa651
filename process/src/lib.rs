//! What every program of ours does the same, as operators see it: flags and environment, logs on
//! stderr, the first line and the banner on stdout, signals and exit codes, the admin port, TLS of the links
//! between them.
//!
//! It knows no gateway, no node and no room; a program is a [`flags::Program`] with its table and
//! a [`run::Service`] that serves.
#![forbid(unsafe_code)]

pub mod admin;
pub mod banner;
pub mod flags;
pub mod logs;
pub mod run;
pub mod signals;
pub mod tls;
