//! `resident_heartbeat`: a resident runtime keeps its agent alive (humans B2). It appends nothing
//! to the timeline and wakes nobody; it may move the stream's cursor.

use object::OpMeta;
use serde::Serialize;
use serde_json::Value;

use super::volatile;
use crate::event::Event;
use crate::limits::SAFE_INTEGER_MAX;
use crate::live::Signal;
use crate::ops::human::internal;
use crate::ops::{Ask, Op, Step, Verdict, no_replay};
use crate::spec::{self, Field, Kind};

pub static META: OpMeta = volatile("resident_heartbeat");

pub static INPUT: &[Field] = &[Field::optional(
    "cursor",
    Kind::Int { min: 0, max: SAFE_INTEGER_MAX, default: None },
    "The last sequence the runtime has taken in.",
)];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, no_replay);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    ok: bool,
    expires_at: u64,
    agent_lease_ms: u64,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let me = ask.me()?;
    let mut step = Step::reply(&Output {
        ok: true,
        expires_at: ask.state.expires_at.0,
        agent_lease_ms: ask.settings.agent_lease_ms,
    })?
    .renewing();
    let connection = ask.call.connection;
    let mut lines = ask.state.live.connections.iter();
    let attached = lines.any(|l| l.connection == connection && l.participant == me.id);
    if let (Some(cursor), true) = (ask.args.get("cursor").and_then(Value::as_u64), attached) {
        let cursor = cursor.min(ask.state.sequence);
        step = step.signal(Signal::Pushed { connection, cursor });
    }
    if !me.connected {
        step = step.event(Event::Connected { participant: me.id, at: ask.now });
    }
    Ok(step)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn heartbeats_keep_an_agent_and_nothing_else() {
        let mut scene = Scene::new();
        let agent = scene.agent("a");
        for _ in 0..4 {
            scene.pass(80_000);
            let beat = scene.call(META.name, agent, json!({"cursor": 0})).unwrap();
            assert_eq!(beat["agentLeaseMs"], json!(90_000));
            assert!(scene.last().events.is_empty());
        }
        assert_eq!(scene.lease_left(agent), 90_000);
        scene.pass(90_000);
        let late = scene.call(META.name, agent, json!({})).unwrap_err();
        assert_eq!(late.code, "invalid_participant_handle");
    }
}
