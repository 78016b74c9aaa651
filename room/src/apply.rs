//! The only code that changes a [`State`]: one arm per fact, one file per area.
//!
//! Facts were checked when they were made; here they are folded, never judged. A fact that names
//! something absent changes nothing.

mod artifact;
mod grant;
mod roster;
mod task;
mod timeline;

use object::{Millis, ParticipantId};

use crate::event::Event;
use crate::live::Signal;
use crate::state::State;

/// Folds one fact.
pub(crate) fn evolve(state: &mut State, event: &Event) {
    match event {
        Event::AgentJoined(joined) => roster::agent_joined(state, joined),
        Event::HumanJoined { participant, name, at } => {
            roster::human_joined(state, *participant, name, *at);
        }
        Event::Connected { participant, at } => roster::connected(state, *participant, *at, true),
        Event::Disconnected { participant, at } => {
            roster::connected(state, *participant, *at, false);
        }
        Event::Left { participant, empty_until, .. } => {
            roster::left(state, *participant, *empty_until);
        }
        Event::CapabilitiesSet { participant, advertised } => {
            roster::capabilities_set(state, *participant, advertised);
        }
        Event::HostSet { participant, host } => roster::host_set(state, *participant, host),
        Event::MessageSent(message) => timeline::message_sent(state, message),
        Event::AttachmentSent(attachment) => timeline::attachment_sent(state, attachment),
        Event::SurfacePublished { participant, surface } => {
            artifact::surface_set(state, *participant, Some(surface));
        }
        Event::SurfaceCleared { participant } => {
            artifact::surface_set(state, *participant, None);
        }
        Event::LiveViewPublished(view) => artifact::live_view_published(state, view),
        Event::AppPublished(app) => artifact::app_published(state, app),
        Event::AppUpdated(app) => artifact::app_updated(state, app),
        Event::AppStateSet { instance, state: json, revision, at } => {
            artifact::app_state_set(state, *instance, json, *revision, *at);
        }
        Event::TranscriptStarted { producer, epoch } => {
            grant::transcript_started(state, producer, *epoch);
        }
        Event::TranscriptStopped { .. } => state.transcript.active = None,
        Event::TranscriptAppended(segment) => grant::transcript_appended(state, segment),
        Event::MeetingNotesStarted { agent, at } => {
            grant::meeting_notes_started(state, *agent, *at);
        }
        Event::MeetingNotesStopped { .. } => state.meeting_notes = None,
        Event::AgentVoiceGranted { agent, at } => grant::voice_granted(state, *agent, *at),
        Event::AgentVoiceRevoked { agent, .. } => grant::voice_revoked(state, *agent),
        Event::Remembered { participant, entry } => {
            roster::with(state, *participant, |p| p.memory.remember(*entry));
        }
    }
}

/// Raises an agent's lease end and last-seen time; never lowers them.
pub(crate) fn renew(state: &mut State, participant: ParticipantId, end: Millis, now: Millis) {
    roster::with(state, participant, |p| {
        if p.is_agent() {
            p.lease_end = p.lease_end.max(end);
            // A stored end may lie a step ahead of the last call: never claim a later sight.
            let seen = Millis(end.0.saturating_sub(p.lease_ms)).min(now);
            p.last_seen = p.last_seen.max(seen);
        }
    });
}

/// Applies one volatile change.
pub(crate) fn absorb(state: &mut State, signal: &Signal) {
    state.live.absorb(signal);
}
