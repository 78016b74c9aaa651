//! `cargo xtask dev`: a whole cluster on this machine with one command, for people who try or
//! change something: a Redis of its own, room nodes, and gateways in front of them.
//!
//! Everything listens on loopback; nodes and admin ports are picked by the system. The children
//! are in process groups of their own, so that Ctrl-C reaches this task alone and it takes them
//! down in order: gateways, nodes, Redis, of all regions together. What they log is in files beside their data.

mod keys;
mod member;
mod regions;

use std::fs::File;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

use crate::child;
use crate::tools;
use member::{Member, START};
use regions::Region;

/// What the task waits for.
enum Event {
    /// A line of a child's standard output.
    Line {
        member: String,
        line: String,
    },
    /// A child's standard output has ended, and so has the child, or soon.
    Ended {
        member: String,
    },
    Signal,
}

/// Events kept unread; children say about thirty lines each, once.
const EVENTS_MAX: usize = 1_024;
/// Most processes of a kind: what a developer's machine carries.
const MEMBERS_MAX: u64 = 16;
/// The first gateway's port; the next ones follow.
const FIRST_PORT: u16 = 8_080;
/// Longest time a child may take to drain before it is killed. A gateway takes 25 s at most, a
/// node 30 s.
const DRAIN: Duration = Duration::from_secs(40);

struct Plan {
    nodes: u64,
    gateways: u64,
    regions: u64,
}

/// `cargo xtask dev [--nodes N] [--gateways M] [--regions K]`: nodes and gateways of each region.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let plan = plan(words)?;
    if !tools::present("redis-server") {
        return Err("redis-server is missing: install Redis 7 or newer (Debian: apt-get install \
                    redis-server) or put Valkey's server under that name"
            .to_owned());
    }
    regions::check_tools(plan.regions)?;
    build(root)?;
    let dir = tempfile::Builder::new().prefix("roomring-dev-").tempdir();
    let dir = dir.map_err(|error| format!("no temporary folder: {error}"))?;
    let (send, events) = sync_channel(EVENTS_MAX);
    signals(send.clone()).map_err(|error| format!("signals cannot be heard: {error}"))?;
    let programs = root.join("target/debug");
    let mut cluster = Cluster { dir: dir.path().to_owned(), programs, members: Vec::new(), send };
    let outcome = cluster.start(&plan, &events).and_then(|urls| {
        print(&cluster, &urls);
        wait(&events)
    });
    println!("dev: draining");
    let clean = cluster.end(&events);
    match outcome {
        Ok(End::Asked) => Ok(clean),
        Ok(End::Died(member)) | Err(Trouble::Died(member)) => {
            let words = member::last_words(dir.path(), &member);
            println!("dev: {member} ended by itself; its last words: {words}");
            Ok(false)
        }
        Err(Trouble::Asked) => Ok(clean),
        Err(Trouble::Other(why)) => {
            println!("dev: {why}");
            Ok(false)
        }
    }
}

/// Why everything is up no more.
enum End {
    Asked,
    Died(String),
}

/// Why not everything came up.
enum Trouble {
    Asked,
    Died(String),
    Other(String),
}

fn plan(words: &[&str]) -> Result<Plan, String> {
    let mut plan = Plan { nodes: 3, gateways: 2, regions: 1 };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let (name, value) = match word.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (*word, words.next().copied()),
        };
        let (count, max) = match name {
            "--nodes" => (&mut plan.nodes, MEMBERS_MAX),
            "--gateways" => (&mut plan.gateways, MEMBERS_MAX),
            "--regions" => (&mut plan.regions, regions::REGIONS_MAX),
            _ => {
                return Err(format!(
                    "dev takes --nodes N, --gateways M and --regions K, not {word}"
                ));
            }
        };
        let given = value.and_then(|value| value.parse().ok());
        *count = given
            .filter(|n| (1..=max).contains(n))
            .ok_or_else(|| format!("{name} takes a number from 1 to {max}"))?;
    }
    Ok(plan)
}

fn build(root: &Path) -> Result<(), String> {
    let args = ["build", "--locked", "--package", "gateway", "--package", "room-node", "--bins"];
    match child::shown(&mut child::cargo(root, &args), &mut |_| {}) {
        Ok(true) => Ok(()),
        Ok(false) => Err("the programs do not build".to_owned()),
        Err(error) => Err(format!("cargo did not start: {error}")),
    }
}

fn signals(send: SyncSender<Event>) -> io::Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP])?;
    std::thread::spawn(move || {
        for _signal in signals.forever() {
            // Nobody listens any more when the task is ending anyway.
            let _ = send.send(Event::Signal);
        }
    });
    Ok(())
}

/// Waits until somebody asks for the end, or a child ends by itself.
fn wait(events: &Receiver<Event>) -> Result<End, Trouble> {
    loop {
        match events.recv() {
            Ok(Event::Line { .. }) => {}
            Ok(Event::Ended { member }) => return Ok(End::Died(member)),
            Ok(Event::Signal) | Err(_) => return Ok(End::Asked),
        }
    }
}

fn print(cluster: &Cluster, urls: &[String]) {
    println!("dev: the cluster is up; Ctrl-C ends it");
    for url in urls {
        println!("  {url}");
    }
    println!("  data and logs, gone at the end: {}", cluster.dir.display());
}

struct Cluster {
    dir: PathBuf,
    programs: PathBuf,
    /// In the order they were started.
    members: Vec<Member>,
    send: SyncSender<Event>,
}

impl Cluster {
    /// Starts everything; returns a line about each for people.
    fn start(&mut self, plan: &Plan, events: &Receiver<Event>) -> Result<Vec<String>, Trouble> {
        let all = regions::prepare(&self.dir, plan.regions, plan.gateways);
        let all = all.map_err(Trouble::Other)?;
        let mut lines = Vec::new();
        // All of a kind after each other, whatever the region: so they end, last kind first.
        let mut urls = Vec::new();
        for region in &all {
            let port = free_port().map_err(|error| other(&format!("no free port: {error}")))?;
            let redis = self.redis(region, port, events)?;
            lines.push(format!("{:<8} {redis}", region.member("redis", None)));
            urls.push(redis);
        }
        for (region, redis) in all.iter().zip(&urls) {
            for n in 1..=plan.nodes {
                let name = region.member("node", Some(n));
                let mut command = self.program("roomring-node", redis);
                command.arg("--listen=127.0.0.1:0").arg(format!("--node-id={name}"));
                region.tell(&mut command);
                lines.push(self.served(&name, &mut command, events)?);
            }
        }
        let mut port = FIRST_PORT;
        for (region, redis) in all.iter().zip(&urls) {
            let keys = region.dir.join("handle-keys");
            keys::write(&keys).map_err(|error| other(&format!("no handle keys: {error}")))?;
            for (at, n) in (1..=plan.gateways).enumerate() {
                let mut command = self.program("roomring-gateway", redis);
                command.arg(format!("--listen=127.0.0.1:{}", port_or_any(port)));
                command.arg(format!("--handle-keys-file={}", keys.display()));
                // Nobody takes over from it: it ends at once.
                command.arg("--pre-stop-ms=0");
                region.tell_gateway(&mut command, at);
                let name = region.member("gateway", Some(n));
                lines.push(self.served(&name, &mut command, events)?);
                port += 1;
            }
        }
        Ok(lines)
    }

    /// A node or gateway, and the line about it.
    fn served(
        &mut self,
        name: &str,
        command: &mut Command,
        events: &Receiver<Event>,
    ) -> Result<String, Trouble> {
        let line = self.member(name, command, events, "listening ")?;
        Ok(format!("{name:<8} {}", line.trim_start_matches("listening ")))
    }

    fn redis(
        &mut self,
        region: &Region,
        port: u16,
        events: &Receiver<Event>,
    ) -> Result<String, Trouble> {
        let mut command = Command::new("redis-server");
        let dir = region.dir.display().to_string();
        command.args(["--bind", "127.0.0.1", "--port", &port.to_string(), "--dir", &dir]);
        command.args(["--appendonly", "yes", "--appendfsync", "everysec", "--save", ""]);
        let name = region.member("redis", None);
        self.member(&name, &mut command, events, "Ready to accept connections")?;
        Ok(format!("redis://127.0.0.1:{port}"))
    }

    fn program(&self, name: &str, redis: &str) -> Command {
        let mut command = Command::new(self.programs.join(name));
        command.args(["--admin-listen=127.0.0.1:0", &format!("--redis-url={redis}")]);
        command
    }

    /// Starts a child and waits for the line that says that it serves.
    fn member(
        &mut self,
        name: &str,
        command: &mut Command,
        events: &Receiver<Event>,
        ready: &str,
    ) -> Result<String, Trouble> {
        let log = File::create(member::log(&self.dir, name));
        let log = log.map_err(|error| other(&format!("no log of {name}: {error}")))?;
        command.stderr(Stdio::from(log));
        let member = Member::spawn(name, command, self.send.clone());
        self.members.push(member.map_err(|error| other(&format!("{name}: {error}")))?);
        loop {
            match events.recv_timeout(START) {
                Ok(Event::Line { member, line }) if member == name && line.contains(ready) => {
                    return Ok(line);
                }
                Ok(Event::Line { .. }) => {}
                Ok(Event::Ended { member }) => return Err(Trouble::Died(member)),
                Ok(Event::Signal) => return Err(Trouble::Asked),
                Err(_) => return Err(other(&format!("{name} said nothing within {START:?}"))),
            }
        }
    }

    /// Ends the children, last started first: gateways drain while there are nodes, nodes while
    /// there is a Redis. True if all ended well.
    fn end(&mut self, events: &Receiver<Event>) -> bool {
        let mut clean = true;
        while let Some(kind) = self.members.last().map(|member| member.kind().to_owned()) {
            let at = self.members.iter().position(|member| member.kind() == kind).unwrap_or(0);
            let mut ending = self.members.split_off(at);
            for member in &ending {
                member.ask_to_end();
            }
            for member in &mut ending {
                clean &= member.ended_within(DRAIN, events);
            }
        }
        clean
    }
}

fn other(why: &str) -> Trouble {
    Trouble::Other(why.to_owned())
}

/// A port that was free a moment ago.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// This port if it is free, else whichever the system picks.
fn port_or_any(port: u16) -> u16 {
    if TcpListener::bind(("127.0.0.1", port)).is_ok() { port } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plan_is_three_and_two_unless_told_otherwise() {
        let counts =
            |words: &[&str]| plan(words).map(|plan| (plan.nodes, plan.gateways, plan.regions));
        assert_eq!(counts(&[]), Ok((3, 2, 1)));
        assert_eq!(counts(&["--nodes", "4", "--gateways=1", "--regions=2"]), Ok((4, 1, 2)));
        for words in [&["--nodes"][..], &["--nodes=0"], &["--gateways=17"], &["--regions=5"]] {
            assert!(counts(words).is_err(), "{words:?}");
        }
    }
}
