//! What a shown tool must obey to be usable everywhere, held against the whole catalog.

use serde_json::Map;

use super::*;

/// Longest property name, in bytes: some hosts drop tools with longer ones.
const PROPERTY_NAME_BYTES_MAX: usize = 64;
/// Longest tool name, in bytes (mcp.md 1.1).
const TOOL_NAME_BYTES_MAX: usize = 128;
/// Deepest nesting of a schema.
const SCHEMA_DEPTH_MAX: usize = 24;

#[test]
fn every_tool_of_the_catalog_is_safe_for_every_host() {
    let mut names = Vec::new();
    for tool in room::catalog::tools() {
        assert_eq!(faults(&listed(&tool)), Vec::<String>::new());
        assert!(!names.contains(&tool.meta.name), "{} twice", tool.meta.name);
        names.push(tool.meta.name);
    }
}

#[test]
fn each_fault_is_found() {
    let object = json!({ "type": "object" });
    let table = [
        (json!({ "name": "ok", "inputSchema": object }), ""),
        (json!({ "name": "", "inputSchema": object }), "unsafe tool name"),
        (json!({ "name": "a b", "inputSchema": object }), "unsafe tool name"),
        (json!({ "name": "t" }), "not an object"),
        (json!({ "name": "t", "inputSchema": { "type": "array" } }), "type is not object"),
        (json!({ "name": "t", "inputSchema": object, "outputSchema": {} }), "not object"),
        (json!({ "name": "t", "inputSchema": { "type": "object", "allOf": [] } }), "has allOf"),
        (json!({ "name": "t", "inputSchema": { "type": "object", "if": {} } }), "root has if"),
        (json!({ "name": "t", "inputSchema": { "type": "object", "$defs": {} } }), "has $defs"),
        (
            json!({ "name": "t", "inputSchema": { "type": "object",
                "properties": { "a": { "anyOf": [{ "$ref": "#" }] } } } }),
            "has $ref",
        ),
        (
            json!({ "name": "t", "inputSchema": { "type": "object",
                "properties": { "a b": {} } } }),
            "unsafe property name",
        ),
    ];
    for (tool, expected) in table {
        let found = faults(&tool).join("; ");
        assert_eq!(found.is_empty(), expected.is_empty(), "{tool}: {found}");
        assert!(found.contains(expected), "{tool}: {found}");
    }
}

/// What hosts are known to choke on (mcp.md pitfall 8): one line for each fault of a listed tool.
fn faults(tool: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let name = tool.get("name").and_then(Value::as_str).unwrap_or("");
    let name_is_safe = (1..=TOOL_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte));
    if !name_is_safe {
        faults.push(format!("{name}: unsafe tool name"));
    }
    for field in ["inputSchema", "outputSchema"] {
        match tool.get(field) {
            None if field == "outputSchema" => {}
            Some(Value::Object(root)) => root_faults(&format!("{name}.{field}"), root, &mut faults),
            _ => faults.push(format!("{name}.{field}: not an object")),
        }
    }
    faults
}

fn root_faults(at: &str, root: &Map<String, Value>, faults: &mut Vec<String>) {
    if root.get("type") != Some(&json!("object")) {
        faults.push(format!("{at}: the root's type is not object"));
    }
    for word in ["allOf", "anyOf", "oneOf", "not", "if", "then", "else", "enum", "const"] {
        if root.contains_key(word) {
            faults.push(format!("{at}: the root has {word}"));
        }
    }
    inner_faults(at, root, 1, faults);
}

/// Walks the schema; the catalog is ours, the depth bound only keeps a mistake from recursing far.
fn inner_faults(at: &str, schema: &Map<String, Value>, depth: usize, faults: &mut Vec<String>) {
    if depth > SCHEMA_DEPTH_MAX {
        faults.push(format!("{at}: nested too deep"));
        return;
    }
    for word in ["$ref", "$defs", "definitions", "$dynamicRef"] {
        if schema.contains_key(word) {
            faults.push(format!("{at}: has {word}"));
        }
    }
    for (key, value) in schema {
        match (key.as_str(), value) {
            ("properties", Value::Object(properties)) => {
                for (name, property) in properties {
                    if !property_name_is_safe(name) {
                        faults.push(format!("{at}: unsafe property name {name}"));
                    }
                    if let Value::Object(property) = property {
                        inner_faults(&format!("{at}.{name}"), property, depth + 1, faults);
                    }
                }
            }
            ("default" | "examples" | "enum" | "const", _) => {}
            (_, Value::Object(inner)) => {
                inner_faults(&format!("{at}.{key}"), inner, depth + 1, faults);
            }
            (_, Value::Array(entries)) => {
                for inner in entries.iter().filter_map(Value::as_object) {
                    inner_faults(&format!("{at}.{key}"), inner, depth + 1, faults);
                }
            }
            _ => {}
        }
    }
}

fn property_name_is_safe(name: &str) -> bool {
    (1..=PROPERTY_NAME_BYTES_MAX).contains(&name.len())
        && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte))
}
