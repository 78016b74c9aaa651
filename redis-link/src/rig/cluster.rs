//! A Redis Cluster.

use std::io::Error;

use super::process::free_port;
use super::{Server, until};
use crate::value::{info, text};
use crate::{SLOTS, slot};

/// Primaries with their replicas.
#[derive(Debug)]
pub struct Cluster {
    /// First the primaries, then the replicas: those of primary `i` are `i + primaries`,
    /// `i + 2 * primaries` and so on.
    pub servers: Vec<Server>,
    primaries: usize,
}

impl Cluster {
    /// Starts `primaries` primaries with `replicas` replicas each and waits until the cluster is
    /// formed and all replicas are in step. `args` are for each of the servers.
    ///
    /// # Errors
    /// What does not start.
    pub fn start(primaries: usize, replicas: usize, args: &[&str]) -> Result<Self, Error> {
        let mut servers = Vec::new();
        for _ in 0..primaries * (1 + replicas) {
            servers.push(node(args)?);
        }
        let cluster = Self { servers, primaries };
        cluster.share_out()?;
        cluster.meet()?;
        cluster.follow()?;
        for server in &cluster.servers {
            until("the cluster is formed", || {
                let told = server.ask(&["CLUSTER", "INFO"])?;
                Ok(text(&told).and_then(|told| info(told, "cluster_state")) == Some("ok"))
            })?;
        }
        Ok(cluster)
    }

    fn share_out(&self) -> Result<(), Error> {
        for (index, server) in self.servers.iter().enumerate() {
            server.ask(&["CLUSTER", "SET-CONFIG-EPOCH", &(index + 1).to_string()])?;
            if index < self.primaries {
                let slots = usize::from(SLOTS);
                let first = index * slots / self.primaries;
                let last = (index + 1) * slots / self.primaries - 1;
                let (first, last) = (first.to_string(), last.to_string());
                server.ask(&["CLUSTER", "ADDSLOTSRANGE", &first, &last])?;
            }
        }
        Ok(())
    }

    fn meet(&self) -> Result<(), Error> {
        let Some((first, others)) = self.servers.split_first() else { return Ok(()) };
        for other in others {
            let bus = first_line(other, "cluster-port")?;
            first.ask(&["CLUSTER", "MEET", "127.0.0.1", &other.port().to_string(), &bus])?;
        }
        let all = self.servers.len().to_string();
        for server in &self.servers {
            until("the nodes know one another", || {
                let told = server.ask(&["CLUSTER", "INFO"])?;
                Ok(text(&told).and_then(|told| info(told, "cluster_known_nodes")) == Some(&all))
            })?;
        }
        Ok(())
    }

    fn follow(&self) -> Result<(), Error> {
        for (index, server) in self.servers.iter().enumerate().skip(self.primaries) {
            let Some(primary) = self.servers.get(index % self.primaries) else { continue };
            let id = primary.ask(&["CLUSTER", "MYID"])?;
            let id = text(&id).unwrap_or_default();
            until("the replica follows", || Ok(server.ask(&["CLUSTER", "REPLICATE", id]).is_ok()))?;
        }
        self.servers.iter().skip(self.primaries).try_for_each(Server::until_in_step)?;
        let replicas = (self.servers.len() / self.primaries).saturating_sub(1);
        let replicas = u64::try_from(replicas).map_err(Error::other)?;
        self.servers.iter().take(self.primaries).try_for_each(|s| s.until_replicas(replicas))
    }

    /// `redis+cluster://127.0.0.1:PORT,...` with all servers.
    #[must_use]
    pub fn url(&self) -> String {
        let hosts: Vec<_> = self.servers.iter().map(|s| s.address().to_string()).collect();
        format!("redis+cluster://{}", hosts.join(","))
    }

    /// Index of the server that owns the slot of a key, as it says itself.
    #[must_use]
    pub fn owner(&self, key: &str) -> Option<usize> {
        self.servers.iter().position(|server| {
            let asked = server.is_primary().then(|| server.ask(&["EXISTS", key]));
            asked.is_some_and(|answer| answer.is_ok())
        })
    }

    /// Moves the slot of `key` with all its keys from the server `from` to the server `to`.
    ///
    /// # Errors
    /// What does not work.
    pub fn migrate(&self, key: &str, from: usize, to: usize) -> Result<(), Error> {
        self.begin_move(key, from, to)?;
        while self.move_some(key, from, to, 1_000)? > 0 {}
        self.end_move(key, from, to)
    }

    /// Tells both that the slot of `key` is on its way, and moves nothing yet.
    ///
    /// # Errors
    /// What does not work.
    pub fn begin_move(&self, key: &str, from: usize, to: usize) -> Result<(), Error> {
        let (from, from_id, to, to_id) = self.both(from, to)?;
        let slot = slot(key.as_bytes()).to_string();
        to.ask(&["CLUSTER", "SETSLOT", &slot, "IMPORTING", &from_id])?;
        from.ask(&["CLUSTER", "SETSLOT", &slot, "MIGRATING", &to_id]).map(drop)
    }

    /// Moves up to `count` keys of a slot that is on its way; how many there were.
    ///
    /// # Errors
    /// What does not work.
    pub fn move_some(
        &self,
        key: &str,
        from: usize,
        to: usize,
        count: usize,
    ) -> Result<usize, Error> {
        let (from, _, to, _) = self.both(from, to)?;
        let slot = slot(key.as_bytes()).to_string();
        let keys = from.ask(&["CLUSTER", "GETKEYSINSLOT", &slot, &count.to_string()])?;
        let keys: Vec<&str> = crate::value::items(&keys).iter().filter_map(text).collect();
        let port = to.port().to_string();
        for key in &keys {
            from.ask(&["MIGRATE", "127.0.0.1", &port, key, "0", "5000"])?;
        }
        Ok(keys.len())
    }

    /// Gives the slot of `key`, whose keys have all moved, to its new owner.
    ///
    /// # Errors
    /// What does not work.
    pub fn end_move(&self, key: &str, from: usize, to: usize) -> Result<(), Error> {
        let (from, _, to, to_id) = self.both(from, to)?;
        let slot = slot(key.as_bytes()).to_string();
        for server in [to, from] {
            server.ask(&["CLUSTER", "SETSLOT", &slot, "NODE", &to_id])?;
        }
        Ok(())
    }

    /// Two servers with the names by which the cluster knows them.
    fn both(&self, from: usize, to: usize) -> Result<(&Server, String, &Server, String), Error> {
        let [from, to] = [from, to].map(|index| self.servers.get(index));
        let (from, to) = from.zip(to).ok_or_else(|| Error::other("no such server"))?;
        let (from_id, to_id) = (from.ask(&["CLUSTER", "MYID"])?, to.ask(&["CLUSTER", "MYID"])?);
        let id = |value| text(value).unwrap_or_default().to_owned();
        Ok((from, id(&from_id), to, id(&to_id)))
    }
}

fn node(args: &[&str]) -> Result<Server, Error> {
    let bus = free_port()?.to_string();
    let own = [
        "--cluster-enabled",
        "yes",
        "--cluster-node-timeout",
        "1000",
        "--cluster-port",
        &bus,
        "--repl-diskless-sync-delay",
        "0",
        "--repl-ping-replica-period",
        "1",
        "--cluster-replica-validity-factor",
        "0",
    ];
    Server::start(&[args, &own].concat())
}

/// The value of one setting.
fn first_line(server: &Server, setting: &str) -> Result<String, Error> {
    let told = server.ask(&["CONFIG", "GET", setting])?;
    let value = crate::value::field(&told, setting).and_then(text).map(str::to_owned);
    value.ok_or_else(|| Error::other(format!("no setting {setting}")))
}
