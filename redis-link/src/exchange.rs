//! One pipeline and its answers, confirmed at the level and checked to be its own.

use redis::{Pipeline, Value};

use crate::socket::{Socket, SocketError};
use crate::value::{int, items};
use crate::{Doubt, Durability};

/// What a replica has to confirm.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Wait {
    durability: Durability,
    ms: u64,
}

impl Wait {
    /// None at levels that wait for nobody. The server gives up waiting well before the link would
    /// be cut, so that a missing replica is told from a lost link.
    pub(crate) fn new(durability: Durability, response_ms: u64) -> Option<Self> {
        durability.waits().then_some(Self { durability, ms: (response_ms / 2).max(1) })
    }

    fn command(self) -> redis::Cmd {
        if self.durability == Durability::D4 {
            let mut command = redis::cmd("WAITAOF");
            command.arg(1).arg(1).arg(self.ms);
            command
        } else {
            let mut command = redis::cmd("WAIT");
            command.arg(1).arg(self.ms);
            command
        }
    }

    fn is_met(self, answer: &Value) -> bool {
        if self.durability == Durability::D4 {
            let counts = items(answer);
            counts.len() == 2 && counts.iter().all(|count| int(count).is_some_and(|n| n >= 1))
        } else {
            int(answer).is_some_and(|count| count >= 1)
        }
    }
}

/// The answers to a pipeline.
#[derive(Debug)]
pub(crate) struct Answers {
    /// One for each command.
    pub(crate) values: Vec<Value>,
    /// Whether the wait was met; true if there was none.
    pub(crate) is_confirmed: bool,
}

/// Sends commands, then the wait, then a token that must come back: answers that belong to other
/// commands show by the wrong token, and then the link is cut before anybody hears them.
pub(crate) async fn exchange(
    socket: &Socket,
    mut commands: Pipeline,
    wait: Option<Wait>,
) -> Result<Answers, Doubt> {
    let token = socket.token();
    if let Some(wait) = wait {
        commands.add_command(wait.command());
    }
    commands.cmd("ECHO").arg(&token);
    let count = commands.len();
    let mut values = socket.ask(&commands).await.map_err(|e| {
        socket.cut();
        match e {
            SocketError::Timeout => Doubt::Timeout,
            _ => Doubt::LinkLost,
        }
    })?;
    let echoed = values.len() == count
        && matches!(values.pop(), Some(Value::BulkString(back)) if back == token.as_bytes());
    if !echoed {
        socket.cut();
        return Err(Doubt::Mismatch);
    }
    let is_confirmed = wait.is_none_or(|wait| values.pop().is_some_and(|met| wait.is_met(&met)));
    Ok(Answers { values, is_confirmed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_met_by_one_replica() {
        assert_eq!(Wait::new(Durability::D2, 2_000), None);
        let wait = Wait::new(Durability::D3, 2_000).unwrap();
        assert!(wait.is_met(&Value::Int(1)) && wait.is_met(&Value::Int(2)));
        assert!(!wait.is_met(&Value::Int(0)) && !wait.is_met(&Value::Nil));
        let wait = Wait::new(Durability::D4, 2_000).unwrap();
        let both = |local, replicas| Value::Array(vec![Value::Int(local), Value::Int(replicas)]);
        assert!(wait.is_met(&both(1, 1)));
        assert!(!wait.is_met(&both(1, 0)) && !wait.is_met(&both(0, 1)));
        assert!(!wait.is_met(&Value::Int(1)) && !wait.is_met(&Value::Array(Vec::new())));
    }
}
