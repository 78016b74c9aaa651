//! A node in a network namespace of its own, joined to the machine by one virtual cable, on which
//! packets can be dropped: no reset, no end of a connection, as a switch or a firewall fails.
//!
//! Needs root, `ip` and `iptables`. The addresses are 10.231.N.0/30, N the number of the node.

use std::net::{SocketAddr, TcpListener};
use std::process::{Command, Stdio};

/// Which packets are dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    Both,
    ToNode,
    FromNode,
    /// Between the node and Redis, both ways; the gateways reach it.
    Redis,
}

/// One namespace with its cable; gone when dropped.
#[derive(Debug)]
pub(crate) struct Space {
    name: String,
    /// The machine's end of the cable.
    cable: String,
    number: usize,
    redis_port: u16,
    rules: std::sync::Mutex<Vec<Vec<String>>>,
}

impl Space {
    /// The namespace of node `number`; an error says what this machine does not let one do.
    pub(crate) fn make(number: usize, redis_port: u16) -> Result<Self, String> {
        let id = std::process::id() % 100_000;
        let (name, cable) = (format!("faults-{id}-{number}"), format!("f{id}n{number}"));
        let rules = std::sync::Mutex::default();
        ran("iptables", &["-w", "-n", "-L", "INPUT"])?;
        ran("ip", &["netns", "add", &name])?;
        let space = Self { name, cable, number, redis_port, rules };
        let (name, cable) = (&*space.name, &*space.cable);
        let (machine, inside) =
            (format!("{}/30", space.machine()), format!("{}/30", space.inside()));
        ran("ip", &["link", "add", cable, "type", "veth", "peer", "name", "up0", "netns", name])?;
        ran("ip", &["address", "add", &machine, "dev", cable])?;
        ran("ip", &["link", "set", cable, "up"])?;
        ran("ip", &["-n", name, "address", "add", &inside, "dev", "up0"])?;
        ran("ip", &["-n", name, "link", "set", "up0", "up"])?;
        ran("ip", &["-n", name, "link", "set", "lo", "up"])?;
        space.probe()?;
        Ok(space)
    }

    /// Whether packets pass, and can be dropped: a firewall of the machine may have its own mind.
    fn probe(&self) -> Result<(), String> {
        let listener = TcpListener::bind((self.machine(), 0)).map_err(|e| e.to_string())?;
        let port = listener.local_addr().map_err(|e| e.to_string())?.port();
        let connect = format!("exec 3<>/dev/tcp/{}/{port}", self.machine());
        ran("ip", &["netns", "exec", &self.name, "timeout", "5", "bash", "-c", &connect])?;
        self.drop_packets(Cut::Both)?;
        self.heal();
        Ok(())
    }

    /// The machine's address on the cable.
    pub(crate) fn machine(&self) -> String {
        format!("10.231.{}.1", self.number)
    }

    fn inside(&self) -> String {
        format!("10.231.{}.2", self.number)
    }

    /// Where the node listens.
    pub(crate) fn listen(&self) -> SocketAddr {
        format!("{}:7070", self.inside()).parse().unwrap()
    }

    /// What starts a program inside; the process is the program's own.
    pub(crate) fn inside_of(&self, program: &str, args: Vec<String>) -> Vec<String> {
        let enter = ["netns", "exec", &self.name, program].map(str::to_owned);
        enter.into_iter().chain(args).collect()
    }

    pub(crate) fn cut(&self, cut: Cut) {
        self.drop_packets(cut).unwrap();
    }

    fn drop_packets(&self, cut: Cut) -> Result<(), String> {
        let port = self.redis_port.to_string();
        let rule = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect();
        let from: Vec<String> = rule(&["INPUT", "-i", &self.cable]);
        let to: Vec<String> = rule(&["OUTPUT", "-o", &self.cable]);
        let rules = match cut {
            Cut::Both => vec![from, to],
            Cut::ToNode => vec![to],
            Cut::FromNode => vec![from],
            Cut::Redis => vec![
                [from, rule(&["-p", "tcp", "--dport", &port])].concat(),
                [to, rule(&["-p", "tcp", "--sport", &port])].concat(),
            ],
        };
        for mut rule in rules {
            rule.extend(["-j", "DROP"].map(str::to_owned));
            let words: Vec<&str> = rule.iter().map(String::as_str).collect();
            ran("iptables", &[&["-w", "-I"], &words[..]].concat())?;
            self.rules.lock().unwrap().push(rule);
        }
        Ok(())
    }

    /// Lets everything through again.
    pub(crate) fn heal(&self) {
        for rule in self.rules.lock().unwrap().drain(..) {
            let words: Vec<&str> = rule.iter().map(String::as_str).collect();
            ran("iptables", &[&["-w", "-D"], &words[..]].concat()).unwrap();
        }
    }
}

impl Drop for Space {
    fn drop(&mut self) {
        self.heal();
        // With the namespace goes the cable, both its ends.
        if let Err(why) = ran("ip", &["netns", "delete", &self.name]) {
            println!("{why}");
        }
    }
}

fn ran(program: &str, args: &[&str]) -> Result<(), String> {
    let done = Command::new(program).args(args).stdin(Stdio::null()).output();
    let done = done.map_err(|error| format!("{program}: {error}"))?;
    let said = String::from_utf8_lossy(&done.stderr);
    let why = || format!("{program} {}: {}", args.join(" "), said.trim());
    if done.status.success() { Ok(()) } else { Err(why()) }
}
