//! What to do after an answer that means: not now, or not here.

use std::time::Duration;

use redis::{ServerErrorKind, Value};

use crate::{Address, Failure, Unsent};

/// The first pause, milliseconds; it doubles up to `PAUSE_MAX_MS`.
const PAUSE_MS: u64 = 4;
/// The longest pause, milliseconds.
const PAUSE_MAX_MS: u64 = 128;

/// Why nothing ran this time; the call is tried again until its deadline.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Again {
    /// No connection to the primary of the key.
    NoPrimary,
    /// The slot lives elsewhere; where, if that was understood.
    Moved(Option<Address>),
    /// This key lives elsewhere already, though its slot does not yet.
    Ask(Address),
    /// It is no primary any more.
    ReadOnly,
    Loading,
    /// Keys of one slot are on two primaries just now.
    Resharding,
    ClusterDown,
    /// Too few replicas are connected; the error is kept for the caller.
    NoReplicas(String),
    /// The script is not there; it is loaded again.
    NoScript,
    /// Another script holds the server.
    Busy,
}

impl Again {
    /// The label of the metric.
    pub(crate) const fn label(&self) -> &'static str {
        match self {
            Self::NoPrimary => "no_primary",
            Self::Moved(_) => "moved",
            Self::Ask(_) => "ask",
            Self::ReadOnly => "read_only",
            Self::Loading => "loading",
            Self::Resharding => "try_again",
            Self::ClusterDown => "cluster_down",
            Self::NoReplicas(_) => "no_replicas",
            Self::NoScript => "no_script",
            Self::Busy => "busy",
        }
    }

    /// Whether the picture of who is primary of what is to be drawn again at once.
    pub(crate) const fn redraws(&self) -> bool {
        matches!(
            self,
            Self::NoPrimary | Self::Moved(_) | Self::ReadOnly | Self::ClusterDown | Self::NoScript
        )
    }

    /// Where the next attempt goes, if not where the map leads.
    pub(crate) fn detour(&self) -> Option<Detour> {
        match self {
            Self::Ask(to) => Some(Detour { to: to.clone(), asking: true }),
            Self::Moved(Some(to)) => Some(Detour { to: to.clone(), asking: false }),
            _ => None,
        }
    }

    /// What the caller hears if there is no time to try again.
    pub(crate) fn failure(self) -> Failure {
        match self {
            Self::NoPrimary => Failure::not_sent(Unsent::NoPrimary),
            Self::NoReplicas(detail) => Failure::Refused { code: "NOREPLICAS".to_owned(), detail },
            _ => Failure::not_sent(Unsent::Busy),
        }
    }
}

/// Another way than the map's, for one attempt: the map may be as old as the last look.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Detour {
    pub(crate) to: Address,
    /// Whether the server there is told that it will own the slot.
    pub(crate) asking: bool,
}

/// What an answer of the server means for a call.
#[derive(PartialEq, Debug)]
pub(crate) enum Verdict {
    Done(Value),
    Again(Again),
    Final(Failure),
}

/// Every error named here is given before a command or function begins to run.
pub(crate) fn judge(answer: Value) -> Verdict {
    let Value::ServerError(error) = answer else { return Verdict::Done(answer) };
    let detail = error.details().unwrap_or_default();
    let again = match error.kind() {
        Some(ServerErrorKind::Moved) => Some(Again::Moved(asked(detail))),
        Some(ServerErrorKind::Ask) => asked(detail).map(Again::Ask),
        Some(ServerErrorKind::ReadOnly) => Some(Again::ReadOnly),
        Some(ServerErrorKind::BusyLoading) => Some(Again::Loading),
        Some(ServerErrorKind::TryAgain) => Some(Again::Resharding),
        Some(ServerErrorKind::ClusterDown | ServerErrorKind::MasterDown) => {
            Some(Again::ClusterDown)
        }
        Some(ServerErrorKind::NoScript) => Some(Again::NoScript),
        _ => match error.code() {
            "NOREPLICAS" => Some(Again::NoReplicas(detail.to_owned())),
            "BUSY" => Some(Again::Busy),
            _ => None,
        },
    };
    match again {
        Some(again) => Verdict::Again(again),
        None => Verdict::Final(Failure::Refused {
            code: error.code().to_owned(),
            detail: detail.to_owned(),
        }),
    }
}

/// `SLOT HOST:PORT`
fn asked(detail: &str) -> Option<Address> {
    let (_, at) = detail.trim().split_once(' ')?;
    let (host, port) = at.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    Some(Address { host: host.to_owned(), port: port.parse().ok()? })
}

/// How long to wait before attempt `attempt` (from 1): doubling, and up to half of it taken off by
/// `random`, so that callers do not come back together.
pub(crate) fn pause(attempt: u32, random: u64) -> Duration {
    let full = PAUSE_MS.saturating_mul(1 << attempt.clamp(1, 16)).min(PAUSE_MAX_MS);
    Duration::from_millis(full - random % (full / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(line: &str) -> Value {
        redis::parse_redis_value(format!("-{line}\r\n").as_bytes()).unwrap()
    }

    #[test]
    fn errors_before_a_run_are_tried_again_and_others_are_not() {
        let ask = Address { host: "10.0.0.1".to_owned(), port: 7_000 };
        for (line, again) in [
            ("MOVED 3999 10.0.0.1:7000", Again::Moved(Some(ask.clone()))),
            ("MOVED 3999 nonsense", Again::Moved(None)),
            ("ASK 3999 10.0.0.1:7000", Again::Ask(ask)),
            ("READONLY You can't write against a read only replica.", Again::ReadOnly),
            ("LOADING Redis is loading the dataset in memory", Again::Loading),
            ("TRYAGAIN Multiple keys request during rehashing of slot", Again::Resharding),
            ("CLUSTERDOWN The cluster is down", Again::ClusterDown),
            ("MASTERDOWN Link with primary is down", Again::ClusterDown),
            (
                "NOREPLICAS Not enough good replicas to write.",
                Again::NoReplicas("Not enough good replicas to write.".to_owned()),
            ),
            ("NOSCRIPT No matching script.", Again::NoScript),
            ("BUSY Redis is busy running a script.", Again::Busy),
        ] {
            assert_eq!(judge(error(line)), Verdict::Again(again), "{line}");
        }
        for line in
            ["OOM command not allowed", "MISCONF Errors writing to the AOF", "ERR x", "FENCED y"]
        {
            let (code, detail) = line.split_once(' ').unwrap();
            let refused = Failure::Refused { code: code.to_owned(), detail: detail.to_owned() };
            assert_eq!(judge(error(line)), Verdict::Final(refused));
        }
        assert_eq!(judge(Value::Int(1)), Verdict::Done(Value::Int(1)));
    }

    #[test]
    fn pauses_double_to_a_bound_and_differ() {
        assert_eq!(pause(1, 0), Duration::from_millis(8));
        assert_eq!(pause(2, 0), Duration::from_millis(16));
        assert_eq!(pause(2, 5), Duration::from_millis(11));
        for attempt in [5, 9, 16, 40, u32::MAX] {
            assert_eq!(pause(attempt, 0), Duration::from_millis(PAUSE_MAX_MS));
            assert!(pause(attempt, u64::MAX) > Duration::from_millis(PAUSE_MAX_MS / 2));
        }
    }
}
