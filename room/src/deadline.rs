//! What time alone does: leases, grace periods and approvals that end, empty rooms that die.

use object::{Effect, Millis, Outcome, ParticipantId, Reply};

use crate::event::{Cause, Event};
use crate::limits;
use crate::live::{AppRequest, Signal};
use crate::room::{Cx, Decision};
use crate::state::{Kind, Participant, State};
use crate::{grant, roster, routing};

/// Close code of the contract for a room that died (humans A1).
const CLOSE_EXPIRED: u16 = 4001;

/// The earliest time at which something ends by itself.
pub(crate) fn next_due(state: &State) -> Option<Millis> {
    state.created_at?;
    let people = state.participants.iter().map(|p| ends(state, p));
    let approvals = state.permissions.iter().map(|pending| pending.expires_at);
    let requests = state.live.requests.iter().map(overdue);
    let own = people.chain(approvals).chain(requests).min();
    let due = own.map_or(state.expires_at, |own| own.min(state.expires_at));
    (due < Millis::FAR_FUTURE).then_some(due)
}

/// When a participant goes, or has to be marked disconnected, if nothing more is heard.
fn ends(state: &State, p: &Participant) -> Millis {
    match p.kind {
        Kind::Agent => p.lease_end,
        // Connected by its facts but attached to nothing: the activation was lost. Due at once.
        Kind::Human if p.connected && !state.live.attached(p.id) => p.last_seen,
        // Looked after now and then: if the activation is lost, the stored due time brings the
        // room back to notice that nobody is attached any more.
        Kind::Human if p.connected => p.last_seen.plus(limits::HUMAN_CHECK_MS),
        Kind::Human => p.last_seen.plus(limits::HUMAN_GRACE_MS),
    }
}

/// When a request is forgotten whose caller was never parked or never asked again.
fn overdue(request: &AppRequest) -> Millis {
    request.until.plus(limits::APP_REQUEST_OVERDUE_MS)
}

/// Records what has ended by now.
pub(crate) fn on_due(state: &State, cx: &Cx<'_>) -> Decision {
    let now = cx.now;
    let mut decision = Decision::only(Outcome::Reply(Reply::new(b"{}".to_vec())));
    if state.created_at.is_some() && state.expires_at <= now && state.participants.is_empty() {
        decision.destroy = true;
        return decision;
    }
    let mut going = Vec::new();
    for p in state.participants.iter().filter(|p| ends(state, p) <= now) {
        match p.kind {
            Kind::Agent => going.push((p.id, Cause::LeaseEnded)),
            Kind::Human if p.connected && state.live.attached(p.id) => {
                decision.events.push(Event::Connected { participant: p.id, at: now });
            }
            Kind::Human if p.connected => {
                decision.events.push(Event::Disconnected { participant: p.id, at: now });
            }
            Kind::Human => going.push((p.id, Cause::GraceEnded)),
        }
    }
    let departure = roster::depart(state, cx.settings, now, &going);
    let mut sequence = state.sequence;
    for event in &departure.events {
        sequence += u64::from(matches!(event, Event::MessageSent(_)));
    }
    for pending in state.permissions.iter().filter(|pending| pending.expires_at <= now) {
        if going.iter().any(|(id, _)| *id == pending.agent) {
            continue;
        }
        if let Some(agent) = state.participant(pending.agent) {
            sequence += 1;
            let event = roster::permission_expired(agent, &pending.request_id, sequence, now);
            decision.events.push(event);
        }
    }
    // Departures come first: their cards have the lower sequences.
    let later = std::mem::replace(&mut decision.events, departure.events);
    decision.events.extend(later);
    let forgotten = state.live.requests.iter().filter(|request| overdue(request) <= now);
    decision.signals =
        forgotten.map(|request| Signal::RequestClosed { request: request.request }).collect();
    decision.drop_blobs = departure.drop_blobs;
    decision.drop_leases = departure.drop_leases;
    for (id, cause) in &going {
        if matches!(cause, Cause::LeaseEnded) && state.live.attached(*id) {
            decision
                .effects
                .push(Effect::Disconnect { participant: *id, close_code: CLOSE_EXPIRED });
        }
    }
    decision
}

/// Tells the volatile part that a connection is gone.
pub(crate) fn on_disconnect(
    state: &State,
    cx: &Cx<'_>,
    participant: ParticipantId,
    connection: u64,
) -> Decision {
    let mut decision = Decision::only(Outcome::Reply(Reply::new(b"{}".to_vec())));
    if !state.live.connections.iter().any(|c| c.connection == connection) {
        return decision;
    }
    decision.signals = routing::disconnected(&state.live, connection);
    let others = state
        .live
        .connections
        .iter()
        .any(|c| c.participant == participant && c.connection != connection);
    if !others && state.participant(participant).is_some_and(|p| p.connected) {
        decision.events.push(Event::Disconnected { participant, at: cx.now });
        let lost = grant::Change::Unreachable(participant);
        decision.events.extend(grant::consequences(state, lost, cx.now));
    }
    decision
}
