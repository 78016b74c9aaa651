//! The agents of the crash test: they write, upload, work on tasks and poll until the kill, and
//! say afterwards what they know.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use fastrand::Rng;
use serde_json::{Value, json};

use super::gate::Gate;
use super::gate::Trigger;
use super::log::{About, Log};
use crate::http::Lost;
use crate::mcp::{Called, Client, Era};
use sim::history::{Phase, Seen};

/// Changes of one agent in one round. Three agents share a room's ring of 100 messages, so a
/// read after the round still shows all of them.
const CHANGES_MAX: u32 = 24;
/// Uploads of one agent in one round, below a third of the ring of eight.
const UPLOADS_MAX: u32 = 2;

/// How long an agent lets its wait be held, in seconds; the server's own bound is shorter.
const HOLD_SECONDS: u32 = 1;

/// A task that waits for its target.
#[derive(Clone, Debug)]
pub(crate) struct Todo {
    pub(crate) request: String,
    pub(crate) accepted: bool,
}

/// What the agents of one room tell each other outside of it: tasks for each target.
pub(crate) type Board = Arc<Mutex<Vec<(String, Todo)>>>;

/// A change as it was sent, kept for a repeat.
#[derive(Clone, Debug)]
pub(crate) struct Change {
    pub(crate) op: &'static str,
    pub(crate) key: String,
    pub(crate) arguments: Value,
}

impl Change {
    /// The tool behind the op's name in the history.
    pub(crate) fn tool(&self) -> &'static str {
        match self.op {
            "collab_request" => "send_collab_request",
            "collab_response" => "send_collab_response",
            "collab_result" => "send_collab_result",
            op => op,
        }
    }
}

/// One agent, over all rounds.
#[derive(Clone)]
pub(crate) struct Agent {
    pub(crate) name: String,
    pub(crate) room: String,
    pub(crate) id: String,
    pub(crate) handle: String,
    pub(crate) peer: String,
    pub(crate) cursor: u64,
    pub(crate) board: Board,
    pub(crate) log: Log,
    pub(crate) keys: u32,
    /// This round's outcomes.
    pub(crate) acked: Vec<(Change, Value)>,
    pub(crate) unknown: Vec<Change>,
    /// Waits without an answer.
    pub(crate) waits_lost: u32,
}

impl Agent {
    pub(crate) fn about(&self, op: &'static str, key: &str) -> About {
        About { client: self.name.clone(), op, key: key.to_owned(), room: self.room.clone() }
    }

    pub(crate) fn key(&mut self) -> String {
        self.keys += 1;
        format!("{}-{}", self.name, self.keys)
    }

    /// Works until the process is killed. Returns itself for the next round.
    pub(crate) async fn work(mut self, address: SocketAddr, gate: Arc<Gate>, mut rng: Rng) -> Self {
        self.acked.clear();
        self.unknown.clear();
        self.waits_lost = 0;
        let trigger = Trigger::new(Arc::clone(&gate));
        let era = if rng.bool() { Era::Legacy } else { Era::Modern };
        let mut client = Client::tapped(address, era, Arc::clone(&trigger) as Arc<_>);
        let (mut changes, mut uploads) = (0, 0);
        while !gate.over() {
            let polls = changes >= CHANGES_MAX || rng.u32(..5) == 0;
            trigger.next_is_change(!polls);
            let alive = if polls {
                client.in_cadence().await;
                self.poll(&mut client, HOLD_SECONDS).await
            } else {
                changes += 1;
                let change = self.choose(&mut rng, &mut uploads);
                self.change(&mut client, change).await
            };
            if !alive {
                break;
            }
        }
        self
    }

    pub(crate) fn choose(&mut self, rng: &mut Rng, uploads: &mut u32) -> Change {
        let key = self.key();
        let todo = {
            let mut board = self.board.lock().unwrap();
            let at = board.iter().position(|(target, _)| *target == self.name);
            at.map(|at| board.remove(at).1)
        };
        if let Some(todo) = todo {
            return step(&key, &todo);
        }
        let dice = rng.u32(..10);
        let (op, arguments) = if dice == 0 && *uploads < UPLOADS_MAX {
            *uploads += 1;
            let bytes: Vec<u8> = (0..rng.usize(1..90_000)).map(|_| rng.u8(..)).collect();
            let upload = json!({"fileName": key, "mimeType": "image/png",
                "dataBase64": STANDARD.encode(bytes)});
            ("send_attachment", upload)
        } else if dice <= 2 {
            let request = json!({"requestId": key, "summary": key,
                "targetParticipantId": self.peer_id()});
            ("collab_request", request)
        } else {
            ("send_text", json!({"text": format!("{key} {}", "x".repeat(rng.usize(..600)))}))
        };
        Change { op, key, arguments }
    }

    fn peer_id(&self) -> &str {
        self.peer.split_once('=').unwrap().1
    }

    fn peer_name(&self) -> &str {
        self.peer.split_once('=').unwrap().0
    }

    /// Sends a change; false when the process is gone.
    pub(crate) async fn change(&mut self, client: &mut Client, change: Change) -> bool {
        let about = self.about(change.op, &change.key);
        let mut arguments = change.arguments.clone();
        let detail = match arguments["dataBase64"].as_str() {
            Some(data) => json!({"hash": hash(data)}),
            None => Value::Null,
        };
        arguments["participantHandle"] = json!(self.handle);
        arguments["clientRequestId"] = json!(change.key);
        self.log.add(&about, Phase::Invoke, None, detail);
        let called = client.call(change.tool(), arguments).await;
        match outcome(called) {
            Outcome::Done(value) => {
                let sequence = sequence(&value);
                self.log.add(&about, Phase::Ok, sequence, Value::Null);
                self.tell(&change);
                self.acked.push((change, value));
                true
            }
            Outcome::Refused(code) => {
                self.log.add(&about, Phase::Fail, None, json!({"code": code}));
                true
            }
            Outcome::NotSent => {
                self.log.add(&about, Phase::Fail, None, json!({"code": "not_sent"}));
                false
            }
            Outcome::Unknown => {
                self.log.add(&about, Phase::Unknown, None, Value::Null);
                self.unknown.push(change);
                false
            }
        }
    }

    /// Puts the next step of an acknowledged task before its target.
    fn tell(&self, change: &Change) {
        let request = change.arguments["requestId"].as_str().map(str::to_owned);
        let next = match (change.op, request) {
            ("collab_request", Some(request)) => {
                (self.peer_name(), Todo { request, accepted: false })
            }
            ("collab_response", Some(request)) => {
                (self.name.as_str(), Todo { request, accepted: true })
            }
            _ => return,
        };
        self.board.lock().unwrap().push((next.0.to_owned(), next.1));
    }

    /// One wait, held for some seconds at most; false when the process is gone.
    pub(crate) async fn poll(&mut self, client: &mut Client, hold_seconds: u32) -> bool {
        let key = self.key();
        let about = self.about("poll", &key);
        let arguments = json!({"participantHandle": self.handle, "cursor": self.cursor,
            "timeoutSeconds": hold_seconds});
        self.log.add(&about, Phase::Invoke, None, Value::Null);
        match outcome(client.call("wait_for_events", arguments).await) {
            Outcome::Done(answer) => {
                client.keep_cadence(&answer);
                let to = answer["cursor"].as_u64().unwrap();
                let truncated = answer["truncated"] == true;
                let events = seen(&answer["events"]);
                let detail = json!({"cursor": self.cursor, "to": to, "truncated": truncated,
                    "events": events});
                self.log.add(&about, Phase::Ok, None, detail);
                self.cursor = to;
                true
            }
            Outcome::Refused(code) => {
                self.log.add(&about, Phase::Fail, None, json!({"code": code}));
                true
            }
            Outcome::NotSent | Outcome::Unknown => {
                self.log.add(&about, Phase::Unknown, None, Value::Null);
                self.waits_lost += 1;
                false
            }
        }
    }
}

/// Rooms with an agent of each name; in each room everybody's tasks go to the next one.
pub(crate) async fn assemble(
    address: SocketAddr,
    log: &Log,
    rooms: &[String],
    names: &[&str],
) -> Vec<Agent> {
    let mut agents = Vec::new();
    for (at, room) in rooms.iter().enumerate() {
        let board = Arc::new(Mutex::new(Vec::new()));
        let first = agents.len();
        for short in names {
            let mut client = Client::new(address, Era::Modern);
            let mut agent = Agent {
                name: format!("{short}{at}"),
                room: room.clone(),
                id: String::new(),
                handle: String::new(),
                peer: String::new(),
                cursor: 0,
                board: Arc::clone(&board),
                log: log.clone(),
                keys: 0,
                acked: Vec::new(),
                unknown: Vec::new(),
                waits_lost: 0,
            };
            let about = agent.about("join", short);
            log.add(&about, Phase::Invoke, None, Value::Null);
            let join = json!({"roomId": room, "name": agent.name});
            let joined = client.call("join_room", join).await.unwrap().ok();
            let detail = json!({"cursor": joined["cursor"], "leaseMs": joined["agentLeaseMs"]});
            log.add(&about, Phase::Ok, None, detail);
            agent.id = joined["participant"]["id"].as_str().unwrap().to_owned();
            agent.handle = joined["participantHandle"].as_str().unwrap().to_owned();
            agents.push(agent);
        }
        for n in 0..names.len() {
            let peer = &agents[first + (n + 1) % names.len()];
            agents[first + n].peer = format!("{}={}", peer.name, peer.id);
        }
    }
    agents
}

/// What a caller knows.
pub(crate) enum Outcome {
    Done(Value),
    Refused(String),
    NotSent,
    Unknown,
}

pub(crate) fn outcome(called: Result<Called, Lost>) -> Outcome {
    match called {
        Err(Lost::NotSent) => Outcome::NotSent,
        Err(Lost::Unanswered) => Outcome::Unknown,
        Ok(called) if !called.refused => Outcome::Done(called.value),
        Ok(called) if called.code() == "outcome_unknown" => Outcome::Unknown,
        Ok(called) => Outcome::Refused(called.code().to_owned()),
    }
}

/// The target's next step of a task.
fn step(key: &str, todo: &Todo) -> Change {
    let request = &todo.request;
    let (op, arguments) = if todo.accepted {
        let result = json!({"requestId": request, "status": "completed", "summary": key});
        ("collab_result", result)
    } else {
        let response = json!({"requestId": request, "decision": "accepted", "summary": key});
        ("collab_response", response)
    };
    Change { op, key: key.to_owned(), arguments }
}

/// The sequence of a success, wherever the tool puts it.
pub(crate) fn sequence(value: &Value) -> Option<u64> {
    value["sequence"].as_u64().or_else(|| value["attachment"]["sequence"].as_u64())
}

/// Events of an answer in the history's form. The key is part of what was sent.
pub(crate) fn seen(events: &Value) -> Vec<Seen> {
    let one = |event: &Value| {
        let key = match event["type"].as_str().unwrap() {
            "text" => event["text"].as_str().unwrap().split(' ').next().unwrap(),
            "image" => event["attachment"]["fileName"].as_str().unwrap(),
            _ => event["collab"]["summary"].as_str().unwrap(),
        };
        Seen {
            sequence: event["sequence"].as_u64().unwrap(),
            key: key.to_owned(),
            scoped: event.get("scopeId").is_some(),
            attachment: event["type"] == "image",
        }
    };
    events.as_array().unwrap().iter().map(one).collect()
}

/// FNV-1a over the base64 text: enough to tell two uploads apart.
pub(crate) fn hash(text: &str) -> String {
    let fold = |sum: u64, byte: u8| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    format!("{:016x}", text.bytes().fold(0xcbf2_9ce4_8422_2325, fold))
}
