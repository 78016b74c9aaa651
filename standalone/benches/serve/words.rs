//! What is asked: whole HTTP requests, ours of the newer protocol era, as real clients send them.

pub(crate) const TEXT: &str = "a message of exactly sixty-four bytes, as all of the figures say";

/// A new room.
pub(crate) fn create() -> Vec<u8> {
    tool("create_room", r#"{"name":"bench"}"#)
}

/// The handle in the answer of [`create`].
pub(crate) fn handle(body: &[u8]) -> String {
    handle_and_cursor(body).0
}

/// The handle, and the cursor to poll from.
pub(crate) fn handle_and_cursor(body: &[u8]) -> (String, u64) {
    let answer: serde_json::Value = serde_json::from_slice(body).unwrap();
    let made = &answer["result"]["structuredContent"];
    let handle = made["participantHandle"].as_str().unwrap_or_else(|| panic!("no room was made"));
    (handle.to_owned(), made["cursor"].as_u64().unwrap())
}

/// The name of the room in the answer of [`create`].
pub(crate) fn room(body: &[u8]) -> String {
    let answer: serde_json::Value = serde_json::from_slice(body).unwrap();
    let room = answer["result"]["structuredContent"]["invite"]["roomId"].as_str();
    room.unwrap_or_else(|| panic!("no invite")).to_owned()
}

/// Another agent for a room.
pub(crate) fn join(room: &str) -> Vec<u8> {
    tool("join_room", &format!(r#"{{"roomId":"{room}","name":"watch"}}"#))
}

/// The number of a message in its answer, whoever answers.
pub(crate) fn sequence(body: &[u8]) -> u64 {
    let text = std::str::from_utf8(body).unwrap().replace('\\', "");
    let (_, rest) = text.split_once("\"sequence\":").unwrap_or_else(|| panic!("not sent"));
    let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    rest.split_at(digits).0.parse().unwrap()
}

/// A poll.
pub(crate) fn wait(handle: &str) -> Vec<u8> {
    tool("wait_for_events", &format!(r#"{{"participantHandle":"{handle}","cursor":0}}"#))
}

/// A poll from `cursor` that may be held so many seconds.
pub(crate) fn wait_after(handle: &str, cursor: u64, seconds: u64) -> Vec<u8> {
    let arguments = format!(
        r#"{{"participantHandle":"{handle}","cursor":{cursor},"timeoutSeconds":{seconds}}}"#
    );
    tool("wait_for_events", &arguments)
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

/// The same message for a peer that keeps rooms by name, in the era it speaks.
pub(crate) fn peer_send(room: usize) -> Vec<u8> {
    peer_tool("send_text", &format!(r#"{{"room":"room-{room}","text":"{TEXT}"}}"#))
}

/// A wait of such a peer.
pub(crate) fn peer_wait(room: usize, cursor: u64, seconds: u64) -> Vec<u8> {
    let arguments =
        format!(r#"{{"room":"room-{room}","cursor":{cursor},"timeoutSeconds":{seconds}}}"#);
    peer_tool("wait_for_events", &arguments)
}

fn peer_tool(name: &str, arguments: &str) -> Vec<u8> {
    let params = format!(r#"{{"name":"{name}","arguments":{arguments}}}"#);
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
