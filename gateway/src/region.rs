//! Regions: which one a room is at home in, and who answers for the others (cluster 2.12).
//!
//! The home of a room is in its id and fixed when it is made, so that no directory is needed. All
//! of it is decided from one small file that is the same in every region.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use process::flags::value;
use serde::Deserialize;
use serde::de::{Deserializer, Error as _, MapAccess, Visitor};

use crate::config::REGION_BYTES_MAX;

/// Regions of one deployment at most.
pub const REGIONS_MAX: usize = 32;
/// Peer gateways named per region at most.
pub const PEERS_PER_REGION_MAX: usize = 16;

/// Why a regions file is refused.
#[derive(Debug, thiserror::Error)]
pub enum RegionsError {
    #[error(
        "{0}; it is to be JSON of the form {{\"default_region\":\"eu\",\"regions\":{{\"eu\":[\"HOST:PORT\"],\"us\":[\"HOST:PORT\"]}}}}"
    )]
    Form(serde_json::Error),
    #[error("region `{0}` has not 1 to {REGION_BYTES_MAX} of a-z, 0-9 and -")]
    Name(String),
    #[error("{0} is not among the regions; add it, or correct --region or default_region")]
    Unknown(String),
    #[error("region `{0}` names no peer, or more than {PEERS_PER_REGION_MAX}")]
    Peers(String),
    #[error("peer `{peer}` of region `{region}`: {why}")]
    Peer { region: String, peer: String, why: String },
    #[error("it names more than {REGIONS_MAX} regions")]
    Many,
}

/// The file, as people write it.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    default_region: String,
    regions: Named,
}

/// Regions by name: at most [`REGIONS_MAX`], each with [`PEERS_PER_REGION_MAX`]. A name that stands
/// twice would silently lose peers.
struct Named(BTreeMap<String, Vec<String>>);

impl<'de> Deserialize<'de> for Named {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Once;
        impl<'de> Visitor<'de> for Once {
            type Value = Named;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("the regions by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Named, A::Error> {
                let mut regions = BTreeMap::new();
                while let Some((name, peers)) = map.next_entry::<String, Vec<String>>()? {
                    if regions.contains_key(&name) {
                        return Err(A::Error::custom(format!("region `{name}` stands twice")));
                    }
                    regions.insert(name, peers);
                }
                Ok(Named(regions))
            }
        }
        deserializer.deserialize_map(Once)
    }
}

/// The regions of one deployment, seen from one of them.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Regions {
    own: Arc<str>,
    default: Arc<str>,
    /// Peer gateways of every region, the own one's too: at most [`REGIONS_MAX`]. Empty where there
    /// is one region only.
    peers: BTreeMap<Arc<str>, Vec<String>>,
}

impl Regions {
    /// One region, in which every room is at home.
    #[must_use]
    pub fn alone(own: &str) -> Self {
        Self { own: own.into(), default: own.into(), peers: BTreeMap::new() }
    }

    /// Reads a regions file, for a gateway of region `own`.
    ///
    /// # Errors
    /// The rest of a sentence that names the file.
    pub fn parse(own: &str, text: &str) -> Result<Self, RegionsError> {
        let file: File = serde_json::from_str(text).map_err(RegionsError::Form)?;
        let Named(regions) = file.regions;
        if regions.len() > REGIONS_MAX {
            return Err(RegionsError::Many);
        }
        for (name, peers) in &regions {
            if !is_name(name) {
                return Err(RegionsError::Name(name.clone()));
            }
            if (name != own && peers.is_empty()) || peers.len() > PEERS_PER_REGION_MAX {
                return Err(RegionsError::Peers(name.clone()));
            }
        }
        for name in [own, &file.default_region] {
            if !regions.contains_key(name) {
                return Err(RegionsError::Unknown(name.to_owned()));
            }
        }
        check_peers(&regions)?;
        let peers = regions.into_iter().map(|(name, peers)| (name.into(), peers)).collect();
        Ok(Self { own: own.into(), default: file.default_region.into(), peers })
    }

    /// The region that this is.
    #[must_use]
    pub fn own(&self) -> &str {
        &self.own
    }

    /// Where rooms without a region's name are at home; the same in every region.
    #[must_use]
    pub fn default_region(&self) -> &str {
        &self.default
    }

    /// The home of a room: the part of its id before the first `.` if that is a region, else the
    /// default region.
    #[must_use]
    pub fn home(&self, room: &str) -> &Arc<str> {
        let named = room.split_once('.').and_then(|(name, _rest)| self.named(name));
        named.unwrap_or(&self.default)
    }

    /// The region of this name, if there is one.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<&Arc<str>> {
        self.peers.get_key_value(name).map(|(name, _peers)| name)
    }

    /// What ids of rooms made here begin with, where there is more than one region.
    #[must_use]
    pub fn prefix(&self) -> Option<&str> {
        (self.peers.len() > 1).then_some(&*self.own)
    }

    /// The other regions and their peer gateways.
    pub fn others(&self) -> impl Iterator<Item = (&Arc<str>, &[String])> {
        let others = self.peers.iter().filter(|(name, _peers)| **name != self.own);
        others.map(|(name, peers)| (name, peers.as_slice()))
    }
}

/// Every peer can be dialled, and is of one region.
fn check_peers(regions: &BTreeMap<String, Vec<String>>) -> Result<(), RegionsError> {
    let all =
        || regions.iter().flat_map(|(name, peers)| peers.iter().map(move |peer| (name, peer)));
    for (at, (region, peer)) in all().enumerate() {
        let twice = all().take(at).any(|(_, earlier)| earlier == peer);
        let why = match value::host_port(peer) {
            Err(why) => why,
            Ok(_) if twice => "it stands twice".to_owned(),
            Ok(_) => continue,
        };
        return Err(RegionsError::Peer { region: region.clone(), peer: peer.clone(), why });
    }
    Ok(())
}

fn is_name(name: &str) -> bool {
    let legal = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=REGION_BYTES_MAX).contains(&name.len()) && name.bytes().all(legal)
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str =
        r#"{"default_region":"eu","regions":{"eu":["a:1"],"us":["b:1","b:2"],"ap":["c:1"]}}"#;

    #[test]
    fn the_home_is_the_first_part_of_the_id_if_it_is_a_region() {
        for own in ["eu", "us"] {
            let regions = Regions::parse(own, FILE).unwrap();
            for (room, home) in [
                ("us.nova-bay-2", "us"),
                ("ap.x.y", "ap"),
                ("eu.nova-bay-2", "eu"),
                ("nova-bay-2", "eu"),
                ("us", "eu"),
                ("mars.nova-bay-2", "eu"),
                (".us", "eu"),
                ("US.x", "eu"),
            ] {
                assert_eq!(&**regions.home(room), home, "{room}");
            }
        }
    }

    #[test]
    fn one_region_is_home_to_all_and_prefixes_nothing() {
        let alone = Regions::alone("local");
        assert_eq!((&**alone.home("us.x"), alone.prefix()), ("local", None));
        assert_eq!(alone.others().count(), 0);
        let single = Regions::parse("eu", r#"{"default_region":"eu","regions":{"eu":[]}}"#);
        assert_eq!(single.unwrap().prefix(), None);
        let us = Regions::parse("us", FILE).unwrap();
        let others: Vec<_> = us.others().map(|(name, peers)| (&**name, peers.len())).collect();
        assert_eq!((us.prefix(), others), (Some("us"), vec![("ap", 1), ("eu", 1)]));
    }

    #[test]
    fn a_file_that_cannot_be_meant_is_refused() {
        for (own, text, says) in [
            ("eu", "{", "to be JSON of the form"),
            ("eu", r#"{"default_region":"eu","regions":{},"x":1}"#, "to be JSON of the form"),
            ("mars", FILE, "mars is not among the regions"),
            ("eu", r#"{"default_region":"us","regions":{"eu":[]}}"#, "us is not among"),
            ("eu", r#"{"default_region":"eu","regions":{"eu":[],"us":[]}}"#, "names no peer"),
            ("eu", r#"{"default_region":"eu","regions":{"eu":[],"u.s":["a:1"]}}"#, "`u.s` has not"),
            ("eu", r#"{"default_region":"eu","regions":{"eu":[],"":["a:1"]}}"#, "`` has not"),
            ("eu", r#"{"default_region":"eu","regions":{"eu":[],"eu":[]}}"#, "`eu` stands twice"),
            ("eu", r#"{"default_region":"eu","regions":{"eu":[],"us":["a"]}}"#, "HOST:PORT"),
            ("eu", r#"{"default_region":"eu","regions":{"eu":["a:1"],"us":["a:1"]}}"#, "twice"),
        ] {
            let error = Regions::parse(own, text).unwrap_err().to_string();
            assert!(error.contains(says) && !error.contains('\n'), "{error}");
        }
    }

    #[test]
    fn a_file_has_so_many_regions_and_a_region_so_many_peers() {
        let file = |regions: usize, peers: usize| {
            let region = |n: usize| {
                let peers: Vec<String> =
                    (0..peers).map(|peer| format!("\"a:{}\"", n * peers + peer + 1)).collect();
                format!("\"r{n}\":[{}]", peers.join(","))
            };
            let regions: Vec<String> = (0..regions).map(region).collect();
            let text = format!(r#"{{"default_region":"r0","regions":{{{}}}}}"#, regions.join(","));
            Regions::parse("r0", &text)
        };
        let full = file(REGIONS_MAX, PEERS_PER_REGION_MAX).unwrap();
        assert_eq!(full.others().count(), REGIONS_MAX - 1);
        assert!(full.others().all(|(_, peers)| peers.len() == PEERS_PER_REGION_MAX));
        assert!(matches!(file(REGIONS_MAX + 1, 1), Err(RegionsError::Many)));
        let many = file(2, PEERS_PER_REGION_MAX + 1).unwrap_err();
        assert_eq!(many.to_string(), "region `r0` names no peer, or more than 16");
    }
}
