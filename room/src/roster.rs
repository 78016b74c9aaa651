//! How participants go, with everything that goes with them.

use object::{BlobId, Millis, ParticipantId};

use crate::event::{Cause, Event};
use crate::grant::{self, Change};
use crate::settings::Settings;
use crate::state::{Author, Body, Participant, PermissionKind, PermissionNote, RuntimeHost, State};
use crate::timeline;

/// What one or several departures amount to.
///
/// Bounded by the participants (`PARTICIPANTS_MAX`).
#[derive(Debug, Default)]
pub(crate) struct Departure {
    pub events: Vec<Event>,
    /// Snapshots of those who go.
    pub drop_blobs: Vec<BlobId>,
    pub drop_leases: Vec<ParticipantId>,
}

/// The facts of participants going at one moment, in the order given (rooms 6.19): their pending
/// approvals expire, the transcript stops if its host has nobody left, then each leaves. Their
/// other grants and snapshots end with the leaving itself.
pub(crate) fn depart(
    state: &State,
    settings: &Settings,
    now: Millis,
    going: &[(ParticipantId, Cause)],
) -> Departure {
    let mut out = Departure::default();
    let stays = |p: &&Participant| going.iter().all(|(id, _)| *id != p.id);
    let mut sequence = state.sequence;
    for (id, _) in going {
        let Some(participant) = state.participant(*id) else { continue };
        for pending in state.permissions.iter().filter(|pending| pending.agent == *id) {
            sequence += 1;
            out.events.push(permission_expired(participant, &pending.request_id, sequence, now));
        }
    }
    if let Some(producer) = &state.transcript.active {
        let left_on_host = state
            .participants
            .iter()
            .filter(stays)
            .any(|p| p.is_agent() && p.connected && p.host.as_ref() == Some(&producer.host));
        let touched = going.iter().filter_map(|(id, _)| state.participant(*id));
        if !left_on_host && touched.into_iter().any(|p| p.host.as_ref() == Some(&producer.host)) {
            out.events.push(Event::TranscriptStopped { at: now });
        }
    }
    let mut remaining = state.participants.len();
    for (id, cause) in going {
        let Some(participant) = state.participant(*id) else { continue };
        remaining -= 1;
        out.drop_blobs.extend(participant.surface.as_ref().map(|surface| surface.snapshot));
        if participant.is_agent() {
            out.drop_leases.push(*id);
        }
        out.events.push(Event::Left {
            participant: *id,
            cause: *cause,
            at: now,
            empty_until: (remaining == 0).then(|| now.plus(settings.empty_room_ms)),
        });
    }
    out
}

/// The private card that tells an agent that its approval request ran out.
pub(crate) fn permission_expired(
    agent: &Participant,
    request_id: &crate::text::Text,
    sequence: u64,
    now: Millis,
) -> Event {
    let note = PermissionNote {
        request_id: request_id.clone(),
        agent: agent.id,
        kind: PermissionKind::Expired,
    };
    let author = Author { id: agent.id, name: agent.name.clone(), kind: agent.kind };
    Event::MessageSent(timeline::message(
        sequence,
        now,
        author,
        None,
        vec![agent.id],
        Body::Permission(note),
    ))
}

/// The facts of an agent naming a host: the projection, and the grants that end with a lost
/// readiness (rooms 6.6, humans A6, A7).
pub(crate) fn project_host(
    state: &State,
    me: &Participant,
    host: &RuntimeHost,
    now: Millis,
) -> Vec<Event> {
    let mut events = vec![Event::HostSet { participant: me.id, host: host.clone() }];
    events.extend(grant::consequences(state, Change::Host(me.id, host), now));
    events
}

/// The projections as they will be after [`project_host`]; only for the answer.
pub(crate) fn hosts_after(state: &State, me: &Participant, host: &RuntimeHost) -> Vec<RuntimeHost> {
    let named = |id: &crate::text::Text| {
        *id == host.id
            || state.participants.iter().any(|p| p.id != me.id && p.host.as_ref() == Some(id))
    };
    let mut hosts: Vec<RuntimeHost> =
        state.hosts.iter().filter(|known| named(&known.id)).cloned().collect();
    match hosts.iter_mut().find(|known| known.id == host.id) {
        Some(known) => known.clone_from(host),
        None => hosts.push(host.clone()),
    }
    hosts
}
