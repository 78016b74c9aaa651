//! `--regions N`: what several regions need beyond one cluster each: a name, a file that names all,
//! and certificates of an authority that is thrown away with the rest.

use std::fs;
use std::io;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Map, Value, json};

use crate::child::output;

/// Most regions: each is a whole cluster on this machine.
pub(super) const REGIONS_MAX: u64 = 4;
/// Their names, in order.
const NAMES: [&str; 4] = ["a", "b", "c", "d"];
const FILE: &str = "regions.json";
/// The certificates live as long as the task does; a day is more.
const DAYS: &str = "1";
const NEW_KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

/// One region, or the only one.
pub(super) struct Region {
    /// `None`: the only one, which needs no name.
    pub(super) name: Option<&'static str>,
    /// Where gateways of other regions connect, one for each of its gateways; none for the only one.
    peers: Vec<u16>,
    /// Of everything in it: data, handle keys.
    pub(super) dir: PathBuf,
    shared: PathBuf,
}

impl Region {
    /// `node-1`, or `node-a-1` of one region among several.
    pub(super) fn member(&self, kind: &str, n: Option<u64>) -> String {
        let number = n.map(|n| n.to_string());
        let parts = [Some(kind), self.name, number.as_deref()];
        parts.into_iter().flatten().collect::<Vec<_>>().join("-")
    }

    /// The flags of every node and gateway.
    pub(super) fn tell(&self, command: &mut Command) {
        let Some(name) = self.name else { return };
        command.arg(format!("--region={name}"));
        for (flag, file) in [("cert", "dev.pem"), ("key", "dev.key"), ("ca", "ca.pem")] {
            command.arg(format!("--tls-{flag}={}", self.shared.join(file).display()));
        }
    }

    /// The flags of its `n`th gateway, from 0.
    pub(super) fn tell_gateway(&self, command: &mut Command, n: usize) {
        self.tell(command);
        if let Some(port) = self.peers.get(n) {
            command.arg(format!("--regions={}", self.shared.join(FILE).display()));
            command.arg(format!("--peer-listen=127.0.0.1:{port}"));
        }
    }
}

/// As many regions, each with a folder in `dir`; several get certificates and a file.
pub(super) fn prepare(dir: &Path, regions: u64, gateways: u64) -> Result<Vec<Region>, String> {
    let count = usize::try_from(regions).unwrap_or(NAMES.len());
    let alone = count < 2;
    let mut made = Vec::new();
    // Held until all are picked, so that none is picked twice.
    let mut held = Vec::new();
    for name in NAMES.iter().take(count) {
        let name = (!alone).then_some(*name);
        let own = name.map_or_else(|| dir.to_owned(), |name| dir.join(name));
        fs::create_dir_all(&own).map_err(|error| format!("no folder of a region: {error}"))?;
        let mut peers = Vec::new();
        for _ in 0..if alone { 0 } else { gateways } {
            let (port, listener) = free().map_err(|error| format!("no free port: {error}"))?;
            peers.push(port);
            held.push(listener);
        }
        made.push(Region { name, peers, dir: own, shared: dir.to_owned() });
    }
    if !alone {
        let text = file(&made).to_string();
        fs::write(dir.join(FILE), text).map_err(|error| format!("no regions file: {error}"))?;
        certificates(dir)?;
    }
    Ok(made)
}

fn free() -> io::Result<(u16, TcpListener)> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    Ok((listener.local_addr()?.port(), listener))
}

/// The regions file; the first is the home of rooms without a region's name.
fn file(regions: &[Region]) -> Value {
    let addresses = |region: &Region| {
        region.peers.iter().map(|port| format!("127.0.0.1:{port}").into()).collect::<Vec<Value>>()
    };
    let named: Map<String, Value> = regions
        .iter()
        .filter_map(|region| Some((region.name?.to_owned(), addresses(region).into())))
        .collect();
    json!({"default_region": NAMES.first(), "regions": named})
}

/// One line about what is missing for several regions, if anything is.
pub(super) fn check_tools(regions: u64) -> Result<(), String> {
    if regions < 2 || output(Path::new("."), "openssl", &["version"]).is_ok() {
        return Ok(());
    }
    Err("openssl is missing, which makes the certificates between regions: install it (Debian: \
         apt-get install openssl)"
        .to_owned())
}

/// `ca.pem`, and `dev.pem` with `dev.key`, which all processes show each other. The authority's own
/// key is gone when this returns.
fn certificates(dir: &Path) -> Result<(), String> {
    let openssl = |args: &[&str]| output(dir, "openssl", args).map(drop);
    let authority = ["req", "-x509", "-days", DAYS, "-subj", "/CN=roomring dev authority"];
    let out = ["-keyout", "ca.key", "-out", "ca.pem"];
    openssl(&[&authority[..], &NEW_KEY, &out].concat())?;
    let out = ["-subj", "/CN=roomring dev", "-keyout", "dev.key", "-out", "dev.csr"];
    openssl(&[&["req"], &NEW_KEY[..], &out].concat())?;
    let names = "subjectAltName=IP:127.0.0.1,DNS:localhost\nbasicConstraints=CA:FALSE\n";
    fs::write(dir.join("dev.ext"), names).map_err(|error| format!("no certificate: {error}"))?;
    let sign = ["x509", "-req", "-in", "dev.csr", "-CA", "ca.pem", "-CAkey", "ca.key"];
    let out = ["-CAcreateserial", "-days", DAYS, "-extfile", "dev.ext", "-out", "dev.pem"];
    openssl(&[&sign[..], &out].concat())?;
    fs::remove_file(dir.join("ca.key")).map_err(|error| format!("the authority stays: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_region_needs_nothing_and_several_are_named_and_linked() {
        let dir = tempfile::tempdir().unwrap();
        let alone = prepare(dir.path(), 1, 2).unwrap();
        let mut command = Command::new("gateway");
        alone[0].tell_gateway(&mut command, 0);
        assert_eq!((alone.len(), command.get_args().count()), (1, 0));
        assert_eq!(alone[0].member("node", Some(1)), "node-1");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 0);

        let at = |name, peers| Region { name, peers, dir: dir.path().into(), shared: "x".into() };
        let two = [at(Some("a"), vec![1, 2]), at(Some("b"), vec![3])];
        let expected = json!({"default_region": "a",
            "regions": {"a": ["127.0.0.1:1", "127.0.0.1:2"], "b": ["127.0.0.1:3"]}});
        assert_eq!(file(&two), expected);
        assert_eq!(two[1].member("redis", None), "redis-b");
        two[1].tell_gateway(&mut command, 0);
        let args: Vec<_> = command.get_args().filter_map(|arg| arg.to_str()).collect();
        assert!(args.contains(&"--region=b") && args.contains(&"--peer-listen=127.0.0.1:3"));
        assert_eq!(args.len(), 6, "{args:?}");
    }
}
