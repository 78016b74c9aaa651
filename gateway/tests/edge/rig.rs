//! The edge alone with a scripted backend behind it. The other rig is the whole product:
//! `standalone/tests/all/parity/rig.rs`.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use gateway::call::{Attached, Outcome, Success, ToolCall};
use gateway::clock::Instant;
use gateway::error::Refusal;
use gateway::http::stats::Turned;
use gateway::http::{Edge, Settings, serve};
use gateway::mcp::tools::{Backend, Catalog};
use object::{Activation, Address, Audience, Class, Guard, Minted, OpMeta};
use room::catalog::{Annotations, Tool};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

pub(crate) use super::wire::{Ask, Reply, Setup, Wire, encoded, name_of_read, read, table};

/// A tool that changes nothing, and arguments it takes.
pub(crate) const READ: (&str, &str) = ("echo", "{}");
/// A call that is refused, and its code.
pub(crate) const REFUSED: (&str, &str, &str) = ("refuse", "{}", "room_full");

const fn meta(name: &'static str, read_only: bool, wait: bool) -> OpMeta {
    OpMeta {
        name,
        address: Address::Handle,
        activation: Activation::MustExist,
        audience: Audience::Agent,
        read_only,
        minted: Minted::Nothing,
        guard: Guard::Call(1),
        wait,
        park_ms: 0,
        client_request_id: false,
        blob: None,
    }
}

static ECHO: OpMeta = meta("echo", true, false);
static WRITE: OpMeta = meta("write", false, false);
static HOLD: OpMeta = meta("hold", true, true);
static REFUSE: OpMeta = meta("refuse", true, false);
static IMAGE: OpMeta = meta("image", true, false);
static TEXT: OpMeta = meta("text", true, false);
static BROKEN: OpMeta = meta("broken", true, false);
static BOOM: OpMeta = meta("boom", true, false);
static NAMED: OpMeta = meta("nämed", true, false);

/// The tools of the script.
pub(crate) fn tools() -> Vec<Tool> {
    [&ECHO, &WRITE, &HOLD, &REFUSE, &IMAGE, &TEXT, &BROKEN, &BOOM, &NAMED]
        .into_iter()
        .map(|meta| Tool {
            meta,
            title: "A tool",
            description: "What it does.",
            annotations: Annotations {
                read_only: meta.read_only,
                destructive: false,
                idempotent: false,
                open_world: false,
            },
            input_schema: json!({ "type": "object" }),
            output_schema: json!({ "type": "object" }),
            check: |_, _| Ok(()),
        })
        .collect()
}

/// What the script saw and what it waits for.
#[derive(Debug)]
pub(crate) struct Script {
    /// One permit for each held call that has begun.
    pub(crate) begun: Semaphore,
    /// Held calls go on when a permit is here.
    pub(crate) gate: Semaphore,
    /// One permit for each held call that was dropped before its end.
    pub(crate) dropped: Semaphore,
    /// One permit for each held call that came to its end.
    pub(crate) ended: Semaphore,
    pub(crate) calls: AtomicUsize,
    /// The deadline of each call, in their order.
    pub(crate) deadlines: Mutex<Vec<Instant>>,
}

impl Default for Script {
    fn default() -> Self {
        Self {
            begun: Semaphore::new(0),
            gate: Semaphore::new(0),
            dropped: Semaphore::new(0),
            ended: Semaphore::new(0),
            calls: AtomicUsize::new(0),
            deadlines: Mutex::default(),
        }
    }
}

impl Script {
    /// Waits for one permit and keeps it.
    pub(crate) async fn take(semaphore: &Semaphore) {
        semaphore.acquire().await.expect("never closed").forget();
    }

    pub(crate) fn calls(&self) -> usize {
        self.calls.load(Ordering::SeqCst)
    }
}

/// The scripted backend.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripted(pub(crate) Arc<Script>);

struct Watch<'a> {
    script: &'a Script,
    ended: bool,
}

impl Drop for Watch<'_> {
    fn drop(&mut self) {
        let which = if self.ended { &self.script.ended } else { &self.script.dropped };
        which.add_permits(1);
    }
}

impl Backend for Scripted {
    async fn call(&self, call: ToolCall<'_>) -> Outcome {
        let script = &*self.0;
        script.calls.fetch_add(1, Ordering::SeqCst);
        script.deadlines.lock().expect("no panic").push(call.deadline);
        let arguments = call.arguments.get();
        let blob = |bytes: &'static [u8], mime: Option<&str>| {
            Some(Attached { bytes: Bytes::from_static(bytes), image_mime: mime.map(Into::into) })
        };
        match call.tool.meta.name {
            "write" | "hold" => {
                let mut watch = Watch { script, ended: false };
                script.begun.add_permits(1);
                Script::take(&script.gate).await;
                watch.ended = true;
                success("{\"ok\":true}".to_owned(), None)
            }
            "refuse" => Outcome::Refused(
                Refusal::new(Class::Limit, "room_full", "The room is full.", true).retry_after(17),
            ),
            "image" => {
                success("{\"attachment\":{}}".to_owned(), blob(b"\x89PNG", Some("image/png")))
            }
            "text" => success("{\"attachment\":{}}".to_owned(), blob(b"a,b", None)),
            "broken" => success("[]".to_owned(), None),
            "boom" => panic!("the script says so"),
            _ => success(format!("{{\"got\":{arguments}}}"), None),
        }
    }

    fn ready(&self) -> bool {
        true
    }
}

fn success(body: String, blob: Option<Attached>) -> Outcome {
    Outcome::Success(Success { body: Bytes::from(body), blob })
}

/// A running edge.
pub(crate) struct Rig {
    pub(crate) at: SocketAddr,
    pub(crate) script: Arc<Script>,
    pub(crate) edge: Arc<Edge<Scripted>>,
    pub(crate) shutdown: CancellationToken,
    pub(crate) server: JoinHandle<bool>,
}

impl Rig {
    pub(crate) async fn with(setup: Setup) -> Self {
        let usual = Settings::default();
        Self::settings(Settings {
            allowed_hosts: setup.allowed_hosts,
            allowed_origins: setup.allowed_origins,
            body_bytes_max: setup.body_bytes_max.unwrap_or(usual.body_bytes_max),
            connections_max: setup.connections_max.unwrap_or(usual.connections_max),
            inflight_max: setup.inflight_max.unwrap_or(usual.inflight_max),
            header_timeout: setup.header_timeout.unwrap_or(usual.header_timeout),
            body_timeout: setup.body_timeout.unwrap_or(usual.body_timeout),
            ..usual
        })
        .await
    }

    pub(crate) async fn settings(settings: Settings) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let at = listener.local_addr().expect("an address");
        let backend = Scripted::default();
        let script = Arc::clone(&backend.0);
        let catalog = Catalog::new(tools());
        let edge = Arc::new(Edge::new(backend, catalog, settings, "http://127.0.0.1:8080"));
        let shutdown = CancellationToken::new();
        let server = tokio::spawn(serve(listener, Arc::clone(&edge), shutdown.clone()));
        Self { at, script, edge, shutdown, server }
    }

    /// How many requests were turned away for a reason.
    pub(crate) async fn turned(&self, why: Turned) -> u64 {
        self.edge.stats().turned().find(|(reason, _)| *reason == why).expect("listed").1
    }

    /// Panics caught so far.
    pub(crate) async fn panics(&self) -> u64 {
        self.edge.stats().panics()
    }

    /// Open connections.
    pub(crate) async fn connections(&self) -> usize {
        self.edge.gauges().connections
    }

    /// Connections that are only told 503.
    pub(crate) async fn surplus(&self) -> usize {
        self.edge.gauges().surplus
    }

    /// Bodies read on after an early refusal.
    pub(crate) async fn discards(&self) -> usize {
        self.edge.gauges().discards
    }

    /// Requests being answered.
    pub(crate) async fn inflight(&self) -> usize {
        self.edge.gauges().inflight
    }

    /// A connection whose call has begun and is held.
    pub(crate) async fn hold(&self) -> Wire {
        let mut wire = self.connect().await;
        wire.send(&Ask::call("hold", "{}").bytes()).await;
        Script::take(&self.script.begun).await;
        wire
    }

    /// Returns when a held call has ended before its time.
    pub(crate) async fn abandoned(&self) {
        Script::take(&self.script.dropped).await;
        assert_eq!(self.edge.stats().detached(), 0);
    }
}
