//! Every flag of `roomring`, with the names and defaults of interfaces.md "Command lines"; `--help`
//! is a golden file. How flags and environment are read is in `process`. What is absent: flags of a
//! cluster (`roomring` is one process).

mod sync;
mod table;

#[cfg(test)]
mod tests;

#[cfg(test)]
use std::collections::BTreeMap;
use std::net::SocketAddr;
#[cfg(test)]
use std::path::Path;
use std::path::PathBuf;

use gateway::client_addr::Cidr;
#[cfg(test)]
use process::flags::value;
use process::flags::{Check, Program};

pub use process::flags::value::{AppEntry, LogFormat};
pub use process::flags::{Mistakes, Source};
pub use sync::Sync;

use table::FLAGS;

/// `roomring` to its operator.
pub const PROGRAM: Program<Config> = Program {
    name: "roomring",
    about: "rooms where agents and people meet, over MCP, durable, in one process",
    run_time: "port, data directory",
    flags: FLAGS,
    blank,
    relations,
    logs: |config| (config.log_format, &config.log),
};

/// What the command line asks for.
pub type Command = process::flags::Command<Config>;

/// Everything that can be turned, checked. Durations are milliseconds, sizes bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub listen: SocketAddr,
    pub admin_listen: SocketAddr,
    pub data_dir: PathBuf,
    pub ephemeral: bool,
    pub sync: Sync,
    pub handle_keys_file: Option<PathBuf>,
    /// Host names besides loopback, for `Host` and `Origin`; `*` turns both checks off.
    /// Bounded by the command line.
    pub allow_hosts: Vec<String>,
    /// Host names for `Origin` only.
    pub allow_origins: Vec<String>,
    /// Networks whose forwarding headers are believed.
    pub trusted_proxies: Vec<Cidr>,
    pub wait_period_ms: u64,
    pub wait_active_period_ms: u64,
    pub wait_burst: u32,
    pub hold_ms_max: u64,
    pub guard_join_per_minute: u32,
    pub guard_info_per_minute: u32,
    pub guard_call_per_minute: u32,
    pub body_bytes_max: usize,
    pub connections_max: usize,
    pub inflight_max: usize,
    pub header_timeout_ms: u64,
    pub body_timeout_ms: u64,
    pub idle_to_stub_ms: u64,
    pub stub_to_cold_ms: u64,
    pub agent_lease_ms: u64,
    pub empty_room_ms: u64,
    pub shed_queue_age_ms: u64,
    pub shed_cpu_percent: u64,
    pub shed_store_p99_ms: u64,
    pub mcp_longpoll_enabled: bool,
    pub room_apps_enabled: bool,
    /// The catalog of `--room-apps FILE`; empty without one.
    pub room_apps: Vec<AppEntry>,
    pub app_url: Option<String>,
    pub log_format: Option<LogFormat>,
    pub log: String,
}

/// Reads arguments (without the program's name) and environment.
///
/// # Errors
/// Every mistake at once; nothing has been bound, made or changed.
pub fn parse(
    args: impl IntoIterator<Item = String>,
    source: &dyn Source,
) -> Result<Command, Mistakes> {
    PROGRAM.parse(args, source)
}

/// The text of `--help`.
#[must_use]
pub fn help() -> String {
    PROGRAM.help()
}

/// What two values say together.
fn relations(config: &mut Config, check: &mut Check<'_>) {
    check.hosts(config.listen, &mut config.allow_hosts);
    check.addresses(config.listen, config.admin_listen);
    check.cadence(config.wait_active_period_ms, config.wait_period_ms);
    if config.ephemeral && check.is_given("data-dir") {
        check.mistake("--ephemeral keeps nothing, so --data-dir makes no sense");
    }
}

/// A configuration before any default is applied; the table sets every field.
fn blank() -> Config {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    Config {
        listen: nowhere,
        admin_listen: nowhere,
        data_dir: PathBuf::new(),
        ephemeral: false,
        sync: Sync::Always,
        handle_keys_file: None,
        allow_hosts: Vec::new(),
        allow_origins: Vec::new(),
        trusted_proxies: Vec::new(),
        wait_period_ms: 0,
        wait_active_period_ms: 0,
        wait_burst: 0,
        hold_ms_max: 0,
        guard_join_per_minute: 0,
        guard_info_per_minute: 0,
        guard_call_per_minute: 0,
        body_bytes_max: 0,
        connections_max: 0,
        inflight_max: 0,
        header_timeout_ms: 0,
        body_timeout_ms: 0,
        idle_to_stub_ms: 0,
        stub_to_cold_ms: 0,
        agent_lease_ms: 0,
        empty_room_ms: 0,
        shed_queue_age_ms: 0,
        shed_cpu_percent: 0,
        shed_store_p99_ms: 0,
        mcp_longpoll_enabled: false,
        room_apps_enabled: false,
        room_apps: Vec::new(),
        app_url: None,
        log_format: None,
        log: String::new(),
    }
}
