//! The link: what the other crates call.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use redis::Value;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::core::Core;
use crate::keeper::Keeper;
use crate::lane::Body;
use crate::library::Shelf;
use crate::metrics::Metrics;
use crate::primary::Map;
use crate::socket::Login;
use crate::{Call, Endpoint, Failure, OpenError, Settings, Unsent, pool};

/// Links to all primaries of an endpoint. Dropping it ends them.
#[derive(Debug)]
pub struct RedisLink {
    core: Arc<Core>,
    keeper: JoinHandle<()>,
}

impl Drop for RedisLink {
    fn drop(&mut self) {
        self.keeper.abort();
        // Lanes end with the last map that leads to them.
        self.core.map.send_replace(Arc::default());
    }
}

impl RedisLink {
    /// Finds the primaries, checks them and loads the libraries.
    ///
    /// # Errors
    /// What is wrong, in one line that says what to do.
    pub async fn open(
        settings: Settings,
        registry: &prometheus::Registry,
    ) -> Result<Arc<Self>, OpenError> {
        let (credentials, db) = match &settings.endpoint {
            Endpoint::Single { credentials, db, .. } => (credentials, *db),
            Endpoint::Sentinel { credentials, .. } | Endpoint::Cluster { credentials, .. } => {
                (credentials, 0)
            }
        };
        let login = Login {
            credentials: credentials.clone(),
            db,
            connect: Duration::from_millis(settings.connect_ms),
            response: Duration::from_millis(settings.response_ms),
        };
        let core = Arc::new(Core {
            shelf: Shelf::new(settings.library)?,
            metrics: Metrics::register(registry)?,
            settings,
            login,
            map: watch::Sender::new(Arc::new(Map::default())),
            changes: watch::Sender::new(0),
            nudge: Arc::new(Notify::new()),
            closed: AtomicBool::new(false),
        });
        let mut keeper = Keeper::new(&core);
        keeper.look().await?;
        core.metrics.open.set(1);
        Ok(Arc::new(Self { core, keeper: tokio::spawn(keeper.run()) }))
    }

    /// Runs a function on the primary that owns the key.
    ///
    /// # Errors
    /// Whether it ran.
    pub async fn call(&self, call: Call) -> Result<Value, Failure> {
        let function = self.core.shelf.function(call.function);
        let result = match function {
            None => Err(Failure::not_sent(Unsent::NoFunction)),
            Some(function) => {
                let (key, deadline) = (call.key.clone(), call.deadline);
                self.core.run(&key, Body::Call { call, function }, deadline).await
            }
        };
        self.core.metrics.called(&result);
        result
    }

    /// Runs a plain command on the lane of the key. It waits for no replica, and must not be one
    /// that blocks or changes the state of the connection.
    ///
    /// # Errors
    /// Whether it ran.
    pub async fn command(
        &self,
        key: &[u8],
        command: redis::Cmd,
        deadline: Instant,
    ) -> Result<Value, Failure> {
        let result = self.core.run(key, Body::Command(command), deadline).await;
        self.core.metrics.called(&result);
        result
    }

    /// Stores bytes for `px_ms` milliseconds, with the wait of the durability level, on a link that
    /// no lane shares. A key that is there stays as it is: it is this very upload, sent twice, and
    /// may have been made permanent in between.
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
        command.arg(key.as_ref()).arg(value.as_ref()).arg("PX").arg(px_ms).arg("NX");
        let result = pool::run(&self.core, &key, command, true, deadline).await;
        self.core.metrics.called(&result);
        result.map(drop)
    }

    /// Reads bytes; none if the key is not there.
    ///
    /// # Errors
    /// Why it could not be read.
    pub async fn get(&self, key: Bytes, deadline: Instant) -> Result<Option<Bytes>, Failure> {
        let mut command = redis::cmd("GET");
        command.arg(key.as_ref());
        let result = pool::run(&self.core, &key, command, false, deadline).await;
        self.core.metrics.called(&result);
        match result? {
            Value::BulkString(bytes) => Ok(Some(Bytes::from(bytes))),
            _ => Ok(None),
        }
    }

    /// A number that rises whenever the identity of a primary or the link of a lane changed. Whoever
    /// relies on something read before a rise reads it again.
    #[must_use]
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.core.changes.subscribe()
    }

    /// Whether all primaries are verified and the store is the one it was. While it is false, calls
    /// to those that are may still be served, unless the store is another one.
    #[must_use]
    pub fn is_open(&self) -> bool {
        !self.core.is_closed() && self.core.metrics.open.get() == 1
    }
}
