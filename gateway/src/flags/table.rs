//! The table of flags: those of this program alone, and the rows it shares with others.

use process::flags::{Flag, flag, value};
use process::row;

use super::Config;

const FOR_NODES: &str = "A setting of the nodes; accepted here so that both can be given the same, and\n      not used.";

/// Every flag, in the order of help.
pub(super) const FLAGS: &[Flag<Config>] = &[
    flag("listen", "ADDR", "127.0.0.1:8080", |config: &mut Config, text, _| {
        value::address(text).map(|addr| config.listen = addr)
    })
    .help("Where agents connect, HOST:PORT; port 0 picks a free one."),
    row!(Config, admin_listen),
    row!(Config, redis_url),
    row!(Config, durability),
    row!(Config, region),
    // After --region, which it is read for.
    flag("regions", "FILE", "", |config: &mut Config, text, source| super::regions(config, text, source))
        .absent("none; there is one region")
        .help("All regions and their peer gateways, the same in every region:\n      {\"default_region\":\"eu\",\"regions\":{\"eu\":[\"HOST:PORT\"],\"us\":[\"HOST:PORT\"]}}."),
    flag("peer-listen", "ADDR", "", |config: &mut Config, text, _| {
        value::address(text).map(|addr| config.peer_listen = Some(addr))
    })
    .absent("none; no calls are taken from other regions")
    .help("Where gateways of other regions connect, HOST:PORT, with certificates of --tls-ca."),
    row!(Config, tls_cert),
    row!(Config, tls_key),
    row!(Config, tls_ca),
    flag("handle-keys-file", "FILE", "", |config: &mut Config, text, source| {
        super::key_file(text, source).map(|path| config.handle_keys_file = Some(path))
    })
    .absent("none; it must be given")
    .help("Keys that seal participant handles, one `kid:base64(32 bytes)` a line; the first\n      seals, all open. The same for all gateways of a region."),
    row!(Config, allow_host),
    row!(Config, allow_origin),
    row!(Config, trusted_proxy),
    row!(Config, wait_period_ms),
    row!(Config, wait_active_period_ms),
    row!(Config, wait_burst),
    row!(Config, hold_ms_max),
    row!(Config, guard_join_per_minute),
    row!(Config, guard_info_per_minute),
    row!(Config, guard_call_per_minute),
    row!(Config, body_bytes_max),
    row!(Config, connections_max),
    row!(Config, inflight_max),
    row!(Config, header_timeout_ms),
    row!(Config, body_timeout_ms),
    flag("pre-stop-ms", "MS", "5000", |config: &mut Config, text, _| {
        value::number(text, value::PRE_STOP).map(|ms| config.pre_stop_ms = ms)
    })
    .help("After the signal to end: how long clients are still served while /readyz says no and\n      answers say `connection: close`; and how long idle connections stay open after that."),
    row!(Config, mcp_longpoll_enabled).help(FOR_NODES),
    row!(Config, room_apps_enabled).help(FOR_NODES),
    row!(Config, room_apps).help(FOR_NODES),
    row!(Config, app_url),
    row!(Config, log_format),
    row!(Config, log),
];
