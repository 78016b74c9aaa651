//! `agent_voice_set`: any human lets an agent speak, or mutes it (humans A7).

use object::{OpMeta, Reject};
use serde::Serialize;
use serde_json::Value;

use super::{agent, frame, internal, meta};
use crate::event::Event;
use crate::ops::{Ask, Op, Step, Verdict, json};
use crate::reject::Code;
use crate::spec::{self, Field, Kind, text};
use crate::state::Fact;

pub static META: OpMeta = meta("agent_voice_set");

pub static INPUT: &[Field] = &[
    Field::required("agentParticipantId", text(1, 64), "The agent."),
    Field::required("enabled", Kind::Bool, "Whether it may speak."),
];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, replay);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output<'a> {
    agent_participant_id: &'a str,
    enabled: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    enabled_at: Option<u64>,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let counted = frame(ask)?;
    let (id, enabled) = input(ask);
    let agent = agent(ask, id)?;
    let granted = ask.state.agent_voice.iter().find(|grant| grant.agent == agent.id);
    let at = granted.map_or(ask.now, |grant| grant.enabled_at).0;
    let output = Output { agent_participant_id: id, enabled, enabled_at: enabled.then_some(at) };
    let step = Step::reply(&output)?.signal(counted).fact(at, 0);
    let (agent_id, now) = (agent.id, ask.now);
    match (enabled, granted) {
        (true, None) => {
            let host = agent.host.as_ref().and_then(|id| ask.state.host(id));
            if !host.is_some_and(|host| host.tts) {
                return Err(Code::AgentVoiceUnavailable.reject().field("agentParticipantId"));
            }
            Ok(step.event(Event::AgentVoiceGranted { agent: agent_id, at: now }))
        }
        (false, Some(_)) => Ok(step.event(Event::AgentVoiceRevoked { agent: agent_id, at: now })),
        (true, Some(_)) | (false, None) => Ok(step),
    }
}

fn replay(ask: &Ask<'_>, fact: Fact) -> Result<Vec<u8>, Reject> {
    let (id, enabled) = input(ask);
    let enabled_at = enabled.then_some(fact.sequence);
    json(&Output { agent_participant_id: id, enabled, enabled_at })
}

fn input<'a>(ask: &Ask<'a>) -> (&'a str, bool) {
    let id = ask.args.get("agentParticipantId").and_then(Value::as_str).unwrap_or_default();
    (id, ask.args.get("enabled").and_then(Value::as_bool).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use object::ParticipantId;
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn a_voice_needs_a_host_that_speaks_and_ends_with_it() {
        let mut scene = Scene::new();
        let ana = scene.human("Ana");
        let (agent, silent) = (scene.agent_on("host-0001", false, true), scene.agent("b"));
        let set = |who: ParticipantId, enabled: bool| json!({"agentParticipantId": who.to_string(), "enabled": enabled});
        let rows = [
            (ParticipantId(1), true, Some("agent_not_in_room")),
            (ana, true, Some("agent_not_in_room")),
            (silent, true, Some("agent_voice_unavailable")),
            (silent, false, None),
            (agent, true, None),
            (agent, true, None),
        ];
        for (who, enabled, refused) in rows {
            let answer = scene.call(META.name, ana, set(who, enabled));
            assert_eq!(answer.err().map(|r| r.code), refused, "{who:?} {enabled}");
        }
        assert_eq!(scene.state().agent_voice.len(), 1);
        scene.call(META.name, ana, set(agent, false)).unwrap();
        assert!(scene.state().agent_voice.is_empty());

        scene.call(META.name, ana, set(agent, true)).unwrap();
        let host = json!({"runtimeHostId": "host-0001", "speech": {"stt": false, "tts": false}});
        scene.call("update_runtime_host", agent, json!({"runtimeHost": host})).unwrap();
        assert!(scene.state().agent_voice.is_empty(), "the host no longer speaks");
        assert_eq!(scene.state().sequence, 0, "no event of the timeline");
    }
}
