//! Every bound of the edge, reached: ours 2 and 20.

use std::time::Duration;

use gateway::http::Settings;
use gateway::http::route::{DISCARD_BYTES_MAX, DISCARDS_MAX};
use gateway::http::server::SURPLUS_CONNECTIONS_MAX;
use gateway::http::stats::Turned;

use super::rig::{Ask, Rig, Setup, name_of_read};

/// A ping whose body has exactly this many bytes.
pub(crate) fn padded(bytes: usize) -> Ask {
    let frame = r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{"pad":""}}"#.len();
    Ask::legacy("ping", &format!(r#""pad":"{}""#, "x".repeat(bytes - frame)))
}

#[tokio::test]
async fn a_body_up_to_the_cap_and_not_a_byte_more() {
    let cap = Settings::default().body_bytes_max;
    assert_eq!(cap, 2 * 1024 * 1024);
    let rig = Rig::start().await;
    assert_eq!(rig.ask(&padded(cap)).await.line(), "200 result 7");
    let over = rig.ask(&padded(cap + 1)).await.line();
    assert!(over.starts_with("413 -32600 null "), "{over}");
    // Declared: refused before a byte of it came.
    let mut wire = rig.connect().await;
    wire.send(padded(cap).head(cap + 1).as_bytes()).await;
    assert_eq!(wire.reply().await.status, 413);
    // A client that asks first is not told to go on.
    let mut wire = rig.connect().await;
    let head = Ask::legacy("ping", "").with("Expect", "100-continue").head(1 << 40);
    wire.send(head.as_bytes()).await;
    assert_eq!(wire.reply().await.status, 413);
    assert_eq!(rig.turned(Turned::BodyTooLarge).await, 3);
}

#[tokio::test]
async fn a_body_without_length_is_cut_at_the_cap() {
    let rig = Rig::with(Setup { body_bytes_max: Some(1_024), ..Setup::default() }).await;
    let head = "POST /mcp HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n\
                Transfer-Encoding: chunked\r\n\r\n";
    let mut wire = rig.connect().await;
    wire.send(head.as_bytes()).await;
    let body = br#"{"jsonrpc":"2.0","id":7,"method":"ping"}"#;
    let (one, two) = body.split_at(20);
    for piece in [one, two] {
        wire.send(format!("{:x}\r\n", piece.len()).as_bytes()).await;
        wire.send(piece).await;
        wire.send(b"\r\n").await;
    }
    wire.send(b"0\r\n\r\n").await;
    assert_eq!(wire.reply().await.line(), "200 result 7");
    wire.send(head.as_bytes()).await;
    wire.send(b"401\r\n").await;
    wire.try_send(&[b' '; 1025]).await;
    assert_eq!(wire.reply().await.status, 413);
}

#[tokio::test]
async fn a_slow_body_ends() {
    let body_timeout = Some(Duration::from_millis(20));
    let rig = Rig::with(Setup { body_timeout, ..Setup::default() }).await;
    let mut wire = rig.connect().await;
    wire.send(Ask::legacy("ping", "").head(100).as_bytes()).await;
    wire.send(b"{").await;
    assert_eq!(wire.reply().await.status, 408);
    assert!(wire.is_closed().await);
    assert_eq!(rig.turned(Turned::BodyTooSlow).await, 1);
}

#[tokio::test]
async fn a_slow_head_ends() {
    let header_timeout = Some(Duration::from_millis(20));
    let rig = Rig::with(Setup { header_timeout, ..Setup::default() }).await;
    for start in [&b"POST /mcp HTT"[..], b"", b"POST /mcp HTTP/1.1\r\nHost: local"] {
        let mut wire = rig.connect().await;
        wire.try_send(start).await;
        assert!(wire.is_closed().await, "a head that never ends");
    }
}

#[tokio::test]
async fn a_head_up_to_its_bound() {
    let rig = Rig::start().await;
    let fits = Ask::legacy("ping", "").with("X-Pad", &"x".repeat(32 * 1024));
    assert_eq!(rig.ask(&fits).await.status, 200);
    let mut wire = rig.connect().await;
    wire.try_send(Ask::bare("").with("X-Pad", &"x".repeat(100 * 1024)).head(0).as_bytes()).await;
    let text = wire.rest().await;
    assert!(text.is_empty() || text.starts_with("HTTP/1.1 431 "), "{text}");
}

#[tokio::test]
async fn nesting_up_to_its_bound() {
    let rig = Rig::start().await;
    // The message, params and arguments are three levels.
    let nested = |n: usize| {
        let value = format!("{}{}", "[".repeat(n), "]".repeat(n));
        let name = name_of_read();
        Ask::legacy("tools/call", &format!(r#"{name},"arguments":{{"a":{value}}}"#))
    };
    assert_eq!(rig.ask(&nested(61)).await.line(), "200 result 7");
    for n in [62, 10_000, 500_000] {
        let line = rig.ask(&nested(n)).await.line();
        assert!(line.starts_with("400 -32600 null "), "{n}: {line}");
    }
    assert_eq!(rig.turned(Turned::JsonTooDeep).await, 3);
}

#[tokio::test]
async fn slow_bodies_take_no_place_in_flight() {
    let rig = Rig::with(Setup { inflight_max: Some(1), ..Setup::default() }).await;
    let mut slow = Vec::new();
    for _ in 0..3 {
        let mut wire = rig.connect().await;
        let ask = Ask::legacy("ping", "").with("Expect", "100-continue");
        wire.send(ask.head(40).as_bytes()).await;
        assert_eq!(wire.interim().await, "HTTP/1.1 100 Continue", "the body is being read");
        slow.push(wire);
    }
    assert_eq!(rig.inflight().await, 0);
    assert_eq!(rig.ask(&Ask::legacy("ping", "")).await.line(), "200 result 7");
    for mut wire in slow {
        wire.send(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
        assert_eq!(wire.reply().await.line(), "200 result 1");
    }
}

#[tokio::test]
async fn connections_are_bounded() {
    let rig = Rig::with(Setup { connections_max: Some(2), ..Setup::default() }).await;
    let ping = Ask::legacy("ping", "").bytes();
    let mut first = rig.connect().await;
    let mut second = rig.connect().await;
    for wire in [&mut first, &mut second] {
        wire.send(&ping).await;
        assert_eq!(wire.reply().await.status, 200);
    }
    assert_eq!(rig.connections().await, 2);
    let mut surplus = rig.connect().await;
    surplus.send(&ping).await;
    let reply = surplus.reply().await;
    assert_eq!((reply.status, reply.header("retry-after")), (503, Some("1")));
    assert!(surplus.is_closed().await);
    let live = rig.ask(&Ask::bare("").line("GET /livez HTTP/1.1")).await;
    assert_eq!(live.status, 200);
    // Beyond the places for refusals a connection is closed without a word.
    let mut surplus = Vec::new();
    for _ in 0..SURPLUS_CONNECTIONS_MAX {
        let mut wire = rig.connect().await;
        wire.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert_eq!(wire.reply().await.status, 200);
        surplus.push(wire);
    }
    assert_eq!(rig.surplus().await, SURPLUS_CONNECTIONS_MAX);
    let before = rig.turned(Turned::Connections).await;
    let mut last = rig.connect().await;
    assert!(last.is_closed().await);
    assert_eq!(rig.turned(Turned::Connections).await, before + 1);
}

#[tokio::test]
async fn bodies_read_on_after_a_refusal_are_bounded() {
    let rig = Rig::start().await;
    // Refused by its method, with a body that never ends.
    let unfinished = Ask::bare("").line("PUT /mcp HTTP/1.1").head(100);
    let mut open = Vec::new();
    for _ in 0..DISCARDS_MAX {
        let mut wire = rig.connect().await;
        wire.send(unfinished.as_bytes()).await;
        assert_eq!(wire.reply().await.status, 405);
        open.push(wire);
    }
    // Looked at once: a body is not waited for longer than some seconds.
    assert_eq!(rig.discards().await, DISCARDS_MAX);
    let mut over = rig.connect().await;
    over.send(unfinished.as_bytes()).await;
    assert_eq!(over.reply().await.status, 405);
    assert_eq!(rig.discards().await, DISCARDS_MAX);
    assert!(over.is_closed().await, "its body is not waited for");
}

#[tokio::test]
async fn a_body_is_read_on_up_to_its_bound_after_a_refusal() {
    let rig = Rig::start().await;
    for (length, closed) in [(DISCARD_BYTES_MAX, false), (DISCARD_BYTES_MAX * 2, true)] {
        let mut wire = rig.connect().await;
        wire.send(Ask::bare("").line("PUT /mcp HTTP/1.1").head(length).as_bytes()).await;
        assert_eq!(wire.reply().await.status, 405);
        let sent = wire.try_send(&vec![b'x'; length]).await;
        if closed {
            assert!(wire.is_closed().await, "what is beyond is not read");
            continue;
        }
        assert!(sent);
        wire.send(&Ask::legacy("ping", "").bytes()).await;
        assert_eq!(wire.reply().await.line(), "200 result 7");
    }
    assert_eq!(rig.discards().await, 0);
}
