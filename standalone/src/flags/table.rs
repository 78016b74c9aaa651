//! The table of flags: those of this program alone, and the rows it shares with others.

use process::flags::value::{self, PERCENT, THRESHOLD};
use process::flags::{Flag, flag};
use process::row;

use super::{Config, sync};

/// Every flag, in the order of help.
pub(super) const FLAGS: &[Flag<Config>] = &[
    flag("listen", "ADDR", "127.0.0.1:8080", |config: &mut Config, text, _| {
        value::address(text).map(|addr| config.listen = addr)
    })
    .help("Where agents connect, HOST:PORT; port 0 picks a free one."),
    row!(Config, admin_listen),
    flag("data-dir", "DIR", "./roomring-data", |config: &mut Config, text, _| {
        value::path(text).map(|path| config.data_dir = path)
    })
    .help("Where rooms are kept; made if it is absent. One process at a time."),
    flag("ephemeral", "", "false", |config: &mut Config, text, _| {
        value::boolean(text).map(|on| config.ephemeral = on)
    })
    .help("Keep rooms in memory only: everything is gone when the process ends."),
    flag("sync", "always|every-ms=N", "always", |config: &mut Config, text, _| {
        sync::sync(text).map(|sync| config.sync = sync)
    })
    .help("When writes reach the disk: before each answer, or every N ms (a power cut may\n      then lose the last N ms; a killed process loses nothing)."),
    flag("handle-keys-file", "FILE", "", |config: &mut Config, text, source| {
        gateway::flags::key_file(text, source).map(|path| config.handle_keys_file = Some(path))
    })
    .absent("DATA-DIR/keys/handle-keys, generated once")
    .help("Keys that seal participant handles, one `kid:base64(32 bytes)` a line; the first\n      seals, all open."),
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
    row!(Config, idle_to_stub_ms),
    row!(Config, stub_to_cold_ms),
    row!(Config, agent_lease_ms),
    row!(Config, empty_room_ms),
    row!(Config, shed_queue_age_ms),
    flag("shed-cpu-percent", "N", "0", |config: &mut Config, text, _| {
        value::number(text, PERCENT).map(|percent| config.shed_cpu_percent = percent)
    })
    .help("The same, but never of writes, while this process uses more of the processors it may\n      use; 0 never."),
    flag("shed-store-p99-ms", "MS", "0", |config: &mut Config, text, _| {
        value::number(text, THRESHOLD).map(|ms| config.shed_store_p99_ms = ms)
    })
    .help("The same while more than one in a hundred writes to the disk takes longer; 0 never."),
    row!(Config, mcp_longpoll_enabled),
    row!(Config, room_apps_enabled),
    row!(Config, room_apps),
    row!(Config, app_url),
    row!(Config, log_format),
    row!(Config, log),
];
