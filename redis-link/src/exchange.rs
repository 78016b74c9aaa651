//! One pipeline and its answers, confirmed at the level and checked to be its own.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::task::Poll;

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
        durability.waits().then_some(Self { durability, ms: (response_ms / 4 * 3).max(1) })
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

/// What is to be confirmed after the commands, and when that is asked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Confirm {
    pub(crate) wait: Wait,
    /// Whether the wait is sent along with the commands. That saves a round trip; but after a wait
    /// that was not met it would hold up the link even if nothing ran, so then it is sent only when
    /// there is something to confirm.
    pub(crate) is_eager: bool,
}

/// Sends commands as one pipeline. `first` takes their answers, one for each, as soon as they are
/// there, and says whether they are to be confirmed; then the wait decides.
///
/// Returns whether it was met; true if nothing was to be confirmed. After an error the link is cut:
/// before `first` was called nothing is known of any command, after it all that was to be confirmed
/// is in doubt.
pub(crate) async fn exchange(
    socket: &Socket,
    commands: Pipeline,
    confirm: Option<Confirm>,
    first: impl FnOnce(Vec<Value>) -> bool,
) -> Result<bool, Doubt> {
    let mut answers = pin!(ask(socket, commands));
    let Some(Confirm { wait, is_eager }) = confirm else {
        first(answers.await?);
        return Ok(true);
    };
    let mut commands = Pipeline::with_capacity(2);
    commands.add_command(wait.command());
    let mut waiting = pin!(ask(socket, commands));
    let (mut answered, mut waited) = (Poll::Pending, Poll::Pending);
    if is_eager {
        // The first poll hands a pipeline to the connection, whose queue is far longer than what
        // one lane has in flight: the wait comes after the commands.
        answered = begin(answers.as_mut()).await;
        waited = begin(waiting.as_mut()).await;
    }
    let answered = match answered {
        Poll::Ready(answered) => answered,
        Poll::Pending => answers.await,
    };
    let confirms = first(answered?);
    if !confirms && !is_eager {
        return Ok(true);
    }
    // A wait that was sent blocks the link until it ends, whether anything needs it or not: who
    // comes after it must not be taken for sent.
    let waited = match waited {
        Poll::Ready(waited) => waited,
        Poll::Pending => waiting.await,
    };
    let is_met = waited?.first().is_some_and(|met| wait.is_met(met));
    Ok(is_met || !confirms)
}

/// Polls once.
async fn begin<T>(mut future: Pin<&mut impl Future<Output = T>>) -> Poll<T> {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context))).await
}

/// Sends commands and behind them a token that must come back: answers that belong to other
/// commands show by the wrong token, and then the link is cut before anybody hears them.
async fn ask(socket: &Socket, mut commands: Pipeline) -> Result<Vec<Value>, Doubt> {
    let token = socket.token();
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
    Ok(values)
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
