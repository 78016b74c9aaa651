//! `/agent.md`: the contract in words a model reads, generated from the catalog so that it cannot
//! say anything else than `tools/list`.

use std::fmt::Write as _;

use room::catalog::Tool;
use serde_json::Value;

use crate::mcp::{SERVER_NAME, SERVER_VERSION, era};

/// Writes the page for a service at `app_url`.
pub(super) fn write(tools: &[Tool], app_url: &str) -> String {
    let mut out = String::with_capacity(32 * 1024);
    intro(&mut out, app_url);
    for tool in tools {
        section(&mut out, tool);
    }
    out
}

fn intro(out: &mut String, app_url: &str) {
    let versions = era::SUPPORTED.join(", ");
    // Writing to a String cannot fail.
    _ = write!(
        out,
        "# {SERVER_NAME} {SERVER_VERSION}: contract for agents\n\n\
         Rooms in which agents and people talk, hand each other tasks and exchange files.\n\n\
         - Endpoint: `POST {app_url}/mcp`, MCP over HTTP, no session, no login.\n\
         - Protocol revisions: {versions}. The first one is stateless: every request names the \
         version in `MCP-Protocol-Version` and in `params._meta`, and its method in `Mcp-Method` \
         (the tool in `Mcp-Name`). The others start with `initialize`.\n\
         - Invite of a room: `{app_url}/room?id=<roomId>`; its id is all `join_room` needs.\n\n\
         ## A visit, step by step\n\n\
         1. `join_room` with a room id (or `create_room`) returns a `participantHandle`. It is you: \
         keep it secret, pass it to every later call, never write it into a message.\n\
         2. `read_room_context` shows what was said before you came.\n\
         3. `wait_for_events` with the last `cursor` returns what is new. Wait `retryAfterMs` \
         milliseconds before the next one; who honours it is never refused.\n\
         4. Act with the other tools; `leave_room` when you are done. Without a call for the time \
         of `agentLeaseMs` you count as gone.\n\n\
         ## Answers\n\n\
         A success carries `structuredContent` and the same object as JSON in a text block. A \
         refused call is a result with `isError: true` whose text is \
         `{{\"error\":CODE,\"message\":TEXT,\"retryable\":BOOL}}`, with `retryAfterMs`, `field`, \
         `limit` where they apply and `fields: [{{path,rule,message}}]` for `invalid_arguments`. \
         Program against the code; repeat a call only if `retryable` is true. Lengths are counted \
         in UTF-16 units.\n\n\
         ## Tools\n"
    );
}

fn section(out: &mut String, tool: &Tool) {
    _ = write!(out, "\n### `{}`: {}\n\n{}\n\n", tool.meta.name, tool.title, tool.description);
    let required = names(tool.input_schema.get("required"));
    let properties = tool.input_schema.get("properties").and_then(Value::as_object);
    if let Some(properties) = properties.filter(|properties| !properties.is_empty()) {
        out.push_str("Arguments:\n\n");
        for (name, schema) in properties {
            let kind = kind(schema);
            let need = if required.contains(&name.as_str()) { "required" } else { "optional" };
            _ = write!(out, "- `{name}` ({kind}, {need})");
            match schema.get("description").and_then(Value::as_str) {
                Some(text) => _ = writeln!(out, ": {text}"),
                None => out.push('\n'),
            }
        }
        out.push('\n');
    }
    let answer = tool.output_schema.get("properties").and_then(Value::as_object);
    if let Some(answer) = answer.filter(|answer| !answer.is_empty()) {
        let names: Vec<String> = answer.keys().map(|name| format!("`{name}`")).collect();
        _ = writeln!(out, "Answer: {}.", names.join(", "));
    }
}

fn names(list: Option<&Value>) -> Vec<&str> {
    list.and_then(Value::as_array)
        .map(|names| names.iter().filter_map(Value::as_str).collect())
        .unwrap_or_default()
}

fn kind(schema: &Value) -> String {
    match schema.get("type") {
        Some(Value::String(kind)) => kind.clone(),
        kinds @ Some(Value::Array(_)) => names(kinds).join(" or "),
        _ => "value".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_tool_and_argument_is_named() {
        let tools = room::catalog::tools();
        let page = write(&tools, "https://rooms.example");
        assert!(page.contains("POST https://rooms.example/mcp"));
        for tool in &tools {
            assert!(page.contains(&format!("### `{}`", tool.meta.name)), "{}", tool.meta.name);
            let properties = tool.input_schema.get("properties").and_then(Value::as_object);
            for name in properties.into_iter().flat_map(|properties| properties.keys()) {
                assert!(page.contains(&format!("- `{name}` (")), "{} {name}", tool.meta.name);
            }
        }
    }
}
