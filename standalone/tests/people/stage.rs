//! A whole server on time that stands still: store, host, gRPC on a loopback port, gateway.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use gateway::Gateway;
use gateway::handle::KeyRing;
use object::{Millis, ParticipantId};
use prometheus::Registry;
use proto::v1::room_node_client::RoomNodeClient;
use room::{CuratedApp, Room};
use room_node::clock::Clock;
use room_node::cluster::Alone;
use room_node::host::Host;
use room_node::store::memory::Memory;
use room_node::store::{Incarnation, Store};
use serde_json::json;
use tokio::net::TcpListener;
use tonic::transport::server::TcpIncoming;
use tonic::transport::{Channel, Endpoint, Server};

use crate::agent::Agent;
use crate::link::{Human, Link};
use crate::mcp::{Client, Era};

/// Wall time at which every test begins.
pub(crate) const START: Millis = Millis(1_790_000_000_000);
/// How long everything may stand still, in real time, before the test is given up.
const STUCK: Duration = Duration::from_secs(60);

/// What lies between everybody and the node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// HTTP/2 over loopback.
    Wire,
    /// Nothing: the generated client runs on the generated service.
    InProcess,
}

/// Paused time moves by itself whenever all tasks wait, also for a socket; while a blocking
/// task runs it does not. So this one runs until the test ends, or is stuck: then time races to
/// the deadlines, which end the test.
struct Frozen(#[expect(dead_code, reason = "its end ends the blocking task")] mpsc::SyncSender<()>);

fn freeze() -> Frozen {
    let (held, released) = mpsc::sync_channel(0);
    tokio::task::spawn_blocking(move || {
        let _ended_or_stuck = released.recv_timeout(STUCK);
    });
    Frozen(held)
}

/// Everything under test.
pub(crate) struct Stage {
    mode: Mode,
    pub(crate) host: Host<Room>,
    pub(crate) store: Arc<Memory>,
    clock: Clock,
    boot: u64,
    keys: KeyRing,
    pub(crate) grpc: SocketAddr,
    pub(crate) mcp: SocketAddr,
    numbers: AtomicU64,
    _gateway: gateway::Running,
    _frozen: Frozen,
}

impl Stage {
    pub(crate) async fn start(mode: Mode) -> Self {
        let keys = KeyRing::ephemeral().unwrap();
        let clock = Clock::starting_at(START);
        Self::over(mode, Memory::new(START), clock, keys, 1, freeze()).await
    }

    /// A new process over the same store and keys; the old one is left where it stands.
    pub(crate) async fn restart(self) -> Self {
        let Self { mode, store, clock, keys, boot, _gateway: gateway, _frozen: frozen, .. } = self;
        drop(gateway);
        store.reopen(clock.now());
        Self::over(mode, store, clock, keys, boot + 1, frozen).await
    }

    async fn over(
        mode: Mode,
        store: Arc<Memory>,
        clock: Clock,
        keys: KeyRing,
        boot: u64,
        frozen: Frozen,
    ) -> Self {
        let me = Incarnation { node: "node".into(), boot };
        let dynamic: Arc<dyn Store> = Arc::<Memory>::clone(&store);
        // Agents ask as often as the scenario wants: their polls cost no time.
        let of_host = room_node::config::Config {
            wait_period_ms: 0,
            wait_active_period_ms: 0,
            ..room_node::config::Config::default()
        };
        let apps = ["bingo", "whiteboard"];
        let apps = apps.map(|id| CuratedApp { app_id: id.into(), title: id.to_uppercase() });
        let of_rooms = room::Settings { room_apps: apps.into(), ..room::Settings::default() };
        let (alone, registry) = (Arc::new(Alone::default()), Registry::new());
        let host = Host::start(of_host, of_rooms, dynamic, clock, me, alone, &registry).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let grpc = listener.local_addr().unwrap();
        let service = room_node::rpc::service(host.clone());
        let incoming = TcpIncoming::from(listener);
        tokio::spawn(async move {
            Server::builder().serve_with_incoming(service, incoming).await.unwrap();
        });
        let gateway = edge(mode, &host, grpc, keys.clone()).await;
        let mcp = gateway.address();
        let numbers = AtomicU64::new(boot * 1_000);
        Self {
            mode,
            host,
            store,
            clock,
            boot,
            keys,
            grpc,
            mcp,
            numbers,
            _gateway: gateway,
            _frozen: frozen,
        }
    }

    /// A fresh number, larger than all before.
    pub(crate) fn number(&self) -> u64 {
        self.numbers.fetch_add(1, Ordering::Relaxed)
    }

    /// A fresh participant id, larger than all before.
    pub(crate) fn id(&self) -> ParticipantId {
        ParticipantId::from_random(u128::from(self.number()) << 96)
    }

    /// A stream of its own to the node.
    pub(crate) async fn link(&self) -> Arc<Link> {
        match self.mode {
            Mode::Wire => Link::open(RoomNodeClient::new(channel(self.grpc).await)).await,
            Mode::InProcess => {
                let service = room_node::rpc::service(self.host.clone());
                Link::open(RoomNodeClient::new(service)).await
            }
        }
    }

    /// A human that has joined by a connection of its own, on a stream of its own.
    pub(crate) async fn human(&self, room: &str, name: &str) -> Human {
        let link = self.link().await;
        let mut human = Human::new(link, room, self.id());
        human.attach(self.number()).await;
        let joined = human.join(name).await.unwrap();
        assert_eq!(joined["participantId"], json!(human.id.to_string()));
        assert_eq!(human.next("state").await["state"]["participants"][0]["connected"], true);
        human
    }

    /// An agent in a room of its own.
    pub(crate) async fn founder(&self, name: &str) -> Agent {
        self.agent_with("create_room", json!({"name": name})).await
    }

    /// An agent that joins a room.
    pub(crate) async fn agent(&self, room: &str, name: &str) -> Agent {
        self.agent_with("join_room", json!({"roomId": room, "name": name})).await
    }

    /// An agent on a runtime host that hears and speaks.
    pub(crate) async fn speaker(&self, room: &str, name: &str, host: &str) -> Agent {
        let host = json!({"runtimeHostId": host, "speech": {"stt": true, "tts": true}});
        let join = json!({"roomId": room, "name": name, "runtimeHost": host});
        self.agent_with("join_room", join).await
    }

    async fn agent_with(&self, tool: &str, arguments: serde_json::Value) -> Agent {
        let mut client = Client::new(self.mcp, Era::Modern);
        let joined = client.call(tool, arguments.clone()).await.unwrap().ok();
        Agent::new(client, self.mcp, &joined, &arguments)
    }

    /// Lets time pass, and what is due by then happen.
    pub(crate) async fn pass(&self, ms: u64) {
        tokio::time::advance(Duration::from_millis(ms)).await;
    }

    pub(crate) fn now(&self) -> u64 {
        self.clock.now().0
    }
}

/// HTTP/2 to the node.
async fn channel(grpc: SocketAddr) -> Channel {
    Endpoint::from_shared(format!("http://{grpc}")).unwrap().connect().await.unwrap()
}

/// The gateway in front of the node.
async fn edge(mode: Mode, host: &Host<Room>, grpc: SocketAddr, keys: KeyRing) -> gateway::Running {
    let many = NonZeroU32::new(100_000).unwrap();
    let day = Duration::from_secs(86_400);
    let config = gateway::config::Config {
        wait_period: Duration::ZERO,
        wait_burst: NonZeroU32::new(1_000).unwrap(),
        guard_join_per_minute: many,
        guard_info_per_minute: many,
        guard_call_per_minute: many,
        // Connections stay open while time is moved.
        header_timeout: day,
        body_timeout: day,
        ..gateway::config::Config::default()
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let admin = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let registry = Registry::new();
    match mode {
        Mode::Wire => {
            let node = RoomNodeClient::new(channel(grpc).await);
            Gateway::start(&config, listener, admin, keys, &node, registry).await.unwrap()
        }
        Mode::InProcess => {
            let node = RoomNodeClient::new(room_node::rpc::service(host.clone()));
            Gateway::start(&config, listener, admin, keys, &node, registry).await.unwrap()
        }
    }
}

/// Runs a scenario in both modes.
macro_rules! both {
    ($($scenario:ident),+ $(,)?) => {$(
        mod $scenario {
            use crate::stage::{Mode, Stage};

            #[tokio::test(start_paused = true)]
            async fn over_the_wire() {
                Box::pin(super::$scenario(Stage::start(Mode::Wire).await)).await;
            }

            #[tokio::test(start_paused = true)]
            async fn in_process() {
                Box::pin(super::$scenario(Stage::start(Mode::InProcess).await)).await;
            }
        }
    )+};
}
pub(crate) use both;
