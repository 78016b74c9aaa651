//! What is attacked: two gateways, four nodes and a Redis as processes on loopback, with a proxy on
//! every way between them; or `roomring` alone.

use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::brief::EMPTY_MS;
use crate::netns::Space;
use crate::process::{Process, Ready, free_port};
use crate::proxy::Proxy;

const NODES: usize = 4;
/// Of these, the last ones are in network namespaces, where this machine lets one make them.
const NODES_APART: usize = 2;
const GATEWAYS: usize = 2;

/// Periods short enough to see much in a minute, budgets high enough not to be in the way.
const CADENCE: [&str; 4] = [
    "--wait-period-ms=40",
    "--wait-active-period-ms=4",
    "--mcp-longpoll-enabled=true",
    "--hold-ms-max=300",
];
const GUARD: [&str; 3] = [
    "--guard-join-per-minute=1000000",
    "--guard-info-per-minute=1000000",
    "--guard-call-per-minute=1000000",
];

/// Every gateway has the same key, as it must be for handles to work on all.
const HANDLE_KEYS: &str = "faults:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n";

/// All processes and all ways between them.
#[derive(Debug)]
pub(crate) struct Cluster {
    pub(crate) gateways: Vec<Process>,
    /// Empty where `roomring` stands alone, like all below.
    pub(crate) nodes: Vec<Process>,
    pub(crate) redis: Option<Process>,
    /// Where Redis itself is reached, past all proxies.
    pub(crate) redis_at: Option<SocketAddr>,
    pub(crate) node_redis: Vec<Proxy>,
    pub(crate) gateway_redis: Vec<Proxy>,
    /// From the gateways to each node.
    pub(crate) node_front: Vec<Proxy>,
    /// Of the last nodes, which have no proxies.
    pub(crate) spaces: Vec<Space>,
    /// Where each gateway is reached.
    pub(crate) mcp: Vec<SocketAddr>,
}

impl Cluster {
    /// `roomring` alone, with its own store.
    pub(crate) fn alone(programs: &Path, dir: &Path) -> Self {
        let listen = free_port();
        let mut args = vec![format!("--data-dir={}", dir.join("data").display())];
        args.extend(servers(listen));
        args.extend(CADENCE.iter().chain(&GUARD).map(|arg| (*arg).to_owned()));
        args.push(empty_room());
        let mut server =
            Process::new("roomring", programs.join("roomring"), args, Ready::Line, dir);
        server.start();
        Self {
            gateways: vec![server],
            nodes: Vec::new(),
            redis: None,
            redis_at: None,
            node_redis: Vec::new(),
            gateway_redis: Vec::new(),
            node_front: Vec::new(),
            spaces: Vec::new(),
            mcp: vec![listen],
        }
    }

    pub(crate) async fn start(programs: &Path, dir: &Path) -> Self {
        let redis_at = free_port();
        let spaces = spaces(redis_at.port());
        let mut redis = redis(redis_at, &spaces, dir);
        redis.start();
        let (mut nodes, mut node_redis, mut node_front) = (Vec::new(), Vec::new(), Vec::new());
        for n in 1..=NODES - spaces.len() {
            let listen = free_port();
            let (store, front) = (Proxy::start(redis_at).await, Proxy::start(listen).await);
            let args = node(n, store.listen, listen, front.listen);
            let program = programs.join("roomring-node");
            nodes.push(Process::new(&format!("node{n}"), program, args, Ready::Line, dir));
            node_redis.push(store);
            node_front.push(front);
        }
        for space in &spaces {
            let n = nodes.len() + 1;
            let store = SocketAddr::new(space.machine().parse().unwrap(), redis_at.port());
            let args = node(n, store, space.listen(), space.listen());
            let program = programs.join("roomring-node").display().to_string();
            let args = space.inside_of(&program, args);
            let program = PathBuf::from("ip");
            nodes.push(Process::new(&format!("node{n}"), program, args, Ready::Line, dir));
        }
        for node in &mut nodes {
            node.start();
        }
        let keys = dir.join("handle-keys");
        std::fs::write(&keys, HANDLE_KEYS).unwrap();
        let private = std::fs::Permissions::from_mode(0o600);
        std::fs::set_permissions(&keys, private).unwrap();
        let (mut gateways, mut gateway_redis, mut mcp) = (Vec::new(), Vec::new(), Vec::new());
        for n in 1..=GATEWAYS {
            let (listen, store) = (free_port(), Proxy::start(redis_at).await);
            let mut args = vec![
                format!("--redis-url=redis://{}", store.listen),
                format!("--handle-keys-file={}", keys.display()),
                // The clients look at nobody's readiness.
                "--pre-stop-ms=0".to_owned(),
            ];
            args.extend(servers(listen));
            args.extend(CADENCE.iter().chain(&GUARD).map(|arg| (*arg).to_owned()));
            let program = programs.join("roomring-gateway");
            let mut gateway = Process::new(&format!("gateway{n}"), program, args, Ready::Line, dir);
            gateway.start();
            gateways.push(gateway);
            gateway_redis.push(store);
            mcp.push(listen);
        }
        let (redis, redis_at) = (Some(redis), Some(redis_at));
        Self {
            gateways,
            nodes,
            redis,
            redis_at,
            node_redis,
            gateway_redis,
            node_front,
            spaces,
            mcp,
        }
    }
}

/// As many namespaces as there are to be, or none.
fn spaces(redis_port: u16) -> Vec<Space> {
    let first = NODES - NODES_APART + 1;
    let made: Result<Vec<Space>, String> =
        (first..=NODES).map(|number| Space::make(number, redis_port)).collect();
    made.unwrap_or_else(|why| {
        println!("no network namespaces here, proxies only: {why}");
        Vec::new()
    })
}

fn node(n: usize, redis: SocketAddr, listen: SocketAddr, advertise: SocketAddr) -> Vec<String> {
    let mut args = vec![
        format!("--redis-url=redis://{redis}"),
        "--durability=d1".to_owned(),
        format!("--node-id=n{n}"),
        format!("--advertise={advertise}"),
    ];
    args.extend(servers(listen));
    args.extend(CADENCE.map(str::to_owned));
    args.push(empty_room());
    args
}

/// Short, so that rooms die during a campaign.
fn empty_room() -> String {
    format!("--empty-room-ms={EMPTY_MS}")
}

/// Addresses and logs, the same for every server of ours.
fn servers(listen: SocketAddr) -> [String; 3] {
    [
        format!("--listen={listen}"),
        "--admin-listen=127.0.0.1:0".to_owned(),
        "--log-format=json".to_owned(),
    ]
}

/// D1: an append-only file, written before the reply and synced each second.
fn redis(listen: SocketAddr, spaces: &[Space], dir: &Path) -> Process {
    let data = dir.join("redis");
    std::fs::create_dir_all(&data).unwrap();
    let args = [
        "--port",
        &listen.port().to_string(),
        "--dir",
        &data.display().to_string(),
        "--appendonly",
        "yes",
        "--appendfsync",
        "everysec",
        "--save",
        "",
    ];
    let mut args = args.map(str::to_owned).to_vec();
    // Of no network that others reach.
    args.extend(["--protected-mode", "no", "--bind", "127.0.0.1"].map(str::to_owned));
    args.extend(spaces.iter().map(Space::machine));
    Process::new("redis", PathBuf::from("redis-server"), args, Ready::Ping(listen), dir)
}
