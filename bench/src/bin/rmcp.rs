//! rmcp's own server over axum, without sessions, with JSON answers: `send_text` into a room that
//! is kept in memory and has one watcher's channel.
#![forbid(unsafe_code)]

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use peers::{Failure, run};
use rmcp::handler::server::router::tool::ToolRouter;
use rmcp::handler::server::wrapper::Parameters;
use rmcp::model::{CallToolResult, ContentBlock, ServerCapabilities, ServerConfig};
use rmcp::transport::streamable_http_server::session::never::NeverSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, ServerHandler, schemars, tool, tool_handler, tool_router};
use tokio::sync::watch;

/// Messages a room keeps.
const MESSAGES_MAX: usize = 100;

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct SendText {
    room: String,
    text: String,
}

#[derive(serde::Deserialize, schemars::JsonSchema)]
struct WaitForEvents {
    room: String,
    cursor: u64,
    #[serde(rename = "timeoutSeconds")]
    timeout_seconds: u64,
}

struct Room {
    sequence: u64,
    messages: VecDeque<(u64, String)>,
    news: watch::Sender<u64>,
}

impl Room {
    fn send(&mut self, text: String) -> u64 {
        self.sequence += 1;
        self.messages.push_back((self.sequence, text));
        if self.messages.len() > MESSAGES_MAX {
            self.messages.pop_front();
        }
        self.news.send_replace(self.sequence);
        self.sequence
    }
}

type Rooms = HashMap<String, Arc<Mutex<Room>>>;

#[derive(Clone)]
struct Peer {
    rooms: Arc<Mutex<Rooms>>,
    tool_router: ToolRouter<Self>,
}

impl Peer {
    /// The room of this name, made on first use.
    fn room(&self, room: String) -> Arc<Mutex<Room>> {
        let fresh = || {
            let (sequence, messages) = (0, VecDeque::new());
            Arc::new(Mutex::new(Room { sequence, messages, news: watch::channel(0).0 }))
        };
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(rooms.entry(room).or_insert_with(fresh))
    }
}

#[tool_router]
impl Peer {
    #[tool(description = "Appends a message to a room.")]
    async fn send_text(
        &self,
        Parameters(SendText { room, text }): Parameters<SendText>,
    ) -> Result<CallToolResult, ErrorData> {
        let room = self.room(room);
        let sequence = room.lock().unwrap_or_else(PoisonError::into_inner).send(text);
        let text = format!("{{\"sequence\":{sequence}}}");
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
    }

    #[tool(description = "Waits until a room has a message after the cursor.")]
    async fn wait_for_events(
        &self,
        Parameters(WaitForEvents { room, cursor, timeout_seconds }): Parameters<WaitForEvents>,
    ) -> Result<CallToolResult, ErrorData> {
        let room = self.room(room);
        let mut news = room.lock().unwrap_or_else(PoisonError::into_inner).news.subscribe();
        let there = news.wait_for(|sequence| *sequence > cursor);
        // Without news in time, the answer is the cursor it came with.
        drop(tokio::time::timeout(std::time::Duration::from_secs(timeout_seconds), there).await);
        let room = room.lock().unwrap_or_else(PoisonError::into_inner);
        let new: Vec<&str> = room.messages.iter().filter(|m| m.0 > cursor).map(|m| &*m.1).collect();
        let text = serde_json::json!({"cursor": room.sequence, "events": new}).to_string();
        Ok(CallToolResult::success(vec![ContentBlock::text(text)]))
    }
}

#[tool_handler(router = self.tool_router)]
impl ServerHandler for Peer {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
    }
}

fn main() -> Result<(), Failure> {
    run(|listener| async {
        let peer = Peer { rooms: Arc::default(), tool_router: Peer::tool_router() };
        let config = StreamableHttpServerConfig::default()
            .with_legacy_session_mode(false)
            .with_json_response(true);
        let sessions = Arc::new(NeverSessionManager::default());
        let service = StreamableHttpService::new(move || Ok(peer.clone()), sessions, config);
        axum::serve(listener, axum::Router::new().nest_service("/mcp", service)).await?;
        Ok(())
    })
}
