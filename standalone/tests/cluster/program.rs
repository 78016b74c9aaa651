//! One process of the cluster: started on free ports, watched by its first line and its exit.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, Once};
use std::thread::JoinHandle;
use std::time::Duration;

/// Longest any step of a process may take, start and exit included. Generous, since the machine
/// is shared; a healthy step takes a second or two.
pub(crate) const STEP: Duration = Duration::from_secs(60);

/// A running gateway or node.
#[derive(Debug)]
pub(crate) struct Program {
    name: &'static str,
    child: Mutex<Child>,
    stdout: Arc<Mutex<String>>,
    stderr: Arc<Mutex<String>>,
    readers: Vec<JoinHandle<()>>,
    /// Where it serves.
    pub(crate) at: SocketAddr,
    pub(crate) admin: SocketAddr,
}

/// How a process ended and what it said.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Program {
    /// Starts `roomring-gateway` or `roomring-node` and waits for its first line.
    pub(crate) fn start(name: &'static str, args: &[String]) -> Self {
        let mut child = command(name)
            .args(["--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"])
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (first, first_line) = sync_channel(1);
        let pipe = BufReader::new(child.stdout.take().unwrap());
        let stdout = Arc::new(Mutex::new(String::new()));
        let copy = Arc::clone(&stdout);
        let stdout_reader = std::thread::spawn(move || {
            for line in pipe.lines().map_while(Result::ok) {
                copy.lock().unwrap().push_str(&format!("{line}\n"));
                // Only the first is waited for; a full channel holds it.
                let _ = first.try_send(line);
            }
        });
        let stderr = Arc::new(Mutex::new(String::new()));
        let (copy, mut pipe) = (Arc::clone(&stderr), child.stderr.take().unwrap());
        let stderr_reader = std::thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(n @ 1..) = pipe.read(&mut chunk) {
                copy.lock().unwrap().push_str(&String::from_utf8_lossy(&chunk[..n]));
            }
        });
        let Ok(line) = first_line.recv_timeout(STEP) else {
            // Its last words are complete only when it has ended.
            drop(child.kill());
            drop(stderr_reader.join());
            panic!("{name}: no first line; stderr: {}", stderr.lock().unwrap());
        };
        let (at, admin) = addresses(&line);
        let readers = vec![stdout_reader, stderr_reader];
        Self { name, child: Mutex::new(child), stdout, stderr, readers, at, admin }
    }

    /// SIGKILL, and the end of the process.
    pub(crate) fn kill(&self) {
        let mut child = self.child.lock().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// Sends a signal by name, for example `TERM`.
    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.lock().unwrap().id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(status.success(), "kill -s {name} of {}", self.name);
    }

    /// What stands on stderr so far.
    pub(crate) fn stderr(&self) -> String {
        self.stderr.lock().unwrap().clone()
    }

    /// Waits for the exit.
    pub(crate) fn wait(mut self) -> Ended {
        let (ended, end) = sync_channel(1);
        let readers = std::mem::take(&mut self.readers);
        std::thread::spawn(move || {
            for reader in readers {
                drop(reader.join());
            }
            let _ = ended.send(());
        });
        assert!(end.recv_timeout(STEP).is_ok(), "{} does not end: {}", self.name, self.stderr());
        let code = self.child.lock().unwrap().wait().unwrap().code();
        let stdout = self.stdout.lock().unwrap().clone();
        Ended { code, stdout, stderr: self.stderr() }
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let mut child = self.child.lock().unwrap();
        drop(child.kill());
        drop(child.wait());
    }
}

/// A program of this workspace, beside the one that cargo has built for the tests, without this
/// process's own settings.
pub(crate) fn command(name: &str) -> Command {
    let mut command = Command::new(built().join(name));
    for name in std::env::vars().map(|(name, _)| name).filter(|name| name.starts_with("ROOMRING_"))
    {
        command.env_remove(name);
    }
    command
}

/// The folder of the programs, which are fresh. Cargo builds for a test only the programs of its
/// own package, and an old gateway would be tested without anybody noticing.
fn built() -> PathBuf {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let mut cargo = Command::new("cargo");
        cargo.args(["build", "--locked", "--quiet", "--bins"]);
        cargo.args(["--package", "gateway", "--package", "room-node"]);
        cargo.args((!cfg!(debug_assertions)).then_some("--release"));
        cargo.current_dir(env!("CARGO_MANIFEST_DIR"));
        let done = cargo.stdin(Stdio::null()).output().unwrap();
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    });
    Path::new(env!("CARGO_BIN_EXE_roomring")).parent().unwrap().to_owned()
}

/// `listening url=http://HOST:PORT/mcp admin=http://HOST:PORT`, or `grpc=HOST:PORT`.
fn addresses(line: &str) -> (SocketAddr, SocketAddr) {
    let rest = line.strip_prefix("listening ").unwrap_or_else(|| panic!("{line}"));
    let (at, admin) = rest.split_once(" admin=http://").unwrap_or_else(|| panic!("{line}"));
    let at = match at.strip_prefix("grpc=") {
        Some(at) => at,
        None => at.strip_prefix("url=http://").and_then(|at| at.strip_suffix("/mcp")).unwrap(),
    };
    (at.parse().unwrap(), admin.parse().unwrap())
}
