//! The whole product as the suites' server: the real binary on a data directory of its own.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use gateway::http::stats::Turned;
use room::catalog::Tool;
use serde_json::json;
use tempfile::TempDir;

pub(crate) use super::wire::{Ask, Reply, Setup, Wire, encoded, name_of_read, read, table};
use crate::mcp::{Client, Era};
use crate::metrics::{scrape, sum};
use crate::server::{FAST, Server};

/// A tool that changes nothing, and arguments it takes.
pub(crate) const READ: (&str, &str) = ("room_info", r#"{"roomId":"nobody-is-here"}"#);
/// A call that is refused, and its code.
pub(crate) const REFUSED: (&str, &str, &str) =
    ("send_text", r#"{"participantHandle":"forged","text":"hello"}"#, "invalid_participant_handle");

/// Longest hold of a wait. No test waits for its end.
const HOLD: Duration = Duration::from_secs(25);

/// A running `roomring`.
pub(crate) struct Rig {
    pub(crate) at: SocketAddr,
    server: Server,
    /// Goes after the process.
    _dir: TempDir,
}

/// The tools of the product.
pub(crate) fn tools() -> Vec<Tool> {
    room::catalog::tools()
}

impl Rig {
    pub(crate) async fn with(setup: Setup) -> Self {
        let mut flags = vec![
            "--mcp-longpoll-enabled=true".to_owned(),
            format!("--hold-ms-max={}", HOLD.as_millis()),
        ];
        flags.extend(setup.allowed_hosts.iter().map(|host| format!("--allow-host={host}")));
        flags.extend(setup.allowed_origins.iter().map(|it| format!("--allow-origin={it}")));
        let sizes = [
            ("body-bytes-max", setup.body_bytes_max),
            ("connections-max", setup.connections_max),
            ("inflight-max", setup.inflight_max),
        ];
        flags.extend(sizes.iter().filter_map(|(name, n)| n.map(|n| format!("--{name}={n}"))));
        let times =
            [("header-timeout-ms", setup.header_timeout), ("body-timeout-ms", setup.body_timeout)];
        let ms = |(name, time): &(&str, Option<Duration>)| {
            time.map(|time| format!("--{name}={}", time.as_millis()))
        };
        flags.extend(times.iter().filter_map(ms));
        let dir = tempfile::tempdir().unwrap();
        let flags: Vec<&str> = FAST.into_iter().chain(flags.iter().map(String::as_str)).collect();
        let server = Server::start_edge(dir.path(), &flags);
        Self { at: server.mcp, server, _dir: dir }
    }

    async fn metric(&self, name: &str, label: &str) -> f64 {
        sum(&scrape(self.server.admin).await, name, label)
    }

    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and small")]
    async fn count(&self, name: &str) -> usize {
        self.metric(name, "").await as usize
    }

    /// How many requests were turned away for a reason.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "whole and small")]
    pub(crate) async fn turned(&self, why: Turned) -> u64 {
        let label = format!("reason=\"{}\"", why.label());
        self.metric("roomring_http_turned_away_total", &label).await as u64
    }

    /// Panics caught so far.
    pub(crate) async fn panics(&self) -> usize {
        self.count("roomring_http_panics_total").await
    }

    /// Open connections.
    pub(crate) async fn connections(&self) -> usize {
        self.count("roomring_http_connections").await
    }

    /// Connections that are only told 503.
    pub(crate) async fn surplus(&self) -> usize {
        self.count("roomring_http_surplus_connections").await
    }

    /// Bodies read on after an early refusal.
    pub(crate) async fn discards(&self) -> usize {
        self.count("roomring_http_discarded_bodies").await
    }

    /// Requests being answered.
    pub(crate) async fn inflight(&self) -> usize {
        self.count("roomring_http_inflight_requests").await
    }

    /// A connection whose wait has begun and is held.
    pub(crate) async fn hold(&self) -> Wire {
        let mut client = Client::new(self.at, Era::Modern);
        let made = client.call("create_room", json!({"name": "Ana"})).await.unwrap().ok();
        let arguments = json!({"participantHandle": made["participantHandle"],
            "cursor": made["cursor"], "timeoutSeconds": HOLD.as_secs()});
        let mut wire = self.connect().await;
        wire.send(&Ask::call("wait_for_events", &arguments.to_string()).bytes()).await;
        self.until_inflight(1).await;
        wire
    }

    /// Returns when a held call has ended before its time.
    pub(crate) async fn abandoned(&self) {
        self.until_inflight(0).await;
    }

    async fn until_inflight(&self, count: usize) {
        let begin = Instant::now();
        while self.inflight().await != count {
            assert!(begin.elapsed() < HOLD, "{count} in flight, not before the hold's own end");
        }
    }
}
