//! `transcript_start`: a human lets one runtime host transcribe (humans A6).
//!
//! A start while a transcript is running changes nothing, whichever host it names.

use object::{OpMeta, Reject};
use serde::Serialize;
use serde_json::Value;

use super::{frame, internal, meta};
use crate::event::Event;
use crate::ops::{Ask, Op, Step, Verdict, json};
use crate::reject::Code;
use crate::spec::{self, Field, text};
use crate::state::{Fact, Producer, Transcript};
use crate::transcript;
use crate::view::TranscriptView;

pub static META: OpMeta = meta("transcript_start");

pub static INPUT: &[Field] =
    &[Field::required("runtimeHostId", text(1, 64), "The host that will transcribe.")];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, replay);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Output<'a> {
    live_transcript: TranscriptView<'a>,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let counted = frame(ask)?;
    let running = &ask.state.transcript;
    if running.active.is_some() {
        return Ok(answer(running)?.signal(counted));
    }
    let host = ask.args.get("runtimeHostId").and_then(Value::as_str).unwrap_or_default();
    if !transcript::can_produce(ask.state, host, None) {
        return Err(Code::LiveTranscriptUnavailable.reject().field("runtimeHostId"));
    }
    let producer = Producer { host: host.into(), started_by: ask.me()?.id, started_at: ask.now };
    let epoch = running.epoch + 1;
    let started = Transcript { active: Some(producer.clone()), epoch, ..Transcript::default() };
    let step = answer(&started)?.signal(counted).fact(epoch, 0);
    Ok(step.event(Event::TranscriptStarted { producer, epoch }))
}

pub(super) fn answer(transcript: &Transcript) -> Verdict {
    Step::reply(&Output { live_transcript: TranscriptView::of(transcript) })
}

/// What is running now; also for `transcript_stop`.
pub(super) fn replay(ask: &Ask<'_>, _: Fact) -> Result<Vec<u8>, Reject> {
    json(&Output { live_transcript: TranscriptView::of(&ask.state.transcript) })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn a_start_needs_a_host_that_hears_with_a_connected_agent() {
        let mut scene = Scene::new();
        let (ana, ben) = (scene.human("Ana"), scene.human("Ben"));
        scene.agent_on("host-deaf", false, true);
        let agent = scene.agent_on("host-0001", true, true);
        scene.agent_on("host-0002", true, true);
        for host in ["host-none", "host-deaf"] {
            let reject = scene.call(META.name, ana, json!({"runtimeHostId": host})).unwrap_err();
            assert_eq!(reject.code, "live_transcript_unavailable", "{host}");
        }
        let start = |host: &str| json!({"runtimeHostId": host});
        let started = scene.call(META.name, ana, start("host-0001")).unwrap();
        assert_eq!(started["liveTranscript"]["epoch"], json!(1));
        assert_eq!(started["liveTranscript"]["producerRuntimeHostId"], json!("host-0001"));
        // Another start neither switches the host nor begins an epoch.
        let again = scene.call(META.name, ben, start("host-0002")).unwrap();
        assert_eq!(again, started);
        scene.call("leave_room", agent, json!({})).unwrap();
        assert!(scene.state().transcript.active.is_none(), "stops with its last agent");
        let next = scene.call(META.name, ben, start("host-0002")).unwrap();
        assert_eq!(next["liveTranscript"]["epoch"], json!(2));
        scene.agent_on("host-0002", false, true);
        assert!(scene.state().transcript.active.is_none(), "a newcomer says the host is deaf");
        assert_eq!(scene.state().sequence, 0, "no event of the timeline");
    }
}
