//! The real binary as a child process: started on free ports, watched by its lines and its exit.

use std::io::{BufRead as _, BufReader, Read};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest any step of the process may take, start and exit included. Generous, since the
/// machine is shared; a healthy step takes milliseconds.
const STEP: Duration = Duration::from_secs(60);

/// Lines of stdout kept unread; the banner has about thirty.
const LINES_MAX: usize = 256;

/// Periods short enough for tests, limits high enough not to be in the way.
pub(crate) const FAST: [&str; 6] = [
    "--wait-period-ms=40",
    "--wait-active-period-ms=4",
    "--guard-join-per-minute=1000000",
    "--guard-info-per-minute=1000000",
    "--guard-call-per-minute=1000000",
    "--log-format=json",
];

/// A running `roomring`.
#[derive(Debug)]
pub(crate) struct Server {
    child: Mutex<Child>,
    stdout: Mutex<Receiver<String>>,
    stderr: Arc<Mutex<String>>,
    /// One message per piece of stderr.
    stderr_grew: Mutex<Receiver<()>>,
    stderr_reader: Option<JoinHandle<()>>,
    pub(crate) mcp: SocketAddr,
    pub(crate) admin: SocketAddr,
}

/// How a process ended and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Server {
    /// Starts on free ports and waits for the first line.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::spawn(roomring().args(command(args)))
    }

    /// Starts with a data directory, and so that [`Self::fill_disk`] is a failed write to it
    /// instead of a signal.
    pub(crate) fn start_fillable(dir: &Path) -> Self {
        let dir = format!("--data-dir={}", dir.display());
        let mut shell = Command::new("sh");
        shell.args(["-c", "trap '' XFSZ; exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_roomring")]);
        Self::spawn(shell.args(command(&[&dir])).args(FAST))
    }

    /// From now on the process cannot write to any file, as on a full disk.
    pub(crate) fn fill_disk(&self) {
        let pid = self.child.lock().unwrap().id().to_string();
        let status = Command::new("prlimit").args(["--pid", &pid, "--fsize=0"]).status().unwrap();
        assert!(status.success(), "prlimit");
    }

    /// Starts with a data directory.
    pub(crate) fn start_in(dir: &Path, args: &[&str]) -> Self {
        let dir = format!("--data-dir={}", dir.display());
        Self::start(&[&[dir.as_str()], args].concat())
    }

    /// Starts with a data directory, for suites that look at nothing but the edge: a composition
    /// of several processes may share the others among tests.
    pub(crate) fn start_edge(dir: &Path, args: &[&str]) -> Self {
        Self::start_in(dir, args)
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (send, stdout) = sync_channel(LINES_MAX);
        let pipe = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for line in pipe.lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let (grew, stderr_grew) = sync_channel(1);
        let (copy, mut pipe) = (Arc::clone(&stderr), child.stderr.take().unwrap());
        let stderr_reader = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(n @ 1..) = pipe.read(&mut chunk) {
                copy.lock().unwrap().push_str(&String::from_utf8_lossy(&chunk[..n]));
                // A full channel already says that there is more to read.
                let _ = grew.try_send(());
            }
        });
        let first_line = match stdout.recv_timeout(STEP) {
            Ok(line) => line,
            Err(error) => {
                // Its last words are complete only when it has ended.
                drop(child.kill());
                drop(stderr_reader.join());
                panic!("no first line: {error}; stderr: {}", stderr.lock().unwrap());
            }
        };
        let (mcp, admin) = addresses(&first_line);
        Self {
            child: Mutex::new(child),
            stdout: Mutex::new(stdout),
            stderr,
            stderr_grew: Mutex::new(stderr_grew),
            stderr_reader: Some(stderr_reader),
            mcp,
            admin,
        }
    }

    /// The lines after the first, up to one that satisfies `last`.
    pub(crate) fn lines_until(&self, last: impl Fn(&str) -> bool) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.stdout.lock().unwrap().recv_timeout(STEP).unwrap();
            let done = last(&line);
            lines.push(line);
            if done {
                return lines;
            }
        }
    }

    /// SIGKILL, from any thread. The process runs no further instruction once this returns.
    pub(crate) fn kill(&self) {
        self.child.lock().unwrap().kill().unwrap();
    }

    /// SIGKILL, whoever else sends it too, and the end of the process: its locks are free then.
    pub(crate) fn end(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends a signal by name, for example `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.lock().unwrap().id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(status.success(), "kill -s {name}");
    }

    /// What stands on stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Waits until stderr holds some text.
    pub(crate) fn stderr_until(&self, needle: &str) {
        while !self.stderr().contains(needle) {
            let grew = self.stderr_grew.lock().unwrap().recv_timeout(STEP);
            assert!(grew.is_ok(), "no `{needle}` in {}", self.stderr());
        }
    }

    /// Waits for the exit: its standard output ends, then the process is reaped.
    pub(crate) fn wait(mut self) -> Ended {
        let mut stdout = String::new();
        while let Ok(line) = self.stdout.lock().unwrap().recv_timeout(STEP) {
            stdout.push_str(&line);
            stdout.push('\n');
        }
        let code = self.child.lock().unwrap().wait().unwrap().code();
        if let Some(reader) = self.stderr_reader.take() {
            reader.join().unwrap();
        }
        Ended { code, stdout, stderr: self.stderr() }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        drop(child.kill());
        drop(child.wait());
    }
}

/// Runs to the end, for command lines that serve nothing. `args` are taken as they are.
pub(crate) fn run(args: &[&str], variables: &[(&str, &str)]) -> Ended {
    let out = roomring().args(args).envs(variables.iter().copied()).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ended { code: out.status.code(), stdout: text(out.stdout), stderr: text(out.stderr) }
}

/// Arguments for a start on free ports.
pub(crate) fn command(args: &[&str]) -> Vec<String> {
    ["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"]
        .iter()
        .chain(args)
        .map(|arg| (*arg).to_owned())
        .collect()
}

fn roomring() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_roomring"));
    for name in std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("ROOMRING_"))
    {
        command.env_remove(name);
    }
    command
}

/// `listening url=http://HOST:PORT/mcp admin=http://HOST:PORT`
fn addresses(line: &str) -> (SocketAddr, SocketAddr) {
    let rest = line.strip_prefix("listening url=http://").unwrap_or_else(|| panic!("{line}"));
    let (mcp, admin) = rest.split_once("/mcp admin=http://").unwrap_or_else(|| panic!("{line}"));
    (mcp.parse().unwrap(), admin.parse().unwrap())
}
