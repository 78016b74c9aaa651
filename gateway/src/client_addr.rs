//! Who the client is, for admission: its address, from trusted proxies' headers where they count.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

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
}

/// A block of addresses, as `10.0.0.0/8`, `fd00::/8`, or one address.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Cidr {
    base: u128,
    mask: u128,
    v4: bool,
}
