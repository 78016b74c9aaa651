//! The table of flags: those of this program alone, and the rows it shares with others.

use process::flags::value::{self, PERCENT, PERIOD, THRESHOLD};
use process::flags::{Flag, flag};
use process::row;

use super::Config;

/// Every flag, in the order of help.
pub(super) const FLAGS: &[Flag<Config>] = &[
    flag("listen", "ADDR", "127.0.0.1:7070", |config: &mut Config, text, _| {
        value::address(text).map(|addr| config.listen = addr)
    })
    .help("Where gateways connect, HOST:PORT; port 0 picks a free one. Keep it private,\n      or give it certificates."),
    row!(Config, admin_listen),
    row!(Config, redis_url),
    row!(Config, durability),
    row!(Config, region),
    flag("advertise", "HOST:PORT", "", |config: &mut Config, text, _| {
        value::host_port(text).map(|address| config.advertise = Some(address))
    })
    .absent("where it listens")
    .help("Where gateways reach this node, if that is another address."),
    row!(Config, tls_cert),
    row!(Config, tls_key),
    row!(Config, tls_ca),
    flag("node-id", "ID", "", |config: &mut Config, text, _| {
        super::node_id(text).map(|id| config.node_id = Some(id))
    })
    .absent("the advertised address")
    .help("The node's name in the ring; it stays the same over restarts."),
    flag("node-ttl-ms", "MS", "5000", |config: &mut Config, text, _| {
        value::number(text, PERIOD).map(|ms| config.node_ttl_ms = ms)
    })
    .help("A silent node is given up after this; its rooms then move."),
    flag("node-heartbeat-ms", "MS", "1000", |config: &mut Config, text, _| {
        value::number(text, PERIOD).map(|ms| config.node_heartbeat_ms = ms)
    })
    .help("How often it says that it lives; at most a quarter of --node-ttl-ms."),
    row!(Config, wait_period_ms),
    row!(Config, wait_active_period_ms),
    row!(Config, wait_burst),
    row!(Config, hold_ms_max),
    row!(Config, idle_to_stub_ms),
    row!(Config, stub_to_cold_ms),
    row!(Config, agent_lease_ms),
    row!(Config, empty_room_ms),
    row!(Config, shed_queue_age_ms),
    flag("shed-cpu-percent", "N", "90", |config: &mut Config, text, _| {
        value::number(text, PERCENT).map(|percent| config.shed_cpu_percent = percent)
    })
    .help("The same, but never of writes, while this process uses more of the processors it may\n      use; 0 never."),
    flag("shed-store-p99-ms", "MS", "250", |config: &mut Config, text, _| {
        value::number(text, THRESHOLD).map(|ms| config.shed_store_p99_ms = ms)
    })
    .help("The same while more than one in a hundred answers of Redis takes longer; 0 never."),
    row!(Config, mcp_longpoll_enabled),
    row!(Config, room_apps_enabled),
    row!(Config, room_apps),
    row!(Config, app_url)
        .help("A setting of the gateways; accepted here so that both can be given the same, and\n      not used."),
    row!(Config, log_format),
    row!(Config, log),
];
