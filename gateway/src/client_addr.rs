//! Who the client is, for admission: its address, from trusted proxies' headers where they count.
//!
//! Headers are read from the right: each trusted proxy vouches for the hop it appended, and the
//! first hop that is no trusted proxy is the client. Anything unreadable ends the walk at the last
//! hop that was vouched for, so that a forged header can only ever put its sender into the
//! proxy's own bucket.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use http::HeaderMap;
use http::header::{FORWARDED, HeaderName};

/// Longest proxy header that is read, all its lines together, in bytes.
pub const PROXY_HEADER_BYTES_MAX: usize = 4_096;
/// Most hops that are followed.
pub const PROXY_HOPS_MAX: usize = 32;

const X_FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// A client's address as admission counts it: IPv4 whole, IPv6 by its /64 (ours 19).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientAddr(IpAddr);

impl ClientAddr {
    /// Takes an address; an IPv4-mapped IPv6 address counts as IPv4.
    #[must_use]
    pub fn new(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(v4) => Self(IpAddr::V4(v4)),
            IpAddr::V6(v6) => {
                Self(IpAddr::V6(Ipv6Addr::from_bits(v6.to_bits() & (u128::MAX << 64))))
            }
        }
    }

    /// The loopback address, for calls that come by no socket.
    pub const LOOPBACK: Self = Self(IpAddr::V4(Ipv4Addr::LOCALHOST));

    /// The bytes that admission hashes; those of an IPv4 address are its mapped form.
    #[must_use]
    pub fn bits(self) -> u128 {
        bits(self.0)
    }

    /// The address that has these bits.
    #[must_use]
    pub fn from_bits(bits: u128) -> Self {
        Self::new(IpAddr::V6(Ipv6Addr::from_bits(bits)))
    }
}

/// Why a text is no block of addresses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("a block of addresses is written as 10.0.0.0/8, fd00::/8, or one address")]
pub struct CidrError;

/// A block of addresses, as `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Cidr {
    base: u128,
    mask: u128,
    text: (IpAddr, u32),
}

impl Cidr {
    /// Whether the block holds an address; IPv4-mapped addresses count as IPv4.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        // ::/0 must not take in IPv4: the mapped block would be inside it.
        self.text.0.is_ipv4() == address.to_canonical().is_ipv4()
            && bits(address) & self.mask == self.base
    }
}

impl FromStr for Cidr {
    type Err = CidrError;

    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (address, prefix) = match text.split_once('/') {
            Some((address, prefix)) => (address, Some(prefix)),
            None => (text, None),
        };
        let address = address.parse::<IpAddr>().map_err(|_no_address| CidrError)?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let prefix = match prefix {
            // No sign, no leading zeros: the number as people write it.
            Some(digits) if digits.len() > 1 && digits.starts_with('0') => return Err(CidrError),
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => {
                digits.parse::<u32>().map_err(|_no_number| CidrError)?
            }
            Some(_) => return Err(CidrError),
            None => width,
        };
        if prefix > width {
            return Err(CidrError);
        }
        let mask = u128::MAX.checked_shl(width - prefix).unwrap_or(0);
        // An IPv4 block lies in the mapped /96.
        let mask = if width == 32 { mask | (u128::MAX << 32) } else { mask };
        Ok(Self { base: bits(address) & mask, mask, text: (address, prefix) })
    }
}

impl fmt::Debug for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.text.0, self.text.1)
    }
}

/// The proxies whose headers are believed.
#[derive(Clone, Debug, Default)]
pub struct TrustedProxies(Vec<Cidr>);

impl TrustedProxies {
    /// Takes the configured blocks; none means that no header is ever read.
    #[must_use]
    pub const fn new(blocks: Vec<Cidr>) -> Self {
        Self(blocks)
    }

    /// The client behind a connection from `peer` with these headers.
    #[must_use]
    pub fn client(&self, peer: IpAddr, headers: &HeaderMap) -> ClientAddr {
        if !self.trusts(peer) {
            return ClientAddr::new(peer);
        }
        let forwarded = joined(headers, &FORWARDED);
        let listed = joined(headers, &X_FORWARDED_FOR);
        let client = match (forwarded, listed) {
            (Header::Absent, Header::Absent) => peer,
            (Header::Text(text), Header::Absent) => self.walk(peer, forwarded_hops(&text)),
            (Header::Absent, Header::Text(text)) => self.walk(peer, listed_hops(&text)),
            (Header::Text(forwarded), Header::Text(listed)) => {
                let one = self.walk(peer, forwarded_hops(&forwarded));
                let two = self.walk(peer, listed_hops(&listed));
                // A proxy writes one of them; a client that adds the other gains nothing.
                if one == two { one } else { peer }
            }
            (Header::Unreadable, _) | (_, Header::Unreadable) => peer,
        };
        ClientAddr::new(client)
    }

    fn trusts(&self, address: IpAddr) -> bool {
        self.0.iter().any(|block| block.contains(address))
    }

    /// Goes over the hops, nearest last, until one is no trusted proxy.
    fn walk(&self, peer: IpAddr, hops: Vec<Option<IpAddr>>) -> IpAddr {
        let mut vouched = peer;
        for hop in hops.into_iter().rev().take(PROXY_HOPS_MAX) {
            match hop {
                Some(address) if self.trusts(address) => vouched = address,
                Some(address) => return address,
                None => return vouched,
            }
        }
        vouched
    }
}

enum Header {
    Absent,
    Text(String),
    Unreadable,
}

/// All lines of a header as one list, within the bound.
fn joined(headers: &HeaderMap, name: &HeaderName) -> Header {
    let mut text = String::new();
    let mut lines = 0_usize;
    for value in headers.get_all(name) {
        let Ok(line) = value.to_str() else { return Header::Unreadable };
        if text.len() + line.len() + 1 > PROXY_HEADER_BYTES_MAX {
            return Header::Unreadable;
        }
        if lines > 0 {
            text.push(',');
        }
        text.push_str(line);
        lines += 1;
    }
    if lines == 0 { Header::Absent } else { Header::Text(text) }
}

/// The hops of `X-Forwarded-For`, farthest first; `None` for an unreadable one.
fn listed_hops(text: &str) -> Vec<Option<IpAddr>> {
    text.split(',').map(|hop| node_address(hop.trim().trim_matches('"'))).collect()
}

/// The hops of `Forwarded` (RFC 7239), farthest first; `None` for an unreadable or hidden one.
fn forwarded_hops(text: &str) -> Vec<Option<IpAddr>> {
    let Some(elements) = split_unquoted(text, ',') else { return vec![None] };
    elements
        .into_iter()
        .map(|element| {
            let mut found = None;
            for pair in split_unquoted(element, ';')? {
                let Some((name, value)) = pair.split_once('=') else { continue };
                if name.trim().eq_ignore_ascii_case("for") {
                    if found.is_some() {
                        // Named twice: nobody knows which one the proxy meant.
                        return None;
                    }
                    found = Some(unquoted(value.trim())?);
                }
            }
            node_address(&found?)
        })
        .collect()
}

/// Splits outside quoted strings; `None` if a quote is never closed.
fn split_unquoted(text: &str, separator: char) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let (mut quoted, mut escaped) = (false, false);
    let mut rest = text;
    let mut at = 0;
    for (index, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' if quoted => escaped = true,
            '"' => quoted = !quoted,
            c if c == separator && !quoted => {
                parts.push(text.get(at..index)?);
                at = index + c.len_utf8();
                rest = text.get(at..)?;
            }
            _ => {}
        }
    }
    parts.push(rest);
    (!quoted).then_some(parts)
}

/// A token as it is, a quoted string without quotes and escapes.
fn unquoted(value: &str) -> Option<String> {
    let Some(inner) = value.strip_prefix('"') else { return Some(value.to_owned()) };
    let inner = inner.strip_suffix('"')?;
    let mut plain = String::with_capacity(inner.len());
    let mut chars = inner.chars();
    while let Some(c) = chars.next() {
        plain.push(if c == '\\' { chars.next()? } else { c });
    }
    Some(plain)
}

/// An address with or without a port, IPv6 with or without brackets.
fn node_address(text: &str) -> Option<IpAddr> {
    if let Ok(address) = text.parse::<IpAddr>() {
        return Some(address);
    }
    if let Ok(socket) = text.parse::<SocketAddr>() {
        return Some(socket.ip());
    }
    let inner = text.strip_prefix('[')?.strip_suffix(']')?;
    inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6)
}

fn bits(address: IpAddr) -> u128 {
    match address.to_canonical() {
        IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
        IpAddr::V6(v6) => v6.to_bits(),
    }
}

#[cfg(test)]
mod tests;
