//! Who breaks things: one fault after the other, chosen by a seed, each followed by a wait until
//! every room answers again.

use std::collections::BTreeSet;
use std::time::Duration;

use fastrand::Rng;
use tokio::task::block_in_place;
use tokio::time::{Instant, sleep_until};

use crate::cluster::Cluster;
use crate::crash::log::Log;
use crate::netns::Cut;
use crate::process::Process;
use crate::proxy::{Mode, Proxy};

/// How long the rooms have to come back after a fault has ended.
const RECOVERY: Duration = Duration::from_secs(60);
/// Quiet between two faults.
const QUIET: Duration = Duration::from_secs(2);
/// A look at the history while waiting.
const LOOK: Duration = Duration::from_millis(20);

/// One kind of fault. The victim is chosen when it strikes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Fault {
    Kill(Role),
    /// SIGKILL, and away for some seconds: longer than a node lease, so that others take over.
    Lose(Role, u64),
    /// SIGSTOP, and SIGCONT after some seconds.
    Stop(Role, u64),
    /// SIGTERM and a new start.
    Restart(Role),
    /// SIGTERM and a new start of each, one after the other.
    Roll(Role),
    /// A bad network for some seconds.
    Network(Way, Mode, u64),
    /// Packets of a node in a namespace are dropped for some seconds.
    Packets(Cut, u64),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    Gateway,
    Node,
    Redis,
}

/// A way between two processes, or from all gateways to one node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    NodeRedis,
    GatewayRedis,
    GatewaysNode,
}

/// What can befall `roomring` alone.
const ALONE: [Fault; 3] =
    [Fault::Kill(Role::Gateway), Fault::Stop(Role::Gateway, 2), Fault::Restart(Role::Gateway)];

/// What can befall the cluster.
const CLUSTER: [Fault; 23] = [
    Fault::Kill(Role::Node),
    Fault::Lose(Role::Node, 10),
    Fault::Stop(Role::Node, 2),
    Fault::Stop(Role::Node, 8),
    Fault::Kill(Role::Gateway),
    Fault::Stop(Role::Gateway, 2),
    Fault::Kill(Role::Redis),
    Fault::Stop(Role::Redis, 2),
    Fault::Stop(Role::Redis, 8),
    Fault::Restart(Role::Redis),
    Fault::Roll(Role::Node),
    Fault::Roll(Role::Gateway),
    Fault::Network(Way::NodeRedis, Mode::Silent, 3),
    Fault::Network(Way::NodeRedis, Mode::Silent, 10),
    Fault::Network(Way::NodeRedis, Mode::SilentToServer, 3),
    Fault::Network(Way::NodeRedis, Mode::SilentToClient, 3),
    Fault::Network(Way::NodeRedis, Mode::Reset, 2),
    Fault::Network(Way::NodeRedis, Mode::CutAfterReceive, 2),
    Fault::Network(Way::GatewaysNode, Mode::Silent, 4),
    Fault::Network(Way::GatewaysNode, Mode::SilentToClient, 3),
    Fault::Network(Way::GatewaysNode, Mode::Reset, 2),
    Fault::Network(Way::GatewaysNode, Mode::CutAfterReceive, 2),
    Fault::Network(Way::GatewayRedis, Mode::Silent, 4),
];

/// What can befall the nodes in network namespaces besides.
const APART: [Fault; 5] = [
    Fault::Packets(Cut::Both, 3),
    Fault::Packets(Cut::Both, 10),
    Fault::Packets(Cut::ToNode, 4),
    Fault::Packets(Cut::FromNode, 4),
    Fault::Packets(Cut::Redis, 10),
];

/// A fault that has been.
#[derive(Clone, Debug)]
pub(crate) struct Struck {
    pub(crate) kind: String,
    pub(crate) victim: String,
    /// On the history's clock, microseconds.
    pub(crate) begin: u64,
    /// When what was broken was whole again.
    pub(crate) healed: u64,
    /// Rooms that did not answer again in time.
    pub(crate) dark: Vec<String>,
}

/// Strikes until `end`, in rounds of every kind in a new order.
pub(crate) async fn strike(
    cluster: &mut Cluster,
    log: &Log,
    rooms: &[String],
    mut rng: Rng,
    end: Instant,
) -> Vec<Struck> {
    let kinds = match (cluster.nodes.is_empty(), cluster.spaces.is_empty()) {
        (true, _) => ALONE.to_vec(),
        (false, true) => CLUSTER.to_vec(),
        (false, false) => [&CLUSTER[..], &APART].concat(),
    };
    let mut left: Vec<Fault> = Vec::new();
    let mut struck = Vec::new();
    while Instant::now() < end {
        if left.is_empty() {
            left = kinds.clone();
            rng.shuffle(&mut left);
        }
        let Some(fault) = left.pop() else { break };
        let begin = log.now();
        let victim = inflict(cluster, fault, &mut rng).await;
        let healed = log.now();
        let (dark, ended) = recovered(cluster, log, rooms, healed).await;
        let victim = [vec![victim], ended].concat().join(", ");
        let kind = fault.name();
        let s = |from: u64, to: u64| (to - from) as f64 / 1e6;
        println!(
            "{:7.1} s  {kind} ({victim}): {:.1} s broken, answering {:.1} s later{}",
            begin as f64 / 1e6,
            s(begin, healed),
            s(healed, log.now()),
            if dark.is_empty() { String::new() } else { format!(", NOT {dark:?}") },
        );
        struck.push(Struck { kind, victim, begin, healed, dark });
        sleep_until(Instant::now() + QUIET).await;
        // A node may take a moment to find that its node lease has ended.
        for ended in revive(cluster) {
            println!("           {ended}");
        }
    }
    struck
}

fn revive(cluster: &mut Cluster) -> Vec<String> {
    let servers = cluster.nodes.iter_mut().chain(&mut cluster.gateways);
    block_in_place(|| servers.filter_map(Process::revive).collect())
}

/// Waits until every room has answered since, and starts again whatever has ended by itself: a node
/// that finds its node lease ended does. Returns the rooms that have not answered in time, and the
/// processes that have ended.
async fn recovered(
    cluster: &mut Cluster,
    log: &Log,
    rooms: &[String],
    since: u64,
) -> (Vec<String>, Vec<String>) {
    let give_up = Instant::now() + RECOVERY;
    let all: BTreeSet<String> = rooms.iter().cloned().collect();
    let mut ended = Vec::new();
    loop {
        ended.extend(revive(cluster));
        let dark: Vec<String> = all.difference(&log.answered_since(since)).cloned().collect();
        if dark.is_empty() || Instant::now() > give_up {
            return (dark, ended);
        }
        sleep_until(Instant::now() + LOOK).await;
    }
}

async fn inflict(cluster: &mut Cluster, fault: Fault, rng: &mut Rng) -> String {
    match fault {
        Fault::Kill(role) => {
            // A supervisor needs a moment, too.
            let moment = Duration::from_millis(rng.u64(100..2_000));
            kill(chosen(cluster, role, rng), moment).await
        }
        Fault::Lose(role, seconds) => {
            kill(chosen(cluster, role, rng), Duration::from_secs(seconds)).await
        }
        Fault::Stop(role, seconds) => {
            let victim = chosen(cluster, role, rng);
            victim.signal("STOP");
            sleep_until(Instant::now() + Duration::from_secs(seconds)).await;
            victim.signal("CONT");
            victim.name.clone()
        }
        Fault::Restart(role) => {
            let victim = chosen(cluster, role, rng);
            let ill = block_in_place(|| restart(victim));
            format!("{}{ill}", victim.name)
        }
        Fault::Roll(role) => {
            let all = match role {
                Role::Gateway => &mut cluster.gateways,
                Role::Node | Role::Redis => &mut cluster.nodes,
            };
            let mut ill = String::new();
            for one in all.iter_mut() {
                ill += &block_in_place(|| restart(one));
                sleep_until(Instant::now() + QUIET).await;
            }
            format!("all{ill}")
        }
        Fault::Network(way, mode, seconds) => {
            let (proxies, what): (&[Proxy], _) = match way {
                Way::NodeRedis => (&cluster.node_redis, "node"),
                Way::GatewayRedis => (&cluster.gateway_redis, "gateway"),
                Way::GatewaysNode => (&cluster.node_front, "node"),
            };
            let n = rng.usize(..proxies.len());
            proxies[n].set(mode);
            sleep_until(Instant::now() + Duration::from_secs(seconds)).await;
            proxies[n].set(Mode::Open);
            format!("{what}{}", n + 1)
        }
        Fault::Packets(cut, seconds) => {
            let n = rng.usize(..cluster.spaces.len());
            cluster.spaces[n].cut(cut);
            sleep_until(Instant::now() + Duration::from_secs(seconds)).await;
            cluster.spaces[n].heal();
            format!("node{}", cluster.nodes.len() - cluster.spaces.len() + n + 1)
        }
    }
}

async fn kill(victim: &mut Process, away: Duration) -> String {
    block_in_place(|| victim.kill());
    sleep_until(Instant::now() + away).await;
    block_in_place(|| victim.start());
    victim.name.clone()
}

/// How the process ended, where it did not end well.
fn restart(process: &mut Process) -> String {
    let code = process.terminate();
    let said = process.last_words();
    process.start();
    if code == Some(0) {
        String::new()
    } else {
        println!("{} said last: {said}", process.name);
        format!(" {} ended with {code:?} after SIGTERM", process.name)
    }
}

fn chosen<'a>(cluster: &'a mut Cluster, role: Role, rng: &mut Rng) -> &'a mut Process {
    match role {
        Role::Gateway => rng.choice(cluster.gateways.iter_mut()).unwrap(),
        Role::Node => rng.choice(cluster.nodes.iter_mut()).unwrap(),
        Role::Redis => cluster.redis.as_mut().unwrap(),
    }
}

impl Fault {
    pub(crate) fn name(self) -> String {
        match self {
            Self::Kill(role) => format!("kill -9 {role:?}"),
            Self::Lose(role, seconds) => format!("kill -9 {role:?}, back after {seconds} s"),
            Self::Stop(role, seconds) => format!("SIGSTOP {role:?} {seconds} s"),
            Self::Restart(role) => format!("restart {role:?}"),
            Self::Roll(role) => format!("rolling restart {role:?}"),
            Self::Network(way, mode, seconds) => format!("{way:?} {mode:?} {seconds} s"),
            Self::Packets(cut, seconds) => format!("packets dropped {cut:?} {seconds} s"),
        }
    }
}
