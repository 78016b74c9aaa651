//! `human_presence`: a human without a connection says that it is still there.
//!
//! It starts the 30 seconds of grace anew; with a connection there is nothing to do.

use object::OpMeta;

use super::{DONE, internal, meta};
use crate::event::Event;
use crate::ops::{Ask, Op, Step, Verdict, no_replay};
use crate::spec::{self, Field};

pub static META: OpMeta = meta("human_presence");

pub static INPUT: &[Field] = &[];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, no_replay);

fn decide(ask: &Ask<'_>) -> Verdict {
    let me = ask.me()?;
    let step = Step::reply(&DONE)?;
    if ask.state.live.attached(me.id) {
        return Ok(step);
    }
    Ok(step.event(Event::Disconnected { participant: me.id, at: ask.now }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn presence_starts_the_grace_anew() {
        let mut scene = Scene::new();
        let human = scene.human_without_line("Ana");
        scene.pass(29_000);
        scene.call(META.name, human, json!({})).unwrap();
        scene.pass(29_000);
        assert!(scene.state().participant(human).is_some());
        scene.pass(1_000);
        assert!(scene.state().participant(human).is_none());

        let attached = scene.human("Ben");
        scene.call(META.name, attached, json!({})).unwrap();
        assert!(scene.last().events.is_empty());
        let agent = scene.agent("a");
        assert_eq!(scene.call(META.name, agent, json!({})).unwrap_err().code, "human_only");
    }
}
