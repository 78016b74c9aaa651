//! What stands behind gateways: Redis in one of its forms and room nodes.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use redis_link::rig;

use crate::program::Program;

const NODES: usize = 3;
/// In which form Redis stands behind the suites: `sentinel` or `cluster`; one server if not set.
const FORM: &str = "ROOMRING_TESTS_REDIS";
/// What one server alone is started with.
const ALONE: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "everysec"];
/// What a primary with replicas must have besides. The lag is below the node lease.
const REPLICATED: [&str; 4] = ["--min-replicas-to-write", "1", "--min-replicas-max-lag", "4"];

/// A primary with two replicas under three sentinels.
pub(crate) fn sentinel() -> rig::Sentinel {
    started(rig::Sentinel::start(&[&ALONE[..], &REPLICATED].concat()))
}

/// Three primaries with two replicas each: with one each, a promoted primary would have none, and
/// stop.
pub(crate) fn cluster() -> rig::Cluster {
    started(rig::Cluster::start(3, 2, &[&ALONE[..], &REPLICATED].concat()))
}

fn started<T>(set: Result<T, std::io::Error>) -> T {
    set.unwrap_or_else(|error| {
        panic!("redis-server does not start ({error}): install it (apt-get install redis-server)")
    })
}

/// The servers of a backend, kept running.
#[derive(Debug)]
#[expect(dead_code, reason = "kept running")]
enum Redis {
    One(rig::Server),
    Sentinel(rig::Sentinel),
    Cluster(rig::Cluster),
}

impl Redis {
    /// In the form that is asked for, with its URL. Only one server alone keeps its data in `dir`.
    fn start(dir: &Path) -> (Self, String) {
        match std::env::var(FORM).as_deref() {
            Ok("sentinel") => {
                let set = sentinel();
                let url = set.url();
                (Self::Sentinel(set), url)
            }
            Ok("cluster") => {
                let set = cluster();
                let url = set.url();
                (Self::Cluster(set), url)
            }
            Ok(other) => panic!("{FORM} is {other}: sentinel, cluster, or not set"),
            Err(_) => {
                let dir = dir.join("redis");
                std::fs::create_dir_all(&dir).unwrap();
                let dir = dir.display().to_string();
                let server = started(rig::Server::start(&[&["--dir", &dir], &ALONE[..]].concat()));
                let url = server.url();
                (Self::One(server), url)
            }
        }
    }
}

/// Redis with nodes over it.
#[derive(Debug)]
pub(crate) struct Backend {
    /// Go before Redis does.
    pub(crate) nodes: Vec<Program>,
    flags: Vec<String>,
    started: usize,
    _redis: Option<Redis>,
    pub(crate) url: String,
}

impl Backend {
    /// Three nodes, over what Redis has in `dir`.
    pub(crate) fn start(dir: &Path, flags: &[&str]) -> Self {
        Self::of(dir, flags, NODES)
    }

    /// As [`Self::start`], with as many nodes as are asked for.
    pub(crate) fn of(dir: &Path, flags: &[&str], nodes: usize) -> Self {
        let (redis, url) = Redis::start(dir);
        Self::with(url, Some(redis), flags, nodes)
    }

    /// Three nodes over servers that the caller looks after.
    pub(crate) fn over(url: String, flags: &[&str]) -> Self {
        Self::with(url, None, flags, NODES)
    }

    fn with(url: String, redis: Option<Redis>, flags: &[&str], nodes: usize) -> Self {
        let flags = flags.iter().map(|flag| (*flag).to_owned()).collect();
        let mut backend = Self { nodes: Vec::new(), flags, started: 0, _redis: redis, url };
        for _ in 0..nodes {
            backend.add_node();
        }
        backend
    }

    /// One more node, under a new name.
    pub(crate) fn add_node(&mut self) {
        self.started += 1;
        self.nodes.push(self.node(self.started));
    }

    fn node(&self, number: usize) -> Program {
        let mut args =
            vec![format!("--redis-url={}", self.url), format!("--node-id=node-{number}")];
        args.extend_from_slice(&self.flags);
        Program::start("roomring-node", &args)
    }

    /// SIGTERM, the end, and a new start under the same name; of a backend that no node has left.
    pub(crate) fn restart_node(&mut self, at: usize) {
        assert_eq!(self.nodes.len(), self.started, "numbers are places");
        let old = self.nodes.remove(at);
        old.signal("TERM");
        let ended = old.wait();
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        self.nodes.insert(at, self.node(at + 1));
    }

    /// One for all tests of this process that want the same and run at the same time.
    pub(crate) fn shared(flags: &[&str]) -> Arc<Shared> {
        static LAST: Mutex<Weak<Shared>> = Mutex::new(Weak::new());
        let mut last = LAST.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(shared) = last.upgrade().filter(|shared| shared.backend.flags == flags) {
            return shared;
        }
        let dir = tempfile::tempdir().unwrap();
        let backend = Self::start(dir.path(), flags);
        let shared = Arc::new(Shared { backend, _dir: dir });
        *last = Arc::downgrade(&shared);
        shared
    }
}

/// A backend of several tests, with its folder.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) backend: Backend,
    _dir: tempfile::TempDir,
}
