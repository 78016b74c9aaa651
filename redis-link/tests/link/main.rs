//! The link against real servers.

#![forbid(unsafe_code)]

mod single;

use bytes::Bytes;
use redis_link::{Call, Library};
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

/// A deadline that only a fault would reach.
pub(crate) fn soon() -> Instant {
    within(5_000)
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
