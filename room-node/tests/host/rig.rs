//! A host over the reference store on paused time, and short ways to call it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use object::{Caller, KindTag, Millis, Object as _, ObjectId, ParticipantId, RequestId};
use prometheus::Registry;
use room_node::clock::Clock;
use room_node::cluster::{Alone, Cluster};
use room_node::config::Config;
use room_node::host::{Host, Request, Response};
use room_node::store::memory::Memory;
use room_node::store::{Incarnation, Store};

use super::counter::{Counter, Settings};

/// Wall time at which every test begins.
pub const START: Millis = Millis(1_700_000_000_000);

pub struct Rig {
    pub host: Host<Counter>,
    pub store: Arc<Memory>,
    pub clock: Clock,
    pub settings: Settings,
    pub config: Config,
    boot: u64,
    requests: AtomicU64,
}

pub fn id(name: &str) -> ObjectId {
    ObjectId::new(KindTag(b'c'), name).unwrap()
}

pub const fn who(number: u128) -> ParticipantId {
    ParticipantId(number)
}

impl Rig {
    pub fn new() -> Self {
        Self::with(|_| {}, 0)
    }

    pub fn with(change: impl FnOnce(&mut Config), hold_ms: u64) -> Self {
        let mut config = Config::default();
        change(&mut config);
        let settings = Settings { lease_ms: config.agent_lease_ms, hold_ms };
        let store = Memory::new(START);
        let me = Incarnation { node: "node".into(), boot: 1 };
        let alone = Arc::new(Alone::default());
        Self::start(config, settings, store, Clock::starting_at(START), me, alone)
    }

    /// A node of a cluster, over a store it shares with others.
    pub fn start(
        config: Config,
        settings: Settings,
        store: Arc<Memory>,
        clock: Clock,
        me: Incarnation,
        cluster: Arc<dyn Cluster>,
    ) -> Self {
        let boot = me.boot;
        let dynamic: Arc<dyn Store> = Arc::<Memory>::clone(&store);
        let registry = Registry::new();
        let (of_host, of_counters) = (config.clone(), settings.clone());
        let host =
            Host::start(of_host, of_counters, dynamic, clock, me, cluster, &registry).unwrap();
        let requests = AtomicU64::new(boot * 1_000_000);
        Self { host, store, clock, settings, config, boot, requests }
    }

    /// A new process over the same store; the old host stops where it stands, as by a kill.
    pub fn restart(self) -> Self {
        self.store.reopen(self.clock.now());
        let (config, settings) = (self.config.clone(), self.settings.clone());
        let me = Incarnation { node: "node".into(), boot: self.boot + 1 };
        let alone = Arc::new(Alone::default());
        Self::start(config, settings, Arc::clone(&self.store), self.clock, me, alone)
    }

    pub fn request(&self, op: &str, object: &str, caller: Caller, args: &str) -> Request {
        let number = self.requests.fetch_add(1, Ordering::Relaxed);
        Request {
            op: Counter::op(op).unwrap(),
            object: id(object),
            caller,
            args: Bytes::copy_from_slice(args.as_bytes()),
            blob: None,
            request: RequestId(u128::from(number)),
            attempt: 1,
            age_ms: 0,
            deadline: self.clock.mono().plus(60_000),
            connection: 0,
            view: 0,
            hops: 0,
        }
    }

    pub async fn full(&self, op: &str, object: &str, by: u128, args: &str) -> Response {
        self.host.call(self.request(op, object, Caller::Participant(who(by)), args)).await
    }

    /// Calls as a participant; the answer as `ok BODY` or `CODE`.
    pub async fn call(&self, op: &str, object: &str, by: u128, args: &str) -> String {
        text(&self.full(op, object, by, args).await)
    }

    pub async fn join(&self, object: &str, by: u128) {
        let request = self.request("join", object, Caller::Joining(who(by)), "");
        let joined = self.host.call(request).await;
        assert!(joined.result.is_ok(), "{joined:?}");
    }

    pub async fn get(&self, object: &str) -> String {
        text(&self.host.call(self.request("get", object, Caller::Anonymous, "")).await)
    }

    pub fn active(&self) -> i64 {
        self.host.metrics().active.get()
    }

    pub fn stubs(&self) -> i64 {
        self.host.metrics().stubs.get()
    }

    pub fn wakes(&self, cause: &str) -> u64 {
        self.host.metrics().wakes.with_label_values(&[cause]).get()
    }

    pub fn bound_hit(&self, bound: &str) -> u64 {
        self.host.metrics().bounds_hit.with_label_values(&[bound]).get()
    }
}

/// Keeps the expected panics of poisoned counters, thousands of them, off the output.
pub fn hush_poison() {
    let loud = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        if !info.payload_as_str().is_some_and(|text| text.contains("poisoned")) {
            loud(info);
        }
    }));
}

pub fn text(response: &Response) -> String {
    match &response.result {
        Ok(success) => format!("ok {}", String::from_utf8_lossy(&success.body)),
        Err(reject) => reject.code.to_owned(),
    }
}

/// Lets paused time run; every task that is due runs on the way.
pub async fn pass(ms: u64) {
    tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
}
