//! Handles, invite secrets and message text leave the process only in answers to those they are
//! meant for: never in logs, metrics or refusals (ours 6).

use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};

use crate::http::Http;
use crate::mcp::{Client, Era};
use crate::server::{FAST, Server};

/// A word that no code would make by itself; every text of this test holds it.
const CANARY: &str = "canarybird7319";
const PNG_BASE64: &str = "Y2FuYXJ5YmlyZDczMTk=";

fn secret(field: &str) -> String {
    format!("{CANARY} {field}")
}

#[tokio::test]
async fn secrets_are_in_no_log_metric_or_refusal() {
    let dir = tempfile::tempdir().unwrap();
    keeps_secrets(|flags| Server::start_in(dir.path(), flags)).await;
}

/// Starts a server twice, the second time over what the first has left.
pub(crate) async fn keeps_secrets(start: impl Fn(&[&str]) -> Server) {
    let flags = [&FAST[..], &["--log=trace"]].concat();
    let server = start(&flags);
    let mut client = Client::new(server.mcp, Era::Legacy);
    let mut made = client.call("create_room", json!({"name": secret("name")})).await.unwrap().ok();
    let handle = made["participantHandle"].take().as_str().unwrap().to_owned();
    let id = made["participant"]["id"].clone();
    let mut refusals = Vec::new();
    for (tool, arguments) in calls(&handle, &id) {
        let called = client.call(tool, arguments).await.unwrap();
        if called.refused {
            refusals.push(format!("{tool}: {}", called.value));
        }
    }
    assert!(refusals.len() >= 4, "the table must reach refusals: {refusals:?}");
    // Damaged requests, whose bodies hold secrets too.
    for body in [format!("{{\"{CANARY}"), format!("[\"{handle}\"]"), CANARY.to_owned()] {
        let mut http = Http::new(server.mcp);
        let json = [("content-type", "application/json"), ("accept", "application/json")];
        let answer = http.send(Method::POST, "/mcp", &json, Bytes::from(body)).await.unwrap();
        refusals.push(answer.text().to_owned());
    }
    let path = format!("/{CANARY}/{handle}");
    refusals.push(Http::new(server.mcp).get(&path).await.unwrap().text().to_owned());
    let metrics = Http::new(server.admin).get("/metrics").await.unwrap().text().to_owned();

    // The same on the way through a restart, which reads all of it back.
    server.signal("TERM");
    let ended = server.wait();
    assert_eq!(ended.code, Some(0));
    let again = start(&flags);
    let mut client = Client::new(again.mcp, Era::Legacy);
    let read = json!({"participantHandle": handle});
    let context = client.call("read_room_context", read).await.unwrap().ok();
    assert!(context.to_string().contains(CANARY), "the texts are there for whom they are meant");
    again.signal("TERM");
    let again = again.wait();
    let logs = [ended.stdout, ended.stderr, again.stdout, again.stderr].concat();

    let pieces = [("logs", logs), ("metrics", metrics), ("refusals", refusals.join("\n"))];
    for (place, text) in pieces {
        for needle in [CANARY, &handle, handle.rsplit(['.', '~']).next().unwrap(), PNG_BASE64] {
            assert!(!text.contains(needle), "{place} hold a secret: {}", around(&text, needle));
        }
    }
}

/// A panic whose own message holds the secrets of a call: the log names the place, and no more.
#[cfg(feature = "test-hooks")]
#[tokio::test]
async fn a_panic_prints_its_place_and_no_secret() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_in(dir.path(), &[&FAST[..], &["--log=trace"]].concat());
    let mut client = Client::new(server.mcp, Era::Legacy);
    let made = client.call("create_room", json!({"name": secret("name")})).await.unwrap().ok();
    let handle = made["participantHandle"].as_str().unwrap();
    let body = json!({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {
        "name": "test_panic",
        "arguments": {"participantHandle": handle, "text": secret("text")},
    }});
    let json = [("content-type", "application/json"), ("accept", "application/json")];
    let body = Bytes::from(body.to_string());
    let answer = Http::new(server.mcp).send(Method::POST, "/mcp", &json, body).await.unwrap();
    assert_eq!(answer.status, 500);
    // The process lives on, the room too.
    let read = json!({"participantHandle": handle});
    client.call("read_room_context", read).await.unwrap().ok();
    let told = answer.text().to_owned();
    server.signal("TERM");
    let ended = server.wait();
    assert_eq!(ended.code, Some(0));
    assert!(ended.stderr.contains("\"panicked\"") && ended.stderr.contains("hooks.rs"));
    for text in [&told, &ended.stderr, &ended.stdout] {
        for needle in [CANARY, handle] {
            assert!(!text.contains(needle), "a secret: {}", around(text, needle));
        }
    }
}

/// Calls that succeed and calls that are refused, with canaries wherever text may stand.
fn calls(handle: &str, id: &Value) -> Vec<(&'static str, Value)> {
    let h = handle;
    let damaged = format!("{}{CANARY}", &handle[..handle.len() - 4]);
    vec![
        ("send_text", json!({"participantHandle": h, "text": secret("text")})),
        ("send_text", json!({"participantHandle": damaged, "text": secret("text")})),
        ("send_text", json!({"participantHandle": h, "text": secret("long").repeat(400)})),
        (
            "send_text",
            json!({"participantHandle": h, "text": secret("task"),
            "taskRequestId": CANARY}),
        ),
        (
            "send_collab_request",
            json!({"participantHandle": h, "targetParticipantId": id,
            "summary": secret("summary"), "details": {"secret": secret("detail")}}),
        ),
        (
            "send_attachment",
            json!({"participantHandle": h, "fileName": secret("file"),
            "mimeType": "text/plain", "dataBase64": PNG_BASE64}),
        ),
        (
            "send_attachment",
            json!({"participantHandle": h, "fileName": secret("file"),
            "mimeType": "text/plain", "dataBase64": format!("*{CANARY}")}),
        ),
        (
            "publish_surface",
            json!({"participantHandle": h, "mimeType": "image/png",
            "dataBase64": PNG_BASE64}),
        ),
        (
            "publish_live_view",
            json!({"participantHandle": h, "taskRequestId": CANARY,
            "surface": {"secret": secret("view")}}),
        ),
        ("wait_for_events", json!({"participantHandle": h, "cursor": secret("cursor")})),
        ("room_info", json!({"roomId": secret("room").repeat(5)})),
        ("join_room", json!({"roomId": secret("room"), "name": secret("name")})),
    ]
}

/// The place of a leak, for the one who has to find it.
fn around<'a>(text: &'a str, needle: &str) -> &'a str {
    text.lines().find(|line| line.contains(needle)).unwrap_or("(over two lines)")
}
