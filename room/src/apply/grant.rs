//! Folds of the transcript and of what humans grant.

use object::{Millis, ParticipantId};

use crate::limits;
use crate::state::{AgentVoice, MeetingNotes, Producer, Segment, State};

pub(super) fn transcript_started(state: &mut State, producer: &Producer, epoch: u64) {
    state.transcript.active = Some(producer.clone());
    state.transcript.epoch = epoch;
}

pub(super) fn transcript_appended(state: &mut State, segment: &Segment) {
    let transcript = &mut state.transcript;
    transcript.sequence = transcript.sequence.max(segment.sequence);
    transcript.bytes += segment.weight as usize;
    transcript.segments.push_back(segment.clone());
    while transcript.segments.len() > limits::TRANSCRIPT_SEGMENTS_MAX
        || (transcript.bytes > limits::TRANSCRIPT_BYTES_MAX && transcript.segments.len() > 1)
    {
        let Some(gone) = transcript.segments.pop_front() else { break };
        transcript.bytes -= gone.weight as usize;
        transcript.evicted = transcript.evicted.max(gone.sequence);
    }
}

pub(super) fn meeting_notes_started(state: &mut State, agent: ParticipantId, at: Millis) {
    state.meeting_notes = Some(MeetingNotes { agent, started_at: at });
}

pub(super) fn voice_granted(state: &mut State, agent: ParticipantId, at: Millis) {
    voice_revoked(state, agent);
    state.agent_voice.push(AgentVoice { agent, enabled_at: at });
}

pub(super) fn voice_revoked(state: &mut State, agent: ParticipantId) {
    state.agent_voice.retain(|grant| grant.agent != agent);
}
