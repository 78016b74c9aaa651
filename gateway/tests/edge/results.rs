//! Tool results on the wire: ours 2 and 3, and the forms a client may ask for (mcp.md 1.3).

use serde_json::{Value, json};

use crate::rig::{Ask, Reply, Rig};

fn block(reply: &Reply, at: usize) -> Value {
    let text = reply.at(&format!("/result/content/{at}/text"));
    serde_json::from_str(text.as_str().expect("a text block")).expect("JSON in text")
}

#[tokio::test]
async fn successes_and_refusals() {
    let rig = Rig::start().await;
    let echo = rig.ask(&Ask::call("echo", r#"{"a":"\"é"}"#)).await;
    assert_eq!(echo.at("/result/structuredContent"), json!({ "got": { "a": "\"é" } }));
    assert_eq!(block(&echo, 0), echo.at("/result/structuredContent"));
    let refused = rig.ask(&Ask::call("refuse", "{}")).await;
    assert_eq!(refused.status, 200);
    assert_eq!(refused.at("/result/isError"), json!(true));
    assert_eq!(refused.at("/result/structuredContent"), Value::Null);
    assert_eq!(
        block(&refused, 0),
        json!({ "error": "room_full", "message": "The room is full.", "retryable": true,
                "retryAfterMs": 17 })
    );
    let image = rig.ask(&Ask::call("image", "{}")).await;
    assert_eq!(image.at("/result/content/0/type"), json!("image"));
    assert_eq!(image.at("/result/content/0/mimeType"), json!("image/png"));
    assert_eq!(block(&image, 1), json!({ "attachment": {} }));
    let text = rig.ask(&Ask::call("text", "{}")).await;
    assert_eq!(text.at("/result/structuredContent"), json!({ "attachment": {}, "text": "a,b" }));
    assert_eq!(block(&text, 0), json!({ "attachment": {}, "text": "a,b", "data": "YSxi" }));
    assert_eq!(rig.edge.gauges().response_bytes, 0, "all charges came back");
}

#[tokio::test]
async fn faults_of_ours_are_internal_errors() {
    let rig = Rig::start().await;
    let broken = rig.ask(&Ask::call("broken", "{}")).await;
    assert!(broken.line().starts_with("200 -32603 7 "), "{}", broken.line());
    let boom = rig.ask(&Ask::call("boom", "{}")).await;
    assert!(boom.line().starts_with("500 -32603 null Internal server error"), "{}", boom.line());
    assert_eq!(rig.edge.stats().panics(), 1);
    assert_eq!(rig.edge.gauges().inflight, 0, "the permit came back");
}

#[tokio::test]
async fn the_form_follows_accept() {
    let rig = Rig::start().await;
    let table = [
        (None, 200, Some("application/json")),
        (Some("*/*"), 200, Some("application/json")),
        (Some("application/json"), 200, Some("application/json")),
        (Some("application/json, text/event-stream"), 200, Some("application/json")),
        (Some("text/event-stream"), 200, Some("text/event-stream")),
        (Some("text/html"), 406, Some("application/json")),
    ];
    for (accept, status, content_type) in table {
        for ask in [Ask::modern("tools/list", ""), Ask::call("echo", "{}"), Ask::legacy("ping", "")]
        {
            let ask = match accept {
                Some(accept) => ask.with("Accept", accept),
                None => ask,
            };
            let reply = rig.ask(&ask).await;
            assert_eq!(reply.status, status, "{accept:?}");
            assert_eq!(reply.header("content-type"), content_type, "{accept:?}");
            if content_type == Some("text/event-stream") {
                assert_eq!(reply.header("x-accel-buffering"), Some("no"));
                let data = reply.body.strip_prefix("event: message\ndata: ").expect("an event");
                let data = data.strip_suffix("\n\n").expect("the event's end");
                assert!(!data.contains('\n'));
                let message: Value = serde_json::from_str(data).expect("one message");
                assert_eq!(message["id"], json!(7));
            }
        }
    }
    let calls = rig.script.calls();
    let refused = rig.ask(&Ask::call("write", "{}").with("Accept", "text/html")).await;
    assert_eq!((refused.status, rig.script.calls()), (406, calls), "nothing was executed");
    let note = Ask::bare(r#"{"jsonrpc":"2.0","method":"x"}"#).with("Accept", "text/html");
    assert_eq!(rig.ask(&note).await.line(), "202 empty");
}

#[tokio::test]
async fn only_json_is_taken() {
    let rig = Rig::start().await;
    for (content_type, status) in [
        (Some("application/json"), 200),
        (Some("application/json; charset=utf-8"), 200),
        (Some("text/plain"), 415),
        (None, 415),
    ] {
        let mut ask = Ask::legacy("ping", "").without("Content-Type");
        if let Some(content_type) = content_type {
            ask = ask.with("Content-Type", content_type);
        }
        let line = rig.ask(&ask).await.line();
        assert!(line.starts_with(&status.to_string()), "{content_type:?}: {line}");
    }
}
