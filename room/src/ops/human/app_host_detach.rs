//! `app_host_detach`: a human's browser closed a curated app; what waits for it ends with
//! `host_unavailable` (humans A11).

use object::OpMeta;

use super::app_host_attach::announced;
use super::{DONE, frame, internal, reading};
use crate::ops::{Ask, Op, Step, Verdict, no_replay};
use crate::routing;
use crate::spec::{self, Field, text};

pub static META: OpMeta = reading("app_host_detach");

pub static INPUT: &[Field] = &[Field::required("appInstanceId", text(1, 96), "The app.")];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, no_replay);

fn decide(ask: &Ask<'_>) -> Verdict {
    let counted = frame(ask)?;
    let (instance, connection) = announced(ask)?;
    let mut step = Step::reply(&DONE)?.signal(counted);
    step.decision.signals.extend(routing::closed(&ask.state.live, connection, instance));
    Ok(step)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn only_the_hosting_connection_takes_itself_back() {
        let mut scene = Scene::new();
        let ana = scene.human("Ana");
        let args = json!({"appInstanceId": "whiteboard:00000000"});
        let reject = scene.call(META.name, ana, args.clone()).unwrap_err();
        assert_eq!(reject.code, "invalid_request");
        scene.connection = scene.line_of(ana);
        scene.call(META.name, ana, args).unwrap();
        assert!(scene.state().live.connections[0].hosts.is_empty());
    }
}
