//! The conformance suite's own tools (mcp.md 4.3), compiled only with the feature `test-hooks`.
//!
//! They stand beside the catalog: listed in both eras, answered here, never near a room.

use http::StatusCode;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::dispatch::{Answer, Context, Params, fault};
use super::era::Era;
use super::headers::{self, PARAM_PREFIX};
use super::jsonrpc::{ErrorId, Id, code};

const SIMPLE_TEXT: &str = "This is a simple text response for testing.";
const ERROR_TEXT: &str = "This tool intentionally returns an error for testing";
/// The annotated parameter of `test_x_header`, and the name in its header.
const ANNOTATED: (&str, &str) = ("room", "Room");

const PLAIN: [&str; 6] = [
    "test_error_handling",
    "test_logging_tool",
    "test_missing_capability",
    "test_panic",
    "test_simple_text",
    "test_streaming_elicitation",
];

/// The tools as `tools/list` shows them.
pub(crate) fn listed() -> impl Iterator<Item = Value> {
    let (parameter, header) = ANNOTATED;
    let annotated = json!({
        "name": "test_x_header",
        "description": "Conformance only: repeats its parameter in a header",
        "inputSchema": {
            "type": "object",
            "properties": { parameter: { "type": "string", "x-mcp-header": header } },
        },
    });
    PLAIN
        .into_iter()
        .map(|name| {
            json!({
                "name": name,
                "description": "Conformance only",
                "inputSchema": { "type": "object", "additionalProperties": false },
            })
        })
        .chain([annotated])
}

/// Answers a call of one of these tools; `None` for any other.
pub(crate) fn call(
    context: &Context<'_>,
    era: Era,
    id: Id<'_>,
    name: &str,
    params: &Params<'_>,
) -> Option<Answer> {
    let of = ErrorId::Of(id);
    let lacks = |capability: &str| era == Era::Modern && !declares(params, capability);
    Some(match name {
        "test_simple_text" | "test_logging_tool" => text(context, era, id, SIMPLE_TEXT, false),
        "test_error_handling" => text(context, era, id, ERROR_TEXT, true),
        "test_missing_capability" if lacks("sampling") => missing(of, "sampling"),
        "test_streaming_elicitation" if lacks("elicitation") => missing(of, "elicitation"),
        "test_streaming_elicitation" if era == Era::Modern => input_required(id),
        "test_missing_capability" | "test_streaming_elicitation" => {
            text(context, era, id, SIMPLE_TEXT, false)
        }
        "test_panic" => panics(params),
        "test_x_header" => match annotated_mismatch(context, era, params.arguments) {
            Some(bad) => {
                let data = Some(bad.data.as_str());
                fault(StatusCode::BAD_REQUEST, of, code::HEADER_MISMATCH, &bad.message, data)
            }
            None => text(context, era, id, SIMPLE_TEXT, false),
        },
        _ => return None,
    })
}

/// Check 13: an annotated parameter and its header are there both or neither, and are equal.
fn annotated_mismatch(
    context: &Context<'_>,
    era: Era,
    arguments: Option<&RawValue>,
) -> Option<headers::Mismatch> {
    if era == Era::Legacy {
        return None;
    }
    let (parameter, header) = ANNOTATED;
    let arguments: Value =
        arguments.and_then(|raw| serde_json::from_str(raw.get()).ok()).unwrap_or_default();
    let shown = format!("Mcp-Param-{header}");
    let name = format!("{PARAM_PREFIX}{}", header.to_ascii_lowercase());
    match arguments.get(parameter).and_then(Value::as_str) {
        Some(value) => headers::equal(context.headers, &name, &shown, value, true).err(),
        None if context.headers.contains_key(name) => {
            let problem = "is there, but the body has no such argument";
            Some(headers::mismatch(&shown, problem, None, ""))
        }
        None => None,
    }
}

/// The fault point that shows what a panic prints: its message holds all that came with the call.
#[expect(clippy::panic, reason = "its purpose")]
fn panics(params: &Params<'_>) -> Answer {
    panic!("arguments {}", params.arguments.map_or("", RawValue::get))
}

fn declares(params: &Params<'_>, capability: &str) -> bool {
    params
        .meta
        .capabilities
        .and_then(|raw| serde_json::from_str::<Value>(raw.get()).ok())
        .is_some_and(|capabilities| capabilities.get(capability).is_some())
}

fn missing(id: ErrorId<'_>, capability: &str) -> Answer {
    let data = json!({ "requiredCapabilities": { capability: {} } }).to_string();
    let text = format!("Missing required client capability: {capability}");
    fault(StatusCode::BAD_REQUEST, id, code::MISSING_CLIENT_CAPABILITY, &text, Some(&data))
}

fn text(context: &Context<'_>, era: Era, id: Id<'_>, text: &str, is_error: bool) -> Answer {
    let content = json!([{ "type": "text", "text": text }]);
    let extras: &[u8] = match era {
        Era::Modern => &context.catalog.prepared.modern_extras,
        Era::Legacy => b"",
    };
    let extras = String::from_utf8_lossy(extras);
    result(id, &format!("{{\"content\":{content},\"isError\":{is_error}{extras}}}"))
}

fn input_required(id: Id<'_>) -> Answer {
    let request = json!({
        "method": "elicitation/create",
        "params": {
            "mode": "form",
            "message": "Which one?",
            "requestedSchema": {
                "type": "object",
                "properties": { "answer": { "type": "string" } },
            },
        },
    });
    let body = json!({ "resultType": "input_required", "inputRequests": { "answer": request } });
    result(id, &body.to_string())
}

fn result(id: Id<'_>, result: &str) -> Answer {
    let id = id.text();
    let text = format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
    Answer::owned(StatusCode::OK, text.into_bytes())
}
