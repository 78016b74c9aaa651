//! Every flag of `roomring`: one table with name, unit, default and help, read through a trait.
//!
//! Precedence: flag, then environment `ROOMRING_<FLAG>`, then the seeds' own name, then default.
//! Every mistake is reported at once, before a port is bound. Names and defaults are those of
//! interfaces.md "Command lines"; `--help` is a golden file. What is absent: a configuration
//! file, and flags of a cluster (`roomring` is one process).

mod table;
mod value;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use gateway::client_addr::Cidr;

pub use value::{AppEntry, LogFormat, Sync};

use table::{FLAGS, Flag};

/// Where values that are no arguments come from; tests hand in a map, the binary the process.
pub trait Source {
    /// All environment variables.
    fn variables(&self) -> BTreeMap<String, String>;
    /// The text of a file named by a flag.
    ///
    /// # Errors
    /// Whatever the operating system says about the file.
    fn read(&self, path: &Path) -> std::io::Result<String>;
}

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
    pub mcp_longpoll_enabled: bool,
    pub room_apps_enabled: bool,
    /// The catalog of `--room-apps FILE`; empty without one.
    pub room_apps: Vec<AppEntry>,
    pub app_url: Option<String>,
    pub log_format: Option<LogFormat>,
    pub log: String,
}

/// What the command line asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// Serve. Warnings are for stderr, one line each.
    Serve { config: Box<Config>, warnings: Vec<String> },
    /// Print this and exit 0.
    Print(String),
}

/// Every mistake of the command line and environment, one sentence each.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mistakes(pub Vec<String>);

impl std::fmt::Display for Mistakes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        for mistake in &self.0 {
            writeln!(f, "roomring: {mistake}")?;
        }
        f.write_str("roomring: nothing was started; `roomring --help` lists every flag")
    }
}

const ENV_PREFIX: &str = "ROOMRING_";

/// Reads arguments (without the program's name) and environment.
///
/// # Errors
/// Every mistake at once; nothing has been bound, made or changed.
pub fn parse(
    args: impl IntoIterator<Item = String>,
    source: &dyn Source,
) -> Result<Command, Mistakes> {
    let mut reader = Reader { source, mistakes: Vec::new(), warnings: Vec::new() };
    let given = match reader.arguments(args) {
        Given::Print(text) => return Ok(Command::Print(text)),
        Given::Flags(given) => given,
    };
    let variables = source.variables();
    let mut config = blank();
    for flag in FLAGS {
        reader.settle(&mut config, flag, &given, &variables);
    }
    reader.unknown_variables(&variables);
    reader.relations(&mut config, &given);
    if reader.mistakes.is_empty() {
        Ok(Command::Serve { config: Box::new(config), warnings: reader.warnings })
    } else {
        Err(Mistakes(reader.mistakes))
    }
}

/// The text of `--help`.
#[must_use]
pub fn help() -> String {
    let mut out = String::from(
        "roomring: rooms where agents and people meet, over MCP, durable, in one process\n\
         \n\
         Usage: roomring [FLAG...]\n\
         \n\
         A flag wins over the environment variable ROOMRING_<FLAG> (dashes become underscores),\n\
         which wins over the default. Flags marked (repeatable) take a comma list in the\n\
         environment. An empty variable counts as not set.\n",
    );
    for flag in FLAGS {
        let unit = if flag.unit.is_empty() { String::new() } else { format!(" {}", flag.unit) };
        let repeatable = if flag.repeatable { " (repeatable)" } else { "" };
        let _ = write!(out, "\n  --{}{unit}{repeatable}\n      {}\n", flag.name, flag.help);
        let _ = writeln!(out, "      default: {}", flag.shown_default());
        if let Some(seed) = flag.seed_variable {
            let _ = writeln!(out, "      also read from: {seed}");
        }
    }
    out.push_str(
        "\n  --help, -h\n      Print this text.\n\
         \n  --version, -V\n      Print the version.\n\
         \n\
         Exit codes: 0 drained after SIGTERM or SIGINT; 1 run-time failure (port, data directory);\n\
         64 usage or configuration; 130 forced by a second signal. SIGHUP drains only a process\n\
         whose stderr is a terminal.\n",
    );
    out
}

/// The text of `--version`.
#[must_use]
pub fn version() -> String {
    format!("roomring {}\n", env!("CARGO_PKG_VERSION"))
}

type GivenFlags = BTreeMap<&'static str, Vec<String>>;

enum Given {
    Print(String),
    Flags(GivenFlags),
}

struct Reader<'a> {
    source: &'a dyn Source,
    mistakes: Vec<String>,
    warnings: Vec<String>,
}

impl Reader<'_> {
    fn arguments(&mut self, args: impl IntoIterator<Item = String>) -> Given {
        let mut given = GivenFlags::new();
        let mut args = args.into_iter().peekable();
        while let Some(arg) = args.next() {
            match arg.as_str() {
                "--help" | "-h" => return Given::Print(help()),
                "--version" | "-V" => return Given::Print(version()),
                _ => {}
            }
            let Some(rest) = arg.strip_prefix("--") else {
                self.mistakes.push(format!("unexpected argument `{arg}`: flags begin with --"));
                continue;
            };
            let (name, inline) = match rest.split_once('=') {
                Some((name, value)) => (name, Some(value.to_owned())),
                None => (rest, None),
            };
            let Some(flag) = FLAGS.iter().find(|flag| flag.name == name) else {
                self.mistakes.push(format!("unknown flag --{name}"));
                // Its value, if it has one, is not a mistake of its own.
                if inline.is_none() {
                    args.next_if(|next| !next.starts_with("--"));
                }
                continue;
            };
            let value = match (flag.unit.is_empty(), inline) {
                (_, Some(value)) => Some(value),
                (true, None) => Some("true".to_owned()),
                (false, None) => args.next_if(|next| !next.starts_with("--")),
            };
            let Some(value) = value else {
                self.mistakes.push(format!("--{name} needs a value: {}", flag.unit));
                continue;
            };
            let values = given.entry(flag.name).or_default();
            if !values.is_empty() && !flag.repeatable {
                self.mistakes.push(format!("--{name} is given more than once"));
            }
            values.push(value);
        }
        Given::Flags(given)
    }

    /// Applies the default, then whichever source of a value comes first.
    fn settle(
        &mut self,
        config: &mut Config,
        flag: &Flag,
        given: &GivenFlags,
        variables: &BTreeMap<String, String>,
    ) {
        let variable = flag.variable();
        let set = |name: &str| variables.get(name).filter(|value| !value.is_empty());
        let (origin, values) = if let Some(values) = given.get(flag.name) {
            (format!("--{}", flag.name), values.clone())
        } else if let Some(value) = set(&variable) {
            (variable, flag.split(value))
        } else if let Some((seed, value)) =
            flag.seed_variable.and_then(|seed| Some((seed, set(seed)?)))
        {
            (seed.to_owned(), flag.split(&flag.seed_value(value)))
        } else {
            (
                format!("default of --{}", flag.name),
                flag.default.map(str::to_owned).into_iter().collect(),
            )
        };
        for value in values {
            if let Err(why) = (flag.set)(config, &value, self.source) {
                self.mistakes.push(format!("{origin} `{value}`: {why}"));
            }
        }
    }

    fn unknown_variables(&mut self, variables: &BTreeMap<String, String>) {
        let known: Vec<String> = FLAGS.iter().map(Flag::variable).collect();
        for name in variables.keys().filter(|name| name.starts_with(ENV_PREFIX)) {
            if !known.contains(name) {
                self.warnings.push(format!("unknown environment variable {name} is ignored"));
            }
        }
    }

    /// What two values say together.
    fn relations(&mut self, config: &mut Config, given: &GivenFlags) {
        let any_host = self.source.variables().get("ALLOW_ANY_HOST").cloned().unwrap_or_default();
        if matches!(any_host.as_str(), "true" | "1") && config.allow_hosts.is_empty() {
            config.allow_hosts.push("*".to_owned());
        }
        if config.ephemeral && given.contains_key("data-dir") {
            self.mistakes
                .push("--ephemeral keeps nothing, so --data-dir makes no sense".to_owned());
        }
        if config.listen == config.admin_listen && config.listen.port() != 0 {
            self.mistakes.push("--listen and --admin-listen name the same address".to_owned());
        }
        if config.wait_active_period_ms > config.wait_period_ms {
            self.mistakes.push(
                "--wait-active-period-ms is longer than --wait-period-ms: news would come slower \
                 than silence"
                    .to_owned(),
            );
        }
        if !config.listen.ip().is_loopback() && config.allow_hosts.is_empty() {
            self.warnings.push(
                "listening beyond loopback without --allow-host: only IP addresses are accepted \
                 in the Host header"
                    .to_owned(),
            );
        }
    }
}

/// A configuration before any default is applied; [`parse`] sets every field from the table.
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
        mcp_longpoll_enabled: false,
        room_apps_enabled: false,
        room_apps: Vec::new(),
        app_url: None,
        log_format: None,
        log: String::new(),
    }
}
