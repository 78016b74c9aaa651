//! `app_host_attach`: a human's browser hosts a curated app now (humans A11).

use object::{OpMeta, Reject};
use serde_json::Value;

use super::{DONE, frame, internal, reading};
use crate::live::Signal;
use crate::ops::{Ask, Op, Step, Verdict, no_replay};
use crate::reject::Code;
use crate::routing;
use crate::spec::{self, Field, text};

pub static META: OpMeta = reading("app_host_attach");

pub static INPUT: &[Field] = &[Field::required("appInstanceId", text(1, 96), "The app.")];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, no_replay);

/// The announced instance and the caller's attached connection.
pub(super) fn announced<'a>(ask: &Ask<'a>) -> Result<(&'a str, u64), Reject> {
    let (me, connection) = (ask.me()?.id, ask.call.connection);
    let mut lines = ask.state.live.connections.iter();
    if !lines.any(|line| line.connection == connection && line.participant == me) {
        return Err(Code::InvalidRequest.reject());
    }
    Ok((ask.args.get("appInstanceId").and_then(Value::as_str).unwrap_or_default(), connection))
}

/// Only catalog apps of this room, so a connection hosts at most as many as the catalog has.
fn decide(ask: &Ask<'_>) -> Verdict {
    let counted = frame(ask)?;
    let (instance, connection) = announced(ask)?;
    if routing::curated(ask.settings, ask.state.id.name(), instance).is_none() {
        return Err(Code::AppUnavailable.reject().field("appInstanceId"));
    }
    let hosts = Signal::AppHost { connection, instance: instance.into(), ready: true };
    Ok(Step::reply(&DONE)?.signal(counted).signal(hosts))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::app_instance_id;
    use crate::ops::scene::{ROOM, Scene};

    #[test]
    fn a_host_is_announced_by_an_attached_connection() {
        let mut scene = Scene::new();
        let (ana, ben, agent) = (scene.human("Ana"), scene.human("Ben"), scene.agent("a"));
        let board = json!({"appInstanceId": app_instance_id(ROOM, "whiteboard")});
        let foreign = json!({"appInstanceId": app_instance_id("red-otter", "whiteboard")});
        let line = scene.line_of(ana);
        let rows = [
            (ana, line, &foreign, Err("app_unavailable")),
            (ana, 0, &board, Err("invalid_request")),
            (ben, line, &board, Err("invalid_request")),
            (agent, line, &board, Err("human_only")),
            (ana, line, &board, Ok(json!({"ok": true}))),
            (ana, line, &board, Ok(json!({"ok": true}))),
        ];
        for (who, connection, args, expected) in rows {
            scene.connection = connection;
            let answer = scene.call(META.name, who, args.clone()).map_err(|r| r.code);
            assert_eq!(answer, expected, "{connection} {args}");
        }
        scene.connection = 0;
        let apps = |scene: &mut Scene| {
            let seen = scene.call("wait_for_events", agent, json!({})).unwrap();
            let apps = seen["roomApps"].as_array().unwrap();
            apps.iter().filter(|app| app["callable"] == json!(true)).count()
        };
        assert_eq!(apps(&mut scene), 1);
        scene.connection = line;
        scene.call("app_host_detach", ana, board).unwrap();
        scene.connection = 0;
        assert_eq!(apps(&mut scene), 0);
        assert!(scene.last().events.is_empty());
    }
}
