//! The cluster in the place of the single process: the same words for the suites, several processes
//! behind them.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex};

use tokio::net::{TcpListener, TcpStream};

use crate::admin::Admin;
use crate::backend::{Backend, Shared};
use crate::program::{Ended, Program};

/// Periods short enough for tests, limits high enough not to be in the way.
pub(crate) const FAST: [&str; 6] = [
    "--wait-period-ms=40",
    "--wait-active-period-ms=4",
    "--guard-join-per-minute=1000000",
    "--guard-info-per-minute=1000000",
    "--guard-call-per-minute=1000000",
    "--log-format=json",
];

/// Flags that gateways do not have.
const OF_NODES: [&str; 6] = [
    "--idle-to-stub-ms",
    "--stub-to-cold-ms",
    "--agent-lease-ms",
    "--empty-room-ms",
    "--node-ttl-ms",
    "--node-heartbeat-ms",
];
/// Flags that nodes do not have, or that each gateway is given for itself.
const OF_GATEWAYS: [&str; 11] = [
    "--guard-join-per-minute",
    "--guard-info-per-minute",
    "--guard-call-per-minute",
    "--allow-host",
    "--allow-origin",
    "--trusted-proxy",
    "--body-bytes-max",
    "--connections-max",
    "--inflight-max",
    "--header-timeout-ms",
    "--body-timeout-ms",
];
/// What one process has instead of a Redis.
const OF_ONE_PROCESS: [&str; 2] = ["--ephemeral", "--data-dir"];

/// A fixed key: the same for all gateways, and for all starts on one folder.
const KEY: &str = "test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";

/// A running cluster.
#[derive(Debug)]
pub(crate) struct Server {
    /// Go first.
    pub(crate) gateways: Vec<Program>,
    pub(crate) backend: Behind,
    /// Where suites connect.
    pub(crate) mcp: SocketAddr,
    pub(crate) admin: SocketAddr,
    _admin: Option<Admin>,
    _dir: Option<tempfile::TempDir>,
}

/// A backend of this server alone, or one of several.
#[derive(Debug)]
pub(crate) enum Behind {
    Own(Mutex<Backend>),
    Shared(#[expect(dead_code, reason = "kept running")] Arc<Shared>),
}

impl Server {
    /// Starts on an empty Redis; connections are spread over both gateways.
    pub(crate) fn start(args: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut server = Self::start_in(dir.path(), args);
        server.mcp = spread(server.gateways.iter().map(|gateway| gateway.at).collect());
        server._dir = Some(dir);
        server
    }

    /// Starts over what an earlier start has left in `dir`; `mcp` is the first gateway.
    pub(crate) fn start_in(dir: &Path, args: &[&str]) -> Self {
        Self::before(dir, Backend::start(dir, &without(&OF_GATEWAYS, args)), args)
    }

    /// Starts over the servers of a set, which stay when this goes.
    pub(crate) fn start_over(url: String, dir: &Path, args: &[&str]) -> Self {
        Self::before(dir, Backend::over(url, &without(&OF_GATEWAYS, args)), args)
    }

    fn before(dir: &Path, backend: Backend, args: &[&str]) -> Self {
        let gateways: Vec<Program> =
            (0..2).map(|_| gateway(dir, &backend.url, &without(&OF_NODES, args))).collect();
        let all = gateways.iter().chain(&backend.nodes).map(|program| program.admin).collect();
        let admin = Admin::of(all);
        Self {
            mcp: gateways[0].at,
            admin: admin.at,
            gateways,
            backend: Behind::Own(Mutex::new(backend)),
            _admin: Some(admin),
            _dir: None,
        }
    }

    /// One gateway of its own, over nodes that other tests use too. `admin` is the gateway's.
    pub(crate) fn start_edge(dir: &Path, args: &[&str]) -> Self {
        let shared = Backend::shared(&without(&OF_GATEWAYS, args));
        let gateway = gateway(dir, &shared.backend.url, &without(&OF_NODES, args));
        Self {
            mcp: gateway.at,
            admin: gateway.admin,
            gateways: vec![gateway],
            backend: Behind::Shared(shared),
            _admin: None,
            _dir: None,
        }
    }

    /// Sends a signal to the gateways; the nodes get theirs when [`Self::wait`] has seen them end.
    pub(crate) fn signal(&self, name: &str) {
        for gateway in &self.gateways {
            gateway.signal(name);
        }
    }

    /// Waits for the exit of all: gateways first, then nodes. The code is the first that is not 0.
    pub(crate) fn wait(mut self) -> Ended {
        let mut ended: Vec<Ended> = self.gateways.drain(..).map(Program::wait).collect();
        if let Behind::Own(backend) = &self.backend {
            let mut backend = backend.lock().unwrap();
            for node in &backend.nodes {
                node.signal("TERM");
            }
            ended.extend(backend.nodes.drain(..).map(Program::wait));
        }
        let code = ended.iter().map(|ended| ended.code).find(|code| *code != Some(0));
        let code = code.unwrap_or(Some(0));
        let (stdout, stderr) = ended.into_iter().map(|ended| (ended.stdout, ended.stderr)).unzip();
        Ended { code, stdout, stderr }
    }

    /// The nodes of this server alone.
    pub(crate) fn backend(&self) -> std::sync::MutexGuard<'_, Backend> {
        match &self.backend {
            Behind::Own(backend) => backend.lock().unwrap(),
            Behind::Shared(_) => panic!("the nodes are shared with other tests"),
        }
    }
}

/// A gateway that ends at once when told to, unless the flags say otherwise.
pub(crate) fn gateway(dir: &Path, redis: &str, flags: &[&str]) -> Program {
    let keys = dir.join("handle-keys");
    std::fs::write(&keys, KEY).unwrap();
    let mut args =
        vec![format!("--redis-url={redis}"), format!("--handle-keys-file={}", keys.display())];
    if !flags.iter().any(|flag| flag.starts_with("--pre-stop-ms=")) {
        args.push("--pre-stop-ms=0".to_owned());
    }
    args.extend(flags.iter().map(|flag| (*flag).to_owned()));
    Program::start("roomring-gateway", &args)
}

/// Flags but some, and but those that mean nothing here.
fn without<'a>(others: &[&str], flags: &[&'a str]) -> Vec<&'a str> {
    let is_of =
        |names: &[&str], flag: &str| names.iter().any(|name| flag.split('=').next() == Some(*name));
    let kept = flags.iter().filter(|flag| !is_of(others, flag) && !is_of(&OF_ONE_PROCESS, flag));
    kept.copied().collect()
}

/// A port whose connections go to each address in turn. Must be called within a tokio runtime.
fn spread(to: Vec<SocketAddr>) -> SocketAddr {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let at = listener.local_addr().unwrap();
    let listener = TcpListener::from_std(listener).unwrap();
    tokio::spawn(async move {
        for to in to.iter().cycle() {
            let Ok((mut client, _)) = listener.accept().await else { return };
            let to = *to;
            tokio::spawn(async move {
                if let Ok(mut gateway) = TcpStream::connect(to).await {
                    drop(tokio::io::copy_bidirectional(&mut client, &mut gateway).await);
                }
            });
        }
    });
    at
}
