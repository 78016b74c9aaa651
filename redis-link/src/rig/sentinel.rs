//! A primary, its replicas and three sentinels.

use std::io::Error;
use std::path::Path;

use redis::Value;
use tempfile::TempDir;

use super::process::{Process, free_port};
use super::{Server, until};
use crate::Address;
use crate::value::{field, int};

/// The name the sentinels know the primary by.
const NAME: &str = "rooms";
const SENTINELS: usize = 3;

/// One primary, two replicas, three sentinels that agree by two.
#[derive(Debug)]
pub struct Sentinel {
    /// The first one starts as the primary.
    pub servers: Vec<Server>,
    sentinels: Vec<(Process, u16)>,
    /// Holds the sentinels' files.
    _dir: TempDir,
}

impl Sentinel {
    /// Starts all, with `args` for each of the servers, and waits until the replicas are in step
    /// and the sentinels know them.
    ///
    /// # Errors
    /// What does not start.
    pub fn start(args: &[&str]) -> Result<Self, Error> {
        let fast = ["--repl-diskless-sync-delay", "0", "--repl-ping-replica-period", "1"];
        let all = [args, &fast].concat();
        let mut servers = vec![Server::start(&all)?];
        let port = servers.first().map(Server::port).unwrap_or_default();
        let of = format!("127.0.0.1 {port}");
        let mut replica = all.clone();
        replica.extend(["--replicaof", &of]);
        for _ in 0..2 {
            let server = Server::start(&replica)?;
            server.until_in_step()?;
            servers.push(server);
        }
        servers.first().map_or(Ok(()), |primary| primary.until_replicas(2))?;
        let dir = tempfile::tempdir()?;
        let sentinels = (0..SENTINELS).map(|index| sentinel(dir.path(), index, port));
        let sentinels = sentinels.collect::<Result<Vec<_>, _>>()?;
        let set = Self { servers, sentinels, _dir: dir };
        for (_, port) in &set.sentinels {
            until("the sentinels know all", || {
                let told = ask(*port, &["SENTINEL", "MASTER", NAME])?;
                let number = |name| field(&told, name).and_then(int);
                let replicas = concat!("num-sl", "aves");
                Ok(number(replicas) == Some(2) && number("num-other-sentinels") == Some(2))
            })?;
        }
        Ok(set)
    }

    /// `redis+sentinel://127.0.0.1:PORT,.../rooms`
    #[must_use]
    pub fn url(&self) -> String {
        let ports = self.sentinels.iter().map(|(_, port)| format!("127.0.0.1:{port}"));
        format!("redis+sentinel://{}/{NAME}", ports.collect::<Vec<_>>().join(","))
    }

    /// The primary that the sentinels name now.
    ///
    /// # Errors
    /// That no sentinel answers.
    pub fn primary(&self) -> Result<Address, Error> {
        let port = self.sentinels.first().map(|(_, port)| *port).unwrap_or_default();
        let told = ask(port, &["SENTINEL", "MASTER", NAME])?;
        let named = field(&told, "port").and_then(int).and_then(|port| u16::try_from(port).ok());
        let port = named.ok_or_else(|| Error::other("the sentinel names no primary"))?;
        Ok(Address { host: "127.0.0.1".to_owned(), port })
    }

    /// Index of the primary among `servers`.
    ///
    /// # Errors
    /// That no sentinel answers, or names another.
    pub fn primary_index(&self) -> Result<usize, Error> {
        let port = self.primary()?.port;
        let at = self.servers.iter().position(|server| server.port() == port);
        at.ok_or_else(|| Error::other("the sentinels name a server that is not of this set"))
    }

    /// Makes the sentinels promote a replica while the primary lives; its connections stay open.
    ///
    /// # Errors
    /// That the sentinels refuse, since they are busy with another promotion.
    pub fn fail_over(&self) -> Result<(), Error> {
        let port = self.sentinels.first().map(|(_, port)| *port).unwrap_or_default();
        ask(port, &["SENTINEL", "FAILOVER", NAME]).map(drop)
    }

    /// Kills all sentinels: nobody names the primary, nobody promotes another.
    pub fn kill_sentinels(&mut self) {
        self.sentinels.clear();
    }

    /// Kills the primary; returns its index. The sentinels promote a replica within some seconds.
    ///
    /// # Errors
    /// That no sentinel answers.
    pub fn kill_primary(&mut self) -> Result<usize, Error> {
        let index = self.primary_index()?;
        self.servers.get_mut(index).into_iter().for_each(Server::kill);
        Ok(index)
    }
}

fn sentinel(dir: &Path, index: usize, primary: u16) -> Result<(Process, u16), Error> {
    let port = free_port()?;
    let file = dir.join(format!("sentinel-{index}.conf"));
    let text = format!(
        "port {port}\nbind 127.0.0.1\ndir {}\n\
         sentinel monitor {NAME} 127.0.0.1 {primary} 2\n\
         sentinel down-after-milliseconds {NAME} 700\n\
         sentinel failover-timeout {NAME} 3000\n\
         sentinel parallel-syncs {NAME} 2\n",
        dir.display()
    );
    std::fs::write(&file, text)?;
    let args = [file.display().to_string(), "--sentinel".to_owned()];
    Ok((Process::start(Path::new("redis-server"), &args, "+monitor")?, port))
}

fn ask(port: u16, command: &[&str]) -> Result<Value, Error> {
    let client = redis::Client::open(format!("redis://127.0.0.1:{port}")).map_err(Error::other)?;
    let mut connection = client.get_connection().map_err(Error::other)?;
    let (name, args) = command.split_first().ok_or_else(|| Error::other("no command"))?;
    redis::cmd(name).arg(args).query(&mut connection).map_err(Error::other)
}
