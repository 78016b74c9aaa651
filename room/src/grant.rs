//! Grants that only humans give: meeting notes and agent voice (rooms 17, humans A7).
//!
//! No tool of an agent creates or changes one. A grant makes no event and wakes nobody; it ends
//! when its agent goes, and a voice also when the agent's host can no longer speak.

use std::collections::BTreeMap;

use object::{Millis, ParticipantId};
use serde_json::{Map, Value, json};

/// Which agent listens for meeting notes, since when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MeetingNotes {
    pub agent: ParticipantId,
    pub started_at: Millis,
}

/// All grants of one room. Bounded by the room's participants.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Grants {
    meeting_notes: Option<MeetingNotes>,
    agent_voice: BTreeMap<ParticipantId, Millis>,
}

impl Grants {
    /// Who listens for meeting notes.
    #[must_use]
    pub const fn meeting_notes(&self) -> Option<MeetingNotes> {
        self.meeting_notes
    }

    /// Agents that may speak, with the time of the grant.
    pub fn voices(&self) -> impl Iterator<Item = (ParticipantId, Millis)> {
        self.agent_voice.iter().map(|(agent, at)| (*agent, *at))
    }

    /// Since when an agent may speak.
    #[must_use]
    pub fn voice(&self, agent: ParticipantId) -> Option<Millis> {
        self.agent_voice.get(&agent).copied()
    }

    /// Lets one agent listen. A repeat for the same agent keeps its time; another agent takes
    /// over.
    pub fn start_notes(&mut self, agent: ParticipantId, now: Millis) {
        if self.meeting_notes.is_none_or(|notes| notes.agent != agent) {
            self.meeting_notes = Some(MeetingNotes { agent, started_at: now });
        }
    }

    /// Ends listening.
    pub fn stop_notes(&mut self) {
        self.meeting_notes = None;
    }

    /// Lets an agent speak; a repeat keeps its time.
    pub fn enable_voice(&mut self, agent: ParticipantId, now: Millis) {
        self.agent_voice.entry(agent).or_insert(now);
    }

    /// Mutes an agent.
    pub fn disable_voice(&mut self, agent: ParticipantId) {
        self.agent_voice.remove(&agent);
    }

    /// Ends every grant of an agent that is gone.
    pub fn revoke_all(&mut self, agent: ParticipantId) {
        if self.meeting_notes.is_some_and(|notes| notes.agent == agent) {
            self.meeting_notes = None;
        }
        self.agent_voice.remove(&agent);
    }

    /// `{active:false}`, or `{active:true, agentParticipantId, startedAt}`.
    #[must_use]
    pub fn notes_json(&self) -> Value {
        self.meeting_notes.map_or_else(
            || json!({"active": false}),
            |notes| {
                json!({
                    "active": true,
                    "agentParticipantId": notes.agent.to_string(),
                    "startedAt": notes.started_at.0,
                })
            },
        )
    }

    /// `{<participantId>: {enabled:true, enabledAt}}`; an absent agent is muted.
    #[must_use]
    pub fn voice_json(&self) -> Value {
        let voices = self
            .agent_voice
            .iter()
            .map(|(agent, at)| (agent.to_string(), json!({"enabled": true, "enabledAt": at.0})));
        Value::Object(voices.collect::<Map<_, _>>())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: ParticipantId = ParticipantId(1);
    const B: ParticipantId = ParticipantId(2);

    #[test]
    fn notes_have_one_agent_and_keep_their_time() {
        let mut grants = Grants::default();
        assert_eq!(grants.notes_json(), json!({"active": false}));
        grants.start_notes(A, Millis(1));
        grants.start_notes(A, Millis(2));
        let notes = |agent, at| Some(MeetingNotes { agent, started_at: Millis(at) });
        assert_eq!(grants.meeting_notes(), notes(A, 1));
        grants.start_notes(B, Millis(3));
        assert_eq!(grants.meeting_notes(), notes(B, 3));
        grants.revoke_all(A);
        assert_eq!(grants.meeting_notes(), notes(B, 3));
        assert_eq!(
            grants.notes_json(),
            json!({"active": true, "agentParticipantId": B.to_string(), "startedAt": 3})
        );
        grants.stop_notes();
        assert_eq!(grants.meeting_notes(), None);
    }

    #[test]
    fn voices_are_per_agent_and_end_with_it() {
        let mut grants = Grants::default();
        grants.enable_voice(A, Millis(1));
        grants.enable_voice(A, Millis(2));
        grants.enable_voice(B, Millis(3));
        assert_eq!(grants.voice(A), Some(Millis(1)));
        grants.disable_voice(A);
        assert_eq!(grants.voice(A), None);
        assert_eq!(grants.voice_json(), json!({B.to_string(): {"enabled": true, "enabledAt": 3}}));
        grants.start_notes(B, Millis(4));
        grants.revoke_all(B);
        assert_eq!(grants, Grants::default());
    }
}
