//! An agent that comes over MCP.

use std::net::SocketAddr;
use std::sync::Arc;

use object::ParticipantId;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::link::{Human, Link};
use crate::mcp::{Called, Client, Era};

pub(crate) struct Agent {
    client: Client,
    mcp: SocketAddr,
    pub(crate) room: String,
    pub(crate) handle: String,
    pub(crate) id: String,
    pub(crate) cursor: u64,
}

impl Agent {
    /// Of the answer of `create_room` or `join_room`.
    pub(crate) fn new(client: Client, mcp: SocketAddr, joined: &Value, asked: &Value) -> Self {
        let text = |value: &Value| value.as_str().unwrap().to_owned();
        let room = joined["invite"]["roomId"].as_str().or_else(|| asked["roomId"].as_str());
        Self {
            client,
            mcp,
            room: room.unwrap().to_owned(),
            handle: text(&joined["participantHandle"]),
            id: text(&joined["participant"]["id"]),
            cursor: joined["cursor"].as_u64().unwrap(),
        }
    }

    /// The runtime of this agent: what it may do besides the tools, on a stream to the node.
    pub(crate) fn runtime(&self, link: Arc<Link>) -> Human {
        Human::new(link, &self.room, ParticipantId::parse(&self.id).unwrap())
    }

    /// Goes on by another gateway with the same handle.
    pub(crate) fn moved(&mut self, mcp: SocketAddr) {
        (self.client, self.mcp) = (Client::new(mcp, Era::Modern), mcp);
    }

    pub(crate) async fn called(&mut self, tool: &str, mut arguments: Value) -> Called {
        arguments["participantHandle"] = json!(self.handle);
        self.client.call(tool, arguments).await.unwrap()
    }

    pub(crate) async fn ok(&mut self, tool: &str, arguments: Value) -> Value {
        self.called(tool, arguments).await.ok()
    }

    pub(crate) async fn code(&mut self, tool: &str, arguments: Value) -> String {
        self.called(tool, arguments).await.code().to_owned()
    }

    /// The same call on a connection of its own; it goes on while the test does.
    pub(crate) fn begin(&self, tool: &'static str, mut arguments: Value) -> JoinHandle<Called> {
        let mut client = Client::new(self.mcp, Era::Modern);
        arguments["participantHandle"] = json!(self.handle);
        tokio::spawn(async move { client.call(tool, arguments).await.unwrap() })
    }

    /// One poll; the cursor moves on.
    pub(crate) async fn poll(&mut self) -> Value {
        let cursor = self.cursor;
        let answer = self.ok("wait_for_events", json!({"cursor": cursor})).await;
        self.cursor = answer["cursor"].as_u64().unwrap();
        answer
    }

    /// A poll that leaves the cursor where it is.
    pub(crate) async fn poll_again(&mut self) -> Value {
        let cursor = self.cursor;
        let answer = self.poll().await;
        self.cursor = cursor;
        answer
    }

    /// The only new event.
    pub(crate) async fn next(&mut self) -> Value {
        let mut answer = self.poll().await;
        let events = answer["events"].as_array_mut().unwrap();
        assert_eq!(events.len(), 1, "{events:?}");
        events.remove(0)
    }

    pub(crate) async fn info(&mut self) -> Value {
        let room = json!({"roomId": self.room});
        self.client.call("room_info", room).await.unwrap().ok()
    }

    /// Any method of the protocol.
    pub(crate) async fn request(&mut self, method: &str, params: Value) -> Value {
        self.client.request(method, params).await.unwrap()
    }
}
