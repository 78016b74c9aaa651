//! The link: what the other crates call.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use tokio::sync::{Mutex, watch};
use tokio::time::{Instant, timeout_at};

use crate::library::{Form, LoadError, Shelf};
use crate::socket::{Login, Socket, SocketError};
use crate::{Address, Call, Doubt, Endpoint, Failure, OpenError, Settings, Unsent};

/// Links to all primaries of an endpoint.
#[derive(Debug)]
pub struct RedisLink {
    shelf: Shelf,
    address: Address,
    login: Login,
    lane: Mutex<Option<(Arc<Socket>, Form)>>,
    changes: watch::Sender<u64>,
}

impl RedisLink {
    /// Finds the primaries, checks them and loads the libraries.
    ///
    /// # Errors
    /// What is wrong, in one line that says what to do.
    pub async fn open(
        settings: Settings,
        _registry: &prometheus::Registry,
    ) -> Result<Arc<Self>, OpenError> {
        let shelf = Shelf::new(settings.library)?;
        let Endpoint::Single { address, credentials, db } = settings.endpoint else {
            return Err(OpenError::Cluster { why: "only redis:// is served yet".to_owned() });
        };
        let login = Login {
            credentials,
            db,
            connect: Duration::from_millis(settings.connect_ms),
            response: Duration::from_millis(settings.response_ms),
        };
        let link =
            Self { shelf, address, login, lane: Mutex::new(None), changes: watch::Sender::new(0) };
        let opened = link.connect().await;
        let at = || link.address.to_string();
        let opened = opened.map_err(|e| match e {
            LoadError::Socket(SocketError::Credentials) => OpenError::Credentials { address: at() },
            LoadError::Socket(e) => OpenError::Unreachable { address: at(), why: e.to_string() },
            LoadError::Refused { library, why } => {
                OpenError::Library { name: library, address: at(), why }
            }
        })?;
        *link.lane.lock().await = Some(opened);
        Ok(Arc::new(link))
    }

    async fn connect(&self) -> Result<(Arc<Socket>, Form), LoadError> {
        let socket = Socket::open(&self.address, &self.login).await?;
        let form = self.shelf.load(&socket).await?;
        self.changes.send_modify(|count| *count += 1);
        Ok((Arc::new(socket), form))
    }

    /// Runs a function on the primary that owns the key.
    ///
    /// # Errors
    /// Whether it ran.
    pub async fn call(&self, call: Call) -> Result<Value, Failure> {
        if !self.shelf.has(call.function) {
            return Err(Failure::not_sent(Unsent::NoFunction));
        }
        let make = |form| self.shelf.command(&call, form);
        self.send(make, call.deadline).await
    }

    /// Runs a plain command on the lane of the key.
    ///
    /// # Errors
    /// Whether it ran.
    pub async fn command(
        &self,
        _key: &[u8],
        command: redis::Cmd,
        deadline: Instant,
    ) -> Result<Value, Failure> {
        self.send(|_| Some(command.clone()), deadline).await
    }

    async fn send(
        &self,
        make: impl Fn(Form) -> Option<redis::Cmd>,
        deadline: Instant,
    ) -> Result<Value, Failure> {
        let lane = async {
            let mut lane = self.lane.lock().await;
            if let Some((socket, form)) = lane.as_ref().filter(|(socket, _)| socket.is_alive()) {
                return Some((Arc::clone(socket), *form));
            }
            *lane = self.connect().await.ok();
            lane.clone()
        };
        let lane = timeout_at(deadline, lane).await;
        let lane = lane.map_err(|_| Failure::not_sent(Unsent::Deadline))?;
        let (socket, form) = lane.ok_or_else(|| Failure::not_sent(Unsent::NoPrimary))?;
        let command = make(form).ok_or_else(|| Failure::not_sent(Unsent::NoFunction))?;
        match timeout_at(deadline, socket.one(command)).await {
            Err(_) | Ok(Err(SocketError::Timeout)) => Err(Failure::unknown(Doubt::Timeout)),
            Ok(Err(_)) => Err(Failure::unknown(Doubt::LinkLost)),
            Ok(Ok(Value::ServerError(e))) => Err(Failure::Refused {
                code: e.code().to_owned(),
                detail: e.details().unwrap_or_default().to_owned(),
            }),
            Ok(Ok(value)) => Ok(value),
        }
    }

    /// Stores bytes for `px_ms` milliseconds, with the wait of the durability level.
    ///
    /// # Errors
    /// Whether it was stored.
    pub async fn put(
        &self,
        key: Bytes,
        value: Bytes,
        px_ms: u64,
        deadline: Instant,
    ) -> Result<(), Failure> {
        let mut command = redis::cmd("SET");
        command.arg(key.as_ref()).arg(value.as_ref()).arg("PX").arg(px_ms);
        self.command(&key, command, deadline).await.map(drop)
    }

    /// Reads bytes; none if the key is not there.
    ///
    /// # Errors
    /// Why it could not be read.
    pub async fn get(&self, key: Bytes, deadline: Instant) -> Result<Option<Bytes>, Failure> {
        let mut command = redis::cmd("GET");
        command.arg(key.as_ref());
        match self.command(&key, command, deadline).await? {
            Value::BulkString(bytes) => Ok(Some(Bytes::from(bytes))),
            _ => Ok(None),
        }
    }

    /// A number that rises whenever the identity of a primary or the link of a lane changed. Whoever
    /// relies on something read before a rise reads it again.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Whether calls can be served: false while a store is not the one it was, or unreachable.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.lane.try_lock().is_ok_and(|lane| lane.is_some())
    }
}
