//! One redis-server.

use std::io::{BufRead as _, BufReader, Error, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use tempfile::TempDir;

use crate::Address;

/// Attempts to find a port that nobody takes between looking for it and using it.
const ATTEMPTS: usize = 20;

/// A redis-server with a directory of its own. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    child: Option<Child>,
    program: PathBuf,
    args: Vec<String>,
    dir: TempDir,
    port: u16,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Server {
    /// Starts `redis-server` with options such as `["--appendonly", "yes"]` and waits until it
    /// takes connections.
    ///
    /// # Errors
    /// That it is not installed, or does not start.
    pub fn start(args: &[&str]) -> Result<Self, Error> {
        Self::start_program(Path::new("redis-server"), args)
    }

    /// Like `start`, with another program, such as valkey-server.
    ///
    /// # Errors
    /// That it is not installed, or does not start.
    pub fn start_program(program: &Path, args: &[&str]) -> Result<Self, Error> {
        let mut last = Error::other("no attempt was made");
        for _ in 0..ATTEMPTS {
            let mut server = Self {
                child: None,
                program: program.to_owned(),
                args: args.iter().map(|arg| (*arg).to_owned()).collect(),
                dir: tempfile::tempdir()?,
                port: free_port()?,
            };
            match server.run() {
                Ok(()) => return Ok(server),
                Err(e) if e.kind() == ErrorKind::NotFound => {
                    let what = format!(
                        "{} is missing: install redis-server 7.0 or later",
                        program.display()
                    );
                    return Err(Error::new(ErrorKind::NotFound, what));
                }
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Starts it again after `kill`, on the same port and directory.
    ///
    /// # Errors
    /// That it does not start.
    pub fn run(&mut self) -> Result<(), Error> {
        self.kill();
        let mut command = Command::new(&self.program);
        command
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--dir"])
            .arg(self.dir.path())
            .args(["--save", "", "--daemonize", "no"])
            .args(&self.args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null());
        let mut child = command.spawn()?;
        let said = child.stdout.take().map(BufReader::new);
        self.child = Some(child);
        let mut said = said.ok_or_else(|| Error::other("it has no output"))?;
        let mut seen = String::new();
        loop {
            let before = seen.len();
            if said.read_line(&mut seen)? == 0 {
                self.kill();
                return Err(Error::other(format!("redis-server did not start: {seen}")));
            }
            let line = seen.get(before..).unwrap_or_default();
            if line.contains("eady to accept connections") {
                break;
            }
        }
        // What it says later must be read too, or it stops when the pipe is full.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Ok(())
    }

    /// Kills it with SIGKILL, if it runs.
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            drop(child.kill());
            drop(child.wait());
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> Address {
        Address { host: Ipv4Addr::LOCALHOST.to_string(), port: self.port }
    }

    /// `redis://127.0.0.1:PORT`
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Its directory.
    #[must_use]
    pub fn dir(&self) -> &Path {
        self.dir.path()
    }

    /// Its process.
    #[must_use]
    pub fn pid(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16, Error> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
