//! Tool results on the wire: ours 2 and 3, and the forms a client may ask for (mcp.md 1.3).

use serde_json::{Value, json};

use super::rig::{Ask, REFUSED, Reply, Rig, read};

pub(crate) fn block(reply: &Reply, at: usize) -> Value {
    let text = reply.at(&format!("/result/content/{at}/text"));
    serde_json::from_str(text.as_str().expect("a text block")).expect("JSON in text")
}

#[tokio::test]
async fn a_success_and_a_refusal() {
    let rig = Rig::start().await;
    let good = rig.ask(&read()).await;
    assert!(good.at("/result/structuredContent").is_object(), "{}", good.body);
    assert_eq!(block(&good, 0), good.at("/result/structuredContent"));
    assert_ne!(good.at("/result/isError"), json!(true));
    let (tool, arguments, code) = REFUSED;
    let refused = rig.ask(&Ask::call(tool, arguments)).await;
    assert_eq!(refused.status, 200, "{}", refused.body);
    assert_eq!(refused.at("/result/isError"), json!(true));
    assert_eq!(refused.at("/result/structuredContent"), Value::Null);
    let told = block(&refused, 0);
    assert_eq!(told["error"], json!(code));
    assert!(told["message"].is_string() && told["retryable"].is_boolean(), "{told}");
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
        for ask in [Ask::modern("tools/list", ""), read(), Ask::legacy("ping", "")] {
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
