//! Members and numbered views of them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use thiserror::Error;

/// The longest node id, in bytes.
pub const NODE_ID_BYTES_MAX: usize = 64;

/// The most members of one region, live ones of every state.
pub const MEMBERS_MAX: usize = 512;

/// The largest weight of a member.
pub const WEIGHT_MAX: u32 = 16;

/// One run of one node process. A node that ended comes back only as another incarnation.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Incarnation {
    pub node: Arc<str>,
    /// Random per start of the process.
    pub boot: u64,
}

/// Why a text names no incarnation.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum ParseError {
    #[error("a node id has 1 to 64 letters, digits, or any of `. _ : [ ] -`: choose another")]
    NodeId,
    #[error("an incarnation is a node id, a slash and 16 hexadecimal digits")]
    Incarnation,
}

impl Incarnation {
    /// An incarnation of a node whose id is well formed.
    pub fn new(node: &str, boot: u64) -> Result<Self, ParseError> {
        let fits = (1..=NODE_ID_BYTES_MAX).contains(&node.len());
        let plain = node.bytes().all(|b| b.is_ascii_alphanumeric() || b"._:[]-".contains(&b));
        if !(fits && plain) {
            return Err(ParseError::NodeId);
        }
        Ok(Self { node: node.into(), boot })
    }
}

/// As it is stored: the node's id, a slash, and the boot number in 16 hexadecimal digits.
impl fmt::Display for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{:016x}", self.node, self.boot)
    }
}

impl FromStr for Incarnation {
    type Err = ParseError;

    fn from_str(text: &str) -> Result<Self, ParseError> {
        let (node, boot) = text.rsplit_once('/').ok_or(ParseError::Incarnation)?;
        if boot.len() != 16 {
            return Err(ParseError::Incarnation);
        }
        let boot = u64::from_str_radix(boot, 16).map_err(|_| ParseError::Incarnation)?;
        Self::new(node, boot)
    }
}

/// Where a member is in its life. What ended is in no view.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum State {
    /// Known and leased, owns nothing yet.
    Joining,
    /// Owns buckets.
    Active,
    /// Owns nothing any more and gives back what it holds.
    Draining,
}

impl State {
    /// Every state, in the order of a life.
    pub const ALL: [Self; 3] = [Self::Joining, Self::Active, Self::Draining];

    /// The word by which it is stored and shown.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Joining => "joining",
            Self::Active => "active",
            Self::Draining => "draining",
        }
    }
}

/// One live member.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Member {
    pub incarnation: Incarnation,
    /// Where gateways reach it, `HOST:PORT`.
    pub address: String,
    /// The failure domain; equal words are one zone, and the empty word is a zone too.
    pub zone: String,
    /// Its share of buckets, relative to others: 0 (none) to [`WEIGHT_MAX`].
    pub weight: u32,
    pub state: State,
    /// The oldest and the newest stored schema it can read.
    pub schema: (u32, u32),
    /// How loaded it says it is, in thousandths of what it can carry. Shown, not acted on.
    pub load: u32,
}

/// The live members of one region under one number. A higher number is a later view.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct View {
    pub number: u64,
    /// In the order of their incarnations.
    pub members: Vec<Member>,
}

impl View {
    /// The member of this incarnation, if it is live.
    #[must_use]
    pub fn member(&self, incarnation: &Incarnation) -> Option<&Member> {
        self.members.iter().find(|member| member.incarnation == *incarnation)
    }

    /// The newest stored schema that every live member reads, which is the one to write; `None`
    /// without members.
    #[must_use]
    pub fn schema(&self) -> Option<u32> {
        self.members.iter().map(|member| member.schema.1).min()
    }

    /// How many members are in a state.
    #[must_use]
    pub fn count(&self, state: State) -> usize {
        self.members.iter().filter(|member| member.state == state).count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn incarnations_are_read_as_they_are_written() {
        for (node, boot) in [("n1", 0), ("127.0.0.1:7070", u64::MAX), ("[::1]:7070", 0x1234)] {
            let made = Incarnation::new(node, boot).unwrap();
            assert_eq!(made.to_string().parse(), Ok(made.clone()));
        }
        assert_eq!(Incarnation::new("n1", 255).unwrap().to_string(), "n1/00000000000000ff");
    }

    #[test]
    fn the_schema_to_write_is_one_that_all_read() {
        let member = |node, schema| Member {
            incarnation: Incarnation::new(node, 1).unwrap(),
            address: "10.0.0.1:7070".into(),
            zone: String::new(),
            weight: 1,
            state: State::Draining,
            schema,
            load: 0,
        };
        let mut view = View { number: 1, members: vec![member("a", (1, 3)), member("b", (2, 4))] };
        assert_eq!(view.schema(), Some(3));
        view.members.clear();
        assert_eq!(view.schema(), None);
    }

    #[test]
    fn malformed_texts_name_no_incarnation() {
        let long = "n".repeat(NODE_ID_BYTES_MAX + 1);
        for node in ["", "a b", "a/b", "é", "a{b", long.as_str()] {
            assert_eq!(Incarnation::new(node, 1), Err(ParseError::NodeId), "{node}");
        }
        for text in ["", "n1", "n1/12", "n1/00000000000000fg", "n1/0000000000000000ff"] {
            assert_eq!(text.parse::<Incarnation>(), Err(ParseError::Incarnation), "{text}");
        }
        assert_eq!("/00000000000000ff".parse::<Incarnation>(), Err(ParseError::NodeId));
    }
}
