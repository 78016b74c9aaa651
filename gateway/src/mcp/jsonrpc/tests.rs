use super::*;

fn kind(text: &str) -> String {
    match message(text) {
        Ok(Message::Request(request)) => {
            let params = request.params.map_or("-", RawValue::get);
            format!("request {} {} {params}", request.id.text(), request.method)
        }
        Ok(Message::Notification) => "notification".to_owned(),
        Ok(Message::Response) => "response".to_owned(),
        Err(bad) => format!("{} {}", bad.code, bad.id.map_or("-", Id::text)),
    }
}

#[test]
fn messages_are_told_apart() {
    let table = [
        (r#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#, "request 7 ping -"),
        (r#"{"jsonrpc":"2.0","id":-7,"method":"ping"}"#, "request -7 ping -"),
        (r#"{"jsonrpc":"2.0","id":"","method":"ping"}"#, r#"request "" ping -"#),
        (r#"{"jsonrpc":"2.0","id":"a\u0062","method":"p\u0069ng"}"#, r#"request "a\u0062" ping -"#),
        (r#"{"id":1,"method":"x","params":{"a" : 1},"jsonrpc":"2.0"}"#, r#"request 1 x {"a" : 1}"#),
        (r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#, "notification"),
        (r#"{"jsonrpc":"2.0","id":1,"result":{}}"#, "response"),
        (r#"{"jsonrpc":"2.0","id":1,"error":null}"#, "response"),
        (r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, "-32600 -"),
        (r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, "-32600 -"),
        (r#"{"jsonrpc":"2.0","id":1e3,"method":"x"}"#, "-32600 -"),
        (r#"{"jsonrpc":"2.0","id":true,"method":"x"}"#, "-32600 -"),
        (r#"{"jsonrpc":"2.0","id":[1],"method":"x"}"#, "-32600 -"),
        (r#"{"jsonrpc":"2.0","id":{},"method":"x"}"#, "-32600 -"),
        (r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, "-32600 1"),
        (r#"{"id":1,"method":"x"}"#, "-32600 1"),
        (r#"{"jsonrpc":"2.0","id":1}"#, "-32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":5}"#, "-32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":null}"#, "-32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"method":"\ud800"}"#, "-32600 1"),
        (r#"{"jsonrpc":"2.0","id":1,"id":2,"method":"x"}"#, "-32600 -"),
        ("\"text\"", "-32600 -"),
        ("42", "-32600 -"),
        ("null", "-32600 -"),
        (r#"["2.0",1,"x",null,null,null]"#, "-32600 -"),
        ("", "-32700 -"),
        ("{", "-32700 -"),
        ("{}x", "-32700 -"),
        ("\u{feff}{}", "-32700 -"),
        (r#"{"jsonrpc":"2.0","id":01,"method":"x"}"#, "-32700 -"),
    ];
    for (text, expected) in table {
        assert_eq!(kind(text), expected, "{text}");
    }
}

#[test]
fn ids_are_bounded() {
    let fits = format!("\"{}\"", "x".repeat(ID_BYTES_MAX - 2));
    assert!(Id::new(&fits).is_some());
    assert!(Id::new(&format!("\"{}\"", "x".repeat(ID_BYTES_MAX - 1))).is_none());
    assert!(Id::new(&"9".repeat(ID_BYTES_MAX)).is_some());
    assert!(Id::new(&"9".repeat(ID_BYTES_MAX + 1)).is_none());
    assert!(Id::new("-").is_none());
}

#[test]
fn batches_are_bounded() {
    let of = |n: usize| format!(" [{}]", vec!["1"; n].join(","));
    assert!(matches!(body("{}"), Ok(Body::One("{}"))));
    assert!(matches!(body(&of(1)), Ok(Body::Batch(entries)) if entries.len() == 1));
    let most = of(BATCH_ENTRIES_MAX);
    assert!(matches!(body(&most), Ok(Body::Batch(entries)) if entries.len() == BATCH_ENTRIES_MAX));
    for (text, code) in [
        (of(0), code::INVALID_REQUEST),
        (of(BATCH_ENTRIES_MAX + 1), code::INVALID_REQUEST),
        ("[1,".to_owned(), code::PARSE),
        ("[1]]".to_owned(), code::PARSE),
    ] {
        assert_eq!(body(&text).err().map(|bad| bad.code), Some(code), "{text}");
    }
    assert!(
        format!("{:?}", body(&of(BATCH_ENTRIES_MAX + 1)).err())
            .contains(&BATCH_ENTRIES_MAX.to_string())
    );
}

#[test]
fn errors_are_written_with_and_without_id() {
    let text = |id, data| String::from_utf8(error(id, -32600, "no \"x\"", data)).expect("utf-8");
    assert_eq!(
        text(ErrorId::Null, None),
        r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"no \"x\""}}"#
    );
    assert_eq!(
        text(ErrorId::Absent, Some("[1]")),
        r#"{"jsonrpc":"2.0","error":{"code":-32600,"message":"no \"x\"","data":[1]}}"#
    );
    let id = Id::new("\"a\"").expect("an id");
    assert!(text(ErrorId::Of(id), None).starts_with(r#"{"jsonrpc":"2.0","id":"a","error""#));
}

#[test]
fn debug_shows_no_parameters() {
    let text = r#"{"jsonrpc":"2.0","id":1,"method":"x","params":{"a":"canary"}}"#;
    assert!(!format!("{:?}", message(text)).contains("canary"));
    assert!(!format!("{:?}", body(text)).contains("canary"));
    let batch = format!("[{text}]");
    assert!(!format!("{:?}", body(&batch)).contains("canary"));
}
