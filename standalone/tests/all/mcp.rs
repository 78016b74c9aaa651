//! Tool calls over MCP in both eras, as a plain client writes them.

use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use tokio::time::{Duration, Instant};

use crate::http::{Answer, Http, Lost, Tap};

/// Which protocol the client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Era {
    /// 2025-11-25, with a handshake and without a session.
    Legacy,
    /// 2026-07-28, stateless.
    Modern,
}

/// The answer of one tool call.
#[derive(Clone, Debug)]
pub(crate) struct Called {
    /// The object of a success, or the error object of a refusal.
    pub(crate) value: Value,
    pub(crate) refused: bool,
    pub(crate) content: Vec<Value>,
}

impl Called {
    /// The object of a success; a refusal fails the test.
    pub(crate) fn ok(self) -> Value {
        assert!(!self.refused, "refused: {}", self.value);
        self.value
    }

    /// The code of a refusal; a success fails the test.
    pub(crate) fn code(&self) -> &str {
        assert!(self.refused, "not refused: {}", self.value);
        self.value["error"].as_str().unwrap()
    }
}

/// One agent's client, with the cadence it was told to keep.
pub(crate) struct Client {
    http: Http,
    era: Era,
    id: u64,
    next_wait: Instant,
}

const ACCEPT: (&str, &str) = ("accept", "application/json, text/event-stream");
const JSON: (&str, &str) = ("content-type", "application/json");

impl Client {
    pub(crate) fn new(address: SocketAddr, era: Era) -> Self {
        Self::over(Http::new(address), era)
    }

    pub(crate) fn tapped(address: SocketAddr, era: Era, tap: Arc<dyn Tap>) -> Self {
        Self::over(Http::tapped(address, tap), era)
    }

    /// A client that waits for no answer longer than this.
    pub(crate) fn within(address: SocketAddr, era: Era, deadline: Duration) -> Self {
        Self::over(Http::new(address).within(deadline), era)
    }

    fn over(http: Http, era: Era) -> Self {
        Self { http, era, id: 0, next_wait: Instant::now() }
    }

    /// One request of any method; the JSON-RPC answer, whatever it is.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Result<Value, Lost> {
        let answer = self.post(method, params).await?;
        if answer.status.is_server_error() && !answer.body.starts_with(b"{") {
            return Err(Lost::Unanswered);
        }
        let body: Value = serde_json::from_slice(&answer.body).unwrap_or_else(|error| {
            panic!("{method}: {} {error}: {}", answer.status, answer.text())
        });
        assert_eq!(body["id"], self.id, "{body}");
        Ok(body)
    }

    /// One call of a tool.
    pub(crate) async fn call(&mut self, tool: &str, arguments: Value) -> Result<Called, Lost> {
        let params = json!({"name": tool, "arguments": arguments});
        let mut body = self.request("tools/call", params).await?;
        let mut result = body["result"].take();
        assert!(result.is_object(), "{tool}: {body}");
        let refused = result["isError"] == true;
        let content = match result["content"].take() {
            Value::Array(blocks) => blocks,
            other => panic!("{tool}: content {other}"),
        };
        let text = content.iter().rev().find_map(|block| block["text"].as_str());
        let spoken: Value = serde_json::from_str(text.unwrap()).unwrap();
        let value = if refused { spoken } else { result["structuredContent"].take() };
        Ok(Called { value, refused, content })
    }

    /// One wait from `cursor`, at the time the server asked for.
    pub(crate) async fn wait(&mut self, handle: &str, cursor: u64) -> Result<Value, Lost> {
        self.in_cadence().await;
        let arguments = json!({"participantHandle": handle, "cursor": cursor, "timeoutSeconds": 0});
        let answer = self.call("wait_for_events", arguments).await?.ok();
        self.keep_cadence(&answer);
        Ok(answer)
    }

    /// Waits from `cursor` on until an answer has events; returns them and the new cursor.
    pub(crate) async fn news(&mut self, handle: &str, cursor: u64) -> (Vec<Value>, u64) {
        let mut cursor = cursor;
        loop {
            let mut answer = self.wait(handle, cursor).await.unwrap();
            cursor = answer["cursor"].as_u64().unwrap();
            if let Value::Array(events) = answer["events"].take()
                && !events.is_empty()
            {
                return (events, cursor);
            }
        }
    }

    /// The server's pace is part of the protocol: this is the only place where time passes.
    pub(crate) async fn in_cadence(&self) {
        tokio::time::sleep_until(self.next_wait).await;
    }

    pub(crate) fn keep_cadence(&mut self, answer: &Value) {
        let ms = answer["retryAfterMs"].as_u64().unwrap_or_default();
        self.next_wait = Instant::now() + Duration::from_millis(ms);
    }

    async fn post(&mut self, method: &str, mut params: Value) -> Result<Answer, Lost> {
        self.id += 1;
        let name = params["name"].as_str().unwrap_or_default().to_owned();
        let mut headers = vec![JSON, ACCEPT];
        match self.era {
            Era::Legacy if method == "initialize" => {}
            Era::Legacy => headers.push(("mcp-protocol-version", "2025-11-25")),
            Era::Modern => {
                params["_meta"] = json!({
                    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
                    "io.modelcontextprotocol/clientCapabilities": {},
                    "io.modelcontextprotocol/clientInfo": {"name": "tests", "version": "1"},
                });
                headers.push(("mcp-protocol-version", "2026-07-28"));
                headers.push(("mcp-method", method));
                if !name.is_empty() {
                    headers.push(("mcp-name", &name));
                }
            }
        }
        let body = json!({"jsonrpc": "2.0", "id": self.id, "method": method, "params": params});
        let body = Bytes::from(body.to_string());
        self.http.send(Method::POST, "/mcp", &headers, body).await
    }
}
