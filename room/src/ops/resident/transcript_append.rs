//! `transcript_append`: the producing host commits one piece of speech (humans A6).
//!
//! The speaker's name is taken from the human's record, never from the caller. A repeat of
//! (epoch, segmentId) changes nothing; both renew the lease.

use object::{OpMeta, Reject};
use serde::Serialize;
use serde_json::Value;

use super::meta;
use crate::event::Event;
use crate::limits::{SAFE_INTEGER_MAX, TEXT_UTF16_MAX};
use crate::ops::human::{internal, participant};
use crate::ops::{Ask, Op, Step, Verdict, json};
use crate::reject::Code;
use crate::state::{Fact, Segment};
use crate::text::{trim, utf16_len};
use crate::transcript::{self, Append, AppendError};
use crate::view::SegmentView;

pub static META: OpMeta = meta("transcript_append");

pub static OP: Op = internal(&META, check, decide, replay);

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output<'a> {
    duplicate: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    segment: Option<SegmentView<'a>>,
    expires_at: u64,
}

/// Each argument has a code of its own.
fn check(args: &Value, _: Option<&[u8]>) -> Result<(), Reject> {
    let epoch = args.get("epoch").and_then(Value::as_u64).unwrap_or_default();
    if !(1..=SAFE_INTEGER_MAX).contains(&epoch) {
        return Err(Code::InvalidRequest.reject().field("epoch"));
    }
    let text_of = |name: &str| args.get(name).and_then(Value::as_str).unwrap_or_default();
    if !transcript::is_segment_id(text_of("segmentId")) {
        return Err(Code::InvalidLiveTranscriptSegmentId.reject().field("segmentId"));
    }
    if !(1..=TEXT_UTF16_MAX).contains(&utf16_len(trim(text_of("text")))) {
        let limit = TEXT_UTF16_MAX as u64;
        return Err(Code::InvalidLiveTranscriptText.reject().field("text").limit(limit));
    }
    Ok(())
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let text_of = |name: &str| ask.args.get(name).and_then(Value::as_str).unwrap_or_default();
    let epoch = ask.args.get("epoch").and_then(Value::as_u64).unwrap_or_default();
    let (state, me) = (ask.state, ask.me()?);
    let append = transcript::admit(&state.transcript, epoch, text_of("segmentId"));
    let append = append.map_err(|error| match error {
        AppendError::Inactive => Code::LiveTranscriptInactive.reject(),
        AppendError::EpochMismatch => Code::LiveTranscriptEpochMismatch.reject().field("epoch"),
    })?;
    let producer = state.transcript.active.as_ref().map(|producer| &producer.host);
    if me.host.is_none() || me.host.as_ref() != producer {
        return Err(Code::LiveTranscriptNotAuthorized.reject());
    }
    let source = text_of("sourceParticipantId");
    let human = participant(ask, source).filter(|p| !p.is_agent());
    let invalid = || Code::InvalidLiveTranscriptSource.reject().field("sourceParticipantId");
    let human = human.ok_or_else(invalid)?;
    let Append::New { sequence } = append else {
        return Ok(Step::body(replay(ask, Fact::default())?).renewing());
    };
    let mut segment = Segment {
        segment_id: text_of("segmentId").into(),
        epoch,
        sequence,
        participant: human.id,
        speaker: human.name.clone(),
        text: trim(text_of("text")).into(),
        at: ask.now,
        weight: 0,
    };
    segment.weight = transcript::weight(&segment);
    let output = Output {
        duplicate: false,
        segment: Some(SegmentView::of(&segment)),
        expires_at: state.expires_at.0,
    };
    let step = Step::reply(&output)?.fact(sequence, 0);
    Ok(step.event(Event::TranscriptAppended(segment)))
}

fn replay(ask: &Ask<'_>, _: Fact) -> Result<Vec<u8>, Reject> {
    let expires_at = ask.state.expires_at.0;
    json(&Output { duplicate: true, segment: None, expires_at })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn every_refusal_of_the_section() {
        let mut scene = Scene::new();
        let (ana, agent) = (scene.human("Ana"), scene.agent_on("host-0001", true, false));
        let elsewhere = scene.agent_on("host-0002", true, false);
        let hostless = scene.agent("c");
        let said = |key: &str, value: Value| {
            let mut args = json!({"epoch": 1, "segmentId": "s1", "text": " hello ",
                "sourceParticipantId": ana.to_string()});
            args[key] = value;
            args
        };
        let good = said("epoch", json!(1));
        let reject = scene.call(META.name, agent, good.clone()).unwrap_err();
        assert_eq!(reject.code, "live_transcript_inactive");
        scene.call("transcript_start", ana, json!({"runtimeHostId": "host-0001"})).unwrap();
        let source = json!(agent.to_string());
        let rows = [
            (agent, said("epoch", json!(0)), "invalid_request"),
            (agent, said("segmentId", json!("a b")), "invalid_live_transcript_segment_id"),
            (
                agent,
                said("segmentId", json!("x".repeat(129))),
                "invalid_live_transcript_segment_id",
            ),
            (agent, said("text", json!("  ")), "invalid_live_transcript_text"),
            (agent, said("text", json!("😀".repeat(2_001))), "invalid_live_transcript_text"),
            (agent, said("epoch", json!(2)), "live_transcript_epoch_mismatch"),
            (elsewhere, good.clone(), "live_transcript_not_authorized"),
            (hostless, good.clone(), "live_transcript_not_authorized"),
            (agent, said("sourceParticipantId", source), "invalid_live_transcript_source"),
            (agent, said("sourceParticipantId", json!("x")), "invalid_live_transcript_source"),
            (ana, good, "agent_only"),
        ];
        for (who, args, code) in rows {
            assert_eq!(scene.call(META.name, who, args.clone()).unwrap_err().code, code, "{args}");
        }
    }

    #[test]
    fn a_segment_counts_apart_is_once_and_renews() {
        let mut scene = Scene::new();
        let (ana, agent) = (scene.human("Ana"), scene.agent_on("host-0001", true, false));
        scene.call("transcript_start", ana, json!({"runtimeHostId": "host-0001"})).unwrap();
        scene.pass(60_000);
        let said = |id: &str| {
            json!({"epoch": 1, "segmentId": id, "text": " hello ", "speaker": "Mallory",
                "sourceParticipantId": ana.to_string()})
        };
        let first = scene.call(META.name, agent, said("s1")).unwrap();
        assert_eq!(first["duplicate"], json!(false));
        assert_eq!(first["segment"]["speaker"], json!("Ana"));
        assert_eq!(first["segment"]["text"], json!("hello"));
        assert_eq!(scene.lease_left(agent), 90_000);
        scene.pass(10_000);
        let again = scene.call(META.name, agent, said("s1")).unwrap();
        assert_eq!(again, json!({"duplicate": true, "expiresAt": first["expiresAt"]}));
        assert_eq!(scene.lease_left(agent), 90_000);
        let second = scene.call(META.name, agent, said("s2")).unwrap();
        assert_eq!(second["segment"]["sequence"], json!(2));
        assert_eq!(scene.state().sequence, 0, "no event of the timeline");
    }

    #[test]
    fn the_oldest_segments_go_at_500_and_at_96_kib() {
        for (text, segments, kept) in [("x", 501, 500), (&*"é".repeat(4_000), 20, 12)] {
            let mut scene = Scene::new();
            // Without a browser to be told of each segment.
            let ana = scene.human_without_line("Ana");
            let agent = scene.agent_on("host-0001", true, false);
            scene.call("transcript_start", ana, json!({"runtimeHostId": "host-0001"})).unwrap();
            for n in 1..=segments {
                let said = json!({"epoch": 1, "segmentId": format!("s{n}"), "text": text,
                    "sourceParticipantId": ana.to_string()});
                scene.call(META.name, agent, said).unwrap();
            }
            let transcript = &scene.state().transcript;
            assert_eq!(transcript.segments.len(), kept);
            assert_eq!(transcript.segments.back().map(|s| s.sequence), Some(segments));
            assert!(transcript.bytes <= crate::limits::TRANSCRIPT_BYTES_MAX);
        }
    }
}
