//! The legacy era: mcp.md 1.2 for each of its revisions.

use serde_json::{Value, json};

use super::rig::{Ask, READ, Rig, name_of_read, table};

const VERSIONS: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
const VERSION: &str = "MCP-Protocol-Version";

#[tokio::test]
async fn each_version_is_served_with_and_without_its_header() {
    let rig = Rig::start().await;
    for version in VERSIONS {
        let params = format!(
            r#""protocolVersion":"{version}","capabilities":{{}},"clientInfo":{{"name":"c","version":"1"}}"#
        );
        let hello = rig.ask(&Ask::legacy("initialize", &params)).await;
        assert_eq!(hello.at("/result/protocolVersion"), json!(version));
        assert_eq!(hello.at("/result/serverInfo/name"), json!("roomring"));
        assert_eq!(hello.at("/result/capabilities"), json!({ "tools": {} }));
        assert_eq!(hello.header("mcp-session-id"), None);
        let mut lists = Vec::new();
        for headed in [true, false] {
            let head = |ask: Ask| if headed { ask.with(VERSION, version) } else { ask };
            let note = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
            assert_eq!(rig.ask(&head(Ask::bare(note))).await.line(), "202 empty");
            let pong = rig.ask(&head(Ask::legacy("ping", ""))).await;
            assert_eq!(pong.body, r#"{"jsonrpc":"2.0","id":7,"result":{}}"#);
            lists.push(rig.ask(&head(Ask::legacy("tools/list", ""))).await.body);
            let params = format!(r#"{},"arguments":{}"#, name_of_read(), READ.1);
            let call = rig.ask(&head(Ask::legacy("tools/call", &params))).await;
            assert!(call.at("/result/structuredContent").is_object(), "{}", call.body);
            assert_eq!(call.at("/result/resultType"), Value::Null);
            assert_eq!(call.at("/result/_meta"), Value::Null);
        }
        assert_eq!(lists[0], lists[1], "one list, whatever the header");
    }
}

#[tokio::test]
async fn both_eras_list_the_same_tools() {
    let rig = Rig::start().await;
    let legacy = rig.ask(&Ask::legacy("tools/list", "")).await;
    let modern = rig.ask(&Ask::modern("tools/list", "")).await;
    assert_eq!(legacy.at("/result/tools"), modern.at("/result/tools"));
    for field in ["ttlMs", "cacheScope", "resultType", "_meta"] {
        assert_eq!(legacy.at(&format!("/result/{field}")), Value::Null, "{field}");
    }
}

#[tokio::test]
async fn methods_errors_and_statuses() {
    let hello =
        |version: &str| Ask::legacy("initialize", &format!(r#""protocolVersion":"{version}""#));
    let with = |arguments: &str| {
        Ask::legacy("tools/call", &format!(r#"{},"arguments":{arguments}"#, name_of_read()))
    };
    let mut rows = vec![
        (hello("2026-07-28").with(VERSION, "2026-07-28"), "200 result 7"),
        (hello("1900-01-01"), "200 result 7"),
        (hello("2025-06-18").with(VERSION, "1900-01-01"), "200 result 7"),
        (Ask::legacy("initialize", ""), "200 result 7"),
        (
            Ask::legacy("ping", "").with(VERSION, "1900-01-01"),
            "400 -32000 7 Bad Request: unsupported",
        ),
        (Ask::legacy("ping", "").with(VERSION, "v999"), "400 -32000 7 "),
        (Ask::legacy("ping", "").with(VERSION, "2026-07-28"), "400 -32602 7 "),
        (Ask::legacy("tools/call", r#""name":"nonsense""#), "200 -32602 7 Unknown tool: nonsense"),
        (with("null"), "200 -32602 7 "),
        (with("[]"), "200 -32602 7 "),
        (Ask::legacy("tools/call", &name_of_read()), "200 result 7"),
        (Ask::legacy("tools/call", ""), "200 -32602 7 "),
        (Ask::bare(r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#), "200 result 7"),
        (Ask::bare(r#"{"jsonrpc":"2.0","id":7,"result":{}}"#), "202 empty"),
        (Ask::bare(r#"{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"x"}}"#), "202 empty"),
        (Ask::bare(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#), "202 empty"),
    ];
    for method in [
        "logging/setLevel",
        "completion/complete",
        "resources/list",
        "resources/read",
        "prompts/get",
        "nonsense",
    ] {
        rows.push((Ask::legacy(method, ""), "200 -32601 7 Method not found"));
    }
    // An id that cannot be read: null for the schemas that want one, absent for the later ones.
    for (version, id) in [("2025-11-25", "-"), ("2025-06-18", "null"), ("2025-03-26", "null")] {
        let expected: &str = if id == "-" { "400 -32700 - " } else { "400 -32700 null " };
        rows.push((Ask::bare("{").with(VERSION, version), expected));
    }
    rows.push((Ask::bare("{"), "400 -32700 null "));
    table(&rows).await;
}

#[tokio::test]
async fn batches_where_the_revision_has_them() {
    let rig = Rig::start().await;
    let batch = r#"[
        {"jsonrpc":"2.0","id":1,"method":"ping"},
        {"jsonrpc":"2.0","method":"notifications/initialized"},
        {"jsonrpc":"2.0","id":9,"result":{}},
        {"jsonrpc":"2.0","id":"two","method":"tools/call","params":{"name":"echo"}},
        {"jsonrpc":"2.0","id":3,"method":"initialize","params":{}},
        {"jsonrpc":"2.0","id":4,"method":"server/discover"},
        {"jsonrpc":"2.0","id":5,"method":"nonsense"},
        {"jsonrpc":"2.0","id":6,"method":"ping","params":[]},
        ["2.0",1,"ping"],
        7
    ]"#
    .replace("echo", READ.0);
    let batch = batch.as_str();
    for version in [None, Some("2025-03-26"), Some("2024-11-05")] {
        let mut ask = Ask::bare(batch);
        if let Some(version) = version {
            ask = ask.with(VERSION, version);
        }
        let reply = rig.ask(&ask).await;
        assert_eq!(reply.status, 200);
        let lines: Vec<String> = reply
            .json()
            .as_array()
            .expect("an array")
            .iter()
            .map(|entry| match entry.get("error") {
                Some(error) => format!("{} {}", entry["id"], error["code"]),
                None => format!("{} result", entry["id"]),
            })
            .collect();
        assert_eq!(
            lines,
            [
                "1 result",
                "\"two\" result",
                "3 -32600",
                "4 -32600",
                "5 -32601",
                "6 -32602",
                "null -32600",
                "null -32600"
            ]
        );
    }
    let quiet = r#"[{"jsonrpc":"2.0","method":"a"},{"jsonrpc":"2.0","id":1,"result":1}]"#;
    let over = format!("[{}]", vec![r#"{"jsonrpc":"2.0","method":"a"}"#; 33].join(","));
    for (body, version, expected) in [
        (quiet, None, "202 empty"),
        (batch, Some("2025-06-18"), "400 -32600 null "),
        (batch, Some("2025-11-25"), "400 -32600 - "),
        ("[]", None, "400 -32600 null "),
        ("[1", None, "400 -32700 null "),
        (&over, None, "400 -32600 null "),
    ] {
        let mut ask = Ask::bare(body);
        if let Some(version) = version {
            ask = ask.with(VERSION, version);
        }
        let line = rig.ask(&ask).await.line();
        assert!(line.starts_with(expected), "{body} {version:?}: {line}");
    }
}

#[tokio::test]
async fn an_accepted_notification_has_no_body_and_no_type() {
    let rig = Rig::start().await;
    let reply =
        rig.ask(&Ask::bare(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#)).await;
    assert_eq!(reply.status, 202);
    assert_eq!(reply.header("content-length"), Some("0"));
    assert_eq!(reply.header("content-type"), None);
}

#[tokio::test]
async fn params_of_null_are_absent() {
    let rig = Rig::start().await;
    for (method, line) in [
        ("ping", "200 result 7"),
        ("tools/list", "200 result 7"),
        ("tools/call", "200 -32602 7 Invalid params: params.name must be a string"),
    ] {
        let ask =
            Ask::bare(format!(r#"{{"jsonrpc":"2.0","id":7,"method":"{method}","params":null}}"#));
        let got = rig.ask(&ask).await.line();
        assert!(got.starts_with(line), "{method}: {got}");
    }
}
