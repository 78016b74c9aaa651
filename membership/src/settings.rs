//! What a member says of itself, and how it and others follow the table.

use std::net::SocketAddr;

use thiserror::Error;

use crate::lease::Terms;
use crate::nodes::{ADDRESS_BYTES_MAX, ZONE_BYTES_MAX};
use crate::view::{Incarnation, WEIGHT_MAX};

/// How long a joined node waits before it owns anything, ms: several that start together move
/// buckets once.
pub const JOIN_DELAY_MS: u64 = 2_000;

/// How much longer a lease counts after Redis was away or changed, ms: leases could not be renewed
/// then, and the clock may be another one.
pub const GRACE_MS: u64 = 2_000;

/// Between two polls of the view, ms.
pub const POLL_MS: u64 = 1_000;

/// Between two questions to the table, ms, however many ask for a refresh.
pub const SPACING_MS: u64 = 50;

/// The longest name of a region, in bytes.
pub const REGION_BYTES_MAX: usize = 32;

/// What a node says of itself when it joins.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The region whose table it joins.
    pub region: String,
    pub incarnation: Incarnation,
    /// `HOST:PORT` where gateways reach it.
    pub address: String,
    /// Its failure domain; may be empty.
    pub zone: String,
    /// Its share of buckets, relative to others.
    pub weight: u32,
    /// The oldest and newest stored schema it reads.
    pub schema: (u32, u32),
    pub terms: Terms,
    /// See [`JOIN_DELAY_MS`].
    pub join_delay_ms: u64,
    /// See [`GRACE_MS`].
    pub grace_ms: u64,
}

/// How a gateway follows the table.
#[derive(Clone, Debug)]
pub struct Watching {
    pub region: String,
    /// See [`POLL_MS`].
    pub poll_ms: u64,
    /// See [`GRACE_MS`].
    pub grace_ms: u64,
}

impl Watching {
    /// How a gateway follows a region's table by default.
    #[must_use]
    pub fn new(region: &str) -> Self {
        Self { region: region.to_owned(), poll_ms: POLL_MS, grace_ms: GRACE_MS }
    }
}

/// What is wrong with settings.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum SettingsError {
    #[error("a region has 1 to 32 letters, digits, `-` or `_`: change --region")]
    Region,
    #[error("the advertised address is HOST:PORT in at most 255 bytes: change --advertise")]
    Address,
    #[error("a zone has at most 64 bytes and no control characters")]
    Zone,
    #[error("a weight is 0 to 16")]
    Weight,
    #[error("the oldest schema cannot be above the newest")]
    Schema,
    #[error("polls need at least 1 ms between them")]
    Poll,
}

impl Settings {
    /// Settings with the defaults of a node.
    #[must_use]
    pub fn new(region: &str, incarnation: Incarnation, address: &str, terms: Terms) -> Self {
        Self {
            region: region.to_owned(),
            incarnation,
            address: address.to_owned(),
            zone: String::new(),
            weight: 1,
            schema: (1, 1),
            terms,
            join_delay_ms: JOIN_DELAY_MS,
            grace_ms: GRACE_MS,
        }
    }

    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        check_region(&self.region)?;
        let is_plain = |text: &str| !text.chars().any(char::is_control);
        let has_port = self.address.rsplit_once(':').is_some_and(|(host, port)| {
            !host.is_empty() && port.parse::<u16>().is_ok_and(|port| port > 0)
        });
        if !has_port || !is_plain(&self.address) || self.address.len() > ADDRESS_BYTES_MAX {
            return Err(SettingsError::Address);
        }
        if !is_plain(&self.zone) || self.zone.len() > ZONE_BYTES_MAX {
            return Err(SettingsError::Zone);
        }
        if self.weight > WEIGHT_MAX {
            return Err(SettingsError::Weight);
        }
        if self.schema.0 > self.schema.1 {
            return Err(SettingsError::Schema);
        }
        Ok(())
    }

    /// Whether listening at the address proves that the process before it is gone. A name can move
    /// to another machine while the process on the first one still runs; an address with its port
    /// is bound by one process.
    pub(crate) fn supersedes(&self) -> bool {
        self.address.parse::<SocketAddr>().is_ok()
    }
}

impl Watching {
    pub(crate) fn check(&self) -> Result<(), SettingsError> {
        if self.poll_ms == 0 {
            return Err(SettingsError::Poll);
        }
        check_region(&self.region)
    }
}

fn check_region(region: &str) -> Result<(), SettingsError> {
    let fits = (1..=REGION_BYTES_MAX).contains(&region.len());
    let is_plain = region.bytes().all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b));
    if fits && is_plain { Ok(()) } else { Err(SettingsError::Region) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Settings {
        let me = Incarnation::new("n1", 1).unwrap();
        Settings::new("local", me, "10.0.0.1:7070", Terms::new(5_000, 1_000).unwrap())
    }

    type Spoil = fn(&mut Settings);

    #[test]
    fn each_mistake_is_named() {
        assert_eq!(good().check(), Ok(()));
        let cases: [(Spoil, SettingsError); 12] = [
            (|s| s.region.clear(), SettingsError::Region),
            (|s| s.region = "a}b".into(), SettingsError::Region),
            (|s| s.address = "10.0.0.1".into(), SettingsError::Address),
            (|s| s.address = ":7070".into(), SettingsError::Address),
            (|s| s.address = "host:0".into(), SettingsError::Address),
            (|s| s.address = "a\nb:1".into(), SettingsError::Address),
            (|s| s.zone = "z\n".into(), SettingsError::Zone),
            (|s| s.region = "r".repeat(REGION_BYTES_MAX + 1), SettingsError::Region),
            (|s| s.address = "h".repeat(ADDRESS_BYTES_MAX) + ":1", SettingsError::Address),
            (|s| s.zone = "z".repeat(ZONE_BYTES_MAX + 1), SettingsError::Zone),
            (|s| s.weight = WEIGHT_MAX + 1, SettingsError::Weight),
            (|s| s.schema = (2, 1), SettingsError::Schema),
        ];
        for (spoil, error) in cases {
            let mut settings = good();
            spoil(&mut settings);
            assert_eq!(settings.check(), Err(error));
        }
    }

    #[test]
    fn only_a_bound_address_proves_that_the_process_before_is_gone() {
        for (address, proves) in
            [("10.0.0.1:7070", true), ("[::1]:7070", true), ("node-0.nodes:7070", false)]
        {
            assert_eq!(Settings { address: address.into(), ..good() }.supersedes(), proves);
        }
    }
}
