//! Folds of who is in the room.

use object::{Millis, ParticipantId};

use crate::event::AgentJoined;
use crate::state::{Features, Kind, Memory, Participant, RuntimeHost, State};
use crate::text::Text;

pub(super) fn with(state: &mut State, id: ParticipantId, change: impl FnOnce(&mut Participant)) {
    if let Some(participant) = state.participants.iter_mut().find(|p| p.id == id) {
        change(participant);
    }
}

pub(super) fn agent_joined(state: &mut State, joined: &AgentJoined) {
    arrive(
        state,
        Participant {
            id: joined.participant,
            name: joined.name.clone(),
            kind: Kind::Agent,
            connected: true,
            joined_at: joined.at,
            last_seen: joined.at,
            lease_end: joined.at.plus(joined.lease_ms),
            lease_ms: joined.lease_ms,
            advertised: joined.advertised.clone(),
            host: None,
            features: joined.features,
            surface: None,
            lost_live: 0,
            lost_history: 0,
            memory: Memory::default(),
        },
    );
    if let Some(host) = &joined.host {
        host_set(state, joined.participant, host);
    }
}

pub(super) fn human_joined(state: &mut State, id: ParticipantId, name: &Text, at: Millis) {
    arrive(
        state,
        Participant {
            id,
            name: name.clone(),
            kind: Kind::Human,
            // Its control connection follows; until then it is in its grace period.
            connected: false,
            joined_at: at,
            last_seen: at,
            lease_end: Millis(0),
            lease_ms: 0,
            advertised: Vec::new(),
            host: None,
            features: Features::default(),
            surface: None,
            lost_live: 0,
            lost_history: 0,
            memory: Memory::default(),
        },
    );
}

fn arrive(state: &mut State, mut participant: Participant) {
    state.created_at.get_or_insert(participant.joined_at);
    state.expires_at = Millis::FAR_FUTURE;
    participant.lost_live = state.evicted_public;
    participant.lost_history = state.evicted_public;
    state.participants.push(participant);
}

pub(super) fn connected(state: &mut State, id: ParticipantId, at: Millis, connected: bool) {
    with(state, id, |p| {
        p.connected = connected;
        // An agent's last sight lives beside the log, with its lease.
        if !p.is_agent() {
            p.last_seen = p.last_seen.max(at);
        }
    });
}

pub(super) fn left(state: &mut State, id: ParticipantId, empty_until: Option<Millis>) {
    state.participants.retain(|p| p.id != id);
    for task in &mut state.tasks {
        task.admitted.retain(|(agent, _)| *agent != id);
    }
    state.agent_voice.retain(|grant| grant.agent != id);
    if state.meeting_notes.is_some_and(|notes| notes.agent == id) {
        state.meeting_notes = None;
    }
    state.permissions.retain(|permission| permission.agent != id);
    drop_unnamed_hosts(state);
    if let Some(until) = empty_until {
        state.expires_at = until;
    }
}

pub(super) fn capabilities_set(state: &mut State, id: ParticipantId, advertised: &[Text]) {
    with(state, id, |p| p.advertised = advertised.to_vec());
}

pub(super) fn host_set(state: &mut State, id: ParticipantId, host: &RuntimeHost) {
    with(state, id, |p| p.host = Some(host.id.clone()));
    match state.hosts.iter_mut().find(|known| known.id == host.id) {
        Some(known) => known.clone_from(host),
        None => state.hosts.push(host.clone()),
    }
    drop_unnamed_hosts(state);
}

fn drop_unnamed_hosts(state: &mut State) {
    let participants = &state.participants;
    state.hosts.retain(|host| participants.iter().any(|p| p.host.as_ref() == Some(&host.id)));
}
