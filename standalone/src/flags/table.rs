//! The table of flags: the one place for names, units, defaults and their reasons.

use super::value::{self, Limits};
use super::{Config, ENV_PREFIX, Source};

/// Puts one value into the configuration, or says what is wrong with it.
pub(super) type Set = fn(&mut Config, &str, &dyn Source) -> Result<(), String>;

/// One flag.
#[derive(Debug)]
pub(super) struct Flag {
    /// Without the dashes.
    pub(super) name: &'static str,
    /// How the value is written in help; empty for a switch.
    pub(super) unit: &'static str,
    /// Text that `set` accepts; `None` where absence means something of its own.
    pub(super) default: Option<&'static str>,
    /// What help says where `default` is `None`.
    pub(super) absent: &'static str,
    pub(super) repeatable: bool,
    /// The seeds' own variable for the same thing.
    pub(super) seed_variable: Option<&'static str>,
    pub(super) help: &'static str,
    pub(super) set: Set,
}

impl Flag {
    /// `--wait-period-ms` is read from `ROOMRING_WAIT_PERIOD_MS`.
    pub(super) fn variable(&self) -> String {
        format!("{ENV_PREFIX}{}", self.name.replace('-', "_").to_ascii_uppercase())
    }

    pub(super) fn shown_default(&self) -> &'static str {
        self.default.unwrap_or(self.absent)
    }

    /// The values of one variable: a comma list where the flag is repeatable.
    pub(super) fn split(&self, value: &str) -> Vec<String> {
        if self.repeatable {
            value.split(',').map(|part| part.trim().to_owned()).collect()
        } else {
            vec![value.to_owned()]
        }
    }

    /// The seeds switch their features on by exactly `true`; any other value means off.
    pub(super) fn seed_value(&self, value: &str) -> String {
        if self.unit == BOOL { (value == "true").to_string() } else { value.to_owned() }
    }
}

const BOOL: &str = "BOOL";

const fn flag(name: &'static str, unit: &'static str, default: &'static str, set: Set) -> Flag {
    Flag {
        name,
        unit,
        default: Some(default),
        absent: "",
        repeatable: false,
        seed_variable: None,
        help: "",
        set,
    }
}

impl Flag {
    const fn absent(mut self, shown: &'static str) -> Self {
        self.default = None;
        self.absent = shown;
        self
    }

    const fn repeatable(mut self) -> Self {
        self.repeatable = true;
        self
    }

    const fn seed(mut self, variable: &'static str) -> Self {
        self.seed_variable = Some(variable);
        self
    }

    const fn help(mut self, help: &'static str) -> Self {
        self.help = help;
        self
    }
}

/// A day: no period is longer, so that sums of periods cannot overflow.
const MS_MAX: u64 = 86_400_000;
const PERIOD: Limits = Limits { min: 1, max: MS_MAX };
/// The contract's bound of a held wait (ours 9).
const HOLD: Limits = Limits { min: 0, max: 25_000 };
const COUNT: Limits = Limits { min: 1, max: 100_000_000 };
/// Below 1 KiB not even a handshake fits; above 64 MiB one body could starve the process.
const BODY: Limits = Limits { min: 1024, max: 64 * 1024 * 1024 };

macro_rules! number {
    ($field:ident, $limits:expr) => {
        |config, text, _| value::number(text, $limits).map(|n| config.$field = n)
    };
}

macro_rules! boolean {
    ($field:ident) => {
        |config, text, _| value::boolean(text).map(|on| config.$field = on)
    };
}

/// Every flag, in the order of help.
pub(super) const FLAGS: &[Flag] = &[
    flag("listen", "ADDR", "127.0.0.1:8080", |config, text, _| {
        value::address(text).map(|addr| config.listen = addr)
    })
    .help("Where agents connect, HOST:PORT; port 0 picks a free one."),
    flag("admin-listen", "ADDR", "127.0.0.1:9090", |config, text, _| {
        value::address(text).map(|addr| config.admin_listen = addr)
    })
    .help("Where /livez, /readyz and /metrics are served; keep it private."),
    flag("data-dir", "DIR", "./roomring-data", |config, text, _| {
        value::path(text).map(|path| config.data_dir = path)
    })
    .help("Where rooms are kept; made if it is absent. One process at a time."),
    flag("ephemeral", "", "false", boolean!(ephemeral))
        .help("Keep rooms in memory only: everything is gone when the process ends."),
    flag("sync", "always|every-ms=N", "always", |config, text, _| {
        value::sync(text).map(|sync| config.sync = sync)
    })
    .help("When writes reach the disk: before each answer, or every N ms (a power cut may\n      then lose the last N ms; a killed process loses nothing)."),
    flag("handle-keys-file", "FILE", "", |config, text, source| {
        value::key_file(text, source).map(|path| config.handle_keys_file = Some(path))
    })
    .absent("DATA-DIR/keys/handle-keys, generated once")
    .help("Keys that seal participant handles, one `kid:base64(32 bytes)` a line; the first\n      seals, all open."),
    flag("allow-host", "NAME", "", |config, text, _| {
        value::host(text, true).map(|host| config.allow_hosts.push(host))
    })
    .absent("loopback names")
    .repeatable()
    .seed("ALLOWED_HOSTNAMES")
    .help("A further host name accepted in Host and Origin; `*` turns both checks off."),
    flag("allow-origin", "NAME", "", |config, text, _| {
        value::host(text, false).map(|host| config.allow_origins.push(host))
    })
    .absent("loopback names")
    .repeatable()
    .help("A further host name accepted in Origin only."),
    flag("trusted-proxy", "CIDR", "", |config, text, _| {
        value::cidr(text).map(|cidr| config.trusted_proxies.push(cidr))
    })
    .absent("none")
    .repeatable()
    .help("A network whose Forwarded and X-Forwarded-For headers are believed."),
    flag("wait-period-ms", "MS", "10000", number!(wait_period_ms, PERIOD))
        .help("How often an agent may poll while nothing happens."),
    flag("wait-active-period-ms", "MS", "2000", number!(wait_active_period_ms, PERIOD))
        .help("How often it may poll while there is news."),
    flag("wait-burst", "N", "3", number!(wait_burst, Limits { min: 1, max: 100 }))
        .help("How many polls it may save up."),
    flag("hold-ms-max", "MS", "5000", number!(hold_ms_max, HOLD))
        .help("Longest a wait is held open, with --mcp-longpoll-enabled."),
    flag("guard-join-per-minute", "N", "10", number!(guard_join_per_minute, COUNT))
        .help("Joins and creations per client address."),
    flag("guard-info-per-minute", "N", "60", number!(guard_info_per_minute, COUNT))
        .help("room_info calls per client address."),
    flag("guard-call-per-minute", "N", "240", number!(guard_call_per_minute, COUNT))
        .help("Calls per participant handle; blobs weigh 8."),
    flag("body-bytes-max", "BYTES", "2097152", number!(body_bytes_max, BODY))
        .help("Largest request body."),
    flag("connections-max", "N", "10000", number!(connections_max, COUNT))
        .help("Open client connections; further ones get 503, very many are closed unanswered."),
    flag("inflight-max", "N", "4096", number!(inflight_max, COUNT))
        .help("Requests worked on at a time; further ones get 503 with Retry-After."),
    flag("header-timeout-ms", "MS", "10000", number!(header_timeout_ms, PERIOD))
        .help("Longest a client may take to send a request's headers."),
    flag("body-timeout-ms", "MS", "30000", number!(body_timeout_ms, PERIOD))
        .help("Longest it may take to send the body."),
    flag("idle-to-stub-ms", "MS", "30000", number!(idle_to_stub_ms, PERIOD))
        .help("A room without commands this long falls asleep; polls do not wake it."),
    flag("stub-to-cold-ms", "MS", "600000", number!(stub_to_cold_ms, PERIOD))
        .help("A sleeping room not polled this long leaves memory altogether."),
    flag("agent-lease-ms", "MS", "90000", number!(agent_lease_ms, PERIOD))
        .help("A silent agent stays a participant this long."),
    flag("empty-room-ms", "MS", "1800000", number!(empty_room_ms, PERIOD))
        .help("An empty room is kept this long, then deleted."),
    flag("mcp-longpoll-enabled", BOOL, "false", boolean!(mcp_longpoll_enabled))
        .seed("MCP_LONGPOLL_ENABLED")
        .help("Hold a wait open until something happens."),
    flag("room-apps-enabled", BOOL, "true", boolean!(room_apps_enabled))
        .seed("ROOM_APPS_ENABLED")
        .help("Offer the operator's catalog of Room Apps."),
    flag("room-apps", "FILE", "", |config, text, source| {
        value::app_catalog(text, source).map(|apps| config.room_apps = apps)
    })
    .absent("an empty catalog")
    .help("The catalog: JSON, a list of {\"appId\":...,\"title\":...}."),
    flag("app-url", "URL", "", |config, text, _| {
        value::url(text).map(|url| config.app_url = Some(url))
    })
    .absent("made from the listen address")
    .seed("APP_URL")
    .help("What invitations begin with, for example https://rooms.example.org."),
    flag("log-format", "text|json", "", |config, text, _| {
        value::log_format(text).map(|format| config.log_format = Some(format))
    })
    .absent("text on a terminal, else json")
    .help("Form of the log lines on stderr."),
    flag("log", "FILTER", "info", |config, text, _| {
        value::log_filter(text).map(|filter| config.log = filter)
    })
    .help("What is logged: a level, or a list such as `info,gateway=debug`."),
];
