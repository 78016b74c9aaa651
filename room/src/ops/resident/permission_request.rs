//! `permission_request`: an agent asks the humans to approve one action (humans A8).
//!
//! The card is private: humans see it and pick one option; of the agents only the one that asked
//! hears how it ended. It expires by itself, or when its agent goes.

use object::{OpMeta, Reject};
use serde_json::{Map, Value};

use super::meta;
use crate::limits::PERMISSIONS_MAX;
use crate::ops::agent::task_scope;
use crate::ops::human::{answer, internal};
use crate::ops::{Ask, Op, Verdict};
use crate::reject::Code;
use crate::state::{Body, PermissionKind, PermissionNote, PermissionOption, ToolCall};
use crate::text::{Text, utf16_len};

pub static META: OpMeta = meta("permission_request");

/// Bounds of a card, in UTF-16 units and entries.
const TITLE_UTF16_MAX: usize = 200;
const WORD_UTF16_MAX: usize = 64;
const SUMMARY_UTF16_MAX: usize = 1_000;
const DETAILS_MAX: usize = 12;
const DETAIL_VALUE_UTF16_MAX: usize = 512;
const OPTIONS_MAX: usize = 8;
const OPTION_NAME_UTF16_MAX: usize = 160;
/// How long an approval may wait, in milliseconds.
const WAIT_MS_MIN: u64 = 1_000;
const WAIT_MS_MAX: u64 = 300_000;
const WAIT_MS_DEFAULT: u64 = 120_000;

pub static OP: Op = internal(&META, check, decide, answer::replay);

/// A card as asked for.
struct Card {
    request_id: Text,
    tool: ToolCall,
    options: Vec<PermissionOption>,
    wait_ms: u64,
}

fn check(args: &Value, _: Option<&[u8]>) -> Result<(), Reject> {
    parse(args).map(|_| ())
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let card = parse(ask.args)?;
    let me = ask.me()?;
    let task = ask.args.get("taskRequestId").and_then(Value::as_str);
    let task = task
        .map(|id| task_scope::resolve(ask.state, me, id, Code::TaskTargetMismatch))
        .transpose()?;
    let pending = &ask.state.permissions;
    if pending.iter().any(|pending| pending.request_id == card.request_id) {
        return Err(Code::PermissionRequestExists.reject().field("requestId"));
    }
    if pending.len() >= PERMISSIONS_MAX {
        return Err(Code::PermissionCapacity.reject().limit(PERMISSIONS_MAX as u64));
    }
    let id = card.request_id.clone();
    let expires_at = ask.now.plus(card.wait_ms);
    let kind = PermissionKind::Requested { tool: card.tool, options: card.options, expires_at };
    let note = PermissionNote { request_id: card.request_id, agent: me.id, kind };
    answer::send(ask, task, Vec::new(), Body::Permission(note), Some(&id))
}

fn parse(args: &Value) -> Result<Card, Reject> {
    let bad = |field: &'static str| Code::InvalidPermissionRequest.reject().field(field);
    let id = args.get("requestId").and_then(Value::as_str).unwrap_or_default();
    if !task_scope::well_formed(id) {
        return Err(bad("requestId"));
    }
    let tool = args.get("toolCall").and_then(Value::as_object).and_then(tool_call);
    let options = args.get("options").and_then(Value::as_array);
    let options = options.filter(|list| (1..=OPTIONS_MAX).contains(&list.len()));
    let options: Option<Vec<PermissionOption>> =
        options.and_then(|list| list.iter().map(option).collect());
    let options = options.filter(|list| {
        list.iter().enumerate().all(|(n, one)| list.iter().skip(n + 1).all(|o| o.id != one.id))
    });
    let wait_ms = match args.get("expiresInMs") {
        None | Some(Value::Null) => Some(WAIT_MS_DEFAULT),
        Some(ms) => ms.as_u64().filter(|ms| (WAIT_MS_MIN..=WAIT_MS_MAX).contains(ms)),
    };
    Ok(Card {
        request_id: id.into(),
        tool: tool.ok_or_else(|| bad("toolCall"))?,
        options: options.ok_or_else(|| bad("options"))?,
        wait_ms: wait_ms.ok_or_else(|| bad("expiresInMs"))?,
    })
}

fn tool_call(tool: &Map<String, Value>) -> Option<ToolCall> {
    let details = match tool.get("details") {
        None => Vec::new(),
        Some(Value::Object(details)) if details.len() <= DETAILS_MAX => {
            details.iter().map(detail).collect::<Option<Vec<_>>>()?
        }
        Some(_) => return None,
    };
    Some(ToolCall {
        title: required(tool, "title", TITLE_UTF16_MAX)?,
        kind: optional(tool, "kind", WORD_UTF16_MAX)?,
        summary: optional(tool, "summary", SUMMARY_UTF16_MAX)?,
        details,
    })
}

fn detail((key, value): (&String, &Value)) -> Option<(Text, Text)> {
    let value = value.as_str()?;
    let fits = (1..=WORD_UTF16_MAX).contains(&utf16_len(key))
        && utf16_len(value) <= DETAIL_VALUE_UTF16_MAX;
    fits.then(|| (key.as_str().into(), value.into()))
}

fn option(option: &Value) -> Option<PermissionOption> {
    let option = option.as_object()?;
    Some(PermissionOption {
        id: required(option, "optionId", WORD_UTF16_MAX)?,
        name: required(option, "name", OPTION_NAME_UTF16_MAX)?,
        kind: optional(option, "kind", WORD_UTF16_MAX)?,
    })
}

fn required(map: &Map<String, Value>, name: &str, utf16_max: usize) -> Option<Text> {
    let text = map.get(name)?.as_str()?;
    (1..=utf16_max).contains(&utf16_len(text)).then(|| text.into())
}

/// `None` for a fault; an absent text is `Some(None)`.
#[expect(clippy::option_option, reason = "absent and wrong are different answers")]
fn optional(map: &Map<String, Value>, name: &str, utf16_max: usize) -> Option<Option<Text>> {
    match map.get(name) {
        None | Some(Value::Null) => Some(None),
        Some(Value::String(text)) if utf16_len(text) <= utf16_max => {
            Some(Some(text.as_str().into()))
        }
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    fn card(id: &str) -> Value {
        json!({"requestId": id, "toolCall": {"title": "Run", "details": {"cwd": "/"}},
            "options": [{"optionId": "yes", "name": "Yes"}]})
    }

    fn with(key: &str, value: Value) -> Value {
        let mut args = card("perm-0001");
        args[key] = value;
        args
    }

    #[test]
    fn every_refusal_of_the_section() {
        let mut scene = Scene::new();
        let (ana, agent, other) = (scene.human("Ana"), scene.agent("a"), scene.agent("b"));
        scene.task(ana, agent, "plan-0001");
        scene.call(META.name, agent, card("perm-taken")).unwrap();
        let option = |id: &str| json!({"optionId": id, "name": "x"});
        let options = |n: usize| (0..n).map(|n| option(&n.to_string())).collect::<Value>();
        let details: Map<String, Value> = (0..13).map(|n| (n.to_string(), json!("x"))).collect();
        let shape = "invalid_permission_request";
        let rows = [
            (agent, with("requestId", json!("abc")), shape),
            (agent, with("toolCall", json!("x")), shape),
            (agent, with("toolCall", json!({})), shape),
            (agent, with("toolCall", json!({"title": "x".repeat(201)})), shape),
            (agent, with("toolCall", json!({"title": "x", "kind": "k".repeat(65)})), shape),
            (agent, with("toolCall", json!({"title": "x", "summary": "s".repeat(1_001)})), shape),
            (agent, with("toolCall", json!({"title": "x", "details": details})), shape),
            (
                agent,
                with("toolCall", json!({"title": "x", "details": {"k": "v".repeat(513)}})),
                shape,
            ),
            (agent, with("options", json!([])), shape),
            (agent, with("options", options(9)), shape),
            (agent, with("options", json!([option("a"), option("a")])), shape),
            (agent, with("options", json!([{"optionId": "a"}])), shape),
            (agent, with("expiresInMs", json!(999)), shape),
            (agent, with("expiresInMs", json!(300_001)), shape),
            (agent, with("requestId", json!("perm-taken")), "permission_request_exists"),
            (agent, with("taskRequestId", json!("?")), "invalid_task_request"),
            (agent, with("taskRequestId", json!("plan-0002")), "unknown_task_request"),
            (other, with("taskRequestId", json!("plan-0001")), "task_target_mismatch"),
            (ana, card("perm-0001"), "agent_only"),
        ];
        for (who, args, code) in rows {
            assert_eq!(scene.call(META.name, who, args.clone()).unwrap_err().code, code, "{args}");
        }
        for n in 1..32 {
            scene.call(META.name, agent, card(&format!("perm-{n:04}"))).unwrap();
        }
        let reject = scene.call(META.name, agent, card("perm-0032")).unwrap_err();
        assert_eq!((reject.code, reject.limit), ("permission_capacity", Some(32)));
    }

    #[test]
    fn a_card_is_private_and_expires_on_time() {
        let mut scene = Scene::new();
        let (ana, agent, other) = (scene.human("Ana"), scene.agent("a"), scene.agent("b"));
        let sent = scene
            .call(
                META.name,
                agent,
                with(
                    "options",
                    json!([{"optionId": "yes",
            "name": "Yes", "kind": "allow"}]),
                ),
            )
            .unwrap();
        assert_eq!(sent["requestId"], json!("perm-0001"));
        let seen = scene.call("wait_for_events", other, json!({})).unwrap();
        assert_eq!(seen["events"], json!([]));
        let state = scene.call("human_read_state", ana, json!({})).unwrap();
        let shown = &state["state"]["messages"][0]["permission"];
        assert_eq!(shown["options"][0]["kind"], json!("allow"));
        assert_eq!(shown["expiresAt"], json!(scene.now.0 + 120_000));
        scene.call("wait_for_events", agent, json!({})).unwrap();
        scene.pass(60_000);
        for who in [agent, other] {
            scene.call("resident_heartbeat", who, json!({})).unwrap();
        }
        scene.pass(59_999);
        assert_eq!(scene.state().permissions.len(), 1);
        scene.pass(1);
        assert!(scene.state().permissions.is_empty());
        let heard = scene.call("wait_for_events", agent, json!({})).unwrap();
        assert_eq!(heard["events"][0]["permission"]["kind"], json!("expired"));
    }
}
