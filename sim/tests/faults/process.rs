//! A program as a child process: started on a port it keeps, stopped, killed, started again.

use std::fs::OpenOptions;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::{Duration, Instant};

/// Longest a start or an ordered end may take.
const STEP: Duration = Duration::from_secs(60);

/// Lines of a log shown when a process ends ill.
const LAST_LINES: usize = 5;

/// How a program says that it serves.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Ready {
    /// Its first line begins with `listening`.
    Line,
    /// It answers `PING`, as Redis does.
    Ping(SocketAddr),
}

/// One program of the cluster.
#[derive(Debug)]
pub(crate) struct Process {
    pub(crate) name: String,
    program: PathBuf,
    args: Vec<String>,
    ready: Ready,
    /// Where its standard error goes, all starts in one file.
    log: PathBuf,
    child: Option<Child>,
}

/// A port that nobody has now.
pub(crate) fn free_port() -> SocketAddr {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

impl Process {
    pub(crate) fn new(
        name: &str,
        program: PathBuf,
        args: Vec<String>,
        ready: Ready,
        logs: &std::path::Path,
    ) -> Self {
        let log = logs.join(format!("{name}.log"));
        Self { name: name.to_owned(), program, args, ready, log, child: None }
    }

    /// Starts it and waits until it serves.
    pub(crate) fn start(&mut self) {
        let log = OpenOptions::new().create(true).append(true).open(&self.log).unwrap();
        let mut command = Command::new(&self.program);
        command.args(&self.args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(log);
        let mut child = command.spawn().unwrap_or_else(|error| {
            panic!("{} did not start: {error}; is {} there?", self.name, self.program.display())
        });
        let (send, lines) = sync_channel(1);
        let pipe = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            // Only the first line is waited for; the rest is read so that nobody blocks on it.
            for line in pipe.lines().map_while(Result::ok) {
                let _first_only = send.try_send(line);
            }
        });
        self.child = Some(child);
        let said = match self.ready {
            Ready::Line => lines.recv_timeout(STEP).unwrap_or_default(),
            Ready::Ping(address) => ping(address),
        };
        let good = said.starts_with("listening") || said.starts_with("+PONG");
        assert!(good, "{} said `{said}`; see {}", self.name, self.log.display());
    }

    pub(crate) fn signal(&self, name: &str) {
        let pid = self.child.as_ref().unwrap().id().to_string();
        let status = Command::new("kill").args(["-s", name, &pid]).status().unwrap();
        assert!(status.success(), "kill -s {name} {}", self.name);
    }

    /// The end of its standard error.
    pub(crate) fn last_words(&self) -> String {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = text.lines().rev().take(LAST_LINES).collect();
        lines.into_iter().rev().collect::<Vec<_>>().join("\n")
    }

    /// Starts it again if it has ended by itself, as a supervisor does; says so then.
    pub(crate) fn revive(&mut self) -> Option<String> {
        let status = self.child.as_mut().unwrap().try_wait().unwrap()?;
        self.start();
        Some(format!("{} ended by itself ({status})", self.name))
    }

    /// SIGKILL, and the end of the process.
    pub(crate) fn kill(&mut self) {
        let mut child = self.child.take().unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
    }

    /// SIGTERM, and the end of the process; its exit code.
    pub(crate) fn terminate(&mut self) -> Option<i32> {
        self.signal("TERM");
        let mut child = self.child.take().unwrap();
        let give_up = Instant::now() + STEP;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < give_up, "{} does not end", self.name);
            std::thread::park_timeout(Duration::from_millis(10));
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            drop(child.kill());
            drop(child.wait());
        }
    }
}

/// Asks until the answer is `+PONG`, or time is over.
fn ping(address: SocketAddr) -> String {
    let give_up = Instant::now() + STEP;
    let mut said = String::new();
    while Instant::now() < give_up {
        let mut answer = [0; 64];
        let asked = TcpStream::connect(address).and_then(|mut stream| {
            stream.set_read_timeout(Some(STEP))?;
            stream.write_all(b"PING\r\n")?;
            stream.read(&mut answer)
        });
        if let Ok(n) = asked {
            said = String::from_utf8_lossy(&answer[..n]).into_owned();
            if said.starts_with("+PONG") {
                break;
            }
        }
        std::thread::park_timeout(Duration::from_millis(20));
    }
    said
}
