//! Ours: the whole edge with its pipeline. No node is behind it: a refused poll asks none.

use std::sync::Arc;

use gateway::call::{Parts, Pipeline};
use gateway::clock::Clock;
use gateway::config::Config;
use gateway::handle::{KeyRing, Sealer};
use gateway::http::{Edge, Settings, serve};
use gateway::mcp::tools::Catalog;
use gateway::metrics::Metrics;
use gateway::routing::{Peers, Routes};
use gateway::upstream::Upstream;
use object::{ObjectId, ParticipantId};
use prometheus::Registry;
use proto::v1::room_node_client::RoomNodeClient;
use tokio_util::sync::CancellationToken;
use tonic::transport::Endpoint;

use super::load::{Server, once, run};

/// The running edge and the three requests asked of it.
pub(crate) struct Served {
    pub(crate) running: Server,
    pub(crate) list: Vec<u8>,
    pub(crate) discover: Vec<u8>,
    pub(crate) wait: Vec<u8>,
}

impl Served {
    pub(crate) fn start() -> Self {
        let keys = KeyRing::ephemeral().unwrap();
        let sealer = Sealer::new("local", keys).unwrap();
        let room = ObjectId::new(room::KIND, "blue-otter-k2m4").unwrap();
        let handle = sealer.seal(&room, ParticipantId::from_random(7), [7; 24]);
        let arguments = format!(r#"{{"participantHandle":"{}","cursor":12}}"#, handle.expose());
        let running = Server::start(move |listener| served(listener, sealer));
        let served = Self {
            running,
            list: request("tools/list", ""),
            discover: request("server/discover", ""),
            wait: request(
                "tools/call",
                &format!(r#""name":"wait_for_events","arguments":{arguments},"#),
            ),
        };
        // Uses up the burst; from here on every poll is refused before a node is asked.
        run(served.running.at, &served.wait, 64);
        let refused = String::from_utf8(once(served.running.at, &served.wait)).unwrap();
        assert!(refused.contains("wait_rate_limited"), "{refused}");
        served
    }

    /// The body of one answer.
    pub(crate) fn sample(&self, request: &[u8]) -> Vec<u8> {
        once(self.running.at, request)
    }
}

async fn served(listener: std::net::TcpListener, sealer: Sealer) {
    let config = Config::default();
    let metrics = Arc::new(Metrics::register(&Registry::new()).unwrap());
    let nobody = RoomNodeClient::new(Endpoint::from_static("http://127.0.0.1:9").connect_lazy());
    let upstream = Upstream::start(&nobody, 1, &metrics);
    let parts = Parts {
        sealer,
        routes: Routes::single(upstream, config.inflight_max, Arc::clone(&metrics)),
        peers: Peers::none("local"),
        clock: Clock::machine(),
        metrics,
        app_url: "http://127.0.0.1:8080".to_owned(),
        seed: 7,
    };
    let pipeline = Arc::new(Pipeline::new(&config, parts));
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    let settings = Settings::new(&config, listener.local_addr().unwrap());
    let catalog = Catalog::new(room::catalog::tools());
    let edge = Arc::new(Edge::new(pipeline, catalog, settings, "http://127.0.0.1:8080"));
    serve(listener, edge, CancellationToken::new()).await;
}

/// A modern request as a real client sends it.
fn request(method: &str, params: &str) -> Vec<u8> {
    let name = if method == "tools/call" { "Mcp-Name: wait_for_events\r\n" } else { "" };
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params}"_meta":{{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{{}}}}}}}}"#
    );
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost:8080\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: {method}\r\n{name}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
