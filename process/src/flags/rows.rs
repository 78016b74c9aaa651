//! The rows that several programs have: name, unit, default and help stand here once. A row sets
//! the field of the same name.

/// `row!(Config, wait_burst)` is the row of `--wait-burst` in a table of `Flag<Config>`.
#[macro_export]
macro_rules! row {
    ($config:ty, admin_listen) => {
        $crate::row!(@value $config, admin_listen, "admin-listen", "ADDR", "127.0.0.1:9090", address)
            .help("Where /livez, /readyz and /metrics are served; keep it private.")
    };
    ($config:ty, allow_host) => {
        $crate::flags::flag("allow-host", "NAME", "", |config: &mut $config, text, _| {
            $crate::flags::value::host(text, true).map(|host| config.allow_hosts.push(host))
        })
        .absent("loopback names")
        .repeatable()
        .seed("ALLOWED_HOSTNAMES")
        .help("A further host name accepted in Host and Origin; `*` turns both checks off.")
    };
    ($config:ty, allow_origin) => {
        $crate::flags::flag("allow-origin", "NAME", "", |config: &mut $config, text, _| {
            $crate::flags::value::host(text, false).map(|host| config.allow_origins.push(host))
        })
        .absent("loopback names")
        .repeatable()
        .help("A further host name accepted in Origin only.")
    };
    ($config:ty, trusted_proxy) => {
        $crate::flags::flag("trusted-proxy", "CIDR", "", |config: &mut $config, text, _| {
            $crate::flags::value::cidr(text).map(|cidr| config.trusted_proxies.push(cidr))
        })
        .absent("none")
        .repeatable()
        .help("A network whose Forwarded and X-Forwarded-For headers are believed.")
    };
    ($config:ty, redis_url) => {
        $crate::flags::flag("redis-url", "URL", "", |config: &mut $config, text, _| {
            $crate::flags::value::parsed(text).map(|url| config.redis_url = Some(url))
        })
        .absent("none; it must be given")
        .secret()
        .help(
            "Where Redis is: redis://HOST:PORT, redis+sentinel://HOST:PORT,HOST:PORT/NAME or\n      \
             redis+cluster://HOST:PORT,HOST:PORT.",
        )
    };
    ($config:ty, durability) => {
        $crate::flags::flag("durability", "d0|d1|d2|d3|d4", "d1", |config: &mut $config, text, _| {
            $crate::flags::value::parsed(text).map(|level| config.durability = level)
        })
        .help(
            "What Redis must promise before an answer: d0 nothing, d1 append-only file flushed\n      \
             each second, d2 flushed before each answer, d3 also on a replica, d4 also flushed\n      \
             there.",
        )
    };
    ($config:ty, region) => {
        $crate::flags::flag("region", "NAME", "local", |config: &mut $config, text, _| {
            $crate::flags::value::region(text).map(|region| config.region = region)
        })
        .help("The region this process is part of; its nodes and gateways say the same.")
    };
    ($config:ty, tls_cert) => {
        $crate::row!(@pem $config, certificate, "tls-cert")
            .help("This process's certificate, PEM, shown on both ends of links to nodes and to other\n      regions.")
    };
    ($config:ty, tls_key) => {
        $crate::row!(@pem $config, key, "tls-key").help("Its private key, PEM.")
    };
    ($config:ty, tls_ca) => {
        $crate::row!(@pem $config, authority, "tls-ca")
            .help("Whose certificates the other end of such a link must show, PEM. With it, nodes and\n      gateways only talk to holders of one.")
    };
    ($config:ty, wait_period_ms) => {
        $crate::row!(@number $config, wait_period_ms, "wait-period-ms", "MS", "10000", PERIOD)
            .help("How often an agent may poll while nothing happens.")
    };
    ($config:ty, wait_active_period_ms) => {
        $crate::row!(@number $config, wait_active_period_ms, "wait-active-period-ms", "MS", "2000", PERIOD)
            .help("How often it may poll while there is news.")
    };
    ($config:ty, wait_burst) => {
        $crate::row!(@number $config, wait_burst, "wait-burst", "N", "3", BURST)
            .help("How many polls it may save up.")
    };
    ($config:ty, hold_ms_max) => {
        $crate::row!(@number $config, hold_ms_max, "hold-ms-max", "MS", "5000", HOLD)
            .help("Longest a wait is held open, with --mcp-longpoll-enabled.")
    };
    ($config:ty, guard_join_per_minute) => {
        $crate::row!(@number $config, guard_join_per_minute, "guard-join-per-minute", "N", "10", COUNT)
            .help("Joins and creations per client address.")
    };
    ($config:ty, guard_info_per_minute) => {
        $crate::row!(@number $config, guard_info_per_minute, "guard-info-per-minute", "N", "60", COUNT)
            .help("room_info calls per client address.")
    };
    ($config:ty, guard_call_per_minute) => {
        $crate::row!(@number $config, guard_call_per_minute, "guard-call-per-minute", "N", "240", COUNT)
            .help("Calls per participant handle; blobs weigh 8.")
    };
    ($config:ty, body_bytes_max) => {
        $crate::row!(@number $config, body_bytes_max, "body-bytes-max", "BYTES", "2097152", BODY)
            .help("Largest request body.")
    };
    ($config:ty, connections_max) => {
        $crate::row!(@number $config, connections_max, "connections-max", "N", "10000", COUNT)
            .help("Open client connections; further ones get 503, very many are closed unanswered.")
    };
    ($config:ty, inflight_max) => {
        $crate::row!(@number $config, inflight_max, "inflight-max", "N", "4096", COUNT)
            .help("Requests worked on at a time; further ones get 503 with Retry-After.")
    };
    ($config:ty, header_timeout_ms) => {
        $crate::row!(@number $config, header_timeout_ms, "header-timeout-ms", "MS", "10000", PERIOD)
            .help("Longest a client may take to send a request's headers.")
    };
    ($config:ty, body_timeout_ms) => {
        $crate::row!(@number $config, body_timeout_ms, "body-timeout-ms", "MS", "30000", PERIOD)
            .help("Longest it may take to send the body.")
    };
    ($config:ty, idle_to_stub_ms) => {
        $crate::row!(@number $config, idle_to_stub_ms, "idle-to-stub-ms", "MS", "30000", PERIOD)
            .help("A room without commands this long falls asleep; polls do not wake it.")
    };
    ($config:ty, stub_to_cold_ms) => {
        $crate::row!(@number $config, stub_to_cold_ms, "stub-to-cold-ms", "MS", "600000", PERIOD)
            .help("A sleeping room not polled this long leaves memory altogether.")
    };
    ($config:ty, agent_lease_ms) => {
        $crate::row!(@number $config, agent_lease_ms, "agent-lease-ms", "MS", "90000", PERIOD)
            .help("A silent agent stays a participant this long.")
    };
    ($config:ty, empty_room_ms) => {
        $crate::row!(@number $config, empty_room_ms, "empty-room-ms", "MS", "1800000", PERIOD)
            .help("An empty room is kept this long, then deleted.")
    };
    ($config:ty, shed_queue_age_ms) => {
        $crate::row!(@number $config, shed_queue_age_ms, "shed-queue-age-ms", "MS", "100", THRESHOLD)
            .help("Refuse calls, polls first and writes last, while every call waits longer than this\n      for its turn; 0 never.")
    };
    ($config:ty, mcp_longpoll_enabled) => {
        $crate::row!(@boolean $config, mcp_longpoll_enabled, "mcp-longpoll-enabled", "false")
            .seed("MCP_LONGPOLL_ENABLED")
            .help("Hold a wait open until something happens.")
    };
    ($config:ty, room_apps_enabled) => {
        $crate::row!(@boolean $config, room_apps_enabled, "room-apps-enabled", "true")
            .seed("ROOM_APPS_ENABLED")
            .help("Offer the operator's catalog of Room Apps.")
    };
    ($config:ty, room_apps) => {
        $crate::flags::flag("room-apps", "FILE", "", |config: &mut $config, text, source| {
            $crate::flags::value::app_catalog(text, source).map(|apps| config.room_apps = apps)
        })
        .absent("an empty catalog")
        .help("The catalog: JSON, a list of {\"appId\":...,\"title\":...}.")
    };
    ($config:ty, app_url) => {
        $crate::flags::flag("app-url", "URL", "", |config: &mut $config, text, _| {
            $crate::flags::value::url(text).map(|url| config.app_url = Some(url))
        })
        .absent("made from the listen address")
        .seed("APP_URL")
        .help("What invitations begin with, for example https://rooms.example.org.")
    };
    ($config:ty, log_format) => {
        $crate::flags::flag("log-format", "text|json", "", |config: &mut $config, text, _| {
            $crate::flags::value::log_format(text).map(|format| config.log_format = Some(format))
        })
        .absent("text on a terminal, else json")
        .help("Form of the log lines on stderr.")
    };
    ($config:ty, log) => {
        $crate::row!(@value $config, log, "log", "FILTER", "info", log_filter)
            .help("What is logged: a level, or a list such as `info,gateway=debug`.")
    };
    (@value $config:ty, $field:ident, $name:literal, $unit:literal, $default:literal, $read:ident) => {
        $crate::flags::flag($name, $unit, $default, |config: &mut $config, text, _| {
            $crate::flags::value::$read(text).map(|value| config.$field = value)
        })
    };
    (@pem $config:ty, $field:ident, $name:literal) => {
        $crate::flags::flag($name, "FILE", "", |config: &mut $config, text, source| {
            $crate::flags::tls::pem(text, source).map(|pem| config.tls.$field = pem)
        })
        .absent("none; links are not encrypted")
    };
    (@number $config:ty, $field:ident, $name:literal, $unit:literal, $default:literal, $limits:ident) => {
        $crate::flags::flag($name, $unit, $default, |config: &mut $config, text, _| {
            let limits = $crate::flags::value::$limits;
            $crate::flags::value::number(text, limits).map(|n| config.$field = n)
        })
    };
    (@boolean $config:ty, $field:ident, $name:literal, $default:literal) => {
        $crate::flags::flag(
            $name,
            $crate::flags::BOOL,
            $default,
            |config: &mut $config, text, _| {
                $crate::flags::value::boolean(text).map(|on| config.$field = on)
            },
        )
    };
}
