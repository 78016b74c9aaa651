//! Which `Host` and `Origin` may speak to `/mcp`, and what browsers are told (rooms 1.6, ours 4,
//! mcp.md pitfalls 7 and 12). Pure.

use std::net::IpAddr;

use http::header::{
    ACCESS_CONTROL_ALLOW_HEADERS, ACCESS_CONTROL_ALLOW_METHODS, ACCESS_CONTROL_ALLOW_ORIGIN,
    ACCESS_CONTROL_EXPOSE_HEADERS, ACCESS_CONTROL_MAX_AGE, HOST, ORIGIN, VARY,
};
use http::{HeaderMap, HeaderValue, Uri};

use super::Settings;

/// Names that always pass.
const LOOPBACK: [&str; 3] = ["localhost", "127.0.0.1", "[::1]"];
/// How long a browser may keep a preflight answer, in seconds.
const PREFLIGHT_AGE_S: &str = "86400";

/// The allow lists.
#[derive(Clone, Debug)]
pub struct Rules {
    any: bool,
    ip_literals: bool,
    hosts: Vec<String>,
    origins: Vec<String>,
}

/// Why a request may not speak to `/mcp`: 403 with this text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Forbidden(pub String);

/// What the answer tells the browser.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Allowed {
    /// No origin was named: no browser asks.
    Silent,
    /// This origin, literally.
    Origin(HeaderValue),
}

impl Rules {
    /// Takes the lists of the settings; names are compared without port and case.
    #[must_use]
    pub fn new(settings: &Settings) -> Self {
        let app_host = settings.app_url.as_deref().and_then(host_of_origin);
        let hosts = settings
            .allowed_hosts
            .iter()
            .map(|name| host_of_origin(name).unwrap_or_else(|| bare(name)))
            .chain(app_host)
            .collect();
        let origins = settings
            .allowed_origins
            .iter()
            .map(|name| host_of_origin(name).unwrap_or_else(|| bare(name)))
            .collect();
        Self {
            any: settings.allow_any_host,
            ip_literals: settings.allow_ip_literal_hosts,
            hosts,
            origins,
        }
    }

    /// Checks `Host`, then `Origin`. An HTTP/1.1 request target in absolute form stands in for
    /// `Host`.
    pub fn check(&self, uri: &Uri, headers: &HeaderMap) -> Result<Allowed, Forbidden> {
        let host = self.check_host(uri, headers)?;
        let mut origins = headers.get_all(ORIGIN).iter();
        let Some(origin) = origins.next() else { return Ok(Allowed::Silent) };
        if self.any {
            return Ok(Allowed::Origin(origin.clone()));
        }
        let text = origin.to_str().unwrap_or("");
        if text == "null" {
            return Err(Forbidden("Invalid Origin header: null".to_owned()));
        }
        let shown = || Forbidden(format!("Invalid Origin: {}", crate::mcp::headers::echo(text)));
        if origins.next().is_some() {
            return Err(shown());
        }
        let name = host_of_origin(text).ok_or_else(shown)?;
        let same_literal = self.ip_literals && is_ip_literal(&name) && name == host;
        if same_literal || self.is_listed(&name) || self.origins.contains(&name) {
            Ok(Allowed::Origin(origin.clone()))
        } else {
            Err(shown())
        }
    }

    fn check_host(&self, uri: &Uri, headers: &HeaderMap) -> Result<String, Forbidden> {
        let mut values = headers.get_all(HOST).iter();
        let text = match (uri.authority(), values.next()) {
            (Some(authority), _) => authority.as_str(),
            (None, Some(value)) => value.to_str().unwrap_or(""),
            (None, None) if self.any => "",
            (None, None) => return Err(Forbidden("Missing Host header".to_owned())),
        };
        let name = bare(text);
        let passes = self.any
            || (values.next().is_none()
                && (self.is_listed(&name) || (self.ip_literals && is_ip_literal(&name))));
        if passes {
            Ok(name)
        } else {
            Err(Forbidden(format!("Invalid Host: {}", crate::mcp::headers::echo(text))))
        }
    }

    fn is_listed(&self, name: &str) -> bool {
        LOOPBACK.contains(&name) || self.hosts.iter().any(|host| host == name)
    }
}

impl Allowed {
    /// Adds the CORS headers; `allow_headers` is what a browser may send.
    pub fn write(&self, headers: &mut HeaderMap, allow_headers: &HeaderValue) {
        let Self::Origin(origin) = self else { return };
        headers.insert(ACCESS_CONTROL_ALLOW_ORIGIN, origin.clone());
        headers.insert(VARY, HeaderValue::from_static("origin"));
        headers.insert(ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("POST, OPTIONS"));
        headers.insert(ACCESS_CONTROL_ALLOW_HEADERS, allow_headers.clone());
        headers.insert(ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("retry-after"));
        headers.insert(ACCESS_CONTROL_MAX_AGE, HeaderValue::from_static(PREFLIGHT_AGE_S));
    }
}

/// The host name of `scheme://host[:port]`; anything more or less is no origin.
fn host_of_origin(text: &str) -> Option<String> {
    let (scheme, rest) = text.split_once("://")?;
    let rest = rest.strip_suffix('/').unwrap_or(rest);
    let is_scheme = !scheme.is_empty()
        && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
    let is_host = !rest.is_empty() && !rest.contains(['/', '@', '?', '#', '\\', ' ', ',']);
    (is_scheme && is_host).then(|| bare(rest)).filter(|name| !name.is_empty())
}

/// A host name in lower case, without its port and a final dot.
fn bare(host: &str) -> String {
    let host = host.trim();
    let name = if host.starts_with('[') {
        match host.find(']') {
            Some(end) => host.get(..=end).unwrap_or(host),
            None => host,
        }
    } else {
        match host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
            _ => host,
        }
    };
    name.strip_suffix('.').unwrap_or(name).to_ascii_lowercase()
}

fn is_ip_literal(name: &str) -> bool {
    match name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')) {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => matches!(name.parse::<IpAddr>(), Ok(IpAddr::V4(_))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn verdict(rules: &Rules, host: Option<&str>, origin: Option<&str>) -> String {
        let mut headers = HeaderMap::new();
        if let Some(host) = host {
            headers.insert(HOST, HeaderValue::from_str(host).expect("a value"));
        }
        if let Some(origin) = origin {
            headers.insert(ORIGIN, HeaderValue::from_str(origin).expect("a value"));
        }
        match rules.check(&Uri::from_static("/mcp"), &headers) {
            Ok(Allowed::Silent) => "silent".to_owned(),
            Ok(Allowed::Origin(origin)) => format!("allow {}", origin.to_str().expect("text")),
            Err(Forbidden(text)) => text,
        }
    }

    #[test]
    fn host_then_origin() {
        let rules = Rules::new(&Settings {
            allowed_hosts: vec!["Rooms.Example:443".into()],
            allowed_origins: vec!["https://app.example".into(), "bare.example".into()],
            app_url: Some("https://public.example/".into()),
            ..Settings::default()
        });
        let home = Some("localhost:8080");
        let table = [
            (home, None, "silent"),
            (Some("127.0.0.1"), None, "silent"),
            (Some("[::1]:9"), None, "silent"),
            (Some("LOCALHOST."), None, "silent"),
            (Some("rooms.example:8443"), None, "silent"),
            (Some("public.example"), None, "silent"),
            (None, None, "Missing Host header"),
            (Some("evil.example"), None, "Invalid Host: evil.example"),
            (Some("app.example"), None, "Invalid Host: app.example"),
            (Some("localhost.evil.example"), None, "Invalid Host: localhost.evil.example"),
            (Some("192.168.1.5:8080"), None, "Invalid Host: 192.168.1.5:8080"),
            (Some(""), None, "Invalid Host: "),
            (Some("evil.example"), Some("http://evil.example"), "Invalid Host: evil.example"),
            (home, Some("http://localhost:3000"), "allow http://localhost:3000"),
            (home, Some("https://app.example"), "allow https://app.example"),
            (home, Some("https://bare.example:1"), "allow https://bare.example:1"),
            (home, Some("https://rooms.example"), "allow https://rooms.example"),
            (home, Some("null"), "Invalid Origin header: null"),
            (home, Some("http://evil.example"), "Invalid Origin: http://evil.example"),
            (home, Some("localhost"), "Invalid Origin: localhost"),
            (
                home,
                Some("http://localhost@evil.example"),
                "Invalid Origin: http://localhost@evil.example",
            ),
            (
                home,
                Some("http://evil.example/localhost"),
                "Invalid Origin: http://evil.example/localhost",
            ),
            (home, Some(""), "Invalid Origin: "),
        ];
        for (host, origin, expected) in table {
            assert_eq!(verdict(&rules, host, origin), expected, "{host:?} {origin:?}");
        }
    }

    #[test]
    fn ip_literals_pass_only_when_told_and_origins_only_the_same() {
        let rules = Rules::new(&Settings { allow_ip_literal_hosts: true, ..Settings::default() });
        for (host, origin, expected) in [
            ("192.168.1.5:8080", None, "silent"),
            ("[fe80::1]:8080", None, "silent"),
            ("192.168.1.5", Some("http://192.168.1.5:3000"), "allow http://192.168.1.5:3000"),
            ("192.168.1.5", Some("http://6.6.6.6"), "Invalid Origin: http://6.6.6.6"),
            ("1.2.3", None, "Invalid Host: 1.2.3"),
            ("[x]", None, "Invalid Host: [x]"),
            ("evil.example", None, "Invalid Host: evil.example"),
        ] {
            assert_eq!(verdict(&rules, Some(host), origin), expected, "{host} {origin:?}");
        }
    }

    #[test]
    fn any_host_turns_both_checks_off() {
        let rules = Rules::new(&Settings { allow_any_host: true, ..Settings::default() });
        assert_eq!(verdict(&rules, Some("evil.example"), None), "silent");
        assert_eq!(verdict(&rules, None, Some("null")), "allow null");
    }
}
