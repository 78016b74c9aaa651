//! `attach_human`: a human's control connection opens, the first time or again (humans A1).
//!
//! The answer is the full state, in which the human is connected. A human that comes back within 30 seconds keeps its id.

use object::OpMeta;

use super::{DONE, internal, line, meta, read_state};
use crate::ops::{Ask, Op, Step, Verdict, no_replay};
use crate::reject::Code;
use crate::spec::{self, Field};

pub static META: OpMeta = {
    let mut meta = meta("attach_human");
    // Whoever attaches again just attaches again.
    meta.client_request_id = false;
    meta
};

pub static INPUT: &[Field] = &[];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, no_replay);

fn decide(ask: &Ask<'_>) -> Verdict {
    if ask.call.connection == 0 {
        return Err(Code::InvalidRequest.reject());
    }
    let step = line::attach(ask, ask.me()?.id, Step::reply(&DONE)?)?;
    let after = step.after(ask.state);
    step.replying(&read_state::answer(&after, ask.settings))
}

#[cfg(test)]
mod tests {
    use object::ParticipantId;
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    fn attach(scene: &mut Scene, who: ParticipantId, connection: u64) -> Result<(), &'static str> {
        scene.connection = connection;
        let answer = scene.call(META.name, who, json!({}));
        scene.connection = 0;
        let answer = answer.map_err(|reject| reject.code)?;
        let people = answer["state"]["participants"].as_array().unwrap();
        assert!(people.iter().any(|p| p["id"] == json!(who.to_string())), "shows itself: {answer}");
        Ok(())
    }

    #[test]
    fn a_lost_human_comes_back_within_its_grace() {
        let mut scene = Scene::new();
        scene.agent("a");
        let human = scene.human("Ana");
        let line = scene.line_of(human);
        scene.disconnect(human, line);
        assert!(!scene.state().participant(human).unwrap().connected);
        scene.pass(29_999);
        assert_eq!(attach(&mut scene, human, 900), Ok(()));
        assert!(scene.state().participant(human).unwrap().connected);
        scene.pass(60_000);
        assert!(scene.state().participant(human).is_some());

        scene.disconnect(human, 900);
        scene.pass(30_000);
        assert!(scene.state().participant(human).is_none());
        assert_eq!(attach(&mut scene, human, 901), Err("invalid_participant_handle"));
    }

    #[test]
    fn a_lost_activation_gives_everybody_the_grace_again() {
        let mut scene = Scene::new();
        let (ana, ben) = (scene.human("Ana"), scene.human("Ben"));
        scene.pass(10_000_000);
        scene.crash();
        assert_eq!(attach(&mut scene, ana, 900), Ok(()));
        scene.pass(29_999);
        assert!(scene.state().participant(ben).is_some_and(|p| !p.connected));
        scene.pass(1);
        assert!(scene.state().participant(ben).is_none());
        assert!(scene.state().participant(ana).is_some_and(|p| p.connected));
    }

    #[test]
    fn a_room_of_people_only_is_due_within_the_hour_after_a_crash() {
        let mut scene = Scene::new();
        let ana = scene.human("Ana");
        for _ in 0..3 {
            let due = scene.next_due().unwrap();
            assert!(due.since(scene.now) <= 3_600_000);
            scene.pass(due.since(scene.now));
            assert!(scene.state().participant(ana).is_some_and(|p| p.connected));
        }
    }

    #[test]
    fn a_human_stays_connected_while_one_connection_is_left() {
        let mut scene = Scene::new();
        let human = scene.human("Ana");
        let first = scene.line_of(human);
        assert_eq!(attach(&mut scene, human, 900), Ok(()));
        scene.disconnect(human, first);
        assert!(scene.state().participant(human).unwrap().connected);
        scene.disconnect(human, 900);
        assert!(!scene.state().participant(human).unwrap().connected);
    }

    #[test]
    fn connections_are_bounded_per_human_and_room() {
        let mut scene = Scene::new();
        let human = scene.human("Ana");
        let first = scene.line_of(human);
        for connection in 901..=904 {
            assert_eq!(attach(&mut scene, human, connection), Ok(()));
        }
        // The fifth replaced the oldest, which is told so.
        let lines: Vec<u64> = scene.state().live.connections.iter().map(|c| c.connection).collect();
        assert_eq!(lines, [901, 902, 903, 904]);
        assert!(scene.frames.contains(&(first, json!({"type": "replaced"}))));
        assert_eq!(attach(&mut scene, human, 904), Ok(()), "attaching twice is once");
        assert_eq!(scene.state().live.connections.len(), 4);

        for n in 1..=15 {
            let other = scene.human("h");
            for connection in 1..=3 {
                assert_eq!(attach(&mut scene, other, 1_000_000 + n * 10 + connection), Ok(()));
            }
        }
        assert_eq!(scene.state().live.connections.len(), 64);
        let last = scene.human_without_line("late");
        assert_eq!(attach(&mut scene, last, 5), Err("room_connection_limit"));
        assert_eq!(attach(&mut scene, human, 0), Err("invalid_request"));
    }
}
