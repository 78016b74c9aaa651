//! Tables over epochs, duplicates, ids and the written forms.

use object::Millis;

use super::*;
use crate::state::Producer;

fn segment(id: &str, epoch: u64, sequence: u64) -> Segment {
    let mut segment = Segment {
        segment_id: id.into(),
        epoch,
        sequence,
        participant: ParticipantId(2),
        speaker: "Ana".into(),
        text: "hello".into(),
        at: Millis(7),
        weight: 0,
    };
    segment.weight = weight(&segment);
    segment
}

fn producer() -> Producer {
    Producer { host: "host-0001".into(), started_by: ParticipantId(1), started_at: Millis(5) }
}

#[test]
fn an_append_needs_the_running_epoch_and_a_new_id() {
    let idle = Transcript { epoch: 1, sequence: 4, ..Transcript::default() };
    let running = Transcript { active: Some(producer()), epoch: 2, ..idle.clone() };
    let kept = Transcript {
        segments: [segment("a", 1, 4), segment("b", 2, 5)].into(),
        sequence: 5,
        ..running.clone()
    };
    let rows = [
        (&idle, 1, "a", Err(AppendError::Inactive)),
        (&running, 1, "a", Err(AppendError::EpochMismatch)),
        (&running, 3, "a", Err(AppendError::EpochMismatch)),
        (&running, 2, "a", Ok(Append::New { sequence: 5 })),
        (&kept, 2, "b", Ok(Append::Duplicate)),
        // The id was taken in epoch 1 only.
        (&kept, 2, "a", Ok(Append::New { sequence: 6 })),
    ];
    for (transcript, epoch, id, expected) in rows {
        assert_eq!(admit(transcript, epoch, id), expected, "{epoch} {id}");
    }
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
fn a_segment_weighs_its_json_and_a_separator() {
    let segment = segment("a", 4, 9);
    let json = serde_json::to_string(&SegmentView::of(&segment)).unwrap();
    assert_eq!(segment.weight as usize, json.len() + 1);
}
