//! Servers as child processes on the first core, and their CPU time.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, Stdio};

pub(crate) const SERVER_CORE: &str = "0";
const ASKING_CORE: &str = "1";
/// Where `cargo xtask bench` installs workerd.
const WORKERD: &str = "target/bench/worker/node_modules/@cloudflare/workerd-linux-64/bin/workerd";
const FRONT: &str = "bench/worker/front.capnp";

/// A running server; killed when dropped.
pub(crate) struct Server {
    child: Child,
    /// Kept open: a server must not fail at its next line.
    _stdout: BufReader<ChildStdout>,
    pub(crate) at: SocketAddr,
    first_line: String,
}

impl Server {
    /// Starts a program on the servers' core; `address` reads its first line.
    pub(crate) fn start(
        program: &Path,
        args: &[&str],
        address: impl Fn(&str) -> Option<SocketAddr>,
    ) -> Self {
        let mut child = Command::new("taskset")
            .args(["-c", SERVER_CORE])
            .arg(program)
            .args(args)
            // Names of benchmarks are no settings of a server.
            .env_remove("ROOMRING_BENCH_SLEEPERS")
            .env_remove("ROOMRING_BENCH_CASE")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        let at = address(&line);
        let at = at.unwrap_or_else(|| panic!("{} did not listen: {line}", program.display()));
        Self { child, _stdout: stdout, at, first_line: line }
    }

    /// CPU time of the process, user and system, in microseconds; read in ticks of 10 ms.
    pub(crate) fn cpu_us(&self) -> f64 {
        cpu_us(self.pid())
    }

    pub(crate) fn first_line(&self) -> &str {
        &self.first_line
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }
}

/// CPU time of a process, user and system, in microseconds; read in ticks of 10 ms.
pub(crate) fn cpu_us(pid: u32) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    // The name, in parentheses, may contain spaces; utime and stime are fields 14 and 15.
    let (_, fields) = stat.rsplit_once(") ").unwrap();
    let ticks: u64 = fields.split(' ').skip(11).take(2).map(|n| n.parse::<u64>().unwrap()).sum();
    ticks as f64 * 10_000.0
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// `roomring` with an embedded store that answers after fdatasync. Only what would end a run is
/// raised: joins from one address, the budget of calls a handle, and how long a poll stays refused.
pub(crate) fn ours(data: &Path) -> Server {
    let data = format!("--data-dir={}", data.display());
    let args = [
        data.as_str(),
        "--listen=127.0.0.1:0",
        "--admin-listen=127.0.0.1:0",
        "--guard-join-per-minute=1000000",
        "--guard-info-per-minute=100000000",
        "--guard-call-per-minute=100000000",
        "--wait-period-ms=3600000",
        "--agent-lease-ms=3600000",
        "--log=warn",
    ];
    Server::start(Path::new(env!("CARGO_BIN_EXE_roomring")), &args, |line| {
        line.split_once("url=http://")?.1.split_once('/')?.0.parse().ok()
    })
}

/// A peer of `bench/`.
pub(crate) fn peer(program: &Path, args: &[&str]) -> Server {
    Server::start(program, args, |line| line.strip_prefix("listening ")?.trim().parse().ok())
}

/// workerd with the front Worker; `None` where it is not installed.
pub(crate) fn worker() -> Option<Server> {
    workerd(FRONT, &[])
}

/// workerd with a configuration; `None` where it is not installed.
pub(crate) fn workerd(config: &str, args: &[&str]) -> Option<Server> {
    let program = Path::new(WORKERD);
    program.is_file().then(|| {
        let args = [&["serve", config, "--control-fd=1"], args].concat();
        Server::start(program, &args, |line| {
            let said: serde_json::Value = serde_json::from_str(line).ok()?;
            let port = u16::try_from(said["port"].as_u64()?).ok()?;
            Some(SocketAddr::from(([127, 0, 0, 1], port)))
        })
    })
}

/// Puts this process on the core that asks.
pub(crate) fn pin_this_process() {
    let pid = std::process::id().to_string();
    let mut taskset = Command::new("taskset");
    let pinned = taskset.args(["-pc", ASKING_CORE, &pid]).stdout(Stdio::null()).status();
    assert!(pinned.unwrap().success(), "two cores are needed");
}
