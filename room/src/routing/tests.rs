//! Tables over instance ids, the choice of a host, and every way a request ends.

use super::*;
use crate::live::Line;

const AGENT: ParticipantId = ParticipantId(50);

fn settings() -> Settings {
    let app = |id: &str| CuratedApp { app_id: id.into(), title: id.to_uppercase() };
    Settings { room_apps: vec![app("bingo"), app("whiteboard")], ..Settings::default() }
}

fn board() -> String {
    app_instance_id("blue-otter", "whiteboard")
}

fn absorb(live: &mut Live, signals: impl IntoIterator<Item = Signal>) {
    signals.into_iter().for_each(|signal| live.absorb(&signal));
}

/// Connections in this order of attachment, each hosting the whiteboard if so said.
fn live(lines: &[(u64, u128, bool)]) -> Live {
    let mut live = Live::default();
    for (connection, participant, ready) in lines {
        let (connection, participant) = (*connection, ParticipantId(*participant));
        let attached = Signal::Attached { connection, participant, line: Line::Human, cursor: 0 };
        let hosts = Signal::AppHost { connection, instance: board().into(), ready: *ready };
        absorb(&mut live, [attached, hosts]);
    }
    live
}

fn ask(live: &Live, request: u128, now: u64) -> Result<AppRequest, Failure> {
    let settings = settings();
    let app = curated(&settings, "blue-otter", &board());
    open(live, app, RequestId(request), AGENT, &board(), Millis(now))
}

#[test]
fn instance_ids_are_fnv_1a_over_room_and_app() {
    // Computed apart from this code, with the published constants of 32-bit FNV-1a.
    let rows = [
        ("", "a", "a:4d05bae4"),
        ("blue-otter", "whiteboard", "whiteboard:3097d3b7"),
        ("böse 😀", "pomodoro", "pomodoro:26daab8b"),
    ];
    for (room, app, expected) in rows {
        assert_eq!(app_instance_id(room, app), expected);
    }
}

#[test]
fn only_a_curated_app_of_this_room_is_known() {
    let on = settings();
    let off = Settings { room_apps_enabled: false, ..settings() };
    let known = |settings: &Settings, instance: &str| {
        curated(settings, "blue-otter", instance).map(|app| app.app_id.clone())
    };
    let foreign = app_instance_id("red-otter", "whiteboard");
    let unlisted = app_instance_id("blue-otter", "pomodoro");
    let rows = [
        (board(), Some("whiteboard")),
        (foreign, None),
        (unlisted, None),
        ("whiteboard".into(), None),
        ("generated:00000000-0000-0000-0000-000000000001".into(), None),
    ];
    for (instance, expected) in rows {
        assert_eq!(known(&on, &instance).as_deref(), expected, "{instance}");
        assert_eq!(known(&off, &instance), None);
    }
}

#[test]
fn the_smallest_participant_then_the_oldest_connection_hosts() {
    type Lines = &'static [(u64, u128, bool)];
    let rows: [(Lines, Option<u64>); 5] = [
        (&[], None),
        (&[(1, 7, false)], None),
        (&[(1, 7, true), (2, 3, true)], Some(2)),
        (&[(9, 3, true), (2, 3, true), (1, 4, true)], Some(9)),
        (&[(9, 3, false), (2, 3, true), (1, 2, false)], Some(2)),
    ];
    for (lines, expected) in rows {
        let live = live(lines);
        assert_eq!(host(&live, &board()).map(|c| c.connection), expected, "{lines:?}");
    }
}

#[test]
fn opening_refuses_in_order() {
    let hosted = live(&[(1, 7, true)]);
    let unknown = open(&hosted, None, RequestId(1), AGENT, &board(), Millis(0));
    assert_eq!(unknown, Err(Failure::AppUnavailable));
    assert_eq!(ask(&Live::default(), 1, 0), Err(Failure::HostUnavailable));

    let mut full = hosted;
    for n in 1..=4 {
        let request = ask(&full, n, 1_000).unwrap();
        absorb(&mut full, [Signal::RequestOpened(request)]);
    }
    assert_eq!(ask(&full, 5, 1_001), Err(Failure::TooManyRequests));
    // No host counts before the number in flight, and an overdue request holds no place.
    let mut hostless = full.clone();
    absorb(&mut hostless, closed(&full, 1, &board()));
    assert_eq!(ask(&hostless, 5, 1_001), Err(Failure::HostUnavailable));
    assert!(ask(&full, 5, 1_000 + APP_REQUEST_MS_MAX).is_ok());
}

#[test]
fn a_request_ends_once_and_says_how() {
    let base = || {
        let mut live = live(&[(1, 7, true), (2, 8, true)]);
        let request = ask(&live, 1, 1_000).unwrap();
        absorb(&mut live, [Signal::RequestOpened(request)]);
        live
    };
    let sent = |ok, result, error| Answered {
        connection: 1,
        request: RequestId(1),
        instance: "",
        ok,
        result,
        error,
    };
    let (value, big, word) = (json!({"n": 1}), json!("x".repeat(16_383)), "w".repeat(257));
    let fits = json!("x".repeat(16_382));
    let instance = board();
    let rows = [
        (sent(Some(true), Some(&value), None), Ok(r#"{"n":1}"#.to_owned())),
        (sent(Some(true), Some(&fits), None), Ok(fits.to_string())),
        (sent(Some(true), Some(&big), None), Err(Failure::InvalidResponse)),
        (sent(Some(true), None, None), Err(Failure::InvalidResponse)),
        (sent(None, Some(&value), None), Err(Failure::InvalidResponse)),
        (sent(Some(false), None, Some("busy")), Err(Failure::Host("busy".into()))),
        (
            sent(Some(false), None, word.get(..256)),
            Err(Failure::Host("w".repeat(256).as_str().into())),
        ),
        (sent(Some(false), None, Some(&word)), Err(Failure::InvalidResponse)),
        (sent(Some(false), None, Some("")), Err(Failure::InvalidResponse)),
        (sent(Some(false), None, None), Err(Failure::InvalidResponse)),
    ];
    for (answered, expected) in rows {
        let mut live = base();
        let answered = Answered { instance: &instance, ..answered };
        let signal = answer(&live, &answered, Millis(1_001)).unwrap();
        absorb(&mut live, [signal]);
        let done = step(&live, RequestId(1), true, Millis(1_001));
        assert_eq!(done, Step::Done(expected.map(Text::from)), "{answered:?}");
        // A second answer is ignored.
        assert_eq!(answer(&live, &answered, Millis(1_002)), None);
    }
}

#[test]
fn an_answer_counts_only_from_the_same_line_in_time() {
    let mut live = live(&[(1, 7, true), (2, 8, true)]);
    let request = ask(&live, 1, 1_000).unwrap();
    absorb(&mut live, [Signal::RequestOpened(request)]);
    let (value, instance) = (json!(1), board());
    let good = Answered {
        connection: 1,
        request: RequestId(1),
        instance: &instance,
        ok: Some(true),
        result: Some(&value),
        error: None,
    };
    let rows = [
        (good, 1_000, true),
        (good, 15_999, true),
        (good, 16_000, false),
        (Answered { connection: 2, ..good }, 1_000, false),
        (Answered { request: RequestId(2), ..good }, 1_000, false),
        (Answered { instance: "bingo:00000000", ..good }, 1_000, false),
    ];
    for (answered, now, taken) in rows {
        assert_eq!(answer(&live, &answered, Millis(now)).is_some(), taken, "{answered:?} {now}");
    }
}

#[test]
fn loss_and_time_end_a_request() {
    let mut open = live(&[(1, 7, true), (2, 8, true)]);
    let request = ask(&open, 1, 1_000).unwrap();
    absorb(&mut open, [Signal::RequestOpened(request)]);
    let after = |signals: Vec<Signal>| {
        let mut live = open.clone();
        absorb(&mut live, signals);
        live
    };
    let failed = |failure| Step::Done(Err(failure));
    let rows = [
        (after(vec![]), true, 1_001, Step::Wait(Millis(16_000))),
        (after(vec![]), true, 15_999, Step::Wait(Millis(16_000))),
        (after(vec![]), true, 16_000, failed(Failure::Timeout)),
        (after(vec![]), false, 1_001, failed(Failure::AgentDisconnected)),
        (after(disconnected(&open, 1)), true, 1_001, failed(Failure::HostDisconnected)),
        (after(disconnected(&open, 2)), true, 1_001, Step::Wait(Millis(16_000))),
        (after(closed(&open, 1, &board())), true, 1_001, failed(Failure::HostUnavailable)),
        (after(closed(&open, 2, &board())), true, 1_001, Step::Wait(Millis(16_000))),
        (after(left(&open, ParticipantId(7))), true, 1_001, failed(Failure::HostUnavailable)),
        (after(left(&open, ParticipantId(8))), true, 1_001, Step::Wait(Millis(16_000))),
    ];
    for (live, present, now, expected) in rows {
        assert_eq!(step(&live, RequestId(1), present, Millis(now)), expected, "{now}");
    }
    let gone = after(vec![Signal::RequestClosed { request: RequestId(1) }]);
    assert_eq!(step(&gone, RequestId(1), true, Millis(1_001)), failed(Failure::AgentDisconnected));
}

#[test]
fn the_frame_names_the_trusted_source() {
    let live = live(&[(1, 7, true)]);
    let request = ask(&live, 1, 1_000).unwrap();
    let payload = json!({"move": 3});
    let payload = payload.as_object().unwrap();
    let sent: Value = serde_json::from_slice(&frame(&request, payload)).unwrap();
    assert_eq!(
        sent,
        json!({
            "type": "room-app-agent-request", "requestId": RequestId(1).to_string(),
            "appInstanceId": board(),
            "payload": {"move": 3, "sourceParticipantId": AGENT.to_string()},
        })
    );
    assert!(is_payload(payload));
    assert!(!is_payload(json!({"sourceParticipantId": 1}).as_object().unwrap()));
    let sized = |bytes: usize| json!({"k": "x".repeat(bytes - 8)});
    assert!(is_payload(sized(APP_PAYLOAD_BYTES_MAX).as_object().unwrap()));
    assert!(!is_payload(sized(APP_PAYLOAD_BYTES_MAX + 1).as_object().unwrap()));
}
