//! `resident_connect`: an agent's resident stream opens (humans B2).
//!
//! One stream per agent: a new one replaces the older. Opening renews the lease, clears what the
//! agent said it was doing, and answers with the first envelope.

use object::{Effect, OpMeta};
use serde_json::Value;

use super::volatile;
use crate::event::Event;
use crate::limits::{CONNECTIONS_MAX, SAFE_INTEGER_MAX};
use crate::live::{Connection, Line, Signal};
use crate::notice;
use crate::ops::human::line::REPLACED;
use crate::ops::human::{DONE, internal};
use crate::ops::{Ask, Op, Step, Verdict, no_replay};
use crate::reject::Code;
use crate::spec::{self, Field, int};

pub static META: OpMeta = volatile("resident_connect");

pub static INPUT: &[Field] = &[Field::optional(
    "cursor",
    int(0, SAFE_INTEGER_MAX, 0),
    "The last sequence the runtime has taken in.",
)];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, no_replay);

fn decide(ask: &Ask<'_>) -> Verdict {
    let (me, connection) = (ask.me()?, ask.call.connection);
    if connection == 0 {
        return Err(Code::InvalidRequest.reject());
    }
    let lines = &ask.state.live.connections;
    let old = lines.iter().find(|line| line.participant == me.id);
    if old.is_none() && lines.len() >= CONNECTIONS_MAX {
        return Err(Code::RoomConnectionLimit.reject().limit(CONNECTIONS_MAX as u64));
    }
    let cursor = ask.args.get("cursor").and_then(Value::as_u64).unwrap_or_default();
    let line = Connection {
        connection,
        participant: me.id,
        line: Line::Resident,
        cursor: cursor.min(ask.state.sequence),
        hosts: Vec::new(),
    };
    let mut step = Step::reply(&DONE)?.renewing();
    if let Some(old) = old.map(|line| line.connection)
        && old != connection
    {
        let frame = REPLACED.to_vec();
        step = step.effect(Effect::Notify { connection: old, frame });
        step = step.signal(Signal::Detached { connection: old });
    }
    if !me.connected {
        step = step.event(Event::Connected { participant: me.id, at: ask.now });
    }
    let attached = Signal::Attached {
        connection,
        participant: me.id,
        line: Line::Resident,
        // The answer brings everything up to here.
        cursor: ask.state.sequence,
    };
    let quiet = Signal::ActivityCleared { agent: me.id, scope_id: None };
    step = step.signal(attached).signal(quiet);
    let after = step.after(ask.state);
    let me = after.participant(me.id).unwrap_or(me);
    step.replying(&notice::envelope(&after, ask.settings, me, &line))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn a_stream_brings_what_is_new_and_pushes_what_follows() {
        let mut scene = Scene::new();
        let (ana, agent) = (scene.human("Ana"), scene.agent("a"));
        scene.call("human_chat", ana, json!({"text": "one"})).unwrap();
        scene.call("human_chat", ana, json!({"text": "two"})).unwrap();
        scene.connection = 700;
        let first = scene.call(META.name, agent, json!({"cursor": 1})).unwrap();
        scene.connection = 0;
        assert_eq!(first["type"], json!("events"));
        assert_eq!(first["events"].as_array().unwrap().len(), 1);
        assert_eq!(first["events"][0]["text"], json!("two"));
        assert_eq!(first["cursor"], json!(2));
        assert_eq!(first["mediaState"]["meetingNotes"], json!({"active": false}));
        scene.frames.clear();
        scene.call("human_chat", ana, json!({"text": "three"})).unwrap();
        scene.call("human_chat", ana, json!({"text": "four"})).unwrap();
        let pushed: Vec<&Value> =
            scene.frames.iter().filter(|(line, _)| *line == 700).map(|(_, f)| f).collect();
        assert_eq!(pushed.len(), 2);
        assert_eq!(pushed[0]["events"][0]["text"], json!("three"));
        assert_eq!(pushed[1]["events"].as_array().unwrap().len(), 1, "nothing twice");
    }

    #[test]
    fn the_newest_stream_replaces_the_older_and_renews() {
        let mut scene = Scene::new();
        let agent = scene.agent("a");
        scene.pass(60_000);
        for connection in [700, 701, 701] {
            scene.connection = connection;
            scene.call(META.name, agent, json!({})).unwrap();
        }
        assert!(scene.frames.contains(&(700, json!({"type": "replaced"}))));
        assert_eq!(scene.state().live.connections.len(), 1);
        assert_eq!(scene.lease_left(agent), 90_000);
        scene.disconnect(agent, 700);
        assert!(scene.state().participant(agent).unwrap().connected);
        scene.disconnect(agent, 701);
        assert!(!scene.state().participant(agent).unwrap().connected);
        // Closed at once, gone only with its lease; a new stream brings it back.
        scene.connection = 702;
        let opened = scene.call(META.name, agent, json!({})).unwrap();
        assert_eq!(opened["participants"][0]["id"], json!(agent.to_string()), "shows itself");
        assert!(scene.state().participant(agent).unwrap().connected);
        scene.connection = 0;
        assert_eq!(scene.call(META.name, agent, json!({})).unwrap_err().code, "invalid_request");
        let human = scene.human("Ana");
        assert_eq!(scene.call(META.name, human, json!({})).unwrap_err().code, "agent_only");
        scene.pass(90_000);
        let late = scene.call(META.name, agent, json!({})).unwrap_err();
        assert_eq!(late.code, "invalid_participant_handle");
    }
}
