//! Two nodes in one process: hosts over one store, each with a scripted idea of the cluster.

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use object::{Caller, Class, ObjectId};
use room_node::clock::Clock;
use room_node::cluster::{Cluster, Place};
use room_node::config::Config;
use room_node::host::{Elsewhere, Request, Response};
use room_node::store::Incarnation;
use room_node::store::memory::Memory;
use tokio::sync::watch;

use super::counter::Settings;
use super::rig::{Rig, START, who};

#[derive(Debug, Default)]
struct Table {
    /// The node of everything that is not named.
    rest: String,
    named: HashMap<String, String>,
    ended: HashSet<Incarnation>,
}

/// What one node believes of the cluster.
#[derive(Debug)]
pub struct Script {
    me: String,
    table: Mutex<Table>,
    pub leased: AtomicBool,
    pub refreshed: AtomicU64,
    views: watch::Sender<u64>,
    primaries: watch::Sender<u64>,
}

impl Script {
    fn new(me: &str, rest: &str) -> Arc<Self> {
        let table = Table { rest: rest.into(), ..Table::default() };
        Arc::new(Self {
            me: me.into(),
            table: Mutex::new(table),
            leased: AtomicBool::new(true),
            refreshed: AtomicU64::new(0),
            views: watch::Sender::new(1),
            primaries: watch::Sender::new(0),
        })
    }

    /// Everything belongs to this node from now on.
    pub fn all_to(&self, node: &str) {
        let mut table = self.table.lock().unwrap();
        table.rest = node.into();
        table.named.clear();
        drop(table);
        self.views.send_modify(|view| *view += 1);
    }

    /// One object belongs to this node from now on.
    pub fn one_to(&self, object: &str, node: &str) {
        self.table.lock().unwrap().named.insert(object.into(), node.into());
        self.views.send_modify(|view| *view += 1);
    }

    pub fn end(&self, node: &str, boot: u64) {
        let owner = Incarnation { node: node.into(), boot };
        self.table.lock().unwrap().ended.insert(owner);
    }

    pub fn lease(&self, holds: bool) {
        self.leased.store(holds, Ordering::Relaxed);
    }

    pub fn new_primary(&self) {
        self.primaries.send_modify(|primary| *primary += 1);
    }
}

impl Cluster for Script {
    fn place(&self, object: &ObjectId) -> Place {
        let table = self.table.lock().unwrap();
        let owner = table.named.get(object.name()).unwrap_or(&table.rest);
        if *owner == self.me {
            Place::Here
        } else {
            Place::There { hint: Some(owner.clone()), view: *self.views.borrow() }
        }
    }

    fn is_leased(&self) -> bool {
        self.leased.load(Ordering::Relaxed)
    }

    fn ended(&self, owner: &Incarnation) -> bool {
        self.table.lock().unwrap().ended.contains(owner)
    }

    fn address(&self, owner: &Incarnation) -> Option<String> {
        Some(owner.node.to_string())
    }

    fn others(&self) -> usize {
        1
    }

    fn view(&self) -> u64 {
        *self.views.borrow()
    }

    fn changes(&self) -> watch::Receiver<u64> {
        self.views.subscribe()
    }

    fn refresh(&self, at_least: u64) {
        self.refreshed.fetch_max(at_least, Ordering::Relaxed);
    }

    fn primaries(&self) -> watch::Receiver<u64> {
        self.primaries.subscribe()
    }
}

/// One of the two nodes.
pub struct Node {
    pub rig: Rig,
    pub script: Arc<Script>,
}

/// Nodes `a` and `b`; everything belongs to `a` at first.
pub struct Town {
    pub a: Node,
    pub b: Node,
    pub store: Arc<Memory>,
    pub clock: Clock,
}

impl Town {
    pub fn new() -> Self {
        Self::with(|_| {}, 0)
    }

    pub fn with(change: impl FnOnce(&mut Config), hold_ms: u64) -> Self {
        let mut config = Config::default();
        change(&mut config);
        let (store, clock) = (Memory::new(START), Clock::starting_at(START));
        let node = |name: &str, boot| {
            let script = Script::new(name, "a");
            let me = Incarnation { node: name.into(), boot };
            let settings = Settings { lease_ms: config.agent_lease_ms, hold_ms };
            let cluster: Arc<dyn Cluster> = Arc::<Script>::clone(&script);
            let store = Arc::clone(&store);
            let rig = Rig::start(config.clone(), settings, store, clock, me, cluster);
            Node { rig, script }
        };
        let (a, b) = (node("a", 1), node("b", 2));
        Self { a, b, store, clock }
    }

    pub fn all_to(&self, node: &str) {
        self.a.script.all_to(node);
        self.b.script.all_to(node);
    }

    pub fn one_to(&self, object: &str, node: &str) {
        self.a.script.one_to(object, node);
        self.b.script.one_to(object, node);
    }

    /// The next run of node `a`; the one before stays as it is.
    pub fn next_a(&self, boot: u64) -> Node {
        let script = Script::new("a", "a");
        let me = Incarnation { node: "a".into(), boot };
        let Rig { settings, config, .. } = &self.a.rig;
        let cluster: Arc<dyn Cluster> = Arc::<Script>::clone(&script);
        let store = Arc::clone(&self.store);
        let rig = Rig::start(config.clone(), settings.clone(), store, self.clock, me, cluster);
        Node { rig, script }
    }

    fn node(&self, name: &str) -> &Node {
        if name == "a" { &self.a } else { &self.b }
    }

    /// Calls as a gateway does: begins at `at`, follows hints while nothing has run, gives up
    /// after so many tries.
    pub async fn follow(&self, at: &str, mut request: Request, tries: u32) -> Response {
        let mut at = at.to_owned();
        loop {
            let begun = self.clock.mono();
            let response = self.node(&at).rig.host.call(request.clone()).await;
            let moved = is_moved(&response);
            request.age_ms += self.clock.mono().since(begun);
            request.attempt += 1;
            request.hops += 1;
            if !moved || request.attempt > tries {
                return response;
            }
            match response.elsewhere.unwrap().hint {
                Some(hint) if request.hops <= 3 => at = hint,
                // Begins anew after a pause, as with a refreshed table.
                _ => {
                    super::rig::pass(25).await;
                    request.age_ms += 25;
                    request.hops = 0;
                }
            }
        }
    }

    /// As [`Self::follow`], as a participant.
    pub async fn call(&self, at: &str, op: &str, object: &str, by: u128, args: &str) -> String {
        let caller = Caller::Participant(who(by));
        let request = self.a.rig.request(op, object, caller, args);
        super::rig::text(&self.follow(at, request, 20).await)
    }
}

pub fn is_moved(response: &Response) -> bool {
    response.result.as_ref().is_err_and(|reject| reject.class == Class::NotOwner)
}

pub fn elsewhere(hint: &str, view: u64) -> Option<Elsewhere> {
    Some(Elsewhere { hint: Some(hint.into()), view })
}
