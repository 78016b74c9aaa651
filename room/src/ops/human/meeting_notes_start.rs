//! `meeting_notes_start`: a human lets one agent listen (humans A7).
//!
//! A repeat for the same agent keeps its start; another agent takes over.

use object::{Millis, OpMeta, ParticipantId, Reject};
use serde::Serialize;
use serde_json::Value;

use super::{agent, frame, internal, meta};
use crate::event::Event;
use crate::ops::{Ask, Op, Step, Verdict, json};
use crate::spec::{self, Field, text};
use crate::state::{Fact, MeetingNotes};
use crate::view::Uuid;

pub static META: OpMeta = meta("meeting_notes_start");

pub static INPUT: &[Field] =
    &[Field::required("agentParticipantId", text(1, 64), "The agent that may listen.")];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, replay);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Output {
    meeting_notes: Grant,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Grant {
    active: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    agent_participant_id: Option<Uuid>,
    #[serde(skip_serializing_if = "Option::is_none")]
    started_at: Option<u64>,
}

/// The grant as an answer.
pub(super) fn output(notes: Option<MeetingNotes>) -> Output {
    Output {
        meeting_notes: Grant {
            active: notes.is_some(),
            agent_participant_id: notes.map(|notes| notes.agent.into()),
            started_at: notes.map(|notes| notes.started_at.0),
        },
    }
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let counted = frame(ask)?;
    let id = ask.args.get("agentParticipantId").and_then(Value::as_str).unwrap_or_default();
    let agent = agent(ask, id)?.id;
    match ask.state.meeting_notes {
        Some(notes) if notes.agent == agent => {
            Ok(Step::reply(&output(Some(notes)))?.signal(counted))
        }
        _ => {
            let notes = MeetingNotes { agent, started_at: ask.now };
            let step = Step::reply(&output(Some(notes)))?.signal(counted).fact(ask.now.0, agent.0);
            Ok(step.event(Event::MeetingNotesStarted { agent, at: ask.now }))
        }
    }
}

fn replay(_: &Ask<'_>, fact: Fact) -> Result<Vec<u8>, Reject> {
    let (agent, started_at) = (ParticipantId(fact.id), Millis(fact.sequence));
    json(&output(Some(MeetingNotes { agent, started_at })))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn one_agent_listens_until_stopped_or_gone() {
        let mut scene = Scene::new();
        let (ana, ben) = (scene.human("Ana"), scene.human("Ben"));
        let (first, second) = (scene.agent("a"), scene.agent("b"));
        let start = |who: ParticipantId| json!({"agentParticipantId": who.to_string()});
        for nobody in [ben, ParticipantId(1)] {
            let reject = scene.call(META.name, ana, start(nobody)).unwrap_err();
            assert_eq!(reject.code, "agent_not_in_room");
        }
        let started = scene.call(META.name, ana, start(first)).unwrap();
        scene.pass(1_000);
        assert_eq!(scene.call(META.name, ben, start(first)).unwrap(), started);
        let taken = scene.call(META.name, ben, start(second)).unwrap();
        assert_eq!(taken["meetingNotes"]["agentParticipantId"], json!(second.to_string()));
        assert_eq!(taken["meetingNotes"]["startedAt"], json!(scene.now.0));
        let stopped = scene.call("meeting_notes_stop", ana, json!({})).unwrap();
        assert_eq!(stopped, json!({"meetingNotes": {"active": false}}));
        scene.call(META.name, ana, start(second)).unwrap();
        scene.call("leave_room", second, json!({})).unwrap();
        assert_eq!(scene.state().meeting_notes, None);
        assert_eq!(scene.state().sequence, 0, "no event of the timeline");
    }

    #[test]
    fn a_repeat_returns_the_first_grant() {
        let mut scene = Scene::new();
        let (ana, agent) = (scene.human("Ana"), scene.agent("a"));
        let args = json!({"agentParticipantId": agent.to_string(), "clientRequestId": "once"});
        let mut first = scene.call(META.name, ana, args.clone()).unwrap();
        scene.pass(1_000);
        first["duplicate"] = json!(true);
        assert_eq!(scene.call(META.name, ana, args).unwrap(), first);
    }
}
