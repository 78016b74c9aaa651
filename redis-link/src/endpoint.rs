//! Where Redis is, as the operator writes it.

use std::fmt;
use std::str::FromStr;

/// Hosts one URL may name.
const HOSTS_MAX: usize = 64;

/// A host and a port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Address {
    /// A name or an IP address, without brackets.
    pub host: String,
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// Name and password. Never printed.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct Credentials {
    pub name: Option<String>,
    pub password: Option<String>,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials")
    }
}

/// How the primaries are found.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Endpoint {
    /// `redis://[NAME:PASSWORD@]HOST[:PORT][/DB]`
    Single { address: Address, credentials: Credentials, db: i64 },
    /// `redis+sentinel://[NAME:PASSWORD@]HOST[:PORT],HOST[:PORT]/NAME`; the credentials are those
    /// of the primary, the sentinels have none.
    Sentinel { sentinels: Vec<Address>, name: String, credentials: Credentials },
    /// `redis+cluster://[NAME:PASSWORD@]HOST[:PORT],HOST[:PORT]`
    Cluster { seeds: Vec<Address>, credentials: Credentials },
}

/// What is wrong with a URL. Never holds the URL: it may have a password in it.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum EndpointError {
    #[error(
        "the Redis URL begins with redis://, redis+sentinel:// or redis+cluster://; give one of \
         these"
    )]
    Scheme,
    #[error(
        "rediss:// is not built in: TLS would bring in a library written in C; use redis:// over a \
         private network or a local TLS tunnel"
    )]
    Tls,
    #[error("the Redis URL names no host, or more than 64; write HOST or HOST:PORT, with commas")]
    Hosts,
    #[error("a port in the Redis URL is no number from 1 to 65535")]
    Port,
    #[error("the database in the Redis URL is no number; write redis://HOST:PORT/0")]
    Database,
    #[error(
        "the Redis URL names no set of primaries; write redis+sentinel://HOST:PORT,HOST:PORT/NAME"
    )]
    SentinelName,
    #[error("a Redis Cluster has no numbered databases; write redis+cluster://HOST:PORT,HOST:PORT")]
    ClusterPath,
    #[error("a % in the credentials of the Redis URL is not followed by two hexadecimal digits")]
    Percent,
}

impl FromStr for Endpoint {
    type Err = EndpointError;

    fn from_str(url: &str) -> Result<Self, Self::Err> {
        let (scheme, rest) = url.split_once("://").ok_or(EndpointError::Scheme)?;
        let (credentials, rest) = match rest.rsplit_once('@') {
            Some((before, rest)) => (credentials(before)?, rest),
            None => (Credentials::default(), rest),
        };
        let (hosts, path) = rest.split_once('/').unwrap_or((rest, ""));
        match scheme {
            "redis" => {
                let mut hosts = addresses(hosts, 6_379)?;
                let address = hosts.pop().ok_or(EndpointError::Hosts)?;
                if !hosts.is_empty() {
                    return Err(EndpointError::Hosts);
                }
                let db = if path.is_empty() { Ok(0) } else { path.parse() };
                let db = db.map_err(|_| EndpointError::Database)?;
                Ok(Self::Single { address, credentials, db })
            }
            "redis+sentinel" if path.is_empty() => Err(EndpointError::SentinelName),
            "redis+sentinel" => {
                let sentinels = addresses(hosts, 26_379)?;
                Ok(Self::Sentinel { sentinels, name: path.to_owned(), credentials })
            }
            "redis+cluster" if !path.is_empty() => Err(EndpointError::ClusterPath),
            "redis+cluster" => Ok(Self::Cluster { seeds: addresses(hosts, 6_379)?, credentials }),
            "rediss" | "rediss+sentinel" | "rediss+cluster" => Err(EndpointError::Tls),
            _ => Err(EndpointError::Scheme),
        }
    }
}

fn credentials(text: &str) -> Result<Credentials, EndpointError> {
    let (name, password) = match text.split_once(':') {
        Some((name, password)) => (name, Some(decoded(password)?)),
        None => (text, None),
    };
    let name = if name.is_empty() { None } else { Some(decoded(name)?) };
    Ok(Credentials { name, password })
}

/// `%XX` into bytes.
fn decoded(text: &str) -> Result<String, EndpointError> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || bytes.next().and_then(|byte| char::from(byte).to_digit(16));
        let (Some(high), Some(low)) = (digit(), digit()) else {
            return Err(EndpointError::Percent);
        };
        out.push(u8::try_from(high * 16 + low).map_err(|_| EndpointError::Percent)?);
    }
    String::from_utf8(out).map_err(|_| EndpointError::Percent)
}

fn addresses(text: &str, port: u16) -> Result<Vec<Address>, EndpointError> {
    let found: Result<Vec<_>, _> = text.split(',').map(|one| address(one, port)).collect();
    let found = found?;
    if found.len() > HOSTS_MAX { Err(EndpointError::Hosts) } else { Ok(found) }
}

fn address(text: &str, default: u16) -> Result<Address, EndpointError> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, after) = rest.split_once(']').ok_or(EndpointError::Hosts)?;
            (host, after.strip_prefix(':'))
        }
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    if host.is_empty() {
        return Err(EndpointError::Hosts);
    }
    let port = match port {
        None => default,
        Some(port) => match port.parse() {
            Ok(0) | Err(_) => return Err(EndpointError::Port),
            Ok(port) => port,
        },
    };
    Ok(Address { host: host.to_owned(), port })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(host: &str, port: u16) -> Address {
        Address { host: host.to_owned(), port }
    }

    #[test]
    fn each_form_is_read() {
        assert_eq!(
            "redis://:p%40ss@[::1]:7000/3".parse(),
            Ok(Endpoint::Single {
                address: at("::1", 7_000),
                credentials: Credentials { name: None, password: Some("p@ss".to_owned()) },
                db: 3,
            })
        );
        assert_eq!(
            "redis+sentinel://a,b:5/rooms".parse(),
            Ok(Endpoint::Sentinel {
                sentinels: vec![at("a", 26_379), at("b", 5)],
                name: "rooms".to_owned(),
                credentials: Credentials::default(),
            })
        );
        assert_eq!(
            "redis+cluster://me:x@a:1,b:2".parse(),
            Ok(Endpoint::Cluster {
                seeds: vec![at("a", 1), at("b", 2)],
                credentials: Credentials {
                    name: Some("me".to_owned()),
                    password: Some("x".to_owned())
                },
            })
        );
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (url, wrong) in [
            ("localhost:6379", EndpointError::Scheme),
            ("http://a", EndpointError::Scheme),
            ("rediss://a", EndpointError::Tls),
            ("redis+cluster://a,b/0", EndpointError::ClusterPath),
            ("redis://", EndpointError::Hosts),
            ("redis://a,b", EndpointError::Hosts),
            ("redis://a:0", EndpointError::Port),
            ("redis://a/x", EndpointError::Database),
            ("redis+sentinel://a", EndpointError::SentinelName),
            ("redis://:%4@a", EndpointError::Percent),
        ] {
            assert_eq!(url.parse::<Endpoint>(), Err(wrong), "{url}");
        }
    }

    #[test]
    fn a_url_names_so_many_hosts() {
        let url = |hosts: usize| format!("redis+cluster://{}", vec!["a"; hosts].join(","));
        let full = url(HOSTS_MAX).parse();
        assert!(
            matches!(full, Ok(Endpoint::Cluster { ref seeds, .. }) if seeds.len() == HOSTS_MAX),
            "{full:?}"
        );
        assert_eq!(url(HOSTS_MAX + 1).parse::<Endpoint>(), Err(EndpointError::Hosts));
    }

    #[test]
    fn a_password_is_never_printed() {
        let endpoint: Endpoint = "redis://me:geheim@a".parse().unwrap();
        assert!(!format!("{endpoint:?}").contains("geheim"));
        let wrong = "redis://me:geheim@a:x".parse::<Endpoint>().unwrap_err();
        assert!(!format!("{wrong} {wrong:?}").contains("geheim"));
    }
}
