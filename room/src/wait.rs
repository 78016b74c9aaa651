//! Waiting: what is new for whom, and what a sleeping room may answer (rooms 9, 10; ours 7-10).

use object::{IdlePoll, IdleView, Millis, Poll, Reply};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::ops::agent::wait_for_events::{INPUT, Input};
use crate::settings::Settings;
use crate::spec;
use crate::state::{Participant, State};
use crate::view::{self, EventView, HostsView, RoomAppView, RosterEntry};

/// What a wait from this cursor would report.
#[derive(Debug)]
pub(crate) struct News<'a> {
    pub events: Vec<EventView<'a>>,
    /// Something that this reader would have seen is gone.
    pub truncated: bool,
}

impl<'a> News<'a> {
    /// Looks after `cursor`, which may lie beyond the room's sequence.
    pub(crate) fn after(state: &'a State, reader: &Participant, cursor: u64) -> Self {
        let truncated = cursor < reader.lost_live;
        // Older islands are skipped: what is delivered has no hole (rooms 9.2).
        let from = cursor.max(reader.lost_live);
        let entries =
            view::after(state, from).filter(|entry| view::shown_live(&state.tasks, reader, *entry));
        Self { events: entries.map(|e| EventView::of(state, reader, e)).collect(), truncated }
    }
}

/// How a wait was served, as clients read it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Served {
    Immediate,
    Held,
    /// Held, and ended by news: the key is absent.
    Woken,
}

/// The end of the hold a wait may ask for, if holding is on and wanted.
pub(crate) fn hold_until(
    settings: &Settings,
    since: Millis,
    timeout_seconds: u64,
) -> Option<Millis> {
    let ms = timeout_seconds.saturating_mul(1_000).min(settings.hold_ms_max);
    (settings.longpoll_enabled && ms > 0).then(|| since.plus(ms))
}

/// The answer to a wait. The same bytes whether the room is awake or asleep.
pub(crate) fn answer(
    events: &[u8],
    cursor: u64,
    projection: &[u8],
    truncated: bool,
    served: Served,
) -> Vec<u8> {
    let mut body = Vec::with_capacity(events.len() + projection.len() + 96);
    body.extend_from_slice(b"{\"events\":");
    body.extend_from_slice(events);
    body.extend_from_slice(format!(",\"cursor\":{cursor},").as_bytes());
    body.extend_from_slice(projection);
    match served {
        Served::Immediate => body.extend_from_slice(b",\"longPoll\":\"immediate\""),
        Served::Held => body.extend_from_slice(b",\"longPoll\":\"held\""),
        Served::Woken => {}
    }
    if truncated {
        body.extend_from_slice(b",\"truncated\":true");
    }
    body.push(b'}');
    body
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Projection<'a> {
    expires_at: u64,
    room_apps: Vec<RoomAppView<'a>>,
    participants: Vec<RosterEntry<'a>>,
    runtime_hosts: HostsView<'a>,
}

/// The roster part of every wait's answer: JSON members without the braces around them.
pub(crate) fn projection(state: &State, settings: &Settings) -> Vec<u8> {
    let projection = Projection {
        expires_at: state.expires_at.0,
        room_apps: RoomAppView::all(state, settings),
        participants: RosterEntry::connected(state),
        runtime_hosts: HostsView(&state.hosts),
    };
    let json = serde_json::to_vec(&projection).unwrap_or_default();
    json.strip_prefix(b"{").and_then(|j| j.strip_suffix(b"}")).unwrap_or_default().to_vec()
}

/// What is kept of a sleeping room.
pub(crate) fn idle_view(state: &State, settings: &Settings) -> IdleView {
    let agents = state.participants.iter().filter(|p| p.is_agent());
    IdleView {
        sequence: state.sequence,
        pollers: agents.map(|p| (p.id, p.lease_end)).collect(),
        projection: projection(state, settings).into(),
    }
}

/// Answers a poll with nothing new; anything else wakes the room. A poll that is to be held is
/// first shown to [`hold_idle_poll`].
pub(crate) fn answer_idle_poll(_: &Settings, poll: &IdlePoll<'_>) -> Option<Reply> {
    quiet_input(poll)?;
    Some(quiet(poll, Served::Immediate))
}

/// Until when a poll with nothing new is held, and its answer then: what the awake room would do.
pub(crate) fn hold_idle_poll(
    settings: &Settings,
    poll: &IdlePoll<'_>,
    since: Millis,
) -> Option<(Millis, Reply)> {
    let input = quiet_input(poll)?;
    let until = hold_until(settings, since, input.timeout_seconds)?;
    Some((until, quiet(poll, Served::Held)))
}

/// The arguments of a poll that has seen everything.
fn quiet_input(poll: &IdlePoll<'_>) -> Option<Input> {
    let args: Value = serde_json::from_slice(poll.args).ok()?;
    let clean = spec::parse(INPUT, &args, false).ok()?;
    let input: Input = serde_json::from_value(Value::Object(clean)).ok()?;
    (input.cursor == poll.sequence).then_some(input)
}

fn quiet(poll: &IdlePoll<'_>, served: Served) -> Reply {
    let body = answer(b"[]", poll.sequence, poll.projection, false, served);
    Reply { body, attached: None, poll: Some(Poll::Quiet) }
}
