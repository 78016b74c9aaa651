//! Stored bytes of schema 1, fixed for ever: what was once written must be read, and written alike.
//!
//! `UPDATE_GOLDEN=1 cargo test -p room golden` adds files for new facts; it never overwrites one.

use std::fs;
use std::io::Write;
use std::path::PathBuf;

use object::{BlobId, Millis, Object, ObjectId, ParticipantId};
use room::Room;
use room::event::{AgentJoined, AppPublished, AppUpdated, Cause, Event};
use room::state::{
    Attachment, Author, Body, Collab, CollabKind, Entry, Fact, Features, Kind, LiveView, Message,
    PermissionKind, PermissionNote, PermissionOption, Producer, RuntimeHost, Segment, Surface,
    TaskRef, ToolCall,
};
use room::text::Text;

const AGENT: ParticipantId = ParticipantId(0x1111_2222_3333_4444_8555_6666_7777_8888);
const HUMAN: ParticipantId = ParticipantId(0x9999_aaaa_bbbb_4ccc_8ddd_eeee_ffff_0000);
const BLOB: BlobId = BlobId(0x0123_4567_89ab_4def_8123_4567_89ab_cdef);
const AT: Millis = Millis(1_790_000_000_000);

fn author(id: ParticipantId, kind: Kind) -> Author {
    Author { id, name: "Ana 😀".into(), kind }
}

fn host() -> RuntimeHost {
    RuntimeHost { id: "host-0001".into(), stt: true, tts: false }
}

fn task() -> Option<TaskRef> {
    Some(TaskRef { sequence: 1, request_id: "plan-0001".into() })
}

fn pairs() -> Vec<(Text, Text)> {
    vec![("tone".into(), "short".into()), ("empty".into(), "".into())]
}

fn message(sequence: u64, task: Option<TaskRef>, body: Body) -> Event {
    let author = author(AGENT, Kind::Agent);
    Event::MessageSent(Message {
        sequence,
        at: AT,
        author,
        task,
        targets: vec![HUMAN],
        body,
        weight: 321,
    })
}

fn collab(sequence: u64, kind: CollabKind) -> Event {
    let body = Body::Collab(Collab {
        kind,
        target: HUMAN,
        summary: Some("Draft a plan".into()),
        details: pairs(),
        attachments: vec![BLOB],
        implied_acceptance: matches!(kind, CollabKind::Completed),
    });
    message(sequence, task(), body)
}

fn permission(sequence: u64, kind: PermissionKind) -> Event {
    let note = PermissionNote { request_id: "ask-0001".into(), agent: AGENT, kind };
    message(sequence, None, Body::Permission(note))
}

fn asked() -> PermissionKind {
    PermissionKind::Requested {
        tool: ToolCall {
            title: "Run".into(),
            kind: Some("execute".into()),
            summary: None,
            details: pairs(),
        },
        options: vec![PermissionOption { id: "yes".into(), name: "Yes".into(), kind: None }],
        expires_at: AT.plus(120_000),
    }
}

fn arrivals() -> Vec<(&'static str, Event)> {
    let joined = AgentJoined {
        participant: AGENT,
        name: "Scribe".into(),
        advertised: vec!["notes.write".into()],
        host: Some(host()),
        features: Features {
            task_session_continuation: Some(true),
            task_execution_reconciliation: Some(false),
        },
        at: AT,
        lease_ms: 90_000,
    };
    vec![
        ("agent_joined", Event::AgentJoined(joined)),
        ("human_joined", Event::HumanJoined { participant: HUMAN, name: "Ana".into(), at: AT }),
        ("connected", Event::Connected { participant: HUMAN, at: AT }),
        (
            "capabilities_set",
            Event::CapabilitiesSet {
                participant: AGENT,
                advertised: vec!["code.edit".into(), "shell".into()],
            },
        ),
        ("host_set", Event::HostSet { participant: AGENT, host: host() }),
    ]
}

fn timeline() -> Vec<(&'static str, Event)> {
    let file = Attachment {
        id: BLOB,
        sequence: 7,
        at: AT,
        author: author(HUMAN, Kind::Human),
        mime: "text/csv".into(),
        file_name: "table.csv".into(),
        size: 2_048,
        task: task(),
        wake: true,
    };
    let action = Body::Action { name: "wave".into(), payload: pairs() };
    let resolved =
        PermissionKind::Resolved { option: "yes".into(), human: HUMAN, human_name: "Ana".into() };
    vec![
        ("collab_request", collab(1, CollabKind::Request)),
        ("collab_accepted", collab(2, CollabKind::Accepted)),
        ("collab_completed", collab(3, CollabKind::Completed)),
        ("text", message(4, None, Body::Text("hello".into()))),
        ("task_text", message(5, task(), Body::Text("in the Task".into()))),
        ("action", message(6, None, action)),
        ("attachment_sent", Event::AttachmentSent(file)),
        ("permission_requested", permission(8, asked())),
        ("permission_resolved", permission(9, resolved)),
        ("permission_expired", permission(10, PermissionKind::Expired)),
        ("permission_requested_again", permission(11, asked())),
    ]
}

fn artifacts() -> Vec<(&'static str, Event)> {
    let surface =
        Surface { snapshot: BLOB, mime: "image/png".into(), size: 51_200, updated_at: AT };
    let view = LiveView {
        task: 1,
        surface_id: "score".into(),
        revision: 3,
        authority: AGENT,
        root: r#"{"type":"Text","text":"hi"}"#.into(),
        data: r#"{"points":0}"#.into(),
    };
    let first = AppPublished {
        instance: 0x42,
        task: 1,
        title: "Vote".into(),
        bundle: BlobId(0x77),
        bundle_bytes: 9_120,
        digest: 0xfeed,
        state: "{}".into(),
        at: AT,
    };
    let update = AppUpdated {
        instance: 0x42,
        title: "Vote 2".into(),
        bundle: BlobId(0x78),
        bundle_bytes: 9_121,
        digest: 0xbeef,
        at: AT.plus(1),
    };
    vec![
        ("surface_published", Event::SurfacePublished { participant: AGENT, surface }),
        ("live_view_published", Event::LiveViewPublished(view)),
        ("app_published", Event::AppPublished(first)),
        ("app_updated", Event::AppUpdated(update)),
        (
            "app_state_set",
            Event::AppStateSet {
                instance: 0x42,
                state: r#"{"votes":1}"#.into(),
                revision: 1,
                at: AT,
            },
        ),
    ]
}

fn grants() -> Vec<(&'static str, Event)> {
    let producer = Producer { host: "host-0001".into(), started_by: HUMAN, started_at: AT };
    let segment = Segment {
        segment_id: "s-1".into(),
        epoch: 1,
        sequence: 1,
        participant: HUMAN,
        speaker: "Ana".into(),
        text: "spoken".into(),
        at: AT,
        weight: 99,
    };
    let entry = Entry {
        id_hash: 0x0102_0304_0506_0708,
        args_hash: 0x1112_1314_1516_1718,
        at: AT,
        fact: Fact { sequence: 4, id: BLOB.0 },
    };
    vec![
        ("transcript_started", Event::TranscriptStarted { producer, epoch: 1 }),
        ("transcript_appended", Event::TranscriptAppended(segment)),
        ("meeting_notes_started", Event::MeetingNotesStarted { agent: AGENT, at: AT }),
        ("agent_voice_granted", Event::AgentVoiceGranted { agent: AGENT, at: AT }),
        ("remembered", Event::Remembered { participant: AGENT, entry }),
    ]
}

fn endings() -> Vec<(&'static str, Event)> {
    vec![
        ("surface_cleared", Event::SurfaceCleared { participant: AGENT }),
        ("transcript_stopped", Event::TranscriptStopped { at: AT }),
        ("meeting_notes_stopped", Event::MeetingNotesStopped { at: AT }),
        ("agent_voice_revoked", Event::AgentVoiceRevoked { agent: AGENT, at: AT }),
        ("disconnected", Event::Disconnected { participant: HUMAN, at: AT }),
        (
            "left",
            Event::Left { participant: AGENT, cause: Cause::LeaseEnded, at: AT, empty_until: None },
        ),
        (
            "left_empty",
            Event::Left {
                participant: HUMAN,
                cause: Cause::GraceEnded,
                at: AT,
                empty_until: Some(AT.plus(1_800_000)),
            },
        ),
    ]
}

fn all() -> Vec<(&'static str, Event)> {
    let mut all = arrivals();
    all.extend(timeline());
    all.extend(artifacts());
    all.extend(grants());
    all.extend(endings());
    all
}

fn path(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/v1/{name}.hex"))
}

fn hex(bytes: &[u8]) -> String {
    let digits: String = bytes.iter().map(|b| format!("{b:02x}")).collect();
    let lines: Vec<&str> =
        digits.as_bytes().chunks(96).map(|line| std::str::from_utf8(line).unwrap()).collect();
    format!("{}\n", lines.join("\n"))
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits
        .chunks(2)
        .map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap())
        .collect()
}

/// Compares with the file; adds it only if it is not there and that was asked for.
#[expect(clippy::disallowed_methods, reason = "a switch of this test for people only")]
fn compare(name: &str, bytes: &[u8]) -> Vec<u8> {
    let path = path(name);
    if !path.exists() && std::env::var_os("UPDATE_GOLDEN").is_some() {
        let mut file = fs::OpenOptions::new().write(true).create_new(true).open(&path).unwrap();
        file.write_all(hex(bytes).as_bytes()).unwrap();
    }
    let stored = fs::read_to_string(&path).unwrap_or_else(|_| panic!("no golden file for {name}"));
    assert_eq!(stored, hex(bytes), "{name} is written as it always was");
    unhex(&stored)
}

#[test]
fn every_fact_is_stored_and_read_as_ever() {
    for (name, event) in all() {
        let mut bytes = Vec::new();
        Room::encode_event(&event, &mut bytes);
        let stored = compare(&format!("event_{name}"), &bytes);
        assert_eq!(Room::decode_event(1, &stored).unwrap(), event, "{name}");
    }
}

#[test]
fn a_full_and_an_ended_room_are_stored_and_read_as_ever() {
    let id = ObjectId::new(room::KIND, "golden").unwrap();
    let mut room = Room::fresh(&id);
    let ending = endings().len();
    let all = all();
    let (busy, end) = all.split_at(all.len() - ending);
    for (name, events) in [("busy", busy), ("ended", end)] {
        for (_, event) in events {
            room.evolve(event);
        }
        let stored = compare(&format!("snapshot_{name}"), &room.encode_snapshot());
        assert_eq!(Room::decode_snapshot(&id, 1, &stored).unwrap(), room, "{name}");
    }
}
