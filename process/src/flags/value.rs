//! Values as people write them, parsed into types that cannot be wrong. An error is the rest of a
//! sentence that names the flag.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use serde::Deserialize;

use super::Source;

/// Form of the log lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    Text,
    Json,
}

/// One entry of the operator's catalog of Room Apps.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct AppEntry {
    pub app_id: String,
    pub title: String,
}

/// Inclusive bounds of a number.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    pub min: u64,
    pub max: u64,
}

/// Longest name of a region, in bytes: part of every handle, which is bounded (ours 5).
pub const REGION_BYTES_MAX: usize = 24;
/// A day: no period is longer, so that sums of periods cannot overflow.
const MS_MAX: u64 = 86_400_000;
/// Periods, in milliseconds.
pub const PERIOD: Limits = Limits { min: 1, max: MS_MAX };
/// Polls saved up.
pub const BURST: Limits = Limits { min: 1, max: 100 };
/// Within the time that service managers give a process to end, in milliseconds.
pub const PRE_STOP: Limits = Limits { min: 0, max: 60_000 };
/// The contract's bound of a held wait (ours 9), in milliseconds.
pub const HOLD: Limits = Limits { min: 0, max: 25_000 };
/// A time above which something happens, in milliseconds; 0 for never.
pub const THRESHOLD: Limits = Limits { min: 0, max: MS_MAX };
/// A part, in percent; 0 for never.
pub const PERCENT: Limits = Limits { min: 0, max: 100 };
pub const COUNT: Limits = Limits { min: 1, max: 100_000_000 };
/// Below 1 KiB not even a handshake fits; above 64 MiB one body could starve the process. Bytes.
pub const BODY: Limits = Limits { min: 1024, max: 64 * 1024 * 1024 };

/// Largest catalog of Room Apps, in entries: every wait answer may list all of them.
pub const ROOM_APPS_MAX: usize = 16;

pub fn number<N: TryFrom<u64>>(text: &str, limits: Limits) -> Result<N, String> {
    let expected = || format!("expected a whole number from {} to {}", limits.min, limits.max);
    let number = u64::from_str(text).map_err(|_| expected())?;
    if number < limits.min || number > limits.max {
        return Err(expected());
    }
    N::try_from(number).map_err(|_| expected())
}

/// A value whose type knows how it is written.
pub fn parsed<T: FromStr<Err: std::fmt::Display>>(text: &str) -> Result<T, String> {
    text.parse().map_err(|error: T::Err| error.to_string())
}

/// The name of a region; the clear tag of every handle begins with it.
pub fn region(text: &str) -> Result<String, String> {
    let plain =
        text.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-');
    if (1..=REGION_BYTES_MAX).contains(&text.len()) && plain {
        return Ok(text.to_owned());
    }
    Err(format!("expected 1 to {REGION_BYTES_MAX} of a-z, 0-9 and -"))
}

/// `HOST:PORT` as others reach it; the host may be a name.
pub fn host_port(text: &str) -> Result<String, String> {
    let plain = |host: &str| {
        let allowed = |c: char| c.is_ascii_alphanumeric() || "-._:[]".contains(c);
        !host.is_empty() && host.chars().all(allowed)
    };
    match text.rsplit_once(':') {
        Some((host, port)) if plain(host) && port.parse::<u16>().is_ok_and(|port| port > 0) => {
            Ok(text.to_owned())
        }
        _ => Err("expected HOST:PORT, for example 10.0.0.7:7070".to_owned()),
    }
}

pub fn boolean(text: &str) -> Result<bool, String> {
    match text {
        "true" | "1" => Ok(true),
        "false" | "0" => Ok(false),
        _ => Err("expected true or false".to_owned()),
    }
}

pub fn address(text: &str) -> Result<SocketAddr, String> {
    let local = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    local
        .as_deref()
        .unwrap_or(text)
        .parse()
        .map_err(|_| "expected IP:PORT, for example 127.0.0.1:8080 or [::]:8080".to_owned())
}

pub fn path(text: &str) -> Result<PathBuf, String> {
    if text.is_empty() { Err("expected a path".to_owned()) } else { Ok(PathBuf::from(text)) }
}

/// A host name, without scheme; `*` where `any` allows it.
pub fn host(text: &str, any: bool) -> Result<String, String> {
    // An origin has a scheme, a host has none.
    let origin = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    let name = origin.filter(|_| !any).map_or(text, |name| name.trim_end_matches('/'));
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-._[]:".contains(c);
    if (any && name == "*") || (!name.is_empty() && name.chars().all(allowed)) {
        return Ok(name.to_ascii_lowercase());
    }
    Err(if any {
        "expected a host name without http:// and path, or * for any"
    } else {
        "expected a host name or an origin without path"
    }
    .to_owned())
}

/// A network, in whatever type the program keeps it.
pub fn cidr<C: FromStr>(text: &str) -> Result<C, String> {
    text.parse().map_err(|_| "expected a network, for example 10.0.0.0/8 or fd00::/8".to_owned())
}

pub fn url(text: &str) -> Result<String, String> {
    let rest = text.strip_prefix("https://").or_else(|| text.strip_prefix("http://"));
    match rest {
        Some(rest) if !rest.is_empty() && !rest.contains(['?', '#', ' ', '"']) => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err("expected http://HOST or https://HOST, without a query".to_owned()),
    }
}

pub fn log_format(text: &str) -> Result<LogFormat, String> {
    match text {
        "text" => Ok(LogFormat::Text),
        "json" => Ok(LogFormat::Json),
        _ => Err("expected text or json".to_owned()),
    }
}

pub fn log_filter(text: &str) -> Result<String, String> {
    tracing_subscriber::EnvFilter::try_new(text)
        .map(|_| text.to_owned())
        .map_err(|error| format!("no log filter: {error}"))
}

pub fn app_catalog(text: &str, source: &dyn Source) -> Result<Vec<AppEntry>, String> {
    let apps: Vec<AppEntry> = serde_json::from_str(&read(&path(text)?, source)?)
        .map_err(|error| format!("no list of {{appId,title}}: {error}"))?;
    if apps.len() > ROOM_APPS_MAX {
        return Err(format!("lists {} apps, at most {ROOM_APPS_MAX}", apps.len()));
    }
    for (at, app) in apps.iter().enumerate() {
        if app.app_id.is_empty() || app.title.is_empty() {
            return Err(format!("entry {at} has an empty appId or title"));
        }
        if apps.iter().take(at).any(|earlier| earlier.app_id == app.app_id) {
            return Err(format!("entry {at} repeats appId {}", app.app_id));
        }
    }
    Ok(apps)
}

/// The text of a file that a flag names.
pub fn read(path: &Path, source: &dyn Source) -> Result<String, String> {
    source.read(path).map_err(|error| format!("cannot be read: {error}"))
}
