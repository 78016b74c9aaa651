//! After a restart on the same directory: everything acknowledged is asked for again.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::agent::{Agent, Outcome, hash, outcome, seen, sequence};
use super::log::About;
use crate::mcp::{Client, Era};
use sim::history::{Phase, Seen};

/// Reads every room whole, checks leases, uploads and tasks, and sends what is unknown again.
pub(crate) async fn verify(agents: &mut [Agent], address: SocketAddr, round: u32) {
    read_rooms(agents, address, round).await;
    for agent in agents.iter_mut() {
        let mut client = Client::new(address, Era::Modern);
        lease(agent, &mut client).await;
        uploads(agent, &mut client).await;
        tasks(agent, &mut client).await;
        for change in std::mem::take(&mut agent.unknown) {
            assert!(agent.change(&mut client, change).await, "the new process is gone");
        }
        assert!(agent.poll(&mut client, 0).await, "the new process is gone");
    }
}

/// What all participants of each room can read together, as one observation.
pub(crate) async fn read_rooms(agents: &[Agent], address: SocketAddr, round: u32) {
    let mut rooms: BTreeMap<&str, Vec<&Agent>> = BTreeMap::new();
    for agent in agents {
        rooms.entry(&agent.room).or_default().push(agent);
    }
    for (room, members) in rooms {
        let log = &members[0].log;
        let key = format!("read-{round}");
        let about = About { client: "all".into(), op: "read", key, room: room.to_owned() };
        log.add(&about, Phase::Invoke, None, Value::Null);
        let mut events: BTreeMap<u64, Vec<Seen>> = BTreeMap::new();
        for agent in members {
            for event in context(agent, address).await {
                let here = events.entry(event.sequence).or_default();
                if !here.contains(&event) {
                    here.push(event);
                }
            }
        }
        let events: Vec<Seen> = events.into_values().flatten().collect();
        log.add(&about, Phase::Ok, None, json!({"events": events}));
    }
}

/// The whole retained timeline as one participant sees it.
async fn context(agent: &Agent, address: SocketAddr) -> Vec<Seen> {
    let mut client = Client::new(address, Era::Legacy);
    let (mut events, mut after) = (Vec::new(), 0);
    loop {
        let page = json!({"participantHandle": agent.handle, "afterSequence": after, "limit": 50});
        let page = client.call("read_room_context", page).await.unwrap().ok();
        let new = seen(&page["events"]);
        after = new.last().map_or(after, |event| event.sequence);
        events.extend(new);
        if page["hasMoreAfter"] != true {
            return events;
        }
    }
}

/// The old handle still opens, and its participant is still there.
async fn lease(agent: &mut Agent, client: &mut Client) {
    let key = agent.key();
    let about = agent.about("lease", &key);
    agent.log.add(&about, Phase::Invoke, None, Value::Null);
    let arguments = json!({"participantHandle": agent.handle, "capabilities": ["crash.test"]});
    let (phase, detail) = match outcome(client.call("update_capabilities", arguments).await) {
        Outcome::Done(_) => (Phase::Ok, Value::Null),
        Outcome::Refused(code) => (Phase::Fail, json!({"code": code})),
        Outcome::NotSent | Outcome::Unknown => (Phase::Unknown, Value::Null),
    };
    agent.log.add(&about, phase, None, detail);
}

async fn uploads(agent: &Agent, client: &mut Client) {
    let uploads = agent.acked.iter().filter(|(change, _)| change.op == "send_attachment");
    for (change, answer) in uploads {
        let about = agent.about("read_attachment", &change.key);
        agent.log.add(&about, Phase::Invoke, None, Value::Null);
        let arguments = json!({"participantHandle": agent.handle,
            "attachmentId": answer["attachment"]["id"]});
        let called = client.call("read_attachment", arguments).await.unwrap();
        let (phase, detail) = if called.refused {
            (Phase::Fail, json!({"code": called.code()}))
        } else {
            let data = called.content[0]["data"].as_str().unwrap();
            (Phase::Ok, json!({"hash": hash(data)}))
        };
        agent.log.add(&about, phase, None, detail);
    }
}

/// Each acknowledged step of a task is still known: sent again it is a duplicate.
async fn tasks(agent: &Agent, client: &mut Client) {
    let steps = agent.acked.iter().filter(|(change, _)| change.op.starts_with("collab_"));
    for (change, _) in steps {
        let about = agent.about("repeat", &change.key);
        agent.log.add(&about, Phase::Invoke, None, Value::Null);
        let mut arguments = change.arguments.clone();
        arguments["participantHandle"] = json!(agent.handle);
        let called = client.call(change.tool(), arguments).await.unwrap();
        let (phase, detail) = if called.refused {
            (Phase::Fail, json!({"code": called.code()}))
        } else {
            (Phase::Ok, json!({"duplicate": called.value["duplicate"]}))
        };
        agent.log.add(&about, phase, sequence(&called.value), detail);
    }
}
