//! Holds every answer that a test sees against the output schema that clients were given.
//!
//! Stricter than a client's validator: a member that the schema does not name is a fault too, and
//! so is a keyword that this code does not know.

use std::collections::BTreeMap;

use object::Minted;
use serde_json::{Value, json};

/// The tools' output schemas, made on first use.
#[derive(Default)]
pub(crate) struct Outputs {
    /// Bounded by the tools.
    schemas: BTreeMap<&'static str, (Minted, Value)>,
}

impl Outputs {
    /// Checks an answer of an op as the node gives it; ops that are no tools have no schema.
    #[track_caller]
    pub(crate) fn check(&mut self, op: &str, body: &Value) {
        if self.schemas.is_empty() {
            let tools = super::super::tools();
            self.schemas = tools
                .into_iter()
                .map(|tool| (tool.meta.name, (tool.meta.minted, tool.output_schema)))
                .collect();
        }
        let Some((minted, schema)) = self.schemas.get(op) else { return };
        let mut body = body.clone();
        if *minted != Minted::Nothing {
            body["participantHandle"] = json!("sealed");
        }
        if *minted == Minted::HandleAndInvite {
            body["invite"] = json!({"kind": "free4chat.room-invite", "version": 1,
                "roomId": "r", "roomUrl": "http://127.0.0.1/room?id=r"});
        }
        let mut faults = Vec::new();
        find(schema, &body, op, &mut faults);
        assert!(faults.is_empty(), "{faults:?} in {body}");
    }
}

fn find(schema: &Value, value: &Value, at: &str, faults: &mut Vec<String>) {
    let schema = match schema {
        Value::Bool(true) => return,
        Value::Object(schema) => schema,
        Value::Null
        | Value::Bool(false)
        | Value::Number(_)
        | Value::String(_)
        | Value::Array(_) => {
            return faults.push(format!("{at}: nothing is allowed"));
        }
    };
    for (keyword, rule) in schema {
        match keyword.as_str() {
            "$schema" | "title" | "description" | "default" | "examples" => {}
            "type" => {
                let named = |name: &Value| name.as_str().is_some_and(|name| is(name, value));
                if !named(rule) && !rule.as_array().is_some_and(|any| any.iter().any(named)) {
                    faults.push(format!("{at}: not of type {rule}"));
                }
            }
            "enum" if rule.as_array().is_some_and(|all| all.contains(value)) => {}
            "const" if rule == value => {}
            "minimum" if value.is_null() || value.as_f64() >= rule.as_f64() => {}
            "format" => {
                let uuid = value.as_str().is_some_and(|t| object::BlobId::parse(t).is_some());
                if rule == "uuid" && !uuid {
                    faults.push(format!("{at}: no uuid"));
                }
            }
            "required" => {
                let missing = rule.as_array().unwrap().iter().filter_map(Value::as_str);
                let missing = missing.filter(|name| value.get(name).is_none());
                faults.extend(missing.map(|name| format!("{at}.{name}: missing")));
            }
            "anyOf" | "oneOf" => {
                let fits = |one: &Value| {
                    let mut inner = Vec::new();
                    find(one, value, at, &mut inner);
                    inner.is_empty()
                };
                if !rule.as_array().unwrap().iter().any(fits) {
                    faults.push(format!("{at}: none of {keyword}"));
                }
            }
            "items" => {
                for (n, item) in value.as_array().into_iter().flatten().enumerate() {
                    find(rule, item, &format!("{at}[{n}]"), faults);
                }
            }
            "properties" | "additionalProperties" => {}
            _ => faults.push(format!("{at}: breaks {keyword} {rule}")),
        }
    }
    let fields = schema.get("properties");
    let others = schema.get("additionalProperties");
    for (name, member) in value.as_object().into_iter().flatten() {
        let here = format!("{at}.{name}");
        match (fields.and_then(|fields| fields.get(name)), others) {
            (Some(rule), _) | (None, Some(rule)) => find(rule, member, &here, faults),
            (None, None) if fields.is_some() => faults.push(format!("{here}: not declared")),
            (None, None) => {}
        }
    }
}

fn is(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "number" => value.is_number(),
        "integer" => value.is_u64() || value.is_i64(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_answer_is_found() {
        let schema = json!({"type": "object", "required": ["n"], "properties": {
            "n": {"type": "integer", "minimum": 0},
            "id": {"type": "string", "format": "uuid"},
            "list": {"type": "array", "items": {"enum": ["a"]}},
            "any": {"anyOf": [{"type": "null"}, {"type": "boolean"}]},
        }});
        for (value, faults) in [
            (json!({"n": 1, "list": ["a"], "any": null}), 0),
            (json!({}), 1),
            (json!([]), 2),
            (json!({"n": -1}), 1),
            (json!({"n": 1.5}), 1),
            (json!({"n": 1, "id": "x"}), 1),
            (json!({"n": 1, "list": ["b", "c"]}), 2),
            (json!({"n": 1, "any": 3}), 1),
            (json!({"n": 1, "more": 1}), 1),
        ] {
            let mut found = Vec::new();
            find(&schema, &value, "", &mut found);
            assert_eq!(found.len(), faults, "{value}: {found:?}");
        }
    }
}
