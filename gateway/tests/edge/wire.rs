//! A client that speaks bytes: requests to be bent, connections, responses in one line; and what a
//! suite asks of the server it runs against.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use super::rig::{self, Rig};

/// What a test sets at the server; everything else keeps its default.
#[derive(Clone, Debug, Default)]
pub(crate) struct Setup {
    pub(crate) allowed_hosts: Vec<String>,
    pub(crate) allowed_origins: Vec<String>,
    pub(crate) body_bytes_max: Option<usize>,
    pub(crate) connections_max: Option<usize>,
    pub(crate) inflight_max: Option<usize>,
    pub(crate) header_timeout: Option<Duration>,
    pub(crate) body_timeout: Option<Duration>,
}

impl Rig {
    pub(crate) async fn start() -> Self {
        Self::with(Setup::default()).await
    }

    pub(crate) async fn connect(&self) -> Wire {
        Wire {
            stream: TcpStream::connect(self.at).await.expect("a connection"),
            buffer: Vec::new(),
        }
    }

    /// One request on a connection of its own.
    pub(crate) async fn ask(&self, ask: &Ask) -> Reply {
        let mut wire = self.connect().await;
        wire.send(&ask.bytes()).await;
        wire.reply().await
    }
}

/// A well-formed modern call of the tool that every rig can read with.
pub(crate) fn read() -> Ask {
    Ask::call(rig::READ.0, rig::READ.1)
}

/// The name of that tool as JSON: `"name":"..."`.
pub(crate) fn name_of_read() -> String {
    format!(r#""name":"{}""#, rig::READ.0)
}

/// The value of a header that stands for this text in base64.
pub(crate) fn encoded(text: &str) -> String {
    format!("=?base64?{}?=", STANDARD.encode(text))
}

/// One connection.
pub(crate) struct Wire {
    stream: TcpStream,
    buffer: Vec<u8>,
}

impl Wire {
    pub(crate) async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("written");
    }

    /// Sends what the other side may refuse to read.
    pub(crate) async fn try_send(&mut self, bytes: &[u8]) -> bool {
        self.stream.write_all(bytes).await.is_ok()
    }

    /// Says that nothing more will be sent.
    pub(crate) async fn finish(&mut self) {
        // The other side may have closed already.
        drop(self.stream.shutdown().await);
    }

    /// The status line of the next interim response, which has no body.
    pub(crate) async fn interim(&mut self) -> String {
        loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                let head = self.buffer.drain(..end + 4).collect::<Vec<u8>>();
                return String::from_utf8_lossy(&head).trim_end().to_owned();
            }
            assert!(self.fill().await, "the connection ended: {}", self.shown());
        }
    }

    /// The next response.
    pub(crate) async fn reply(&mut self) -> Reply {
        let end = loop {
            if let Some(end) = find(&self.buffer, b"\r\n\r\n") {
                break end;
            }
            assert!(self.fill().await, "the connection ended: {}", self.shown());
        };
        let head = String::from_utf8(self.buffer[..end].to_vec()).expect("a head of text");
        self.buffer.drain(..end + 4);
        let mut lines = head.split("\r\n");
        let status = lines.next().expect("a status line");
        let status = status.split(' ').nth(1).expect("a status").parse().expect("a number");
        let headers: Vec<(String, String)> = lines
            .map(|line| line.split_once(": ").expect("a header"))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.to_owned()))
            .collect();
        let mut reply = Reply { status, headers, body: String::new() };
        let length = reply.header("content-length").expect("a length").parse().expect("a number");
        while self.buffer.len() < length {
            assert!(self.fill().await, "the body ended early");
        }
        reply.body = String::from_utf8(self.buffer.drain(..length).collect()).expect("text");
        reply
    }

    /// Whether the other side closes without another byte.
    pub(crate) async fn is_closed(&mut self) -> bool {
        self.buffer.is_empty() && !self.fill().await
    }

    /// All that comes until the other side closes.
    pub(crate) async fn rest(&mut self) -> String {
        while self.fill().await {}
        self.shown()
    }

    async fn fill(&mut self) -> bool {
        let count = self.stream.read_buf(&mut self.buffer).await.unwrap_or(0);
        count > 0
    }

    fn shown(&self) -> String {
        String::from_utf8_lossy(&self.buffer).into_owned()
    }
}

fn find(text: &[u8], part: &[u8]) -> Option<usize> {
    text.windows(part.len()).position(|window| window == part)
}

/// One response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) status: u16,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: String,
}

impl Reply {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(have, _)| have == name).map(|(_, value)| value.as_str())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }

    pub(crate) fn at(&self, pointer: &str) -> Value {
        self.json().pointer(pointer).cloned().unwrap_or_default()
    }

    /// The response in one line: status, then `result ID` or `CODE ID MESSAGE`; an id that is not
    /// there is `-`.
    pub(crate) fn line(&self) -> String {
        if self.body.is_empty() {
            return format!("{} empty", self.status);
        }
        let Ok(body) = serde_json::from_str::<Value>(&self.body) else {
            return format!("{} text {}", self.status, self.body.trim_end());
        };
        let id = body.get("id").map_or_else(|| "-".to_owned(), Value::to_string);
        match (body.get("error"), body.get("result")) {
            (Some(error), _) => {
                let message = error["message"].as_str().unwrap_or("");
                format!("{} {} {id} {message}", self.status, error["code"])
            }
            (None, Some(_)) => format!("{} result {id}", self.status),
            (None, None) => format!("{} json {body}", self.status),
        }
    }
}

/// A POST to `/mcp`, to be bent by a test.
#[derive(Clone, Debug)]
pub(crate) struct Ask {
    line: String,
    headers: Vec<(String, String)>,
    body: Vec<u8>,
}

const MODERN_META: &str = r#""_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}"#;

impl Ask {
    /// Any body with only the headers HTTP needs.
    pub(crate) fn bare(body: impl Into<Vec<u8>>) -> Self {
        Self {
            line: "POST /mcp HTTP/1.1".to_owned(),
            headers: vec![
                ("Host".to_owned(), "localhost".to_owned()),
                ("Content-Type".to_owned(), "application/json".to_owned()),
            ],
            body: body.into(),
        }
    }

    /// A well-formed modern request with id 7; `params` are the members beside `_meta`.
    pub(crate) fn modern(method: &str, params: &str) -> Self {
        let comma = if params.is_empty() { "" } else { "," };
        let ask = Self::bare(format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params}{comma}{MODERN_META}}}}}"#
        ));
        ask.with("MCP-Protocol-Version", "2026-07-28").with("Mcp-Method", method)
    }

    /// A well-formed modern call of a tool.
    pub(crate) fn call(tool: &str, arguments: &str) -> Self {
        Self::modern("tools/call", &format!(r#""name":"{tool}","arguments":{arguments}"#))
            .with("Mcp-Name", tool)
    }

    /// A legacy request with id 7 and no version header.
    pub(crate) fn legacy(method: &str, params: &str) -> Self {
        Self::bare(format!(
            r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params}}}}}"#
        ))
    }

    pub(crate) fn with(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.to_owned(), value.to_owned()));
        self
    }

    pub(crate) fn without(mut self, name: &str) -> Self {
        self.headers.retain(|(have, _)| have != name);
        self
    }

    /// Puts another value in the place of a header.
    pub(crate) fn set(self, name: &str, value: &str) -> Self {
        self.without(name).with(name, value)
    }

    pub(crate) fn line(mut self, line: &str) -> Self {
        self.line = line.to_owned();
        self
    }

    pub(crate) fn body(mut self, body: impl Into<Vec<u8>>) -> Self {
        self.body = body.into();
        self
    }

    /// Replaces a part of the body's text.
    pub(crate) fn bend(mut self, from: &str, to: &str) -> Self {
        let text = String::from_utf8(self.body).expect("a body of text");
        assert!(text.contains(from), "{from} is not in {text}");
        self.body = text.replace(from, to).into_bytes();
        self
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = self.head(self.body.len()).into_bytes();
        out.extend_from_slice(&self.body);
        out
    }

    /// The head alone, announcing a body of this length.
    pub(crate) fn head(&self, length: usize) -> String {
        let mut head = format!("{}\r\n", self.line);
        for (name, value) in &self.headers {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        head.push_str(&format!("Content-Length: {length}\r\n\r\n"));
        head
    }
}

/// Asks each row on one server and compares the start of the line.
pub(crate) async fn table(rows: &[(Ask, &str)]) {
    let rig = Rig::start().await;
    for (ask, expected) in rows {
        let line = rig.ask(ask).await.line();
        assert!(
            line.starts_with(expected),
            "{}\n expected {expected}\n got      {line}",
            String::from_utf8_lossy(&ask.bytes())
        );
    }
}
