//! `human_collab_result`: a human settles a request made to it (humans A3).

use object::OpMeta;
use serde_json::Value;

use super::collab_request::summary;
use super::collab_response::{replay, settle};
use super::{frame, internal, meta};
use crate::ops::{Ask, Op, Verdict};
use crate::reject::Code;
use crate::spec::{self, Field, text};
use crate::state::CollabKind;

pub static META: OpMeta = meta("human_collab_result");

/// The other arguments have codes of their own.
pub static INPUT: &[Field] =
    &[Field::required("requestId", text(1, 64), "The request that targeted this human.")];

pub static OP: Op = internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, replay);

fn decide(ask: &Ask<'_>) -> Verdict {
    let counted = frame(ask)?;
    let kind = match ask.args.get("status").and_then(Value::as_str) {
        Some("completed") => CollabKind::Completed,
        Some("failed") => CollabKind::Failed,
        _ => return Err(Code::InvalidCollabKind.reject().field("status")),
    };
    let summary = summary(ask)?;
    Ok(settle(ask, kind, Some(summary.into()))?.signal(counted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    fn result(id: &str, status: &str, summary: &str) -> Value {
        json!({"requestId": id, "status": status, "summary": summary})
    }

    #[test]
    fn one_result_each() {
        let mut scene = Scene::new();
        let (ana, agent) = (scene.human("Ana"), scene.agent("a"));
        let ben = scene.human("Ben");
        scene.task(agent, ana, "plan-0001");
        let rows = [
            (ana, result("plan-0001", "accepted", "x"), Err("invalid_collab_kind")),
            (ana, result("plan-0001", "completed", " "), Err("summary_required")),
            (ana, result("plan-0001", "completed", &"x".repeat(1_201)), Err("summary_too_long")),
            (ana, result("plan-0002", "completed", "x"), Err("unknown_request")),
            (ben, result("plan-0001", "completed", "x"), Err("not_request_target")),
            (ana, result("plan-0001", "completed", "x"), Ok(2)),
            (ana, result("plan-0001", "completed", "y"), Ok(2)),
            (ana, result("plan-0001", "failed", "x"), Err("request_already_settled")),
        ];
        for (who, args, expected) in rows {
            let answer = scene.call(META.name, who, args.clone());
            let answer = answer.map(|a| a["sequence"].as_u64().unwrap()).map_err(|r| r.code);
            assert_eq!(answer, expected, "{args}");
        }
        let seen = scene.call("wait_for_events", agent, json!({})).unwrap();
        let collab = &seen["events"][0]["collab"];
        assert_eq!(collab["kind"], json!("completed"));
        assert_eq!(collab["impliedAcceptance"], json!(true));
        assert_eq!(seen["events"][0]["addressed"], json!(true));
    }
}
