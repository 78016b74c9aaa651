//! `meeting_notes_stop`: any human ends the listening (humans A7).

use object::{OpMeta, Reject};

use super::meeting_notes_start::output;
use super::{frame, internal, meta};
use crate::event::Event;
use crate::ops::{Ask, Op, Step, Verdict, json};
use crate::spec::{self, Field};
use crate::state::Fact;

pub static META: OpMeta = meta("meeting_notes_stop");

pub static INPUT: &[Field] = &[];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, replay);

fn decide(ask: &Ask<'_>) -> Verdict {
    let step = Step::reply(&output(None))?.signal(frame(ask)?);
    Ok(match ask.state.meeting_notes {
        Some(_) => step.event(Event::MeetingNotesStopped { at: ask.now }),
        None => step,
    })
}

fn replay(_: &Ask<'_>, _: Fact) -> Result<Vec<u8>, Reject> {
    json(&output(None))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn stopping_is_always_allowed_and_stores_only_a_change() {
        let mut scene = Scene::new();
        let (ana, agent) = (scene.human("Ana"), scene.agent("a"));
        scene.call(META.name, ana, json!({})).unwrap();
        assert!(scene.last().events.is_empty());
        let start = json!({"agentParticipantId": agent.to_string()});
        scene.call("meeting_notes_start", ana, start).unwrap();
        let once = json!({"clientRequestId": "once"});
        scene.call(META.name, ana, once.clone()).unwrap();
        assert!(scene.state().meeting_notes.is_none());
        let again = scene.call(META.name, ana, once).unwrap();
        assert_eq!(again, json!({"meetingNotes": {"active": false}, "duplicate": true}));
    }
}
