//! Two regions, each with a Redis, nodes, gateways and keys of its own, linked by certificates.

use std::net::{SocketAddr, TcpListener};
use std::path::Path;
use std::time::Duration;

use hyper::StatusCode;
use serde_json::{Value, json};
use tokio::time::{Instant, timeout};

use crate::backend::Backend;
use crate::http::Http;
use crate::mcp::{Client, Era};
use crate::metrics::{scrape, sum};
use crate::program::{Program, STEP};
use crate::server::FAST;

const NAMES: [&str; 2] = ["a", "b"];
const NODES: usize = 2;
const GATEWAYS: usize = 2;
/// One for each region: neither can open the other's handles.
const KEYS: [&str; 2] = [
    "test:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n",
    "test:HwECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHgA=\n",
];
/// Streams that a gateway keeps to each node, and to each gateway of another region.
const STREAMS: usize = 2;
/// Longest time a refusal may take that needs no network: below every timeout of a link.
const AT_ONCE: Duration = Duration::from_millis(900);

/// One region.
struct Region {
    /// Go first.
    gateways: Vec<Program>,
    backend: Backend,
    args: Vec<String>,
    /// Where each gateway is reached from the other region.
    peers: Vec<SocketAddr>,
}

impl Region {
    fn start(dir: &Path, at: usize, peers: &[SocketAddr]) -> Self {
        let own = dir.join(NAMES[at]);
        std::fs::create_dir_all(&own).unwrap();
        let keys = own.join("handle-keys");
        std::fs::write(&keys, KEYS[at]).unwrap();
        let region = format!("--region={}", NAMES[at]);
        let of_all = [&certificates()[..], &[region]].concat();
        let of_nodes = [&of_all[..], &FAST.map(str::to_owned)[..2]].concat();
        let of_nodes: Vec<&str> = of_nodes.iter().map(String::as_str).collect();
        let backend = Backend::of(&own, &of_nodes, NODES);
        let mut args = vec![
            format!("--redis-url={}", backend.url),
            format!("--handle-keys-file={}", keys.display()),
            format!("--regions={}", dir.join("regions.json").display()),
        ];
        args.extend(of_all);
        args.push("--pre-stop-ms=0".to_owned());
        args.extend(FAST.map(str::to_owned));
        let mut region = Self { gateways: Vec::new(), backend, args, peers: peers.to_vec() };
        region.start_gateways();
        region
    }

    fn start_gateways(&mut self) {
        let start = |peer: &SocketAddr| {
            let peer = format!("--peer-listen={peer}");
            Program::start("roomring-gateway", &[&self.args[..], &[peer]].concat())
        };
        self.gateways = self.peers.iter().map(start).collect();
    }

    /// A client of one of the gateways.
    fn client(&self, gateway: usize) -> Client {
        Client::new(self.gateways[gateway].at, Era::Modern)
    }

    /// Waits until every gateway here has all its streams to nodes, and those to this many gateways
    /// of the other region.
    async fn linked_to(&self, peers: usize) {
        let expected = [(STREAMS * NODES) as f64, (STREAMS * peers) as f64];
        for gateway in &self.gateways {
            let linked = async {
                while links(gateway).await.map(f64::to_bits) != expected.map(f64::to_bits) {
                    tokio::task::yield_now().await;
                }
            };
            let done = timeout(STEP, linked).await;
            assert!(done.is_ok(), "{:?} links: {}", links(gateway).await, gateway.stderr());
        }
    }
}

/// Streams to nodes, and to gateways of the other region.
async fn links(gateway: &Program) -> [f64; 2] {
    let metrics = scrape(gateway.admin).await;
    ["roomring_gateway_links", "roomring_gateway_peer_links"].map(|name| sum(&metrics, name, ""))
}

/// The flags of certificates that both sides of every link show here.
fn certificates() -> Vec<String> {
    let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../gateway/src/running/tls");
    [("cert", "peer.pem"), ("key", "peer.key"), ("ca", "ca.pem")]
        .map(|(flag, file)| format!("--tls-{flag}={}", dir.join(file).display()))
        .to_vec()
}

/// Both regions, linked.
async fn both(dir: &Path) -> [Region; 2] {
    // The file names the ports before anybody listens there: they were free a moment ago.
    let free: Vec<TcpListener> =
        (0..2 * GATEWAYS).map(|_| TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let ports: Vec<SocketAddr> = free.iter().map(|free| free.local_addr().unwrap()).collect();
    let (of_a, of_b) = ports.split_at(GATEWAYS);
    let file = json!({"default_region": "a", "regions": {"a": of_a, "b": of_b}});
    std::fs::write(dir.join("regions.json"), file.to_string()).unwrap();
    drop(free);
    let regions = [Region::start(dir, 0, of_a), Region::start(dir, 1, of_b)];
    for region in &regions {
        region.linked_to(GATEWAYS).await;
    }
    regions
}

/// Makes a room, or joins one.
async fn enter(client: &mut Client, room: Option<&Value>, name: &str) -> (String, u64, Value) {
    let called = match room {
        None => client.call("create_room", json!({"name": name})).await,
        Some(room) => client.call("join_room", json!({"roomId": room, "name": name})).await,
    };
    let entered = called.unwrap().ok();
    let handle = entered["participantHandle"].as_str().unwrap().to_owned();
    (handle, entered["cursor"].as_u64().unwrap(), entered["invite"]["roomId"].clone())
}

fn text(handle: &str, text: &str) -> Value {
    json!({"participantHandle": handle, "clientRequestId": text.replace(' ', "-"), "text": text})
}

/// Waits from `cursor` on until `handle` hears this text.
async fn hears(client: &mut Client, handle: &str, cursor: u64, text: &str) {
    let hears = async {
        let mut cursor = cursor;
        loop {
            let (events, next) = client.news(handle, cursor).await;
            if events.iter().any(|event| event["text"] == text) {
                return;
            }
            cursor = next;
        }
    };
    assert!(timeout(STEP, hears).await.is_ok(), "{text} is not heard");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rooms_are_reached_from_both_regions_and_a_region_that_is_away_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let [mut a, b] = both(dir.path()).await;

    // A room of a, entered and spoken in through the gateways of b.
    let mut ana = a.client(0);
    let (ana_is, ana_cursor, room) = enter(&mut ana, None, "Ana").await;
    assert!(room.as_str().unwrap().starts_with("a."), "{room}");
    let (bo_is, bo_cursor, _) = enter(&mut b.client(0), Some(&room), "Bo").await;
    b.client(1).call("send_text", text(&bo_is, "from b")).await.unwrap().ok();
    hears(&mut a.client(1), &ana_is, ana_cursor, "from b").await;
    ana.call("send_text", text(&ana_is, "from a")).await.unwrap().ok();
    let mut bo = b.client(0);
    hears(&mut bo, &bo_is, bo_cursor, "from a").await;

    // And one of b, in which an agent of a is.
    let mut cleo = b.client(0);
    let (cleo_is, cleo_cursor, room_of_b) = enter(&mut cleo, None, "Cleo").await;
    assert!(room_of_b.as_str().unwrap().starts_with("b."), "{room_of_b}");
    let (dan_is, _, _) = enter(&mut a.client(1), Some(&room_of_b), "Dan").await;
    a.client(0).call("send_text", text(&dan_is, "hello b")).await.unwrap().ok();
    hears(&mut cleo, &cleo_is, cleo_cursor, "hello b").await;

    for gateway in a.gateways.drain(..) {
        gateway.kill();
    }
    b.linked_to(0).await;
    for gateway in 0..GATEWAYS {
        let mut at_b = b.client(gateway);
        refused_by_name(&mut at_b, &bo_is, &room).await;
        // Its own rooms, and who came to them from elsewhere, go on.
        let own = format!("still here {gateway}");
        at_b.call("send_text", text(&dan_is, &own)).await.unwrap().ok();
        enter(&mut at_b, None, "Fay").await;
    }
    let read = json!({"participantHandle": cleo_is, "limit": 50});
    let context = cleo.call("read_room_context", read).await.unwrap().ok();
    let texts = texts_of(&context);
    assert_eq!(texts, ["hello b", "still here 0", "still here 1"]);

    // The region comes back, and with it everything that was acknowledged.
    a.start_gateways();
    b.linked_to(GATEWAYS).await;
    bo.call("send_text", text(&bo_is, "back")).await.unwrap().ok();
    let read = json!({"participantHandle": bo_is, "limit": 50});
    let context = b.client(1).call("read_room_context", read).await.unwrap().ok();
    assert_eq!(texts_of(&context), ["from b", "from a", "back"]);

    nodes_take_nobody_without_a_certificate(&b).await;
    for region in [a, b] {
        for gateway in &region.gateways {
            gateway.signal("TERM");
        }
        for gateway in region.gateways {
            let ended = gateway.wait();
            assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        }
    }
}

/// Whatever is asked of region `a`, or of rooms without a region's name, which are at home there.
async fn refused_by_name(client: &mut Client, handle: &str, room: &Value) {
    for (tool, arguments) in [
        ("send_text", text(handle, "lost")),
        ("room_info", json!({"roomId": room})),
        ("join_room", json!({"roomId": room, "name": "Eve"})),
        ("room_info", json!({"roomId": "without-region"})),
    ] {
        let begin = Instant::now();
        let called = client.call(tool, arguments).await.unwrap();
        let took = begin.elapsed();
        assert!(took < AT_ONCE, "{tool} took {took:?}");
        assert_eq!(called.code(), "room_unavailable", "{tool}: {}", called.value);
        assert_eq!(called.value["retryable"], true, "{tool}: {}", called.value);
        let message = called.value["message"].as_str().unwrap();
        assert!(message.contains("region `a`"), "{tool}: {message}");
    }
}

fn texts_of(context: &Value) -> Vec<&str> {
    let events = context["events"].as_array().unwrap();
    events.iter().filter_map(|event| event["text"].as_str()).collect()
}

async fn nodes_take_nobody_without_a_certificate(region: &Region) {
    let mut args = region.args.clone();
    args.retain(|arg| !arg.starts_with("--tls-") && !arg.starts_with("--regions="));
    let stranger = Program::start("roomring-gateway", &args);
    let ready = Http::new(stranger.admin).get("/readyz").await.unwrap();
    assert_eq!(ready.status, StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(links(&stranger).await.map(f64::to_bits), [0.0_f64.to_bits(); 2]);
    assert!(region.backend.nodes.len() == NODES, "the nodes are there");
}
