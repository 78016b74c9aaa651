//! A whole cluster on the servers' core: redis-server, one room node, one gateway.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;
use std::process::{Command, Stdio};

use redis_link::rig;
use tempfile::TempDir;

use crate::serve::server::{SERVER_CORE, Server, cpu_us};

/// Longer than a run: no agent may leave in it.
const LEASE_MS: u64 = 3_600_000;

/// When Redis flushes its append-only file.
#[derive(Clone, Copy)]
pub(crate) enum Fsync {
    EverySecond,
    Always,
}

pub(crate) struct Fleet {
    gateway: Server,
    node: Server,
    redis: rig::Server,
    admin: SocketAddr,
    _dir: TempDir,
}

impl Fleet {
    pub(crate) fn start(fsync: Fsync) -> Self {
        let (fsync, durability) = match fsync {
            Fsync::EverySecond => ("everysec", "d1"),
            Fsync::Always => ("always", "d2"),
        };
        let redis = rig::Server::start(&[
            "--appendonly",
            "yes",
            "--appendfsync",
            fsync,
            // A rewrite is work of another process at a moment of its own.
            "--auto-aof-rewrite-percentage",
            "0",
        ]);
        let redis = redis.expect("install redis-server 7");
        pin(redis.pid().unwrap());
        let dir = tempfile::tempdir_in("target/bench").unwrap();
        let keys = dir.path().join("handle-keys");
        let mut private = std::fs::OpenOptions::new();
        let mut file = private.create_new(true).write(true).mode(0o600).open(&keys).unwrap();
        file.write_all(b"1:KioqKioqKioqKioqKioqKioqKioqKioqKioqKioqKio=\n").unwrap();
        let common = [
            format!("--redis-url={}", redis.url()),
            format!("--durability={durability}"),
            "--listen=127.0.0.1:0".to_owned(),
            "--admin-listen=127.0.0.1:0".to_owned(),
            "--log=warn".to_owned(),
            "--mcp-longpoll-enabled=true".to_owned(),
            "--hold-ms-max=25000".to_owned(),
            // Polls are admitted, and rooms fall asleep all the same.
            "--wait-period-ms=1".to_owned(),
            "--wait-active-period-ms=1".to_owned(),
            "--wait-burst=100".to_owned(),
        ];
        let own = [
            format!("--agent-lease-ms={LEASE_MS}"),
            "--idle-to-stub-ms=2000".to_owned(),
            // One core for all of it is meant to be busy.
            "--shed-cpu-percent=0".to_owned(),
        ];
        let node = start("roomring-node", &[&common[..], &own].concat(), "grpc=");
        let own = [
            format!("--handle-keys-file={}", keys.display()),
            "--guard-join-per-minute=100000000".to_owned(),
            "--guard-info-per-minute=100000000".to_owned(),
            "--guard-call-per-minute=100000000".to_owned(),
        ];
        let gateway = start("roomring-gateway", &[&common[..], &own].concat(), "url=http://");
        let admin = address(node.first_line(), "admin=http://").unwrap();
        Self { gateway, node, redis, admin, _dir: dir }
    }

    pub(crate) fn at(&self) -> SocketAddr {
        self.gateway.at
    }

    /// CPU time of all processes together, in microseconds.
    pub(crate) fn cpu_us(&self) -> f64 {
        self.cpu_us_each().iter().sum()
    }

    /// That of gateway, node and Redis.
    pub(crate) fn cpu_us_each(&self) -> [f64; 3] {
        self.pids().map(cpu_us)
    }

    pub(crate) fn pids(&self) -> [u32; 3] {
        [self.gateway.pid(), self.node.pid(), self.redis_pid()]
    }

    pub(crate) fn redis_pid(&self) -> u32 {
        self.redis.pid().unwrap()
    }

    /// Resident memory of gateway and node, in bytes.
    pub(crate) fn resident(&self) -> f64 {
        resident(self.gateway.pid()) + resident(self.node.pid())
    }

    /// The sum of a metric of the node over its labels.
    pub(crate) fn metric(&self, name: &str) -> f64 {
        let mut stream = TcpStream::connect(self.admin).unwrap();
        write!(stream, "GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
            .unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        let of = |line: &str| {
            let rest = line.strip_prefix(name)?;
            let value = rest.strip_prefix(' ').or_else(|| Some(rest.split_once("} ")?.1))?;
            value.trim().parse::<f64>().ok()
        };
        let values: Vec<f64> = text.lines().filter_map(of).collect();
        assert!(!values.is_empty(), "no metric {name}");
        values.iter().sum()
    }
}

/// Resident memory of a process, in bytes.
pub(crate) fn resident(pid: u32) -> f64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<f64>().unwrap() * 1024.0
}

/// A program that `cargo xtask bench` has built beside `roomring`.
fn start(name: &str, args: &[String], before: &'static str) -> Server {
    let program = Path::new(env!("CARGO_BIN_EXE_roomring")).with_file_name(name);
    assert!(program.is_file(), "no {name}: run `cargo xtask bench cluster`");
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    Server::start(&program, &args, |line| address(line, before))
}

/// The address that follows a word of the first line.
fn address(line: &str, before: &str) -> Option<SocketAddr> {
    let (_, rest) = line.split_once(before)?;
    rest.split(['/', ' ', '\n']).next()?.parse().ok()
}

fn pin(pid: u32) {
    let mut taskset = Command::new("taskset");
    let pinned = taskset.args(["-apc", SERVER_CORE, &pid.to_string()]).stdout(Stdio::null());
    assert!(pinned.status().unwrap().success());
}
