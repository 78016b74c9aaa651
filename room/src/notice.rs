//! What attached connections are told: frames for people's browsers and envelopes for resident
//! runtimes (humans A2, A4, B2).
//!
//! Made from a decision's facts, after them: a browser gets each new message and file, and the
//! whole state after anything else; a resident gets what a wait would show it. A room without
//! connections pays nothing.

use object::Effect;
use serde::Serialize;
use serde_json::{Map, Value, json};

use crate::app::PublicationView;
use crate::apply;
use crate::event::Event;
use crate::live::{Connection, Line, Signal};
use crate::live_view::SnapshotView;
use crate::room::Decision;
use crate::routing;
use crate::settings::Settings;
use crate::state::{Attachment, Body, Kind, Message, Participant, State};
use crate::view::{
    CollabView, HostsView, ParticipantView, PermissionView, RoomAppView, SegmentView,
    TranscriptView,
};
use crate::wait::{self, News};

/// Close code of the contract for a participant that is gone.
const CLOSE_LEFT: u16 = 1000;

/// Adds what a decision's facts mean for connections: those of participants that are gone are
/// forgotten and closed, and the others are told.
pub(crate) fn add(before: &State, settings: &Settings, decision: &mut Decision) {
    forget(before, decision);
    tell(before, settings, decision);
}

/// Volatile traces of whoever goes or loses its stream.
fn forget(before: &State, decision: &mut Decision) {
    let mut signals = Vec::new();
    for event in &decision.events {
        let (who, left) = if let Event::Left { participant, .. } = event {
            (*participant, true)
        } else if let Event::Disconnected { participant, .. } = event {
            (*participant, false)
        } else {
            continue;
        };
        if before.live.activities.iter().any(|activity| activity.agent == who) {
            signals.push(Signal::ActivityCleared { agent: who, scope_id: None });
        }
        if !left || !before.live.attached(who) {
            continue;
        }
        signals.extend(routing::left(&before.live, who));
        let closes = |effect: &Effect| matches!(effect, Effect::Disconnect { participant, .. } if *participant == who);
        if !decision.effects.iter().any(closes) {
            let close = Effect::Disconnect { participant: who, close_code: CLOSE_LEFT };
            decision.effects.push(close);
        }
    }
    decision.signals.extend(signals);
}

/// Adds the frames that a decision's facts cause.
fn tell(before: &State, settings: &Settings, decision: &mut Decision) {
    let told = decision.events.iter().any(|event| !matches!(event, Event::Remembered { .. }));
    let opens = |signal: &Signal| matches!(signal, Signal::Attached { .. });
    let lines = !before.live.connections.is_empty() || decision.signals.iter().any(opens);
    if !told || !lines || decision.destroy {
        return;
    }
    let mut after = before.clone();
    decision.events.iter().for_each(|event| apply::evolve(&mut after, event));
    decision.signals.iter().for_each(|signal| apply::absorb(&mut after, signal));
    let frames = human_frames(&after, settings, &decision.events);
    for line in after.live.connections.iter().filter(|line| line.line == Line::Human) {
        let frame =
            |frame: &Vec<u8>| Effect::Notify { connection: line.connection, frame: frame.clone() };
        decision.effects.extend(frames.iter().map(frame));
    }
    for line in after.live.connections.iter().filter(|line| line.line == Line::Resident) {
        let Some(agent) = after.participant(line.participant) else { continue };
        let frame = envelope(&after, settings, agent, line).to_string().into_bytes();
        decision.effects.push(Effect::Notify { connection: line.connection, frame });
        let pushed = Signal::Pushed { connection: line.connection, cursor: after.sequence };
        decision.signals.push(pushed);
    }
}

fn human_frames(after: &State, settings: &Settings, events: &[Event]) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    let mut changed = false;
    for event in events {
        match event {
            Event::MessageSent(message) => {
                frames.push(json!({"type": "message", "message": message_json(message)}));
            }
            Event::AttachmentSent(file) => {
                frames.push(json!({"type": "attachment", "attachment": file_json(file)}));
            }
            // Browsers get the new state of an app by a frame of its own.
            Event::Remembered { .. } | Event::AppStateSet { .. } => {}
            Event::AgentJoined(_)
            | Event::HumanJoined { .. }
            | Event::Connected { .. }
            | Event::Disconnected { .. }
            | Event::Left { .. }
            | Event::CapabilitiesSet { .. }
            | Event::HostSet { .. }
            | Event::SurfacePublished { .. }
            | Event::SurfaceCleared { .. }
            | Event::LiveViewPublished(_)
            | Event::AppPublished(_)
            | Event::AppUpdated(_)
            | Event::TranscriptStarted { .. }
            | Event::TranscriptStopped { .. }
            | Event::TranscriptAppended(_)
            | Event::MeetingNotesStarted { .. }
            | Event::MeetingNotesStopped { .. }
            | Event::AgentVoiceGranted { .. }
            | Event::AgentVoiceRevoked { .. } => changed = true,
        }
    }
    if changed {
        frames.push(json!({"type": "state", "state": state_json(after, settings)}));
    }
    frames.iter().map(|frame| frame.to_string().into_bytes()).collect()
}

/// What a resident is sent: a wait's answer from the line's cursor, with its media state.
pub(crate) fn envelope(
    state: &State,
    settings: &Settings,
    agent: &Participant,
    line: &Connection,
) -> Value {
    let news = News::after(state, agent, line.cursor.min(state.sequence));
    let projection = wait::projection(state, settings);
    let mut out = Map::new();
    if let Ok(text) = String::from_utf8(projection)
        && let Ok(Value::Object(parts)) = serde_json::from_str(&format!("{{{text}}}"))
    {
        out.extend(parts);
    }
    out.insert("type".into(), json!("events"));
    out.insert("events".into(), value(&news.events));
    out.insert("cursor".into(), json!(state.sequence));
    out.insert("mediaState".into(), media_state(state, agent));
    if news.truncated {
        out.insert("truncated".into(), json!(true));
    }
    Value::Object(out)
}

/// Only this agent's part of what humans granted.
fn media_state(state: &State, agent: &Participant) -> Value {
    let notes = state.meeting_notes.filter(|notes| notes.agent == agent.id);
    let voice = state.agent_voice.iter().find(|voice| voice.agent == agent.id);
    let mut out = json!({
        "meetingNotes": notes.map_or_else(
            || json!({"active": false}),
            |notes| json!({"active": true, "startedAt": notes.started_at.0}),
        ),
        // This server relays no media.
        "mediaAvailable": false,
        "liveTranscript": value(&TranscriptView::of(&state.transcript)),
    });
    if let (Some(voice), Some(map)) = (voice, out.as_object_mut()) {
        map.insert("agentVoiceEnabledAt".into(), json!(voice.enabled_at.0));
    }
    out
}

/// The whole room as a browser shows it (humans A2).
pub(crate) fn state_json(state: &State, settings: &Settings) -> Value {
    let task_id = |sequence: u64| state.task_at(sequence).map(|task| task.request_id.as_str());
    let views = state.live_views.iter().filter_map(|view| {
        let id = task_id(view.task)?;
        Some((id.to_owned(), value(&SnapshotView::of(view, id))))
    });
    let apps = state.apps.iter().filter_map(|app| {
        let view = PublicationView::of(app, task_id(app.task)?);
        Some((view.app_instance_id.clone(), value(&view)))
    });
    let notes = state.meeting_notes.map_or_else(
        || json!({"active": false}),
        |notes| {
            let agent = notes.agent.to_string();
            json!({"active": true, "agentParticipantId": agent, "startedAt": notes.started_at.0})
        },
    );
    let voices = state.agent_voice.iter().map(|voice| {
        (voice.agent.to_string(), json!({"enabled": true, "enabledAt": voice.enabled_at.0}))
    });
    let segments = state.transcript.segments.iter();
    json!({
        "createdAt": state.created_at.map(|at| at.0),
        "expiresAt": state.expires_at.0,
        "participants": value(&ParticipantView::connected(state)),
        "runtimeHosts": value(&HostsView(&state.hosts)),
        "messages": state.messages.iter().map(message_json).collect::<Vec<_>>(),
        "attachments": state.attachments.iter().map(file_json).collect::<Vec<_>>(),
        "taskLiveViews": views.collect::<Map<_, _>>(),
        "generatedApps": apps.collect::<Map<_, _>>(),
        "liveTranscript": value(&TranscriptView::of(&state.transcript)),
        "liveTranscriptSegments": segments.map(|s| value(&SegmentView::of(s))).collect::<Vec<_>>(),
        "meetingNotes": notes,
        "meetingNotesMediaAvailable": false,
        "agentVoice": voices.collect::<Map<_, _>>(),
        "agentVoiceMediaAvailable": false,
        "roomAppsEnabled": settings.room_apps_enabled,
        "roomApps": value(&RoomAppView::all(state, settings)),
        "agentActivities": state.live.activities.iter().map(activity_json).collect::<Vec<_>>(),
    })
}

/// What an agent says it is doing.
pub(crate) fn activity_json(activity: &crate::live::Activity) -> Value {
    json!({
        "agentParticipantId": activity.agent.to_string(),
        "scopeId": activity.scope_id.as_str(),
        "state": activity.state.as_str(),
        "turnSequence": activity.turn,
    })
}

/// A message as browsers know it.
fn message_json(message: &Message) -> Value {
    let mut out = json!({
        // Stable for the room's life, as browsers match messages by it.
        "id": format!("m{}", message.sequence),
        "peerId": message.author.id.to_string(),
        "name": message.author.name.as_str(),
        "kind": value(&message.author.kind),
        "type": if matches!(message.body, Body::Text(_)) { "text" } else { "action" },
        "createdAt": message.at.0,
        "sequence": message.sequence,
    });
    let Some(map) = out.as_object_mut() else { return out };
    match &message.body {
        Body::Text(text) => {
            map.insert("text".into(), json!(text.as_str()));
        }
        Body::Action { name, payload } => {
            map.insert("actionType".into(), json!(name.as_str()));
            if !payload.is_empty() {
                map.insert("actionPayload".into(), value(&crate::view::Pairs(payload)));
            }
        }
        Body::Collab(collab) => {
            map.insert("actionType".into(), json!("collab"));
            map.insert("collab".into(), value(&CollabView::of(message, collab)));
        }
        Body::Permission(note) => {
            map.insert("actionType".into(), json!("permission"));
            map.insert("permission".into(), value(&PermissionView::of(note)));
        }
    }
    if !message.targets.is_empty() {
        let targets: Vec<String> = message.targets.iter().map(ToString::to_string).collect();
        map.insert("targets".into(), json!(targets));
    }
    if let Some(task) = &message.task {
        map.insert("taskRequestId".into(), json!(task.request_id.as_str()));
    }
    out
}

/// A file as browsers know it.
fn file_json(file: &Attachment) -> Value {
    let mut out = json!({
        "id": file.id.to_string(),
        "senderId": file.author.id.to_string(),
        "senderName": file.author.name.as_str(),
        "senderKind": value::<Kind>(&file.author.kind),
        "fileName": file.file_name.as_str(),
        "mimeType": file.mime.as_str(),
        "size": file.size,
        "sequence": file.sequence,
        "createdAt": file.at.0,
    });
    if let (Some(task), Some(map)) = (&file.task, out.as_object_mut()) {
        map.insert("taskRequestId".into(), json!(task.request_id.as_str()));
    }
    out
}

/// Our views always serialize.
fn value<T: Serialize + ?Sized>(view: &T) -> Value {
    serde_json::to_value(view).unwrap_or(Value::Null)
}

#[cfg(test)]
mod tests;
