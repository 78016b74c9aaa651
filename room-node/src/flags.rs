//! Every flag of `roomring-node`, with the names and defaults of interfaces.md "Command lines";
//! `--help` is a golden file. How flags and environment are read is in `process`.

mod table;

#[cfg(test)]
mod tests;

use std::net::SocketAddr;

use membership::{Incarnation, Terms};
use process::flags::tls::Pems;
use process::flags::value::{AppEntry, LogFormat};
use process::flags::{Check, Program};
use process::tls::Links;
use redis_link::{Durability, Endpoint};

use crate::config;

/// `roomring-node` to its operator.
pub const PROGRAM: Program<Config> = Program {
    name: "roomring-node",
    about: "a room node of a cluster: owns rooms and keeps them in Redis",
    run_time: "port, Redis, lost node lease",
    flags: table::FLAGS,
    blank,
    relations,
    logs: |config| (config.log_format, &config.log),
};

/// Everything that can be turned, checked. Durations are milliseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Config {
    pub listen: SocketAddr,
    pub admin_listen: SocketAddr,
    /// Given, once the flags have been accepted.
    pub redis_url: Option<Endpoint>,
    pub durability: Durability,
    pub region: String,
    /// Where gateways reach it; `None`: where it listens.
    pub advertise: Option<String>,
    /// `None`: the advertised address.
    pub node_id: Option<String>,
    /// Shown to gateways, and asked of them.
    pub tls: Pems,
    pub node_ttl_ms: u64,
    pub node_heartbeat_ms: u64,
    pub wait_period_ms: u64,
    pub wait_active_period_ms: u64,
    pub wait_burst: u32,
    pub hold_ms_max: u64,
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
    /// Of the gateways; accepted, not used.
    pub app_url: Option<String>,
    pub log_format: Option<LogFormat>,
    pub log: String,
}

impl Config {
    /// The settings of the host of rooms.
    #[must_use]
    pub fn host(&self) -> config::Config {
        let defaults = config::Config::default();
        config::Config {
            idle_to_stub_ms: self.idle_to_stub_ms,
            stub_to_cold_ms: self.stub_to_cold_ms,
            agent_lease_ms: self.agent_lease_ms,
            // A third of the lease, as with the defaults: stored ends stay close to true ones.
            lease_step_ms: defaults.lease_step_ms.min(self.agent_lease_ms / 3),
            wait_period_ms: self.wait_period_ms,
            wait_active_period_ms: self.wait_active_period_ms,
            wait_burst: self.wait_burst,
            hold_ms_max: self.hold_ms_max,
            shed_queue_age_ms: self.shed_queue_age_ms,
            shed_cpu_percent: self.shed_cpu_percent,
            shed_store_p99_ms: self.shed_store_p99_ms,
            ..defaults
        }
    }

    /// What a room itself is told.
    #[must_use]
    pub fn room(&self) -> room::Settings {
        let curated = |app: &AppEntry| room::CuratedApp {
            app_id: app.app_id.clone(),
            title: app.title.clone(),
        };
        room::Settings {
            agent_lease_ms: self.agent_lease_ms,
            empty_room_ms: self.empty_room_ms,
            longpoll_enabled: self.mcp_longpoll_enabled,
            hold_ms_max: self.hold_ms_max,
            room_apps_enabled: self.room_apps_enabled,
            room_apps: self.room_apps.iter().map(curated).collect(),
        }
    }
}

/// A node's name in the node table.
fn node_id(text: &str) -> Result<String, String> {
    let probe = Incarnation::new(text, 0).map_err(|error| error.to_string())?;
    Ok(probe.node.to_string())
}

/// What two values say together.
fn relations(config: &mut Config, check: &mut Check<'_>) {
    check.addresses(config.listen, config.admin_listen);
    check.cadence(config.wait_active_period_ms, config.wait_period_ms);
    if config.redis_url.is_none() && !check.is_set("redis-url") {
        check.mistake("--redis-url is missing: name the Redis of the cluster");
    }
    if config.listen.ip().is_unspecified() && !check.is_set("advertise") {
        check.mistake(
            "--listen is every address of this machine, so --advertise must say which of them \
             gateways use",
        );
    }
    if config.tls.relate(check)
        && let Err(error) = Links::new(&config.tls)
    {
        check.mistake(format!("--tls-cert, --tls-key, --tls-ca: they cannot be used: {error}"));
    }
    if let Err(error) = Terms::new(config.node_ttl_ms, config.node_heartbeat_ms) {
        check.mistake(error.to_string());
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
        advertise: None,
        node_id: None,
        tls: Pems::default(),
        node_ttl_ms: 0,
        node_heartbeat_ms: 0,
        wait_period_ms: 0,
        wait_active_period_ms: 0,
        wait_burst: 0,
        hold_ms_max: 0,
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
