//! What is asked: whole HTTP requests, ours of the newer protocol era, as real clients send them.

const TEXT: &str = "a message of exactly sixty-four bytes, as all of the figures say";

/// A new room.
pub(crate) fn create() -> Vec<u8> {
    tool("create_room", r#"{"name":"bench"}"#)
}

/// The handle in the answer of [`create`].
pub(crate) fn handle(body: &[u8]) -> String {
    let answer: serde_json::Value = serde_json::from_slice(body).unwrap();
    let handle = answer["result"]["structuredContent"]["participantHandle"].as_str();
    handle.unwrap_or_else(|| panic!("no room was made")).to_owned()
}

/// A poll.
pub(crate) fn wait(handle: &str) -> Vec<u8> {
    tool("wait_for_events", &format!(r#"{{"participantHandle":"{handle}","cursor":0}}"#))
}

/// A message of 64 bytes.
pub(crate) fn send(handle: &str) -> Vec<u8> {
    assert_eq!(TEXT.len(), 64);
    tool("send_text", &format!(r#"{{"participantHandle":"{handle}","text":"{TEXT}"}}"#))
}

pub(crate) fn list() -> Vec<u8> {
    modern("tools/list", "", "")
}

pub(crate) fn discover() -> Vec<u8> {
    modern("server/discover", "", "")
}

/// The same message for the peer that keeps rooms by name, in the era it speaks.
pub(crate) fn rmcp_send(room: usize) -> Vec<u8> {
    let arguments = format!(r#"{{"room":"room-{room}","text":"{TEXT}"}}"#);
    let params = format!(r#"{{"name":"send_text","arguments":{arguments}}}"#);
    let body = format!(r#"{{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{params}}}"#);
    post("MCP-Protocol-Version: 2025-06-18\r\n", &body)
}

fn tool(name: &str, arguments: &str) -> Vec<u8> {
    let params = format!(r#""name":"{name}","arguments":{arguments},"#);
    modern("tools/call", &params, &format!("Mcp-Name: {name}\r\n"))
}

fn modern(method: &str, params: &str, headers: &str) -> Vec<u8> {
    let meta = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}"#;
    let body = format!(
        r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":{{{params}"_meta":{{{meta}}}}}}}"#
    );
    let headers = format!("MCP-Protocol-Version: 2026-07-28\r\nMcp-Method: {method}\r\n{headers}");
    post(&headers, &body)
}

fn post(headers: &str, body: &str) -> Vec<u8> {
    format!(
        "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\n{headers}Content-Length: {}\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}
