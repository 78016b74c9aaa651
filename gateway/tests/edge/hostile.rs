//! Input of somebody who wants no answer.

use super::rig::{Ask, READ, Rig, name_of_read, table};

#[tokio::test]
async fn bytes_that_are_no_http() {
    let rig = Rig::start().await;
    for bytes in [
        &b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"[..],
        b"\0\0\0\0\r\n\r\n",
        b"GET\r\n\r\n",
        b"POST /mcp HTTP/9.9\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\
          Content-Type: application/json\r\n\r\nzz\r\n",
    ] {
        let mut wire = rig.connect().await;
        wire.send(bytes).await;
        wire.finish().await;
        let text = wire.rest().await;
        let shown = String::from_utf8_lossy(bytes);
        assert!(text.is_empty() || text.starts_with("HTTP/1.1 4"), "{shown}: {text}");
    }
    assert_eq!(rig.ask(&Ask::legacy("ping", "")).await.line(), "200 result 7");
}

#[tokio::test]
async fn json_that_is_meant_to_hurt() {
    let name = name_of_read();
    let huge = "9".repeat(600);
    let long = format!("\"{}\"", "x".repeat(600));
    let with_id = |id: &str| Ask::bare(format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#));
    let mut invalid = br#"{"jsonrpc":"2.0","id":7,"method":"ping","x":""#.to_vec();
    invalid.extend_from_slice(b"\xff\xfe\"}");
    table(&[
        (with_id(&huge), "400 -32600 null "),
        (with_id(&long), "400 -32600 null "),
        (with_id("99999999999999999999"), "200 result "),
        (with_id("\"\\ud800\""), "200 "),
        (Ask::bare(invalid), "400 -32700 null "),
        (Ask::bare(r#"{"jsonrpc":"2.0","id":7,"id":8,"method":"ping"}"#), "400 -32600 null "),
        (Ask::bare(r#"{"jsonrpc":"2.0","id":7,"method":"ping","method":"x"}"#), "400 -32600 "),
        (Ask::legacy("tools/call", &format!(r#"{name},"name":"x""#)), "400 -32602 7 "),
        (
            Ask::legacy("tools/call", &format!(r#"{name},"arguments":{{}},"arguments":{{}}"#)),
            "400 -32602 7 ",
        ),
        (Ask::legacy("ping", r#""_meta":5"#), "400 -32602 7 "),
        (Ask::legacy("tools/call", r#""name":"\ud800""#), "200 -32602 7 "),
        (Ask::legacy("tools/call", &format!(r#"{name},"arguments":{{"a":"\ud800"}}"#)), "200 "),
        (Ask::bare("\u{feff}{}"), "400 -32700 null "),
        (Ask::bare("{\"a\":1e999999}"), "400 -32600 null "),
        (Ask::bare("[".repeat(100_000)), "400 -32600 null "),
        (Ask::bare("{\"a\":".repeat(10_000)), "400 -32600 null "),
        (Ask::bare("\u{0}"), "400 -32700 null "),
        (Ask::legacy(&"x".repeat(10_000), ""), "200 -32601 7 Method not found: xxxx"),
    ])
    .await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let rig = Rig::start().await;
    let mut bytes = Vec::new();
    for id in 0..50 {
        let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"method":"ping"}}"#);
        bytes.extend_from_slice(&Ask::bare(body).bytes());
    }
    let mut wire = rig.connect().await;
    wire.send(&bytes).await;
    for id in 0..50 {
        assert_eq!(wire.reply().await.line(), format!("200 result {id}"));
    }
}

#[tokio::test]
async fn random_bytes_never_get_a_success_or_a_fault_of_ours() {
    let rig = Rig::start().await;
    let mut random = fastrand::Rng::with_seed(7);
    let sample = Ask::call(READ.0, r#"{"a":[1,{"b":"c"}]}"#).bytes();
    let start = sample.windows(4).position(|w| w == b"\r\n\r\n").expect("a head") + 4;
    for round in 0..300 {
        let mut body = sample[start..].to_vec();
        for _ in 0..random.usize(1..6) {
            let at = random.usize(..body.len());
            match random.u8(..3) {
                0 => body[at] = random.u8(..),
                1 => drop(body.remove(at)),
                _ => body.insert(at, *random.choice(b"{}[]\",:\\0").expect("some")),
            }
        }
        let ask = Ask::modern("tools/call", "").with("Mcp-Name", READ.0).body(body.clone());
        let reply = rig.ask(&ask).await;
        let shown = String::from_utf8_lossy(&body).into_owned();
        assert!(reply.status < 500, "round {round}: {} for {shown}", reply.line());
        if !reply.body.is_empty() {
            reply.json();
        }
    }
    assert_eq!(rig.panics().await, 0);
}
