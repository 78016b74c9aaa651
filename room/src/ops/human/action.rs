//! `human_action`: a human's room action, for example a reaction (humans A3).

use object::{OpMeta, Reject};
use serde_json::Value;

use super::{answer, frame, internal, meta};
use crate::ops::{Ask, Op, Verdict};
use crate::reject::Code;
use crate::spec::{self, Field, Kind, Text as Rule, text};
use crate::state::Body;
use crate::text::Text;

pub static META: OpMeta = meta("human_action");

/// Longest name of an action, in UTF-16 units.
const NAME_UTF16_MAX: usize = 64;
/// Most entries of a payload, and the longest key and value, in UTF-16 units.
const PAYLOAD_ENTRIES_MAX: usize = 16;
const KEY_UTF16_MAX: usize = 64;
const VALUE_UTF16_MAX: usize = 512;

pub static INPUT: &[Field] = &[
    Field::required("actionType", text(1, NAME_UTF16_MAX), "The action's name."),
    Field::optional(
        "actionPayload",
        Kind::Map {
            entries_max: PAYLOAD_ENTRIES_MAX,
            key: Rule { trim: false, min: 1, max: KEY_UTF16_MAX, pattern: None },
            value: Rule { trim: false, min: 0, max: VALUE_UTF16_MAX, pattern: None },
        },
        "What belongs to it.",
    ),
];

pub static OP: Op = internal(&META, check, decide, answer::replay);

/// `collab` and `permission` are made by their own ops only: nobody can fake a card.
fn check(args: &Value, blob: Option<&[u8]>) -> Result<(), Reject> {
    spec::check(INPUT, args, blob)?;
    match args.get("actionType").and_then(Value::as_str) {
        Some("permission") => Err(Code::PermissionRequiresStructuredResponse.reject()),
        Some("collab") => Err(Code::InvalidMessage.reject().field("actionType")),
        _ => Ok(()),
    }
}

fn decide(ask: &Ask<'_>) -> Verdict {
    let counted = frame(ask)?;
    let name = ask.args.get("actionType").and_then(Value::as_str).unwrap_or_default();
    let payload = ask.args.get("actionPayload").and_then(Value::as_object);
    let pair = |(key, value): (&String, &Value)| {
        (Text::from(key.as_str()), Text::from(value.as_str().unwrap_or_default()))
    };
    let payload = payload.into_iter().flatten().map(pair).collect();
    let body = Body::Action { name: name.into(), payload };
    Ok(answer::send(ask, None, Vec::new(), body, None)?.signal(counted))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::ops::scene::Scene;

    #[test]
    fn an_action_is_one_unaddressed_event_and_no_card() {
        let mut scene = Scene::new();
        let ana = scene.human("Ana");
        let agent = scene.agent("a");
        let args = json!({"actionType": "wave", "actionPayload": {"hand": "left"}});
        scene.call(META.name, ana, args).unwrap();
        let seen = scene.call("wait_for_events", agent, json!({})).unwrap();
        let event = &seen["events"][0];
        assert_eq!(event["type"], json!("action"));
        assert_eq!(event["actionType"], json!("wave"));
        assert_eq!(event["actionPayload"], json!({"hand": "left"}));
        assert_eq!(event["addressed"], json!(false));
        let rows = [
            (json!({"actionType": "permission"}), "permission_requires_structured_response"),
            (json!({"actionType": "collab"}), "invalid_message"),
            (json!({"actionType": ""}), "invalid_arguments"),
            (json!({"actionType": "x", "actionPayload": {"a": 1}}), "invalid_arguments"),
        ];
        for (args, code) in rows {
            assert_eq!(scene.call(META.name, ana, args.clone()).unwrap_err().code, code, "{args}");
        }
    }
}
