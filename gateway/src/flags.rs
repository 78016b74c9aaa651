//! Every flag of `roomring-gateway`, with the names and defaults of interfaces.md "Command lines";
//! `--help` is a golden file. How flags and environment are read is in `process`.

mod table;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use process::flags::tls::Pems;
use process::flags::value::{AppEntry, LogFormat};
use process::flags::{Check, Program, Source, value};
use process::tls::Links;
use redis_link::{Durability, Endpoint};

use crate::client_addr::Cidr;
use crate::config;
use crate::handle::KeyRing;
use crate::region::Regions;

/// `roomring-gateway` to its operator.
pub const PROGRAM: Program<Config> = Program {
    name: "roomring-gateway",
    about: "the edge of a cluster: speaks MCP to agents, sends calls to the room nodes",
    run_time: "port, Redis",
    flags: table::FLAGS,
    blank,
    relations,
    logs: |config| (config.log_format, &config.log),
};

/// Everything that can be turned, checked. Durations are milliseconds, sizes bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub listen: SocketAddr,
    pub admin_listen: SocketAddr,
    /// Given, once the flags have been accepted.
    pub redis_url: Option<Endpoint>,
    pub durability: Durability,
    pub region: String,
    /// `None`: this one only.
    pub regions: Option<Regions>,
    /// Where gateways of other regions connect.
    pub peer_listen: Option<SocketAddr>,
    /// Of links to nodes and to other regions.
    pub tls: Pems,
    /// Given, once the flags have been accepted.
    pub handle_keys_file: Option<PathBuf>,
    /// Host names besides loopback, for `Host` and `Origin`; `*` turns both checks off.
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
    pub pre_stop_ms: u64,
    /// Of the nodes; accepted, not used.
    pub mcp_longpoll_enabled: bool,
    /// Of the nodes; accepted, not used.
    pub room_apps_enabled: bool,
    /// Of the nodes; accepted, not used.
    pub room_apps: Vec<AppEntry>,
    pub app_url: Option<String>,
    pub log_format: Option<LogFormat>,
    pub log: String,
}

impl Config {
    /// The settings of the edge.
    #[must_use]
    pub fn edge(&self) -> config::Config {
        let any_host = self.allow_hosts.iter().any(|host| host == "*");
        let ms = Duration::from_millis;
        // The table of flags admits no zero.
        let count = |n: u32| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
        config::Config {
            region: self.region.clone(),
            app_url: self.app_url.clone(),
            allowed_hosts: self.allow_hosts.iter().filter(|host| *host != "*").cloned().collect(),
            allowed_origins: self.allow_origins.clone(),
            allow_any_host: any_host,
            trusted_proxies: self.trusted_proxies.clone(),
            wait_period: ms(self.wait_period_ms),
            wait_active_period: ms(self.wait_active_period_ms),
            wait_burst: count(self.wait_burst),
            hold_max: ms(self.hold_ms_max),
            guard_join_per_minute: count(self.guard_join_per_minute),
            guard_info_per_minute: count(self.guard_info_per_minute),
            guard_call_per_minute: count(self.guard_call_per_minute),
            body_bytes_max: self.body_bytes_max,
            connections_max: self.connections_max,
            inflight_max: self.inflight_max,
            header_timeout: ms(self.header_timeout_ms),
            body_timeout: ms(self.body_timeout_ms),
            pre_stop: ms(self.pre_stop_ms),
            ..config::Config::default()
        }
    }
}

/// A file of handle keys. The gateway reads the keys again whenever the file changes; that it can
/// be read at all is a matter of configuration.
///
/// # Errors
/// The rest of a sentence that names the flag.
pub fn key_file(text: &str, source: &dyn Source) -> Result<PathBuf, String> {
    let path = value::path(text)?;
    KeyRing::parse(&value::read(&path, source)?).map_err(|error| error.to_string())?;
    Ok(path)
}

/// The regions file, read for the region that this is.
fn regions(config: &mut Config, text: &str, source: &dyn Source) -> Result<(), String> {
    let file = value::read(&value::path(text)?, source)?;
    // Without a region that can be one, there is only its own mistake to report.
    if !config.region.is_empty() {
        let regions = Regions::parse(&config.region, &file).map_err(|error| error.to_string())?;
        config.regions = Some(regions);
    }
    Ok(())
}

/// What two values say together.
fn relations(config: &mut Config, check: &mut Check<'_>) {
    check.hosts(config.listen, &mut config.allow_hosts);
    check.addresses(config.listen, config.admin_listen);
    of_regions(config, check);
    check.cadence(config.wait_active_period_ms, config.wait_period_ms);
    if config.redis_url.is_none() && !check.is_set("redis-url") {
        check.mistake("--redis-url is missing: name the Redis of the cluster");
    }
    if config.handle_keys_file.is_none() && !check.is_set("handle-keys-file") {
        check.mistake(
            "--handle-keys-file is missing: all gateways of a region need the same keys, one \
             `kid:base64(32 bytes)` a line",
        );
    }
}

/// Links to other processes: certificates, and what other regions need.
fn of_regions(config: &Config, check: &mut Check<'_>) {
    let usable = config.tls.relate(check);
    if usable && let Err(error) = Links::new(&config.tls) {
        check.mistake(format!("--tls-cert, --tls-key, --tls-ca: they cannot be used: {error}"));
    }
    let others = config.regions.as_ref().map_or(0, |regions| regions.others().count());
    if others > 0 && !check.is_set("peer-listen") {
        check.mistake(
            "--peer-listen is missing: --regions names others, whose gateways connect there",
        );
    }
    if check.is_set("peer-listen") && !check.is_set("regions") {
        check.mistake("--regions is missing: --peer-listen is for the gateways of other regions");
    }
    if check.is_set("peer-listen") && !check.is_set("tls-ca") {
        check.mistake(
            "--tls-cert, --tls-key and --tls-ca are missing: other regions are only reached with \
             certificates",
        );
    }
    if let Some(peers) = config.peer_listen {
        for (flag, other) in [("listen", config.listen), ("admin-listen", config.admin_listen)] {
            if peers == other && peers.port() != 0 {
                check.mistake(format!("--peer-listen and --{flag} name the same address"));
            }
        }
    }
}

/// A configuration before any default is applied; the table sets every field that has one.
fn blank() -> Config {
    let nowhere = SocketAddr::from(([127, 0, 0, 1], 0));
    Config {
        listen: nowhere,
        admin_listen: nowhere,
        redis_url: None,
        durability: Durability::D1,
        region: String::new(),
        regions: None,
        peer_listen: None,
        tls: Pems::default(),
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
        pre_stop_ms: 0,
        mcp_longpoll_enabled: false,
        room_apps_enabled: false,
        room_apps: Vec::new(),
        app_url: None,
        log_format: None,
        log: String::new(),
    }
}
