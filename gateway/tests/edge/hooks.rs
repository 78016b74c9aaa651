//! The conformance suite's tools, only with the feature `test-hooks`: checks 13 and 14.

use serde_json::json;

use super::rig::{Ask, Rig, table};

fn annotated(arguments: &str) -> Ask {
    Ask::call("test_x_header", arguments)
}

#[tokio::test]
async fn annotated_parameters_and_capabilities() {
    let blue = || annotated(r#"{"room":"blue"}"#);
    let name = "Mcp-Param-Room";
    table(&[
        (annotated("{}"), "200 result 7"),
        (annotated(r#"{"room":null}"#), "200 result 7"),
        (blue().with(name, "blue"), "200 result 7"),
        (blue().with(name, "=?base64?Ymx1ZQ==?="), "200 result 7"),
        (blue(), "400 -32020 7 Header mismatch: Mcp-Param-Room is missing"),
        (blue().with(name, "red"), "400 -32020 7 Header mismatch: Mcp-Param-Room differs"),
        (blue().with(name, "=?base64?Ymx1ZQ?="), "400 -32020 7 "),
        (annotated("{}").with(name, "blue"), "400 -32020 7 Header mismatch: Mcp-Param-Room"),
        (Ask::call("test_missing_capability", "{}"), "400 -32021 7 "),
        (
            Ask::call("test_missing_capability", "{}")
                .bend(r#"Capabilities":{}"#, r#"Capabilities":{"sampling":{}}"#),
            "200 result 7",
        ),
        (Ask::call("test_streaming_elicitation", "{}"), "400 -32021 7 "),
        (
            Ask::legacy("tools/call", r#""name":"test_x_header","arguments":{"room":"x"}"#),
            "200 result 7",
        ),
        (Ask::legacy("tools/call", r#""name":"test_missing_capability""#), "200 result 7"),
    ])
    .await;
}

#[tokio::test]
async fn what_they_say() {
    let rig = Rig::start().await;
    let simple = rig.ask(&Ask::call("test_simple_text", "{}")).await;
    let text = "This is a simple text response for testing.";
    assert_eq!(simple.at("/result/content/0/text"), json!(text));
    assert_eq!(simple.at("/result/resultType"), json!("complete"));
    let error = rig.ask(&Ask::call("test_error_handling", "{}")).await;
    assert_eq!(error.at("/result/isError"), json!(true));
    let missing = rig.ask(&Ask::call("test_missing_capability", "{}")).await;
    assert_eq!(missing.at("/error/data/requiredCapabilities"), json!({ "sampling": {} }));
    let ask = Ask::call("test_streaming_elicitation", "{}")
        .bend(r#"Capabilities":{}"#, r#"Capabilities":{"elicitation":{}}"#);
    let asked = rig.ask(&ask).await;
    assert_eq!(asked.at("/result/resultType"), json!("input_required"));
    let preflight = Ask::bare("").line("OPTIONS /mcp HTTP/1.1").with("Origin", "http://localhost");
    let reply = rig.ask(&preflight).await;
    let allowed = reply.header("access-control-allow-headers").expect("allowed headers");
    assert!(allowed.ends_with(", mcp-param-room"), "{allowed}");
}
