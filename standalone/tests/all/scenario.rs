//! The whole life of two agents over raw HTTP, in both protocol eras.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::mcp::{Client, Era};
use crate::server::{FAST, Server};

/// The smallest PNG there is: one transparent pixel, with bytes that are no UTF-8.
const PNG: &str = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==";

/// One participant of the scenario.
struct Agent {
    client: Client,
    handle: String,
    id: String,
    cursor: u64,
}

impl Agent {
    fn new(client: Client, joined: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        Self {
            client,
            handle: text(&joined["participantHandle"]),
            id: text(&joined["participant"]["id"]),
            cursor: joined["cursor"].as_u64().unwrap(),
        }
    }

    /// Calls a tool with the handle added.
    async fn call(&mut self, tool: &str, mut arguments: Value) -> Value {
        arguments["participantHandle"] = json!(self.handle);
        self.client.call(tool, arguments).await.unwrap().ok()
    }

    async fn code(&mut self, tool: &str, mut arguments: Value) -> String {
        arguments["participantHandle"] = json!(self.handle);
        self.client.call(tool, arguments).await.unwrap().code().to_owned()
    }

    /// The next event, which must be the only new one.
    async fn next(&mut self) -> Value {
        let (mut events, cursor) = self.client.news(&self.handle, self.cursor).await;
        self.cursor = cursor;
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }
}

#[tokio::test]
async fn two_agents_meet_work_and_leave_in_the_legacy_era() {
    let server = Server::start(&[&FAST[..], &["--ephemeral"]].concat());
    let mut probe = Client::new(server.mcp, Era::Legacy);
    let hello = json!({"protocolVersion": "2025-11-25", "capabilities": {},
        "clientInfo": {"name": "tests", "version": "1"}});
    let hello = probe.request("initialize", hello).await.unwrap();
    assert_eq!(hello["result"]["serverInfo"]["name"], "roomring");
    assert_eq!(hello["result"]["protocolVersion"], "2025-11-25");
    life(&server, Era::Legacy).await;
}

#[tokio::test]
async fn two_agents_meet_work_and_leave_in_the_modern_era() {
    let server = Server::start(&[&FAST[..], &["--ephemeral"]].concat());
    let mut probe = Client::new(server.mcp, Era::Modern);
    let found = probe.request("server/discover", json!({})).await.unwrap();
    let versions = found["result"]["supportedVersions"].as_array().unwrap();
    assert!(versions.contains(&json!("2026-07-28")), "{versions:?}");
    life(&server, Era::Modern).await;
}

pub(crate) async fn life(server: &Server, era: Era) {
    let mut client = Client::new(server.mcp, era);
    let listed = client.request("tools/list", json!({})).await.unwrap();
    assert_eq!(listed["result"]["tools"].as_array().unwrap().len(), 20);

    let (mut ana, mut bo, room) = meet(server, era, client).await;
    talk(&mut ana, &mut bo).await;
    work(&mut ana, &mut bo).await;
    exchange(&mut ana, &mut bo).await;
    look_back(&mut ana).await;
    part(ana, bo, &room).await;
}

async fn meet(server: &Server, era: Era, mut client: Client) -> (Agent, Agent, String) {
    let created = client.call("create_room", json!({"name": "Ana"})).await.unwrap().ok();
    let room = created["invite"]["roomId"].as_str().unwrap().to_owned();
    assert_eq!(created["invite"]["kind"], "free4chat.room-invite");
    assert_eq!(created["agentLeaseMs"], 90_000);
    let ana = Agent::new(client, &created);

    let mut client = Client::new(server.mcp, era);
    let join = json!({"roomId": room, "name": "Bo", "capabilities": ["Text.Review"]});
    let joined = client.call("join_room", join).await.unwrap().ok();
    assert_eq!(joined["participant"]["capabilities"]["advertised"], json!(["text.review"]));
    let bo = Agent::new(client, &joined);
    assert_ne!(ana.id, bo.id);
    (ana, bo, room)
}

async fn talk(ana: &mut Agent, bo: &mut Agent) {
    let text = json!({"text": "hello Bo", "targetParticipantIds": [bo.id]});
    let sent = ana.call("send_text", text).await;
    let heard = bo.next().await;
    assert_eq!(heard["text"], "hello Bo");
    assert_eq!(heard["sequence"], sent["sequence"]);
    assert_eq!(heard["addressed"], true);
    assert_eq!(heard["participant"]["name"], "Ana");

    bo.call("send_text", json!({"text": "hello Ana"})).await;
    let heard = ana.next().await;
    assert_eq!((&heard["text"], &heard["addressed"]), (&json!("hello Ana"), &json!(false)));

    // A repeat with the same clientRequestId changes nothing.
    let again = json!({"text": "once", "clientRequestId": "once-1"});
    let first = ana.call("send_text", again.clone()).await;
    let second = ana.call("send_text", again).await;
    assert_eq!(first["sequence"], second["sequence"]);
    assert_eq!(second["duplicate"], true);
    assert_eq!(bo.next().await["text"], "once");
}

async fn work(ana: &mut Agent, bo: &mut Agent) {
    let request = json!({"targetParticipantId": bo.id, "requestId": "plan-0001",
        "summary": "Draft a plan", "details": {"tone": "short"}});
    ana.call("send_collab_request", request).await;
    let asked = bo.next().await;
    assert_eq!(asked["collab"]["kind"], "request");
    assert_eq!(asked["addressed"], true);
    assert_eq!(asked["scopeId"], "task:plan-0001");

    bo.call("send_collab_response", json!({"requestId": "plan-0001", "decision": "accepted"}))
        .await;
    assert_eq!(ana.next().await["collab"]["kind"], "accepted");

    let result = json!({"requestId": "plan-0001", "status": "completed", "summary": "Done"});
    let done = bo.call("send_collab_result", result.clone()).await;
    let told = ana.next().await;
    assert_eq!(told["collab"]["kind"], "completed");
    assert_eq!(told["sequence"], done["sequence"]);
    assert_eq!(bo.call("send_collab_result", result).await["duplicate"], true);
}

async fn exchange(ana: &mut Agent, bo: &mut Agent) {
    let table = "name,votes\nälter,3\n";
    let upload = json!({"fileName": "table.csv", "mimeType": "text/csv",
        "dataBase64": STANDARD.encode(table)});
    let sent = ana.call("send_attachment", upload).await;
    let seen = bo.next().await;
    assert_eq!(seen["type"], "image");
    let id = seen["attachment"]["id"].clone();
    assert_eq!(sent["attachment"]["id"], id);
    let read = bo.call("read_attachment", json!({"attachmentId": id})).await;
    assert_eq!(read["text"], table);

    let upload = json!({"fileName": "dot.png", "mimeType": "image/png", "dataBase64": PNG});
    bo.call("send_attachment", upload).await;
    let id = ana.next().await["attachment"]["id"].clone();
    let read = json!({"participantHandle": ana.handle, "attachmentId": id});
    let read = ana.client.call("read_attachment", read).await.unwrap();
    assert_eq!(read.content[0]["type"], "image");
    assert_eq!(read.content[0]["mimeType"], "image/png");
    assert_eq!(read.content[0]["data"], PNG);
    assert_eq!(read.ok()["attachment"]["fileName"], "dot.png");
}

async fn look_back(ana: &mut Agent) {
    let quiet = ana.client.wait(&ana.handle, ana.cursor).await.unwrap();
    assert_eq!(quiet["events"], json!([]));
    assert!(quiet["retryAfterMs"].as_u64().unwrap() > 0, "{quiet}");
    let context = ana.call("read_room_context", json!({"limit": 50})).await;
    let events = context["events"].as_array().unwrap();
    let sequences: Vec<u64> = events.iter().map(|e| e["sequence"].as_u64().unwrap()).collect();
    assert_eq!(sequences, (1..=8).collect::<Vec<u64>>());
}

async fn part(mut ana: Agent, mut bo: Agent, room: &str) {
    assert_eq!(bo.call("leave_room", json!({})).await["ok"], true);
    assert_eq!(bo.code("leave_room", json!({})).await, "already_left");
    assert_eq!(bo.code("send_text", json!({"text": "x"})).await, "invalid_participant_handle");
    let info = ana.client.call("room_info", json!({"roomId": room})).await.unwrap().ok();
    let names: Vec<&Value> =
        info["participants"].as_array().unwrap().iter().map(|p| &p["name"]).collect();
    assert_eq!(names, ["Ana"]);
    assert_eq!(ana.call("leave_room", json!({})).await["ok"], true);
}
