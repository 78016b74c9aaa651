//! What clients are told: names, schemas, descriptions and codes (ours 2, 3).

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use room::catalog::tools;
use room::reject::{Code, Origin};
use serde_json::{Value, json};

/// The tools in the order the seeds name them.
const ORDER: &[&str] = &[
    "room_info",
    "read_room_context",
    "join_room",
    "create_room",
    "wait_for_events",
    "send_text",
    "update_capabilities",
    "update_runtime_host",
    "send_collab_request",
    "send_collab_response",
    "send_collab_result",
    "send_attachment",
    "read_attachment",
    "publish_surface",
    "clear_surface",
    "read_surface",
    "publish_live_view",
    "publish_generated_app",
    "room_app_request",
    "leave_room",
];

#[test]
fn tools_come_in_the_seeds_order_with_safe_names() {
    let names: Vec<&str> = tools().iter().map(|tool| tool.meta.name).collect();
    assert_eq!(names, ORDER);
    for name in names {
        assert!((1..=64).contains(&name.len()));
        assert!(name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_'), "{name}");
        assert_eq!(room::op(name).map(|meta| meta.name), Some(name));
    }
    assert_eq!(room::op("no_such_op"), None);
}

#[test]
fn descriptions_have_the_five_parts_and_errors_that_exist() {
    for tool in tools() {
        let text = tool.description;
        let mut from = 0;
        for part in ["Purpose: ", "Use: ", "Side effects: ", "Limits: ", "Errors: "] {
            let at =
                text[from..].find(part).unwrap_or_else(|| panic!("{}: {part}", tool.meta.name));
            assert!(at == 0 || text[..from + at].ends_with(". "), "{}: {part}", tool.meta.name);
            from += at + part.len();
            assert!(text[from..].len() > 20);
        }
        for word in text[from..].split(|c: char| !(c.is_ascii_lowercase() || c == '_')) {
            if word.contains('_') {
                assert!(Code::find(word).is_some(), "{}: {word} is no code", tool.meta.name);
            }
        }
        for other in text.split(|c: char| !(c.is_ascii_lowercase() || c == '_')) {
            if other.starts_with("send_") || other.starts_with("read_") {
                assert!(ORDER.contains(&other), "{}: {other} is no tool", tool.meta.name);
            }
        }
        assert!(!tool.title.is_empty());
    }
}

#[test]
fn schemas_are_closed_documents_with_object_roots() {
    for tool in tools() {
        for schema in [&tool.input_schema, &tool.output_schema] {
            let name = tool.meta.name;
            assert_eq!(schema["type"], "object", "{name}");
            assert_eq!(schema["$schema"], "https://json-schema.org/draft/2020-12/schema", "{name}");
            assert!(schema["title"].as_str().is_some_and(|t| t.contains(tool.title)), "{name}");
            let text = schema.to_string();
            for word in ["$ref", "$defs", "definitions"] {
                assert!(!text.contains(&format!("\"{word}\"")), "{name} has {word}");
            }
        }
        // Compatible by ignoring what is unknown.
        assert_eq!(tool.input_schema.get("additionalProperties"), None);
    }
}

#[test]
fn handles_and_client_request_ids_are_declared_where_they_count() {
    for tool in tools() {
        let name = tool.meta.name;
        let fields = tool.input_schema["properties"].as_object().unwrap();
        let by_handle = matches!(tool.meta.address, object::Address::Handle);
        assert_eq!(fields.contains_key("participantHandle"), by_handle, "{name}");
        assert_eq!(fields.contains_key("clientRequestId"), tool.meta.client_request_id, "{name}");
        if tool.meta.client_request_id {
            let note = fields["clientRequestId"]["description"].as_str().unwrap();
            assert!(note.contains("64") && note.contains("10 minutes"), "{name}");
        }
        if let Some(blob) = tool.meta.blob {
            assert!(fields.contains_key(blob.name), "{name}");
        }
        for field in fields.values() {
            assert!(field["description"].as_str().is_some_and(|d| d.len() > 10), "{name}");
        }
    }
}

#[test]
fn lengths_say_their_unit() {
    let send_text = tools().into_iter().find(|tool| tool.meta.name == "send_text").unwrap();
    let text = &send_text.input_schema["properties"]["text"];
    assert!(text["description"].as_str().unwrap().contains("1-4000 UTF-16 code units"));
    assert_eq!(text["minLength"], 1);
    let task = &send_text.input_schema["properties"]["taskRequestId"];
    assert_eq!(task["maxLength"], 64);
}

#[test]
fn checks_pass_a_least_example_and_find_what_is_missing() {
    for tool in tools() {
        let required = tool.input_schema["required"].as_array().cloned().unwrap_or_default();
        let blob = tool.meta.blob.map(|blob| blob.name);
        let missing = (tool.check)(&json!({}), None);
        let expected: BTreeSet<&str> = required
            .iter()
            .filter_map(Value::as_str)
            .filter(|name| *name != "participantHandle")
            .collect();
        match missing {
            Ok(()) => assert!(expected.is_empty(), "{}", tool.meta.name),
            Err(reject) => {
                let found: BTreeSet<&str> =
                    reject.faults.iter().map(|fault| fault.path.as_str()).collect();
                assert_eq!(found, expected, "{}", tool.meta.name);
            }
        }
        assert!(blob.is_none_or(|name| expected.contains(name)), "{}", tool.meta.name);
        assert_eq!((tool.check)(&json!([]), None).unwrap_err().code, "invalid_arguments");
    }
}

/// Everything under a directory.
fn sources(dir: &Path, out: &mut String) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, out);
        } else if !path.ends_with("reject/codes.rs") {
            out.push_str(&fs::read_to_string(&path).unwrap());
        }
    }
}

#[test]
fn every_code_of_the_room_is_met_by_a_test() {
    let mut all = String::new();
    for dir in ["src", "tests/all"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(dir), &mut all);
    }
    // Outside the table of codes, a code in quotes stands only in tests' expectations.
    let missing: Vec<&str> = Code::ALL
        .iter()
        .filter(|code| code.origin() == Origin::Room)
        .map(|code| code.code())
        .filter(|code| !all.contains(&format!("\"{code}\"")))
        .collect();
    assert_eq!(missing, [""; 0], "no test expects these codes");
}

/// Codes of the reference that clients may know but that something else catches first here: the
/// tables of arguments, the audience of an op, or a part of the reference that we do not have.
#[test]
fn codes_that_are_caught_earlier_are_never_raised() {
    let mut bench = crate::testing::Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    let human = bench.fresh_id();
    let join = json!({"roomId": "blue-otter", "name": "Ana"});
    bench.call_as("join_human", object::Caller::Joining(human), &join, None).unwrap();
    let ask = |details: Value| json!({"targetParticipantId": b.to_string(), "summary": "s", "details": details});
    let many: Value = (0..17).map(|n| (n.to_string(), json!("v"))).collect();
    let png = json!({"mimeType": "image/png"});
    let table = [
        ("invalid_runtime_host", a, "update_runtime_host", json!({"runtimeHost": {}})),
        ("text_required", a, "send_text", json!({"text": " "})),
        ("invalid_details", a, "send_collab_request", ask(json!([]))),
        ("too_many_details", a, "send_collab_request", ask(many)),
        ("invalid_detail_entry", a, "send_collab_request", ask(json!({"k": 1}))),
        ("surface_agent_only", human, "publish_surface", png),
        ("task_sender_not_human", a, "human_chat", json!({"text": "x"})),
    ];
    for (code, who, op, args) in table {
        let met = bench.call(op, who, &args).unwrap_err().code;
        assert!(["invalid_arguments", "agent_only", "human_only"].contains(&met), "{op}: {met}");
        assert_eq!(Code::find(code).map(Code::origin), Some(Origin::Unused), "{code}");
    }
    // Sizes are counted, not announced; an app request needs no stream; no media is relayed; rooms
    // are not reached by headers; bytes that the store cannot give are `room_unavailable`.
    let never = [
        "surface_size_mismatch",
        "agent_unavailable",
        "live_transcript_media_disabled",
        "missing_room_capability",
        "surface_unavailable",
        "generated_app_unavailable",
    ];
    for code in never {
        assert_eq!(Code::find(code).map(Code::origin), Some(Origin::Unused), "{code}");
    }
}

#[test]
fn every_tool_is_guarded_and_blobs_weigh_eight() {
    for tool in tools() {
        let name = tool.meta.name;
        let expected = match name {
            "join_room" | "create_room" => object::Guard::Join,
            "room_info" => object::Guard::Info,
            "send_attachment"
            | "read_attachment"
            | "publish_surface"
            | "read_surface"
            | "publish_generated_app" => object::Guard::Call(8),
            _ => object::Guard::Call(1),
        };
        assert_eq!(tool.meta.guard, expected, "{name}");
        assert_eq!(tool.meta.wait, name == "wait_for_events");
        let changes = !tool.meta.read_only && matches!(tool.meta.address, object::Address::Handle);
        // An app request is never repeated: it has nothing to be remembered by.
        let remembered = changes && name != "room_app_request";
        assert_eq!(tool.meta.client_request_id, remembered, "{name}");
    }
}
