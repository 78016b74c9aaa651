//! How a link is to be opened.

use std::str::FromStr;

use crate::Endpoint;

/// What an answer promises; `docs/durability.md` says what each level survives.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Durability {
    /// No append-only file: everything is lost when Redis ends.
    D0,
    /// Append-only file, flushed each second.
    D1,
    /// Append-only file, flushed before each answer.
    D2,
    /// D1 or D2, and one replica has it (`WAIT 1`).
    D3,
    /// One replica has flushed it to its own file (`WAITAOF 1 1`; needs Redis 7.2 or Valkey).
    D4,
}

impl FromStr for Durability {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "d0" | "D0" => Ok(Self::D0),
            "d1" | "D1" => Ok(Self::D1),
            "d2" | "D2" => Ok(Self::D2),
            "d3" | "D3" => Ok(Self::D3),
            "d4" | "D4" => Ok(Self::D4),
            _ => Err("the durability is one of d0, d1, d2, d3, d4".to_owned()),
        }
    }
}

impl Durability {
    /// Whether answers wait for a replica.
    pub(crate) fn waits(self) -> bool {
        self >= Self::D3
    }
}

/// Functions that run inside Redis.
#[derive(Clone, Copy, Debug)]
pub struct Library {
    /// With its version, such as `room_v2`: letters, digits and `_`. The version before stays
    /// loaded beside it during a rollout.
    pub name: &'static str,
    /// Lua that defines one local function of two arguments `(keys, args)` for each name in
    /// `functions` and `reads`, and registers nothing: the same text is loaded as a library
    /// (`<library>_<function>`) or, where FUNCTION is forbidden, as one script a function.
    pub code: &'static str,
    /// Functions that may write. Names are unique over all libraries of a link.
    pub functions: &'static [&'static str],
    /// Functions that never write: they run even while writes are refused for want of memory or
    /// replicas.
    pub reads: &'static [&'static str],
    /// Functions that may write even when Redis is out of memory. Only for what is bounded and
    /// what everything else stands on, such as the leases of nodes.
    pub vital: &'static [&'static str],
}

/// How a link is to be opened.
#[derive(Clone, Debug)]
pub struct Settings {
    pub endpoint: Endpoint,
    pub durability: Durability,
    /// Lanes per primary.
    pub lanes: usize,
    /// Calls that may wait in one lane.
    pub queue_max: usize,
    /// Milliseconds for a connection to be made and checked.
    pub connect_ms: u64,
    /// Milliseconds for a pipeline to be answered, WAIT included; then its link is cut.
    pub response_ms: u64,
    /// Milliseconds of the node lease: replicas that lag longer must not count.
    pub node_ttl_ms: u64,
    pub library: &'static [Library],
}

impl Settings {
    /// Settings as the programs have them by default.
    #[must_use]
    pub fn new(endpoint: Endpoint, durability: Durability, library: &'static [Library]) -> Self {
        Self {
            endpoint,
            durability,
            lanes: 4,
            queue_max: 1_024,
            connect_ms: 1_000,
            response_ms: 2_000,
            node_ttl_ms: 5_000,
            library,
        }
    }
}
