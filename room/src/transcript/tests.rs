//! Tables over epochs, duplicates and the two bounds.

use super::*;

fn producer(epoch: u64) -> Producer {
    Producer {
        host: "host-0001".into(),
        started_by: ParticipantId(1),
        epoch,
        started_at: Millis(5),
    }
}

fn segment(id: &str, epoch: u64, sequence: u64, text: &str) -> Segment {
    Segment {
        segment_id: id.into(),
        epoch,
        sequence,
        participant: ParticipantId(2),
        speaker: "Ana".into(),
        text: text.into(),
        created_at: Millis(7),
    }
}

#[test]
fn an_append_needs_the_running_epoch_and_a_new_id() {
    let mut transcript = Transcript::default();
    assert_eq!(transcript.admit(1, "a"), Err(AppendError::Inactive));
    transcript.start(producer(1));
    assert_eq!(transcript.admit(2, "a"), Err(AppendError::EpochMismatch));
    assert_eq!(transcript.admit(1, "a"), Ok(Append::New { sequence: 1 }));
    transcript.push(segment("a", 1, 1, "hello"));
    assert_eq!(transcript.admit(1, "a"), Ok(Append::Duplicate));
    assert_eq!(transcript.admit(1, "b"), Ok(Append::New { sequence: 2 }));

    transcript.stop();
    assert_eq!(transcript.admit(1, "a"), Err(AppendError::Inactive));
    assert_eq!(transcript.segments().len(), 1, "segments survive a stop");
    assert_eq!(transcript.last_epoch(), 1);
    transcript.start(producer(2));
    // The id is taken in epoch 1 only, and the counter goes on.
    assert_eq!(transcript.admit(2, "a"), Ok(Append::New { sequence: 2 }));
    assert_eq!(transcript.admit(1, "a"), Err(AppendError::EpochMismatch));
}

#[test]
fn the_oldest_segments_go_at_500_and_at_96_kib() {
    let mut transcript = Transcript::default();
    for n in 1..=501 {
        transcript.push(segment(&format!("s{n}"), 1, n, "x"));
    }
    let kept: Vec<u64> = transcript.segments().map(|s| s.sequence).collect();
    assert_eq!((kept.len(), kept.first(), kept.last()), (500, Some(&2), Some(&501)));

    let mut transcript = Transcript::default();
    for n in 1..=100 {
        transcript.push(segment(&format!("s{n}"), 1, n, &"é".repeat(1_000)));
    }
    let bytes: usize = transcript.segments().map(Segment::bytes).sum();
    assert!(bytes <= TRANSCRIPT_BYTES_MAX && bytes + 2_200 > TRANSCRIPT_BYTES_MAX, "{bytes}");
    assert_eq!(bytes, transcript.bytes);
    assert_eq!(transcript.last_sequence(), 100);
}

#[test]
fn a_restored_transcript_is_the_same() {
    let mut transcript = Transcript::default();
    transcript.start(producer(3));
    transcript.push(segment("a", 3, 1, "one"));
    transcript.push(segment("b", 3, 2, "two"));
    let restored = Transcript::restore(
        transcript.producer().cloned(),
        transcript.last_epoch(),
        transcript.last_sequence(),
        transcript.segments().cloned(),
    );
    assert_eq!(restored, transcript);
    assert!(!format!("{transcript:?}").contains("two"));
}

#[test]
fn segment_ids_are_plain() {
    let long = "x".repeat(128);
    let rows = [
        ("a", true),
        (".", true),
        ("A-1_2:3.4", true),
        (long.as_str(), true),
        ("", false),
        ("a b", false),
        ("é", false),
        ("a/b", false),
    ];
    for (id, good) in rows {
        assert_eq!(is_segment_id(id), good, "{id}");
    }
    assert!(!is_segment_id(&"x".repeat(129)));
}

#[test]
fn both_states_are_written_as_the_contract_shows() {
    let mut transcript = Transcript::default();
    assert_eq!(transcript.to_json(), json!({"active": false}));
    transcript.start(producer(4));
    assert_eq!(
        transcript.to_json(),
        json!({"active": true, "producerRuntimeHostId": "host-0001", "epoch": 4, "startedAt": 5,
            "startedByHumanParticipantId": "00000000-0000-0000-0000-000000000001"})
    );
    assert_eq!(
        segment("a", 4, 9, "hello").to_json(),
        json!({"segmentId": "a", "epoch": 4, "sequence": 9, "speaker": "Ana", "text": "hello",
            "participantId": "00000000-0000-0000-0000-000000000002", "createdAt": 7})
    );
}
