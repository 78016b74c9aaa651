//! The JSON Schema (2020-12) that a table declares.
//!
//! `maxLength` counts code points, the contract UTF-16 units. A text of at most N units has at
//! most N code points, so `maxLength: N` never forbids what the check allows; `minLength: N` might,
//! so only the empty string is excluded that way.

use serde_json::{Map, Value, json};

use super::{Field, Kind, Text};
use crate::limits::BASE64_CHARS_MAX;

/// The input schema of an op.
#[must_use]
pub fn input_schema(title: &str, fields: &[Field]) -> Value {
    let mut root = object(fields);
    root.insert("$schema".into(), json!("https://json-schema.org/draft/2020-12/schema"));
    root.insert("title".into(), json!(title));
    Value::Object(root)
}

fn object(fields: &[Field]) -> Map<String, Value> {
    let mut properties = Map::new();
    let mut required = Vec::new();
    for field in fields {
        let mut schema = kind(&field.kind);
        let doc = match note(&field.kind) {
            Some(note) => format!("{} {note}", field.doc),
            None => field.doc.to_owned(),
        };
        schema.insert("description".into(), Value::from(doc));
        properties.insert(field.name.to_owned(), Value::Object(schema));
        if field.required {
            required.push(Value::from(field.name));
        }
    }
    let mut out = Map::new();
    out.insert("type".into(), json!("object"));
    out.insert("properties".into(), Value::Object(properties));
    if !required.is_empty() {
        out.insert("required".into(), Value::Array(required));
    }
    out
}

fn kind(kind: &Kind) -> Map<String, Value> {
    let value = match kind {
        Kind::Text(rule) => text(rule),
        Kind::Int { min, max, default } => {
            let mut schema = json!({"type": "integer", "minimum": min, "maximum": max});
            if let (Some(default), Some(map)) = (default, schema.as_object_mut()) {
                map.insert("default".into(), Value::from(*default));
            }
            schema
        }
        Kind::Bool => json!({"type": "boolean"}),
        Kind::Word(words) => json!({"type": "string", "enum": words}),
        Kind::List { item, items_max } => {
            json!({"type": "array", "items": self::kind(item), "maxItems": items_max})
        }
        Kind::Map { entries_max, key, value } => json!({
            "type": "object",
            "propertyNames": text(key),
            "additionalProperties": text(value),
            "maxProperties": entries_max,
        }),
        Kind::Object(fields) => Value::Object(object(fields)),
        Kind::Json { schema } | Kind::JsonBlob { schema } => {
            // The texts are constants of this crate; a test parses each of them.
            serde_json::from_str(schema).unwrap_or_else(|_| json!({"type": "object"}))
        }
        Kind::Uuid => json!({"type": "string", "format": "uuid"}),
        Kind::Base64 => json!({
            "type": "string",
            "contentEncoding": "base64",
            "minLength": 1,
            "maxLength": BASE64_CHARS_MAX,
        }),
        Kind::Handle => json!({"type": "string", "minLength": 1}),
    };
    if let Value::Object(map) = value { map } else { Map::new() }
}

fn text(rule: &Text) -> Value {
    let mut schema = json!({"type": "string", "maxLength": rule.max});
    let Some(map) = schema.as_object_mut() else { return schema };
    // White space is trimmed first: a longer text may be valid.
    if rule.trim {
        map.remove("maxLength");
    }
    if rule.min > 0 {
        map.insert("minLength".into(), json!(1));
    }
    if let Some(pattern) = &rule.pattern {
        map.insert("pattern".into(), json!(pattern.regex));
    }
    schema
}

fn note(kind: &Kind) -> Option<String> {
    let (rule, what) = match kind {
        Kind::Text(rule) => (rule, ""),
        Kind::List { item: Kind::Text(rule), .. } => (rule, "each "),
        Kind::Map { value, .. } => (value, "each value "),
        Kind::Int { .. }
        | Kind::Bool
        | Kind::Word(_)
        | Kind::List { .. }
        | Kind::Object(_)
        | Kind::Json { .. }
        | Kind::Uuid
        | Kind::Base64
        | Kind::JsonBlob { .. }
        | Kind::Handle => return None,
    };
    let trimmed = if rule.trim { ", white space around it removed first" } else { "" };
    Some(format!("({what}{}-{} UTF-16 code units{trimmed})", rule.min, rule.max))
}
