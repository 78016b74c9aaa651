//! One child process that says when it is ready.

use std::io::{BufRead as _, BufReader, Error, ErrorKind};
use std::net::{Ipv4Addr, TcpListener};
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A running redis-server of any kind. Dropping it kills it.
#[derive(Debug)]
pub(super) struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

impl Process {
    /// Starts a program and waits for a line of its output with `ready` in it.
    pub(super) fn start(program: &Path, args: &[String], ready: &str) -> Result<Self, Error> {
        let mut command = Command::new(program);
        command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let child = command.spawn().map_err(|e| match e.kind() {
            ErrorKind::NotFound => {
                let what = format!("{} is missing: install redis-server 7.0", program.display());
                Error::new(ErrorKind::NotFound, what)
            }
            _ => e,
        })?;
        let mut process = Self(child);
        let said = process.0.stdout.take().ok_or_else(|| Error::other("it has no output"))?;
        let mut said = BufReader::new(said);
        let (mut seen, mut line) = (String::new(), String::new());
        loop {
            line.clear();
            if said.read_line(&mut line)? == 0 {
                return Err(Error::other(format!("redis-server did not start: {seen}")));
            }
            if line.contains(ready) {
                break;
            }
            seen.push_str(&line);
        }
        // What it says later must be read too, or it stops when the pipe is full.
        std::thread::spawn(move || std::io::copy(&mut said, &mut std::io::sink()));
        Ok(process)
    }

    pub(super) fn id(&self) -> u32 {
        self.0.id()
    }

    /// Sends a signal by its name, such as `STOP`.
    pub(super) fn signal(&self, name: &str) -> Result<(), Error> {
        let status =
            Command::new("kill").arg(format!("-{name}")).arg(self.id().to_string()).status()?;
        if status.success() { Ok(()) } else { Err(Error::other("kill failed")) }
    }
}

/// A port that was free a moment ago.
pub(super) fn free_port() -> Result<u16, Error> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}
