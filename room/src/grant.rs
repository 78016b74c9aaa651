//! Grants that only humans give: meeting notes and agent voice (rooms 17, humans A7); and what
//! ends them and the transcript when a host changes or an agent goes.
//!
//! No tool of an agent creates or changes a grant. A grant makes no event of the timeline and
//! wakes nobody.

use object::{Millis, ParticipantId};

use crate::event::Event;
use crate::state::{AgentVoice, RuntimeHost, State};
use crate::transcript;

/// Something that may end grants.
#[derive(Clone, Copy, Debug)]
pub enum Change<'a> {
    /// A connection is lost; its participant stays one for a while.
    Unreachable(ParticipantId),
    /// The agent names this projection, which all agents on that host share.
    Host(ParticipantId, &'a RuntimeHost),
}

/// The facts that follow from a change: voices of a host that no longer speaks, and the
/// transcript of a host that no longer hears or has no connected agent left. To be stored right
/// after the change's own event.
#[must_use]
pub fn consequences(state: &State, change: Change<'_>, at: Millis) -> Vec<Event> {
    let mut events = Vec::new();
    if let Change::Host(agent, host) = change {
        let speaks_through = |grant: &&AgentVoice| {
            let named = state.participant(grant.agent).and_then(|p| p.host.as_ref());
            grant.agent == agent || named == Some(&host.id)
        };
        if !host.tts {
            let voices = state.agent_voice.iter().filter(speaks_through);
            events.extend(voices.map(|grant| Event::AgentVoiceRevoked { agent: grant.agent, at }));
        }
    }
    if let Some(producer) = &state.transcript.active {
        let host = producer.host.as_str();
        let goes_on = match change {
            Change::Unreachable(agent) => transcript::can_produce(state, host, Some(agent)),
            // The agent itself is on it now.
            Change::Host(_, set) if set.id.as_str() == host => set.stt,
            // The agent may have moved away from the producing host.
            Change::Host(agent, _) => transcript::can_produce(state, host, Some(agent)),
        };
        if !goes_on {
            events.push(Event::TranscriptStopped { at });
        }
    }
    events
}

#[cfg(test)]
mod tests {
    use object::ObjectId;

    use super::*;
    use crate::event::AgentJoined;
    use crate::state::{Features, Producer};

    const A: ParticipantId = ParticipantId(1);
    const B: ParticipantId = ParticipantId(2);
    const HUMAN: ParticipantId = ParticipantId(3);

    fn host(id: &str, stt: bool, tts: bool) -> RuntimeHost {
        RuntimeHost { id: id.into(), stt, tts }
    }

    /// Two agents on one host, a third on another; both of the first may speak, the host hears.
    fn room() -> State {
        let id = ObjectId::new(crate::KIND, "room").unwrap();
        let mut state = State::fresh(&id);
        let join = |participant, host: RuntimeHost| {
            Event::AgentJoined(AgentJoined {
                participant,
                name: "Scout".into(),
                advertised: Vec::new(),
                host: Some(host),
                features: Features::default(),
                at: Millis(1),
                lease_ms: 90_000,
            })
        };
        let producer =
            Producer { host: "host-0001".into(), started_by: HUMAN, started_at: Millis(2) };
        for event in [
            join(A, host("host-0001", true, true)),
            join(B, host("host-0001", true, true)),
            join(ParticipantId(9), host("host-0002", true, true)),
            Event::AgentVoiceGranted { agent: A, at: Millis(2) },
            Event::AgentVoiceGranted { agent: ParticipantId(9), at: Millis(2) },
            Event::TranscriptStarted { producer, epoch: 1 },
        ] {
            crate::apply::evolve(&mut state, &event);
        }
        state
    }

    fn after(mut state: State, events: &[Event]) -> State {
        events.iter().for_each(|event| crate::apply::evolve(&mut state, event));
        state
    }

    #[test]
    fn a_host_that_falls_silent_or_deaf_ends_what_it_carried() {
        let at = Millis(9);
        let mute = Event::AgentVoiceRevoked { agent: A, at };
        let stop = Event::TranscriptStopped { at };
        let (full, deaf) = (host("host-0001", true, true), host("host-0001", false, true));
        let (silent, other) = (host("host-0001", true, false), host("host-0003", false, false));
        let rows: [(Change<'_>, Vec<Event>); 6] = [
            (Change::Host(A, &full), vec![]),
            (Change::Host(B, &silent), vec![mute.clone()]),
            (Change::Host(B, &deaf), vec![stop.clone()]),
            // A moves to a silent host: its voice ends, B still carries the transcript.
            (Change::Host(A, &other), vec![mute]),
            (Change::Unreachable(A), vec![]),
            (Change::Unreachable(ParticipantId(9)), vec![]),
        ];
        for (change, expected) in rows {
            assert_eq!(consequences(&room(), change, at), expected, "{change:?}");
        }
        let left =
            Event::Left { participant: A, cause: crate::event::Cause::Left, at, empty_until: None };
        let alone = after(room(), &[left]);
        assert_eq!(consequences(&alone, Change::Unreachable(B), at), vec![stop.clone()]);
        assert_eq!(consequences(&alone, Change::Host(B, &other), at), vec![stop]);
    }
}
