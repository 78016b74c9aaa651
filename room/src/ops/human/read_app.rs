//! `human_read_app`: a human's browser loads a Generated App: publication, state and bundle
//! (humans A10). The bundle's text is attached.

use object::{Attached, OpMeta};
use serde::Serialize;
use serde_json::Value;

use super::{internal, reading};
use crate::app::{self, PublicationView};
use crate::live_view::RawJson;
use crate::ops::{Ask, Op, Step, Verdict, no_replay};
use crate::reject::Code;
use crate::spec::{self, Field, text};

pub static META: OpMeta = reading("human_read_app");

pub static INPUT: &[Field] = &[Field::required("appInstanceId", text(1, 96), "The app.")];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, no_replay);

#[derive(Serialize)]
struct Output<'a> {
    publication: PublicationView<'a>,
    state: RawJson<'a>,
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let instance = ask.args.get("appInstanceId").and_then(Value::as_str).unwrap_or_default();
    let missing = || Code::GeneratedAppNotFound.reject().field("appInstanceId");
    let app = app::find(&ask.state.apps, instance).ok_or_else(missing)?;
    let task = ask.state.task_at(app.task).ok_or_else(missing)?;
    let output = Output {
        publication: PublicationView::of(app, &task.request_id),
        state: RawJson(&app.state),
    };
    Ok(Step::reply(&output)?.attach(Attached::Text { blob: app.bundle }))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn a_browser_loads_what_is_published() {
        let mut scene = Scene::new();
        let (ana, agent) = (scene.human("Ana"), scene.agent("a"));
        let publication = scene.app(ana, agent, "plan-0001");
        let args = json!({"appInstanceId": publication["appInstanceId"]});
        let read = scene.call(META.name, ana, args).unwrap();
        assert_eq!(read, json!({"publication": publication, "state": {"n": 0}}));
        let bundle = scene.state().apps[0].bundle;
        assert_eq!(scene.attached(), Some(Attached::Text { blob: bundle }));
        let args = json!({"appInstanceId": "generated:none"});
        let reject = scene.call(META.name, ana, args).unwrap_err();
        assert_eq!(reject.code, "generated_app_not_found");
    }
}
