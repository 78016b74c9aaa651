//! `transcript_stop`: any human ends the transcript; what was said stays (humans A6).

use object::OpMeta;

use super::transcript_start::{answer, replay};
use super::{frame, internal, meta};
use crate::event::Event;
use crate::ops::{Ask, Op, Verdict};
use crate::spec::{self, Field};
use crate::state::Transcript;

pub static META: OpMeta = meta("transcript_stop");

pub static INPUT: &[Field] = &[];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, replay);

fn decide(ask: &Ask<'_>) -> Verdict {
    let step = answer(&Transcript::default())?.signal(frame(ask)?);
    Ok(match ask.state.transcript.active {
        Some(_) => step.event(Event::TranscriptStopped { at: ask.now }),
        None => step,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn anybody_stops_and_segments_survive() {
        let mut scene = Scene::new();
        let (ana, ben) = (scene.human("Ana"), scene.human("Ben"));
        let agent = scene.agent_on("host-0001", true, false);
        scene.call("transcript_start", ana, json!({"runtimeHostId": "host-0001"})).unwrap();
        let said = json!({"epoch": 1, "segmentId": "s1", "text": "hello",
            "sourceParticipantId": ana.to_string()});
        scene.call("transcript_append", agent, said).unwrap();
        for _ in 0..2 {
            let stopped = scene.call(META.name, ben, json!({})).unwrap();
            assert_eq!(stopped, json!({"liveTranscript": {"active": false}}));
        }
        assert!(scene.last().events.iter().all(|e| !matches!(e, Event::TranscriptStopped { .. })));
        assert_eq!(scene.state().transcript.segments.len(), 1);
        assert_eq!(scene.call(META.name, agent, json!({})).unwrap_err().code, "human_only");
    }
}
