//! The modern era: mcp.md 1.1, the checks in their order, and the pitfalls that concern it.

use serde_json::json;

use super::rig::{Ask, READ, Rig, encoded, name_of_read, read as call, table};

const META_VERSION: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","#;
const META_CAPABILITIES: &str = r#","io.modelcontextprotocol/clientCapabilities":{}"#;

fn list() -> Ask {
    Ask::modern("tools/list", "")
}

#[tokio::test]
async fn each_method_and_its_absence() {
    let mut rows = vec![
        (Ask::modern("server/discover", ""), "200 result 7"),
        (list(), "200 result 7"),
        (list().line("POST /mcp/ HTTP/1.1"), "200 result 7"),
        (list().line("POST /mcp?x=1 HTTP/1.1"), "200 result 7"),
        (call(), "200 result 7"),
        (Ask::modern("tools/call", &name_of_read()).with("Mcp-Name", READ.0), "200 result 7"),
    ];
    for method in [
        "initialize",
        "ping",
        "logging/setLevel",
        "resources/subscribe",
        "resources/unsubscribe",
        "resources/list",
        "prompts/list",
        "completion/complete",
        "subscriptions/listen",
        "TOOLS/LIST",
        "nonsense",
    ] {
        rows.push((Ask::modern(method, ""), "404 -32601 7 Method not found"));
    }
    rows.push((
        Ask::modern("resources/read", r#""uri":"room://x""#).with("Mcp-Name", "room://x"),
        "404 -32601 7",
    ));
    rows.push((Ask::modern("prompts/get", r#""name":"p""#).with("Mcp-Name", "p"), "404 -32601 7"));
    table(&rows).await;
}

#[tokio::test]
async fn checks_4_and_5_the_message() {
    let body = |text: &str| list().body(text);
    table(&[
        (body("{"), "400 -32700 - "),
        (body(""), "400 -32700 - "),
        (body("nonsense"), "400 -32700 - "),
        (list().bend(r#""id":7"#, r#""id":null"#), "400 -32600 - "),
        (list().bend(r#""id":7"#, r#""id":7.5"#), "400 -32600 - "),
        (list().bend(r#""id":7"#, r#""id":[7]"#), "400 -32600 - "),
        (list().bend(r#""id":7"#, r#""id":true"#), "400 -32600 - "),
        (list().bend(r#""id":7"#, r#""id":"""#), "200 result \"\""),
        (list().bend(r#""id":7"#, r#""id":"a""#), "200 result \"a\""),
        (list().bend(r#""id":7"#, r#""id":0"#), "200 result 0"),
        (list().bend(r#""jsonrpc":"2.0""#, r#""jsonrpc":"1.0""#), "400 -32600 7 "),
        (list().bend(r#""method":"tools/list""#, r#""method":1"#), "400 -32600 7 "),
        (body("[]"), "400 -32600 - "),
        (body(r#"[{"jsonrpc":"2.0","id":1,"method":"ping"}]"#), "400 -32600 - "),
        (body(r#"{"jsonrpc":"2.0","id":1,"result":{}}"#), "400 -32600 - "),
        (body(r#"{"jsonrpc":"2.0","method":"notifications/cancelled"}"#), "202 empty"),
        (body(r#"{"jsonrpc":"2.0","method":"tools/call"}"#), "202 empty"),
        (list().bend(r#""id":7,"#, ""), "202 empty"),
        (list().bend(r#""id":7,"#, "").without("MCP-Protocol-Version"), "202 empty"),
        (list().bend(r#""id":7,"#, "").without("Mcp-Method"), "202 empty"),
    ])
    .await;
}

#[tokio::test]
async fn checks_6_to_10_envelope_and_headers() {
    let unnamed = |ask: Ask| ask.bend(META_VERSION, "");
    let other = |ask: Ask, version: &str| {
        ask.bend(r#"Version":"2026-07-28""#, &format!(r#"Version":"{version}""#))
    };
    let version = "MCP-Protocol-Version";
    table(&[
        // 6: before the header checks.
        (unnamed(list()), "400 -32602 7 "),
        (unnamed(Ask::modern("server/discover", "")).without(version), "400 -32602 7 "),
        (unnamed(list()).set(version, "2027-01-01"), "400 -32602 7 "),
        (list().bend(META_CAPABILITIES, ""), "400 -32602 7 "),
        (list().bend(META_CAPABILITIES, "").without("Mcp-Method"), "400 -32602 7 "),
        (list().bend(r#"Capabilities":{}"#, r#"Capabilities":[]"#), "400 -32602 7 "),
        (list().bend(r#"Capabilities":{}"#, r#"Capabilities":null"#), "400 -32602 7 "),
        (list().bend(r#"Version":"2026-07-28""#, r#"Version":5"#), "400 -32602 7 "),
        (list().bend(r#"Version":"2026-07-28""#, r#"Version":null"#), "400 -32602 7 "),
        // 7: before the support check.
        (list().without(version), "400 -32020 7 Header mismatch: MCP-Protocol-Version is missing"),
        (list().set(version, "2025-11-25"), "400 -32020 7 Header mismatch: MCP-Protocol-Version"),
        (other(list(), "v999"), "400 -32020 7 Header mismatch: MCP-Protocol-Version differs"),
        (list().with(version, "2026-07-28"), "400 -32020 7 Header mismatch: MCP-Protocol-Version"),
        (list().set(version, "  2026-07-28 "), "200 result 7"),
        // 8
        (other(list(), "v999").set(version, "v999"), "400 -32022 7 "),
        (other(list(), "2025-11-25").set(version, "2025-11-25"), "400 -32022 7 "),
        (other(list(), "v999").set(version, "v999").without("Mcp-Method"), "400 -32022 7 "),
        // 9
        (list().without("Mcp-Method"), "400 -32020 7 Header mismatch: Mcp-Method is missing"),
        (
            list().set("Mcp-Method", "TOOLS/LIST"),
            "400 -32020 7 Header mismatch: Mcp-Method differs",
        ),
        (list().without("Mcp-Method").with("MCP-METHOD", " tools/list"), "200 result 7"),
        (Ask::modern("nonsense", "").without("Mcp-Method"), "400 -32020 7 "),
        // 10
        (call().without("Mcp-Name"), "400 -32020 7 Header mismatch: Mcp-Name is missing"),
        (
            call().set("Mcp-Name", &READ.0.to_ascii_uppercase()),
            "400 -32020 7 Header mismatch: Mcp-Name differs",
        ),
        (call().set("Mcp-Name", &encoded(READ.0)), "200 result 7"),
        (call().set("Mcp-Name", &encoded(READ.0).replace("?=", "=?=")), "400 -32020 7 "),
        (call().set("Mcp-Name", &encoded(READ.0).replace("?=", "!?=")), "400 -32020 7 "),
        (call().set("Mcp-Name", &encoded(READ.0).replace("base64", "BASE64")), "400 -32020 7 "),
        (call().bend(&name_of_read(), r#""name":5"#), "400 -32602 7 "),
        (Ask::modern("prompts/get", r#""name":"p""#), "400 -32020 7 "),
        (Ask::modern("resources/read", r#""uri":"u""#).with("Mcp-Name", "v"), "400 -32020 7 "),
        (Ask::modern("tasks/get", r#""taskId":"t""#).with("Mcp-Name", "t"), "404 -32601 7 "),
        (Ask::modern("tasks/get", r#""taskId":"t""#), "400 -32020 7 "),
    ])
    .await;
}

#[tokio::test]
async fn checks_12_and_arguments() {
    let with = |arguments: &str| Ask::call(READ.0, arguments);
    table(&[
        (Ask::call("nonsense", "{}"), "200 -32602 7 Unknown tool: nonsense"),
        (with("null"), "200 -32602 7 "),
        (with("[]"), "200 -32602 7 "),
        (with("\"x\""), "200 -32602 7 "),
        (with("5"), "200 -32602 7 "),
        (Ask::call("nonsense", "[]"), "200 -32602 7 "),
        (Ask::modern("tools/list", r#""cursor":"x""#), "200 -32602 7 "),
        (Ask::modern("tools/list", r#""cursor":null"#), "200 result 7"),
        (
            list().body(r#"{"jsonrpc":"2.0","id":7,"method":"tools/list","params":[{}]}"#),
            "400 -32602 7 ",
        ),
    ])
    .await;
}

#[tokio::test]
async fn what_the_answers_carry() {
    let rig = Rig::start().await;
    let discover = rig.ask(&Ask::modern("server/discover", "")).await;
    let list = rig.ask(&list()).await;
    let call = rig.ask(&call()).await;
    for reply in [&discover, &list, &call] {
        assert_eq!(reply.header("content-type"), Some("application/json"));
        assert_eq!(reply.header("mcp-session-id"), None);
        assert_eq!(reply.at("/result/resultType"), json!("complete"));
        let info = reply.at("/result/_meta/io.modelcontextprotocol~1serverInfo");
        assert_eq!(info["name"], json!("roomring"));
        assert_eq!(info["version"], json!(env!("CARGO_PKG_VERSION")));
    }
    for reply in [&discover, &list] {
        assert_eq!(reply.at("/result/ttlMs"), json!(3_600_000));
        assert_eq!(reply.at("/result/cacheScope"), json!("public"));
    }
    assert_eq!(call.at("/result/ttlMs"), json!(null));
    assert_eq!(discover.at("/result/capabilities"), json!({ "tools": {} }));
    assert_eq!(
        discover.at("/result/supportedVersions"),
        json!(["2026-07-28", "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"])
    );
    let names: Vec<String> = super::rig::tools().iter().map(|t| t.meta.name.to_owned()).collect();
    let listed: Vec<String> = list.at("/result/tools").as_array().unwrap()[..names.len()]
        .iter()
        .map(|tool| tool["name"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(listed, names);
}

#[tokio::test]
async fn errors_carry_their_data() {
    let rig = Rig::start().await;
    let unsupported = rig
        .ask(
            &list()
                .bend(r#"Version":"2026-07-28""#, r#"Version":"v999""#)
                .set("MCP-Protocol-Version", "v999"),
        )
        .await;
    assert_eq!(unsupported.at("/error/data/requested"), json!("v999"));
    assert_eq!(unsupported.at("/error/data/supported/0"), json!("2026-07-28"));
    let mismatch = rig.ask(&list().set("Mcp-Method", "x")).await;
    assert_eq!(
        mismatch.at("/error/data/mismatch"),
        json!({ "name": "Mcp-Method", "header": "x", "body": "tools/list" })
    );
    let envelope = rig.ask(&list().bend(META_CAPABILITIES, "")).await;
    assert_eq!(
        envelope.at("/error/data/envelope"),
        json!({ "key": "io.modelcontextprotocol/clientCapabilities", "problem": "missing" })
    );
}

#[tokio::test]
async fn a_session_id_is_ignored_and_never_echoed() {
    let rig = Rig::start().await;
    let ask = list().with("Mcp-Session-Id", "stale").with("Last-Event-ID", "9");
    let reply = rig.ask(&ask).await;
    assert_eq!(reply.status, 200);
    assert!(!format!("{:?}", reply.headers).contains("stale"));
}
