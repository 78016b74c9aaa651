//! `join_human`: a human becomes a participant (humans A1).
//!
//! Joining an unknown id creates the room. A call that came by a connection attaches it at once;
//! without one the human is not connected, and is removed after 30 seconds.

use object::{Activation, Address, Audience, Guard, Minted, OpMeta};
use serde::{Deserialize, Serialize};

use super::{internal, line};
use crate::event::Event;
use crate::limits::{NAME_UTF16_MAX, PARTICIPANTS_MAX, ROOM_ID_UTF16_MAX};
use crate::ops::{Ask, Op, Step, Verdict, no_replay};
use crate::reject::Code;
use crate::spec::{self, Field};
use crate::text::Text;
use crate::view::Uuid;

pub static META: OpMeta = OpMeta {
    name: "join_human",
    address: Address::Argument("roomId"),
    activation: Activation::MayCreate,
    audience: Audience::Human,
    read_only: false,
    minted: Minted::Handle,
    guard: Guard::Join,
    wait: false,
    park_ms: 0,
    client_request_id: false,
    blob: None,
};

pub static INPUT: &[Field] = &[
    Field::required("roomId", spec::trimmed(1, ROOM_ID_UTF16_MAX), "The room's id."),
    Field::required("name", spec::trimmed(1, NAME_UTF16_MAX), "The name others see."),
];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, no_replay);

#[derive(Deserialize)]
struct Input {
    name: Text,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Output {
    participant_id: Uuid,
    /// The last assigned sequence.
    cursor: u64,
    expires_at: u64,
    room_apps_enabled: bool,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let input: Input = ask.input(INPUT)?;
    let id = ask.call.caller.participant().ok_or_else(|| Code::InvalidRequest.reject())?;
    let step = Step::reply(&Output {
        participant_id: id.into(),
        cursor: ask.state.sequence,
        expires_at: object::Millis::FAR_FUTURE.0,
        room_apps_enabled: ask.settings.room_apps_enabled,
    })?;
    if let Some(known) = ask.state.participant(id) {
        // The edge's own repeat: the same minted id, the same answer.
        return if !known.is_agent() && ask.call.attempt > 1 {
            Ok(step)
        } else {
            Err(Code::ParticipantExists.reject())
        };
    }
    if ask.state.participants.len() >= PARTICIPANTS_MAX {
        return Err(Code::RoomFull.reject().limit(PARTICIPANTS_MAX as u64));
    }
    let step = step.event(Event::HumanJoined { participant: id, name: input.name, at: ask.now });
    if ask.call.connection == 0 { Ok(step) } else { line::attach(ask, id, step) }
}

#[cfg(test)]
mod tests {
    use object::{Caller, ParticipantId};
    use serde_json::json;

    use super::*;
    use crate::ops::scene::{ROOM, Scene};

    #[test]
    fn a_human_joins_is_connected_and_counts() {
        let mut scene = Scene::new();
        let human = scene.human("Ana");
        let state = scene.state();
        let known = state.participant(human).unwrap();
        assert!(known.connected && !known.is_agent() && state.live.attached(human));
        assert_eq!(state.sequence, 0, "no event of the timeline");
        for n in 1..32 {
            scene.human(&format!("h{n}"));
        }
        let args = json!({"roomId": ROOM, "name": "late"});
        let late = Caller::Joining(ParticipantId(1));
        let reject = scene.ask_as(late, META.name, args.clone()).unwrap_err();
        assert_eq!((reject.code, reject.limit), ("room_full", Some(32)));
        let twice = Caller::Joining(human);
        assert_eq!(scene.ask_as(twice, META.name, args).unwrap_err().code, "participant_exists");
        let long = json!({"roomId": ROOM, "name": "x".repeat(33)});
        assert_eq!(scene.ask_as(late, META.name, long).unwrap_err().code, "invalid_arguments");
    }

    #[test]
    fn a_human_without_a_connection_is_removed_after_its_grace() {
        let mut scene = Scene::new();
        let args = json!({"roomId": ROOM, "name": "Ana"});
        let id = ParticipantId(7);
        scene.ask_as(Caller::Joining(id), META.name, args).unwrap();
        assert!(!scene.state().participant(id).unwrap().connected);
        scene.pass(29_999);
        assert!(scene.state().participant(id).is_some());
        scene.pass(1);
        assert!(scene.state().participant(id).is_none());
    }
}
