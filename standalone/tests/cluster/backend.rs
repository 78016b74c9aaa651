//! What stands behind gateways: a Redis and room nodes.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use redis_link::rig;

use crate::program::Program;

const NODES: usize = 3;

/// A Redis with nodes over it.
#[derive(Debug)]
pub(crate) struct Backend {
    /// Go before Redis does.
    pub(crate) nodes: Vec<Program>,
    flags: Vec<String>,
    started: usize,
    _redis: Option<rig::Server>,
    pub(crate) url: String,
}

impl Backend {
    /// Three nodes, over what Redis has in `dir`.
    pub(crate) fn start(dir: &Path, flags: &[&str]) -> Self {
        Self::of(dir, flags, NODES)
    }

    /// As [`Self::start`], with as many nodes as are asked for.
    pub(crate) fn of(dir: &Path, flags: &[&str], nodes: usize) -> Self {
        let dir = dir.join("redis");
        std::fs::create_dir_all(&dir).unwrap();
        let dir = dir.display().to_string();
        let args = ["--dir", &dir, "--appendonly", "yes", "--appendfsync", "everysec"];
        let redis = rig::Server::start(&args).unwrap_or_else(|error| {
            panic!(
                "redis-server does not start ({error}): install it (apt-get install redis-server)"
            )
        });
        let url = redis.url();
        Self::with(url, Some(redis), flags, nodes)
    }

    /// Three nodes over servers that the caller looks after, or over one's own.
    pub(crate) fn over(url: String, redis: Option<rig::Server>, flags: &[&str]) -> Self {
        Self::with(url, redis, flags, NODES)
    }

    fn with(url: String, redis: Option<rig::Server>, flags: &[&str], nodes: usize) -> Self {
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
        let mut args =
            vec![format!("--redis-url={}", self.url), format!("--node-id=node-{}", self.started)];
        args.extend_from_slice(&self.flags);
        self.nodes.push(Program::start("roomring-node", &args));
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
