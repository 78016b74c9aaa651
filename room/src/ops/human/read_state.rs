//! `human_read_state`: the whole room as a browser shows it (humans A2); what `resync` asks for.

use object::OpMeta;
use serde_json::{Value, json};

use super::{frame, internal, reading};
use crate::notice;
use crate::ops::{Ask, Op, Step, Verdict, no_replay};
use crate::settings::Settings;
use crate::spec::{self, Field};
use crate::state::State;

pub static META: OpMeta = reading("human_read_state");

pub static INPUT: &[Field] = &[];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, no_replay);

fn decide(ask: &Ask<'_>) -> Verdict {
    Ok(Step::reply(&answer(ask.state, ask.settings))?.signal(frame(ask)?))
}

/// `{"state":…}`; also the answer to an attachment.
pub(super) fn answer(state: &State, settings: &Settings) -> Value {
    json!({"state": notice::state_json(state, settings)})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn the_state_shows_everything_of_the_room() {
        let mut scene = Scene::new();
        let (ana, agent) = (scene.human("Ana"), scene.agent_on("host-0001", true, true));
        let publication = scene.app(ana, agent, "plan-0001");
        let surface = json!({"surfaceId": "s", "revision": 1, "data": {},
            "root": {"type": "Text", "text": "hi"}});
        let view = json!({"taskRequestId": "plan-0001", "surface": surface});
        scene.call("publish_live_view", agent, view).unwrap();
        let id = agent.to_string();
        let notes = json!({"agentParticipantId": id});
        scene.call("meeting_notes_start", ana, notes).unwrap();
        let voice = json!({"agentParticipantId": id, "enabled": true});
        scene.call("agent_voice_set", ana, voice).unwrap();
        scene.call("transcript_start", ana, json!({"runtimeHostId": "host-0001"})).unwrap();
        let file = json!({"mimeType": "text/csv", "taskRequestId": "plan-0001"});
        scene.blob("human_send_attachment", ana, file, b"x").unwrap();
        let working = json!({"scopeId": "room", "state": "working", "turnSequence": 1});
        scene.call("resident_activity", agent, working).unwrap();

        let state = scene.call(META.name, ana, json!({})).unwrap()["state"].clone();
        let instance = publication["appInstanceId"].as_str().unwrap();
        assert_eq!(state["participants"].as_array().unwrap().len(), 2);
        assert_eq!(state["messages"][0]["collab"]["requestId"], json!("plan-0001"));
        assert_eq!(state["attachments"][0]["taskRequestId"], json!("plan-0001"));
        assert_eq!(state["taskLiveViews"]["plan-0001"]["revision"], json!(1));
        assert_eq!(state["generatedApps"][instance], publication);
        assert_eq!(state["meetingNotes"]["agentParticipantId"], json!(id));
        assert_eq!(state["agentVoice"][&id]["enabled"], json!(true));
        assert_eq!(state["liveTranscript"]["active"], json!(true));
        assert_eq!(state["agentActivities"][0]["state"], json!("working"));
        assert_eq!(state["roomAppsEnabled"], json!(true));
        assert_eq!(scene.call(META.name, agent, json!({})).unwrap_err().code, "human_only");
    }
}
