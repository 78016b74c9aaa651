//! The settings a server must have for a durability level.

use redis::{Pipeline, Value};

use crate::socket::{Socket, SocketError};
use crate::value::{error_line, field, items, text};
use crate::{Address, Durability, OpenError};

/// What a setting has to be.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Need {
    Is(&'static str),
    AtLeast(u64),
    /// From 1 to this number of seconds; 0 would switch the check off.
    UpTo(u64),
    /// Not one that throws away keys that have no end of life.
    KeepsKeys,
}

impl Need {
    fn is_met(self, found: &str) -> bool {
        let number = found.parse::<u64>();
        match self {
            Self::Is(wanted) => found == wanted,
            Self::AtLeast(least) => number.is_ok_and(|n| n >= least),
            Self::UpTo(most) => number.is_ok_and(|n| (1..=most).contains(&n)),
            Self::KeepsKeys => !found.starts_with("allkeys-"),
        }
    }

    fn wanted(self) -> String {
        match self {
            Self::Is(wanted) => wanted.to_owned(),
            Self::AtLeast(least) => format!("{least} or more"),
            Self::UpTo(most) => format!("1 to {most}"),
            Self::KeepsKeys => "noeviction".to_owned(),
        }
    }
}

/// What a level needs. `is_replicated`: a Sentinel or a Cluster may promote a replica.
fn needs(level: Durability, is_replicated: bool, node_ttl_ms: u64) -> Vec<(&'static str, Need)> {
    let mut needs = Vec::new();
    if level >= Durability::D1 {
        needs.push(("appendonly", Need::Is("yes")));
        needs.push(("maxmemory-policy", Need::KeepsKeys));
    }
    if level == Durability::D2 {
        needs.push(("appendfsync", Need::Is("always")));
    }
    // Without it an isolated old primary goes on confirming what nobody will find again.
    if level >= Durability::D3 || (is_replicated && level >= Durability::D1) {
        needs.push(("min-replicas-to-write", Need::AtLeast(1)));
        needs.push(("min-replicas-max-lag", Need::UpTo(node_ttl_ms / 1_000)));
    }
    needs
}

const fn name(level: Durability) -> &'static str {
    match level {
        Durability::D0 => "d0",
        Durability::D1 => "d1",
        Durability::D2 => "d2",
        Durability::D3 => "d3",
        Durability::D4 => "d4",
    }
}

/// Asks a server for its settings and refuses those that break the level's promise.
pub(crate) async fn check(
    socket: &Socket,
    address: &Address,
    level: Durability,
    is_replicated: bool,
    node_ttl_ms: u64,
) -> Result<(), OpenError> {
    let lost = |e: SocketError| OpenError::Unreachable {
        address: address.to_string(),
        why: e.to_string(),
    };
    for (setting, need) in needs(level, is_replicated, node_ttl_ms) {
        let mut command = redis::cmd("CONFIG");
        command.arg("GET").arg(setting);
        let answer = socket.one(command).await.map_err(lost)?;
        if let Value::ServerError(e) = &answer {
            let needs = needs(level, is_replicated, node_ttl_ms);
            let needs: Vec<String> =
                needs.iter().map(|(name, need)| format!("{name} = {}", need.wanted())).collect();
            let (why, needs) = (error_line(e), needs.join(", "));
            tracing::warn!(%address, why, needs, "CONFIG is refused there: make sure of the settings");
            break;
        }
        let found = field(&answer, setting).and_then(text).unwrap_or("missing");
        if !need.is_met(found) {
            return Err(OpenError::Setting {
                address: address.to_string(),
                setting,
                found: found.to_owned(),
                wanted: need.wanted(),
                level: name(level),
            });
        }
    }
    if level == Durability::D4 {
        let mut commands = Pipeline::with_capacity(1);
        commands.cmd("COMMAND").arg("INFO").arg("WAITAOF");
        let answer = socket.ask(&commands).await.map_err(lost)?.pop().unwrap_or(Value::Nil);
        if items(&answer).first().is_none_or(|known| items(known).is_empty()) {
            return Err(OpenError::Setting {
                address: address.to_string(),
                setting: "WAITAOF",
                found: "an unknown command".to_owned(),
                wanted: "Redis 7.2 or later, or Valkey".to_owned(),
                level: name(level),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_level_needs_its_settings() {
        let names = |level, is_replicated| {
            needs(level, is_replicated, 5_000).into_iter().map(|need| need.0).collect::<Vec<_>>()
        };
        let replicas = ["min-replicas-to-write", "min-replicas-max-lag"];
        assert!(names(Durability::D0, true).is_empty());
        assert_eq!(names(Durability::D1, false), ["appendonly", "maxmemory-policy"]);
        assert_eq!(names(Durability::D1, true)[2..], replicas);
        assert_eq!(names(Durability::D2, false)[2..], ["appendfsync"]);
        assert_eq!(names(Durability::D2, true)[3..], replicas);
        assert_eq!(names(Durability::D3, false)[2..], replicas);
        assert_eq!(names(Durability::D4, false)[2..], replicas);
    }

    #[test]
    fn a_need_is_met_or_not() {
        for (need, good, bad) in [
            (Need::Is("yes"), "yes", "no"),
            (Need::AtLeast(1), "2", "0"),
            (Need::UpTo(5), "5", "10"),
            (Need::UpTo(5), "1", "0"),
            (Need::KeepsKeys, "volatile-lru", "allkeys-lru"),
        ] {
            assert!(need.is_met(good), "{need:?} {good}");
            assert!(!need.is_met(bad), "{need:?} {bad}");
            assert!(need == Need::KeepsKeys || !need.is_met("missing"), "{need:?}");
        }
    }
}
