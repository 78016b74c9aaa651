//! Flags turned into the settings of the parts. Everything else keeps the part's own default.

use std::num::NonZeroU32;
use std::time::Duration;

use crate::flags::Config;

/// The settings of the edge.
#[must_use]
pub fn gateway(config: &Config) -> gateway::config::Config {
    let any_host = config.allow_hosts.iter().any(|host| host == "*");
    let ms = Duration::from_millis;
    // The table of flags admits no zero.
    let count = |n: u32| NonZeroU32::new(n).unwrap_or(NonZeroU32::MIN);
    gateway::config::Config {
        app_url: config.app_url.clone(),
        allowed_hosts: config.allow_hosts.iter().filter(|host| *host != "*").cloned().collect(),
        allowed_origins: config.allow_origins.clone(),
        allow_any_host: any_host,
        trusted_proxies: config.trusted_proxies.clone(),
        wait_period: ms(config.wait_period_ms),
        wait_active_period: ms(config.wait_active_period_ms),
        wait_burst: count(config.wait_burst),
        hold_max: ms(config.hold_ms_max),
        guard_join_per_minute: count(config.guard_join_per_minute),
        guard_info_per_minute: count(config.guard_info_per_minute),
        guard_call_per_minute: count(config.guard_call_per_minute),
        body_bytes_max: config.body_bytes_max,
        connections_max: config.connections_max,
        inflight_max: config.inflight_max,
        header_timeout: ms(config.header_timeout_ms),
        body_timeout: ms(config.body_timeout_ms),
        ..gateway::config::Config::default()
    }
}

/// The settings of the host of rooms.
#[must_use]
pub fn host(config: &Config) -> room_node::config::Config {
    let defaults = room_node::config::Config::default();
    room_node::config::Config {
        idle_to_stub_ms: config.idle_to_stub_ms,
        stub_to_cold_ms: config.stub_to_cold_ms,
        agent_lease_ms: config.agent_lease_ms,
        // A third of the lease, as with the defaults: stored ends stay close to true ones.
        lease_step_ms: defaults.lease_step_ms.min(config.agent_lease_ms / 3),
        wait_period_ms: config.wait_period_ms,
        wait_active_period_ms: config.wait_active_period_ms,
        wait_burst: config.wait_burst,
        hold_ms_max: config.hold_ms_max,
        shed_queue_age_ms: config.shed_queue_age_ms,
        shed_cpu_percent: config.shed_cpu_percent,
        shed_store_p99_ms: config.shed_store_p99_ms,
        ..defaults
    }
}

/// What a room itself is told.
#[must_use]
pub fn room(config: &Config) -> room::Settings {
    let curated = |app: &crate::flags::AppEntry| room::CuratedApp {
        app_id: app.app_id.clone(),
        title: app.title.clone(),
    };
    room::Settings {
        agent_lease_ms: config.agent_lease_ms,
        empty_room_ms: config.empty_room_ms,
        longpoll_enabled: config.mcp_longpoll_enabled,
        hold_ms_max: config.hold_ms_max,
        room_apps_enabled: config.room_apps_enabled,
        room_apps: config.room_apps.iter().map(curated).collect(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::path::Path;

    use super::*;
    use crate::flags::{self, Command, Source};

    struct Nothing;

    impl Source for Nothing {
        fn variables(&self) -> BTreeMap<String, String> {
            BTreeMap::new()
        }

        fn read(&self, _path: &Path) -> std::io::Result<String> {
            Err(std::io::ErrorKind::NotFound.into())
        }
    }

    #[test]
    fn the_defaults_of_the_flags_are_those_of_the_parts() {
        let Ok(Command::Serve { config, .. }) = flags::parse([], &Nothing) else {
            panic!("refused")
        };
        let shown = |part: &dyn std::fmt::Debug| format!("{part:#?}");
        assert_eq!(shown(&gateway(&config)), shown(&gateway::config::Config::default()));
        // One process has nobody who would serve better (decision 0017).
        let of_host = room_node::config::Config {
            shed_cpu_percent: 0,
            shed_store_p99_ms: 0,
            ..room_node::config::Config::default()
        };
        assert_eq!(shown(&host(&config)), shown(&of_host));
        assert_eq!(shown(&room(&config)), shown(&room::Settings::default()));
    }
}
