//! The link against real servers.

#![forbid(unsafe_code)]
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    reason = "a test ends where its expectation ends, in the functions it shares too"
)]

mod bounds;
mod cluster;
mod faults;
mod refusals;
mod sentinel;
mod single;

use std::sync::Arc;

use bytes::Bytes;
use prometheus::{Registry, TextEncoder};
use redis_link::redis::Value;
use redis_link::{Call, Durability, Failure, Library, OpenError, RedisLink, Settings};
use tokio::time::{Duration, Instant};

/// A counter: enough to see what ran and how often.
pub(crate) const COUNTER: &[Library] = &[Library {
    name: "counter_v1",
    code: "
local function add(keys, args)
  return redis.call('INCRBY', keys[1], args[1])
end
local function read(keys, args)
  return tonumber(redis.call('GET', keys[1]) or '0')
end
",
    functions: &["add"],
    reads: &["read"],
    vital: &[],
}];

/// An append-only file that is flushed before each answer.
pub(crate) const ALWAYS: [&str; 4] = ["--appendonly", "yes", "--appendfsync", "always"];
/// What a primary with replicas must have.
pub(crate) const REPLICATED: [&str; 6] =
    ["--appendonly", "yes", "--min-replicas-to-write", "1", "--min-replicas-max-lag", "4"];

/// A deadline that only a fault would reach.
pub(crate) fn soon() -> Instant {
    within(15_000)
}

pub(crate) fn within(ms: u64) -> Instant {
    #[expect(clippy::disallowed_methods, reason = "the tests' own clock")]
    let now = Instant::now();
    now + Duration::from_millis(ms)
}

pub(crate) fn add(key: &str, by: u64) -> Call {
    Call {
        key: Bytes::copy_from_slice(key.as_bytes()),
        function: "add",
        keys: vec![Bytes::copy_from_slice(key.as_bytes())],
        args: vec![Bytes::from(by.to_string())],
        writes: true,
        durable: true,
        deadline: soon(),
    }
}

pub(crate) fn read(key: &str) -> Call {
    Call { function: "read", args: Vec::new(), writes: false, durable: false, ..add(key, 0) }
}

pub(crate) fn settings(url: &str, level: Durability) -> Settings {
    Settings::new(url.parse().unwrap(), level, COUNTER)
}

pub(crate) async fn open(settings: Settings) -> Result<(Arc<RedisLink>, Registry), OpenError> {
    let registry = Registry::new();
    Ok((RedisLink::open(settings, &registry).await?, registry))
}

/// The value of a metric by the beginning of its line.
pub(crate) fn metric(registry: &Registry, name: &str) -> u64 {
    let shown = TextEncoder::new().encode_to_string(&registry.gather()).unwrap();
    let line = shown
        .lines()
        .find(|line| line.strip_prefix(name).is_some_and(|rest| rest.starts_with(' ')));
    line.map_or(0, |line| line.rsplit(' ').next().and_then(|n| n.parse().ok()).unwrap())
}

/// Polls a condition until it holds.
pub(crate) async fn until(what: &str, mut look: impl AsyncFnMut() -> bool) {
    let deadline = within(30_000);
    while !look().await {
        let next = within(20);
        assert!(next < deadline, "still not so after 30 s: {what}");
        tokio::time::sleep_until(next).await;
    }
}

/// What a key's additions came to.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    pub(crate) added: u64,
    pub(crate) unknown: u64,
    pub(crate) unsent: u64,
}

impl Tally {
    pub(crate) fn count(&mut self, result: &Result<Value, Failure>) {
        match result {
            Ok(_) => self.added += 1,
            Err(Failure::Unknown { .. }) => self.unknown += 1,
            Err(_) => self.unsent += 1,
        }
    }

    /// Everything acknowledged is there; beyond it at most what is unknown.
    pub(crate) async fn check(&self, link: &RedisLink, key: &str) {
        let Ok(Value::Int(found)) = link.call(read(key)).await else { panic!("{key} is not read") };
        let found = u64::try_from(found).unwrap();
        let most = self.added + self.unknown;
        assert!((self.added..=most).contains(&found), "{key}: {found}, {self:?}");
    }
}

/// Adds 1 to a key again and again until told to stop.
pub(crate) fn adder(
    link: &Arc<RedisLink>,
    key: String,
    stop: tokio::sync::watch::Receiver<bool>,
) -> tokio::task::JoinHandle<Tally> {
    let link = Arc::clone(link);
    tokio::spawn(async move {
        let mut tally = Tally::default();
        while !*stop.borrow() {
            let call = Call { deadline: within(500), ..add(&key, 1) };
            tally.count(&link.call(call).await);
            // A call that is refused at once gives nobody else a turn.
            tokio::task::yield_now().await;
        }
        tally
    })
}
