//! One connection to one server, which can be cut.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{AsyncConnectionConfig, ErrorKind, Pipeline, ProtocolVersion, RedisConnectionInfo};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::random::random;
use crate::{Address, Credentials};

/// Pipelines handed to the driver that it has not written yet.
const HANDED_MAX: usize = 64;

/// What a connection is made with.
#[derive(Clone, Debug)]
pub(crate) struct Login {
    pub(crate) credentials: Credentials,
    pub(crate) db: i64,
    pub(crate) connect: Duration,
    pub(crate) response: Duration,
}

/// Why there is no connection, or none any more.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum SocketError {
    #[error("no connection: {0}")]
    Connect(String),
    #[error("the name or password is refused")]
    Credentials,
    #[error("no answer in time")]
    Timeout,
    #[error("the connection was lost")]
    Lost,
}

/// One connection. Its driver ends with it, and with that the TCP connection.
#[derive(Debug)]
pub(crate) struct Socket {
    connection: MultiplexedConnection,
    driver: JoinHandle<()>,
    response: Duration,
    /// Where this connection's tokens begin, so that two connections share none.
    first: u64,
    tokens: AtomicU64,
}

impl Drop for Socket {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

impl Socket {
    /// Connects and says hello in RESP3.
    pub(crate) async fn open(address: &Address, login: &Login) -> Result<Self, SocketError> {
        let config = AsyncConnectionConfig::new();
        Self::with(address, login, config).await
    }

    /// Like `open`; what the server pushes goes to `pushed`, which must not block.
    pub(crate) async fn listening(
        address: &Address,
        login: &Login,
        pushed: impl Fn(redis::PushInfo) -> Result<(), ()> + Send + Sync + 'static,
    ) -> Result<Self, SocketError> {
        let config = AsyncConnectionConfig::new().set_push_sender(pushed);
        Self::with(address, login, config).await
    }

    async fn with(
        address: &Address,
        login: &Login,
        config: AsyncConnectionConfig,
    ) -> Result<Self, SocketError> {
        let open = Self::connect(address, login, config);
        match timeout(login.connect, open).await {
            Ok(opened) => opened,
            Err(_) => Err(SocketError::Connect("it took too long".to_owned())),
        }
    }

    async fn connect(
        address: &Address,
        login: &Login,
        config: AsyncConnectionConfig,
    ) -> Result<Self, SocketError> {
        let stream = TcpStream::connect((address.host.as_str(), address.port)).await;
        let stream = stream.map_err(|e| SocketError::Connect(e.to_string()))?;
        stream.set_nodelay(true).map_err(|e| SocketError::Connect(e.to_string()))?;
        let mut info = RedisConnectionInfo::default()
            .set_protocol(ProtocolVersion::RESP3)
            .set_skip_set_lib_name()
            .set_db(login.db);
        if let Some(name) = &login.credentials.name {
            info = info.set_username(name);
        }
        if let Some(password) = &login.credentials.password {
            info = info.set_password(password);
        }
        // The caller measures the time of an answer and cuts the link after it.
        let config = config.set_response_timeout(None).set_pipeline_buffer_size(HANDED_MAX);
        let made = MultiplexedConnection::new_with_config(&info, stream, config).await;
        let (connection, driver) = made.map_err(|e| match (e.kind(), e.code()) {
            (ErrorKind::AuthenticationFailed, _) | (_, Some("NOAUTH" | "WRONGPASS")) => {
                SocketError::Credentials
            }
            _ => SocketError::Connect(e.to_string()),
        })?;
        Ok(Self {
            connection,
            driver: tokio::spawn(driver),
            response: login.response,
            first: random(),
            tokens: AtomicU64::new(0),
        })
    }

    /// Sends commands as one write and takes one answer for each, errors of the server among them.
    /// After an error the connection is of no use.
    pub(crate) async fn ask(&self, commands: &Pipeline) -> Result<Vec<redis::Value>, SocketError> {
        let mut connection = self.connection.clone();
        let answers = connection.send_packed_commands(commands, 0, commands.len());
        match timeout(self.response, answers).await {
            Ok(Ok(values)) => Ok(values),
            Ok(Err(_)) => Err(SocketError::Lost),
            Err(_) => Err(SocketError::Timeout),
        }
    }

    /// Sends one command; an error of the server is a value too.
    pub(crate) async fn one(&self, command: redis::Cmd) -> Result<redis::Value, SocketError> {
        let mut commands = Pipeline::with_capacity(1);
        commands.add_command(command);
        self.ask(&commands).await?.pop().ok_or(SocketError::Lost)
    }

    /// A text that no other command of any connection carries.
    pub(crate) fn token(&self) -> String {
        let next = self.tokens.fetch_add(1, Ordering::Relaxed);
        format!("{:016x}-{next:x}", self.first)
    }

    /// Ends the connection; whoever waits for an answer hears that it is lost.
    pub(crate) fn cut(&self) {
        self.driver.abort();
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.driver.is_finished()
    }
}
