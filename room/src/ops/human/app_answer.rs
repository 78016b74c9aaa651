//! `app_answer`: a human's browser answers an agent's request to a curated app (rooms 16.2).
//!
//! Late and unknown answers, and those of another connection than the request went to, are
//! ignored: the browser is told nothing it could act on.

use object::{OpMeta, RequestId};
use serde_json::Value;

use super::{DONE, frame, internal, reading};
use crate::ops::{Ask, Op, Step, Verdict, no_replay};
use crate::routing::{self, Answered};
use crate::spec::{self, Field, text};

pub static META: OpMeta = reading("app_answer");

/// What the answer itself holds is judged by the request it belongs to.
pub static INPUT: &[Field] = &[
    Field::required("requestId", text(1, 64), "The request."),
    Field::required("appInstanceId", text(1, 96), "The app."),
];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, no_replay);

fn decide(ask: &Ask<'_>) -> Verdict {
    let step = Step::reply(&DONE)?.signal(frame(ask)?);
    let argument = |name: &str| ask.args.get(name).and_then(Value::as_str);
    let Some(request) = argument("requestId").and_then(RequestId::parse) else { return Ok(step) };
    let answered = Answered {
        connection: ask.call.connection,
        request,
        instance: argument("appInstanceId").unwrap_or_default(),
        ok: ask.args.get("ok").and_then(Value::as_bool),
        result: ask.args.get("result"),
        error: argument("error"),
    };
    Ok(match routing::answer(&ask.state.live, &answered, ask.now) {
        Some(signal) => step.signal(signal),
        None => step,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn an_answer_to_nothing_changes_nothing() {
        let mut scene = Scene::new();
        let ana = scene.human("Ana");
        for id in ["nonsense", "00000000-0000-0000-0000-000000000001"] {
            let args = json!({"requestId": id, "appInstanceId": "x", "ok": true, "result": 1});
            assert_eq!(scene.call(META.name, ana, args).unwrap(), json!({"ok": true}));
            assert_eq!(scene.last().signals.len(), 1, "only the frame is counted");
        }
        let reject = scene.call(META.name, ana, json!({"ok": true})).unwrap_err();
        assert_eq!(reject.code, "invalid_arguments");
    }
}
