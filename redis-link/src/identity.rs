//! Who a server is, and whether it may be written to.

use redis::{Pipeline, Value};

use crate::socket::{Socket, SocketError};
use crate::value::{error_line, info, items, text};

/// Tells one life of a primary from the next: another process, or the same one after it was a
/// replica in between, has another.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Identity {
    pub(crate) run_id: String,
    /// The id of its history of writes; a promotion begins a new one.
    pub(crate) history: String,
}

/// Why a server is not a primary that can be used.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum NotUsable {
    #[error(transparent)]
    Socket(#[from] SocketError),
    #[error("it is a replica")]
    Replica,
    #[error("it answers {0}")]
    Answer(String),
    #[error("it is another server than before")]
    Other,
}

/// Asks a server who it is; fails unless it is a primary.
pub(crate) async fn identify(socket: &Socket) -> Result<Identity, NotUsable> {
    let mut commands = Pipeline::with_capacity(3);
    commands.cmd("ROLE");
    commands.cmd("INFO").arg("server");
    commands.cmd("INFO").arg("replication");
    let answers = socket.ask(&commands).await?;
    let [role, server, replication] = answers.as_slice() else {
        return Err(NotUsable::Answer("too little".to_owned()));
    };
    if let (Value::ServerError(e), _) | (_, Value::ServerError(e)) = (server, replication) {
        return Err(NotUsable::Answer(error_line(e)));
    }
    let told = |value, name| text(value).and_then(|text| info(text, name)).map(str::to_owned);
    // ROLE may be forbidden where INFO is not; INFO says the same.
    let role = match role {
        Value::ServerError(e) if e.code() != "NOPERM" => {
            return Err(NotUsable::Answer(error_line(e)));
        }
        Value::ServerError(_) => told(replication, "role"),
        role => items(role).first().and_then(text).map(str::to_owned),
    };
    if role.as_deref() != Some("master") {
        return Err(NotUsable::Replica);
    }
    match (told(server, "run_id"), told(replication, "master_replid")) {
        (Some(run_id), Some(history)) => Ok(Identity { run_id, history }),
        _ => Err(NotUsable::Answer("INFO without run_id or master_replid".to_owned())),
    }
}

/// Connects where `expected` was and makes sure it still is the one.
pub(crate) async fn rejoin(socket: Socket, expected: &Identity) -> Result<Socket, NotUsable> {
    let found = identify(&socket).await?;
    if found == *expected { Ok(socket) } else { Err(NotUsable::Other) }
}
