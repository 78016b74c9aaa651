//! `leave_human`: a human goes at once (humans A1, A3). Its connections are closed, and what waits
//! for its browser ends, as for everybody who goes.

use object::OpMeta;

use super::{DONE, internal, meta};
use crate::event::Cause;
use crate::ops::{Ask, Op, Step, Verdict, no_replay};
use crate::reject::Code;
use crate::roster;
use crate::spec::{self, Field};

pub static META: OpMeta = {
    let mut meta = meta("leave_human");
    meta.client_request_id = false;
    meta
};

pub static INPUT: &[Field] = &[];

pub static OP: Op =
    Op { gone, ..internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, no_replay) };

fn decide(ask: &Ask<'_>) -> Verdict {
    let me = ask.me()?.id;
    let departure = roster::depart(ask.state, ask.settings, ask.now, &[(me, Cause::Left)]);
    let mut step = Step::reply(&DONE)?.events(departure.events);
    step.decision.drop_blobs = departure.drop_blobs;
    step.decision.drop_leases = departure.drop_leases;
    Ok(step)
}

/// A repeat by the edge met its own first attempt: a success.
fn gone(ask: &Ask<'_>) -> Verdict {
    if ask.call.attempt > 1 { Step::reply(&DONE) } else { Err(Code::AlreadyLeft.reject()) }
}

#[cfg(test)]
mod tests {
    use object::Effect;
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn a_human_that_leaves_is_gone_with_its_connections() {
        let mut scene = Scene::new();
        let (ana, ben) = (scene.human("Ana"), scene.human("Ben"));
        scene.call(META.name, ana, json!({})).unwrap();
        assert!(scene.state().participant(ana).is_none() && !scene.state().live.attached(ana));
        let closed = Effect::Disconnect { participant: ana, close_code: 1000 };
        assert!(scene.last().effects.contains(&closed));
        assert_eq!(scene.call(META.name, ana, json!({})).unwrap_err().code, "already_left");
        scene.call(META.name, ben, json!({})).unwrap();
        assert_eq!(scene.state().expires_at, scene.now.plus(1_800_000));
    }
}
