//! `permission_respond`: a human picks one answer of an approval card (humans A8).
//!
//! Any present human may, exactly once; only the agent that asked hears of it.

use object::OpMeta;
use serde_json::Value;

use super::{answer, frame, internal, meta};
use crate::ops::{Ask, Op, Verdict};
use crate::reject::Code;
use crate::spec::{self, Field, text};
use crate::state::{Body, PermissionKind, PermissionNote};

pub static META: OpMeta = meta("permission_respond");

pub static INPUT: &[Field] = &[
    Field::required("requestId", text(1, 64), "The approval request."),
    Field::required("selectedOptionId", text(1, 64), "One of its options."),
];

pub static OP: Op =
    internal(&META, |args, blob| spec::check(INPUT, args, blob), decide, answer::replay);

fn decide(ask: &Ask<'_>) -> Verdict {
    let counted = frame(ask)?;
    let argument = |name: &str| ask.args.get(name).and_then(Value::as_str).unwrap_or_default();
    let (id, selected) = (argument("requestId"), argument("selectedOptionId"));
    let pending = ask.state.permissions.iter().find(|pending| pending.request_id.as_str() == id);
    let pending = pending.ok_or_else(|| Code::InvalidPermissionResponse.reject())?;
    let option = pending.options.iter().find(|option| option.id.as_str() == selected);
    let option =
        option.ok_or_else(|| Code::InvalidPermissionResponse.reject().field("selectedOptionId"))?;
    let me = ask.me()?;
    let note = PermissionNote {
        request_id: pending.request_id.clone(),
        agent: pending.agent,
        kind: PermissionKind::Resolved {
            option: option.id.clone(),
            human: me.id,
            human_name: me.name.clone(),
        },
    };
    // The card belongs to the Task that its request belongs to, as long as that one is kept.
    let task = ask.state.message_at(pending.sequence).and_then(|card| card.task.clone());
    let body = Body::Permission(note);
    Ok(answer::send(ask, task, vec![pending.agent], body, Some(id))?.signal(counted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn one_human_picks_one_offered_option_and_only_the_agent_hears() {
        let mut scene = Scene::new();
        let (ana, ben) = (scene.human("Ana"), scene.human("Ben"));
        let (agent, other) = (scene.agent("a"), scene.agent("b"));
        let request = json!({"requestId": "perm-0001", "toolCall": {"title": "Run"},
            "options": [{"optionId": "yes", "name": "Yes"}, {"optionId": "no", "name": "No"}]});
        scene.call("permission_request", agent, request).unwrap();
        let pick = |id: &str, option: &str| json!({"requestId": id, "selectedOptionId": option});
        let rows = [
            (ana, pick("perm-0002", "yes"), Err("invalid_permission_response")),
            (ana, pick("perm-0001", "maybe"), Err("invalid_permission_response")),
            (ana, json!({"requestId": "perm-0001"}), Err("invalid_arguments")),
            (ana, pick("perm-0001", "yes"), Ok(2)),
            (ben, pick("perm-0001", "no"), Err("invalid_permission_response")),
        ];
        for (who, args, expected) in rows {
            let answer = scene.call(META.name, who, args.clone());
            let answer = answer.map(|a| a["sequence"].as_u64().unwrap()).map_err(|r| r.code);
            assert_eq!(answer, expected, "{args}");
        }
        let seen = scene.call("wait_for_events", agent, json!({})).unwrap();
        let cards = seen["events"].as_array().unwrap();
        assert_eq!(cards.len(), 1);
        assert_eq!(cards[0]["permission"]["selectedOptionId"], json!("yes"));
        assert_eq!(cards[0]["permission"]["humanName"], json!("Ana"));
        let unseen = scene.call("wait_for_events", other, json!({})).unwrap();
        assert_eq!(unseen["events"], json!([]));
    }

    #[test]
    fn an_approval_that_ran_out_cannot_be_answered() {
        let mut scene = Scene::new();
        let (ana, agent) = (scene.human("Ana"), scene.agent("a"));
        let request = json!({"requestId": "perm-0001", "toolCall": {"title": "Run"},
            "expiresInMs": 1_000, "options": [{"optionId": "yes", "name": "Yes"}]});
        scene.call("permission_request", agent, request).unwrap();
        scene.pass(1_000);
        let args = json!({"requestId": "perm-0001", "selectedOptionId": "yes"});
        let reject = scene.call(META.name, ana, args).unwrap_err();
        assert_eq!(reject.code, "invalid_permission_response");
        let seen = scene.call("wait_for_events", agent, json!({})).unwrap();
        assert_eq!(seen["events"][0]["permission"]["kind"], json!("expired"));
    }
}
