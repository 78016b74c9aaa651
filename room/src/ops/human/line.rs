//! Attaching a human's control connection.

use object::{Effect, ParticipantId, Reject};

use crate::event::Event;
use crate::limits::{CONNECTIONS_MAX, CONNECTIONS_PER_HUMAN_MAX};
use crate::live::{Line, Signal};
use crate::ops::{Ask, Step};
use crate::reject::Code;

/// Told to the oldest connection of a human that opened one too many.
pub(crate) const REPLACED: &[u8] = b"{\"type\":\"replaced\"}";

/// Adds the attachment of the call's connection. A fifth one of the same human replaces the
/// oldest; the room refuses a 65th.
pub(crate) fn attach(ask: &Ask<'_>, human: ParticipantId, mut step: Step) -> Result<Step, Reject> {
    let connection = ask.call.connection;
    let lines = &ask.state.live.connections;
    if lines.iter().any(|line| line.connection == connection) {
        return Ok(step);
    }
    let mut own = lines.iter().filter(|line| line.participant == human);
    if own.clone().count() >= CONNECTIONS_PER_HUMAN_MAX {
        // Connections are in order of attachment.
        if let Some(oldest) = own.next() {
            let gone = oldest.connection;
            step = step.effect(Effect::Notify { connection: gone, frame: REPLACED.to_vec() });
            for signal in crate::routing::disconnected(&ask.state.live, gone) {
                step = step.signal(signal);
            }
        }
    } else if lines.len() >= CONNECTIONS_MAX {
        return Err(Code::RoomConnectionLimit.reject().limit(CONNECTIONS_MAX as u64));
    }
    let attached =
        Signal::Attached { connection, participant: human, line: Line::Human, cursor: 0 };
    Ok(step.event(Event::Connected { participant: human, at: ask.now }).signal(attached))
}
