//! One redis-server.

use std::io::{Error, ErrorKind};
use std::net::Ipv4Addr;
use std::path::{Path, PathBuf};

use redis::Value;
use tempfile::TempDir;

use super::process::{Process, free_port};
use super::until;
use crate::Address;
use crate::value::{info, text};

/// Attempts to find a port that nobody takes between looking for it and using it.
const ATTEMPTS: usize = 20;

/// A redis-server with a directory of its own. Dropping it kills it.
#[derive(Debug)]
pub struct Server {
    process: Option<Process>,
    program: PathBuf,
    args: Vec<String>,
    dir: TempDir,
    port: u16,
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
                process: None,
                program: program.to_owned(),
                args: args.iter().map(|arg| (*arg).to_owned()).collect(),
                dir: tempfile::tempdir()?,
                port: free_port()?,
            };
            match server.run() {
                Ok(()) => return Ok(server),
                Err(e) if e.kind() == ErrorKind::NotFound => return Err(e),
                Err(e) => last = e,
            }
        }
        Err(last)
    }

    /// Starts it, also again after `kill`: on the same port, with what its directory holds.
    ///
    /// # Errors
    /// That it does not start.
    pub fn run(&mut self) -> Result<(), Error> {
        self.kill();
        let mut args: Vec<String> =
            ["--port", &self.port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"]
                .map(str::to_owned)
                .to_vec();
        args.push(self.dir.path().display().to_string());
        args.extend_from_slice(&self.args);
        self.process = Some(Process::start(&self.program, &args, "eady to accept connections")?);
        Ok(())
    }

    /// Kills it with SIGKILL, if it runs.
    pub fn kill(&mut self) {
        self.process = None;
    }

    /// Kills it and deletes all that it stored.
    ///
    /// # Errors
    /// That its directory cannot be replaced.
    pub fn wipe(&mut self) -> Result<(), Error> {
        self.kill();
        self.dir = tempfile::tempdir()?;
        Ok(())
    }

    /// Stops its process, as a machine that hangs: it keeps its connections and answers nothing.
    ///
    /// # Errors
    /// That it does not run.
    pub fn pause(&self) -> Result<(), Error> {
        self.signal("STOP")
    }

    /// Lets it go on after `pause`.
    ///
    /// # Errors
    /// That it does not run.
    pub fn resume(&self) -> Result<(), Error> {
        self.signal("CONT")
    }

    fn signal(&self, name: &str) -> Result<(), Error> {
        self.process.as_ref().ok_or_else(|| Error::other("it does not run"))?.signal(name)
    }

    /// Runs one command, such as `["CONFIG", "SET", "maxmemory", "1mb"]`.
    ///
    /// # Errors
    /// The server's error, or that it is not reached.
    pub fn ask(&self, command: &[&str]) -> Result<Value, Error> {
        let client = redis::Client::open(self.url()).map_err(Error::other)?;
        let mut connection = client.get_connection().map_err(Error::other)?;
        let (name, args) = command.split_first().ok_or_else(|| Error::other("no command"))?;
        redis::cmd(name).arg(args).query(&mut connection).map_err(Error::other)
    }

    /// One field of INFO.
    ///
    /// # Errors
    /// That it is not reached, or has no such field.
    pub fn info(&self, field: &str) -> Result<String, Error> {
        let answer = self.ask(&["INFO", "everything"])?;
        let found = text(&answer).and_then(|all| info(all, field));
        found.map(str::to_owned).ok_or_else(|| Error::other(format!("INFO has no {field}")))
    }

    /// Whether it says that it is a primary; false if it is not reached.
    #[must_use]
    pub fn is_primary(&self) -> bool {
        self.process.is_some() && self.info("role").is_ok_and(|role| role == "master")
    }

    /// Waits until it is a replica that is in step with its primary.
    ///
    /// # Errors
    /// That it is not reached, or not in step after 20 s.
    pub fn until_in_step(&self) -> Result<(), Error> {
        until("the replica is in step", || {
            Ok(self.info("master_link_status").is_ok_and(|status| status == "up"))
        })
    }

    /// Waits until it counts `count` replicas that are in step: it does so by itself once a second.
    ///
    /// # Errors
    /// That it is not reached, or they are not in step after 20 s.
    pub fn until_replicas(&self, count: u64) -> Result<(), Error> {
        // Only shown where writes depend on it.
        let (good, all) =
            (concat!("min_sl", "aves_good_sl", "aves"), concat!("connected_sl", "aves"));
        until("the primary counts its replicas", || {
            let counted = self.info(good).or_else(|_| self.info(all))?;
            Ok(counted.parse::<u64>().is_ok_and(|counted| counted >= count))
        })
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> Address {
        Address { host: Ipv4Addr::LOCALHOST.to_string(), port: self.port }
    }

    /// Its port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
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
        self.process.as_ref().map(Process::id)
    }
}
