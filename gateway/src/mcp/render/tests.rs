use bytes::Bytes;
use object::Class;
use serde_json::{Value, json};

use super::*;
use crate::error::Fault;

const EXTRAS: &[u8] = b",\"resultType\":\"complete\"";

fn id() -> Id<'static> {
    Id::new("7").expect("an id")
}

fn made(body: &'static str, blob: Option<Attached>) -> Success {
    Success { body: Bytes::from_static(body.as_bytes()), blob }
}

fn rendered(era: Era, what: &Success) -> Value {
    let bytes = success(era, id(), what, EXTRAS).expect("an object");
    assert!(bytes.len() <= success_bytes_bound(what), "{} bytes", bytes.len());
    serde_json::from_slice(&bytes).expect("well formed")
}

fn text_block(answer: &Value, at: usize) -> Value {
    let text = answer.pointer(&format!("/result/content/{at}/text")).expect("a text block");
    serde_json::from_str(text.as_str().expect("text")).expect("JSON in text")
}

#[test]
fn a_plain_success_says_the_same_twice() {
    let what = made(r#"{"a":"quote \" and \\ é","n":[1]}"#, None);
    let answer = rendered(Era::Modern, &what);
    let object = json!({ "a": "quote \" and \\ é", "n": [1] });
    assert_eq!(answer.pointer("/result/structuredContent"), Some(&object));
    assert_eq!(text_block(&answer, 0), object);
    assert_eq!(answer.pointer("/result/resultType"), Some(&json!("complete")));
    assert_eq!(answer.pointer("/result/isError"), None);
    assert_eq!(answer.pointer("/id"), Some(&json!(7)));
    let legacy = rendered(Era::Legacy, &what);
    assert_eq!(legacy.pointer("/result/resultType"), None);
    assert_eq!(legacy.pointer("/result/structuredContent"), Some(&object));
}

#[test]
fn an_image_comes_first() {
    let blob =
        Attached { bytes: Bytes::from_static(b"\x89PNG"), image_mime: Some("image/png".into()) };
    let answer = rendered(Era::Modern, &made(r#"{"attachment":{"id":"x"}}"#, Some(blob)));
    assert_eq!(
        answer.pointer("/result/content/0"),
        Some(&json!({ "type": "image", "data": "iVBORw==", "mimeType": "image/png" }))
    );
    assert_eq!(text_block(&answer, 1), json!({ "attachment": { "id": "x" } }));
    assert_eq!(
        answer.pointer("/result/structuredContent"),
        Some(&json!({ "attachment": { "id": "x" } }))
    );
}

#[test]
fn attached_text_has_its_data_only_in_the_block() {
    let table: [(&'static str, &'static [u8], &str, &str); 5] = [
        (r#"{"attachment":{}}"#, b"a,b\n", "YSxiCg==", "a,b\n"),
        (r#"{"attachment":{}}"#, b"", "", ""),
        (r#"{"attachment":{}}"#, b"\xff\"\\", "/yJc", "\u{fffd}\"\\"),
        (
            r#"{"attachment":{}}"#,
            b"\x01\x02\x01\x02\x01\x02",
            "AQIBAgEC",
            "\u{1}\u{2}\u{1}\u{2}\u{1}\u{2}",
        ),
        ("{}", b"x", "eA==", "x"),
    ];
    for (body, bytes, data, text) in table {
        let blob = Attached { bytes: Bytes::from_static(bytes), image_mime: None };
        let answer = rendered(Era::Legacy, &made(body, Some(blob)));
        let structured = answer.pointer("/result/structuredContent").expect("structured");
        assert_eq!(structured.get("text"), Some(&json!(text)));
        assert_eq!(structured.get("data"), None);
        let block = text_block(&answer, 0);
        assert_eq!(block.get("text"), Some(&json!(text)));
        assert_eq!(block.get("data"), Some(&json!(data)));
        assert_eq!(block.get("attachment"), structured.get("attachment"));
    }
}

#[test]
fn the_bound_holds_for_the_worst_text() {
    for byte in [0x01_u8, b'"', b'\\', 0xff, b'\n', b'a'] {
        let blob = Attached { bytes: Bytes::from(vec![byte; 10_000]), image_mime: None };
        rendered(Era::Modern, &made(r#"{"attachment":{}}"#, Some(blob)));
    }
}

#[test]
fn a_body_that_is_no_object_is_our_fault() {
    for body in ["", "[]", "null", "{\"a\":1}x"] {
        let what = made(body, None);
        assert_eq!(success(Era::Modern, id(), &what, EXTRAS), Err(NoObject), "{body}");
    }
    let latin = Success { body: Bytes::from_static(b"{\"a\":\"\xe9\"}"), blob: None };
    assert_eq!(success(Era::Modern, id(), &latin, EXTRAS), Err(NoObject));
}

#[test]
fn a_refusal_has_the_one_error_shape() {
    let refused = |what: &Refusal| {
        let bytes = refusal(Era::Modern, id(), what, EXTRAS);
        let answer: Value = serde_json::from_slice(&bytes).expect("well formed");
        assert_eq!(answer.pointer("/result/isError"), Some(&json!(true)));
        assert_eq!(answer.pointer("/result/structuredContent"), None);
        assert_eq!(answer.pointer("/result/resultType"), Some(&json!("complete")));
        text_block(&answer, 0)
    };
    let plain = Refusal::new(Class::Limit, "room_full", "The room is full.", false);
    assert_eq!(
        refused(&plain),
        json!({ "error": "room_full", "message": "The room is full.", "retryable": false })
    );
    let mut full = Refusal::new(Class::Invalid, "invalid_arguments", "Mend them.", true)
        .field("text")
        .limit(4000)
        .retry_after(17);
    full.faults.push(Fault { path: "a.b".into(), rule: "type".into(), message: "a number".into() });
    assert_eq!(
        refused(&full),
        json!({
            "error": "invalid_arguments", "message": "Mend them.", "retryable": true,
            "retryAfterMs": 17, "field": "text", "limit": 4000,
            "fields": [{ "path": "a.b", "rule": "type", "message": "a number" }]
        })
    );
}
