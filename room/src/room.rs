//! The Room as the host's kind of object.

use object::{
    Call, CodecError, IdlePoll, IdleView, KindTag, Millis, Object, ObjectId, OpMeta, ParticipantId,
    Reject, Reply,
};

use crate::event::Event;
use crate::live::Signal;
use crate::settings::Settings;
use crate::state::State;
use crate::{apply, codec, deadline, notice, ops, wait};

/// The moment of a decision about a room.
pub type Cx<'a> = object::Cx<'a, Settings>;
/// What a room answers with.
pub type Decision = object::Decision<Event, Signal>;

/// One room.
#[derive(Clone, PartialEq, Debug)]
pub struct Room {
    state: State,
}

impl Room {
    /// What the room knows.
    #[must_use]
    pub const fn state(&self) -> &State {
        &self.state
    }

    /// Adds what attached connections are told.
    fn told(&self, cx: &Cx<'_>, mut decision: Decision) -> Decision {
        notice::add(&self.state, cx.settings, &mut decision);
        decision
    }
}

impl Object for Room {
    const KIND: KindTag = KindTag(b'r');
    const SCHEMA: u32 = 1;

    type Event = Event;
    type Signal = Signal;
    type Settings = Settings;

    fn op(name: &str) -> Option<&'static OpMeta> {
        ops::find(name).map(|op| op.meta)
    }

    fn fresh(id: &ObjectId) -> Self {
        Self { state: State::fresh(id) }
    }

    fn absent(cx: &Cx<'_>, call: &Call<'_>) -> Result<Reply, Reject> {
        ops::absent(cx, call)
    }

    fn occupied(call: &Call<'_>) -> Reject {
        ops::occupied(call)
    }

    fn may_repeat_creation(&self, call: &Call<'_>) -> bool {
        let known = |id| self.state.participant(id).is_some();
        call.attempt > 1 && call.caller.participant().is_some_and(known)
    }

    fn never_shed(op: &OpMeta) -> bool {
        ops::NEVER_SHED.iter().any(|meta| meta.name == op.name)
    }

    fn decide(&self, cx: &Cx<'_>, call: &Call<'_>) -> Decision {
        self.told(cx, ops::decide(&self.state, cx, call))
    }

    fn on_due(&self, cx: &Cx<'_>) -> Decision {
        self.told(cx, deadline::on_due(&self.state, cx))
    }

    fn on_disconnect(&self, cx: &Cx<'_>, participant: ParticipantId, connection: u64) -> Decision {
        self.told(cx, deadline::on_disconnect(&self.state, cx, participant, connection))
    }

    fn evolve(&mut self, event: &Event) {
        apply::evolve(&mut self.state, event);
    }

    fn renew(&mut self, participant: ParticipantId, end: Millis, now: Millis) {
        apply::renew(&mut self.state, participant, end, now);
    }

    fn absorb(&mut self, signal: &Signal) {
        apply::absorb(&mut self.state, signal);
    }

    fn next_due(&self) -> Option<Millis> {
        deadline::next_due(&self.state)
    }

    fn busy(&self) -> bool {
        self.state.live.busy()
    }

    fn idle_view(&self, settings: &Settings) -> IdleView {
        wait::idle_view(&self.state, settings)
    }

    fn answer_idle_poll(settings: &Settings, poll: &IdlePoll<'_>) -> Option<Reply> {
        wait::answer_idle_poll(settings, poll)
    }

    fn hold_idle_poll(
        settings: &Settings,
        poll: &IdlePoll<'_>,
        since: Millis,
    ) -> Option<(Millis, Reply)> {
        wait::hold_idle_poll(settings, poll, since)
    }

    fn encode_event(event: &Event, out: &mut Vec<u8>) {
        codec::encode_event(event, out);
    }

    fn decode_event(schema: u32, bytes: &[u8]) -> Result<Event, CodecError> {
        codec::decode_event(schema, bytes)
    }

    fn encode_snapshot(&self) -> Vec<u8> {
        codec::encode_snapshot(&self.state)
    }

    fn decode_snapshot(id: &ObjectId, schema: u32, bytes: &[u8]) -> Result<Self, CodecError> {
        Ok(Self { state: codec::decode_snapshot(id, schema, bytes)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leaving_and_staying_are_never_refused_for_overload() {
        let never = |name| Room::never_shed(Room::op(name).unwrap());
        for name in ["leave_room", "leave_human", "human_presence", "app_host_detach"] {
            assert!(never(name), "{name}");
        }
        for name in ["send_text", "join_room", "wait_for_events", "room_info", "join_human"] {
            assert!(!never(name), "{name}");
        }
    }
}
