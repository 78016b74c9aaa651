//! Every bound of the edge, reached: ours 2 and 20.

use std::time::Duration;

use gateway::http::Settings;
use gateway::http::body::UNCHARGED_BYTES_MAX;
use gateway::http::server::{IDLE_MAX, SURPLUS_CONNECTIONS_MAX};
use gateway::http::stats::Turned;

use crate::rig::{Ask, Rig, Script};

fn turned(rig: &Rig, why: Turned) -> u64 {
    rig.edge.stats().turned().find(|(reason, _)| *reason == why).expect("listed").1
}

/// A ping whose body has exactly this many bytes.
fn padded(bytes: usize) -> Ask {
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
    assert_eq!(turned(&rig, Turned::BodyTooLarge), 3);
}

#[tokio::test]
async fn a_body_without_length_is_cut_at_the_cap() {
    let rig = Rig::with(Settings { body_bytes_max: 1_000, ..Settings::default() }).await;
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
    wire.send(b"400\r\n").await;
    wire.try_send(&[b' '; 1024]).await;
    assert_eq!(wire.reply().await.status, 413);
}

#[tokio::test]
async fn a_slow_body_ends() {
    let body_timeout = Duration::from_millis(20);
    let rig = Rig::with(Settings { body_timeout, ..Settings::default() }).await;
    let mut wire = rig.connect().await;
    wire.send(Ask::legacy("ping", "").head(100).as_bytes()).await;
    wire.send(b"{").await;
    assert_eq!(wire.reply().await.status, 408);
    assert!(wire.is_closed().await);
    assert_eq!(turned(&rig, Turned::BodyTooSlow), 1);
}

#[tokio::test]
async fn a_slow_head_ends() {
    let header_timeout = Duration::from_millis(20);
    let rig = Rig::with(Settings { header_timeout, ..Settings::default() }).await;
    for start in [&b"POST /mcp HTT"[..], b"", b"POST /mcp HTTP/1.1\r\nHost: local"] {
        let mut wire = rig.connect().await;
        wire.try_send(start).await;
        assert!(wire.is_closed().await, "a head that never ends");
    }
}

#[tokio::test]
async fn an_idle_connection_outlives_the_head_timeout() {
    let rig = Rig::start().await;
    let ping = Ask::legacy("ping", "").bytes();
    let mut wire = rig.connect().await;
    for _ in 0..3 {
        wire.send(&ping).await;
        assert_eq!(wire.reply().await.status, 200);
        jump(Settings::default().header_timeout * 2).await;
    }
    jump(IDLE_MAX).await;
    assert!(wire.is_closed().await);
}

/// Moves the clock of all timers; sockets know nothing of it.
async fn jump(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
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
        Ask::legacy("tools/call", &format!(r#""name":"echo","arguments":{{"a":{value}}}"#))
    };
    assert_eq!(rig.ask(&nested(61)).await.line(), "200 result 7");
    for n in [62, 10_000, 500_000] {
        let line = rig.ask(&nested(n)).await.line();
        assert!(line.starts_with("400 -32600 null "), "{n}: {line}");
    }
    assert_eq!(turned(&rig, Turned::JsonTooDeep), 3);
}

#[tokio::test]
async fn requests_in_flight_are_bounded() {
    let rig = Rig::with(Settings { inflight_max: 2, ..Settings::default() }).await;
    let mut held = Vec::new();
    for _ in 0..2 {
        let mut wire = rig.connect().await;
        wire.send(&Ask::call("hold", "{}").bytes()).await;
        Script::take(&rig.script.begun).await;
        held.push(wire);
    }
    assert_eq!(rig.edge.gauges().inflight, 2);
    let over = rig.ask(&Ask::modern("tools/list", "")).await;
    assert_eq!(over.status, 503);
    assert_eq!(over.header("retry-after"), Some("1"));
    assert_eq!(turned(&rig, Turned::Inflight), 1);
    let live = rig.ask(&Ask::bare("").line("GET /livez HTTP/1.1")).await;
    assert_eq!(live.status, 200, "health is always answered");
    rig.script.gate.add_permits(2);
    for mut wire in held {
        assert_eq!(wire.reply().await.line(), "200 result 7");
    }
    assert_eq!(rig.ask(&Ask::modern("tools/list", "")).await.status, 200);
}

#[tokio::test]
async fn slow_bodies_take_no_place_in_flight() {
    let rig = Rig::with(Settings { inflight_max: 1, ..Settings::default() }).await;
    let mut slow = Vec::new();
    for _ in 0..3 {
        let mut wire = rig.connect().await;
        let ask = Ask::legacy("ping", "").with("Expect", "100-continue");
        wire.send(ask.head(40).as_bytes()).await;
        assert_eq!(wire.interim().await, "HTTP/1.1 100 Continue", "the body is being read");
        slow.push(wire);
    }
    assert_eq!(rig.edge.gauges().inflight, 0);
    assert_eq!(rig.ask(&Ask::legacy("ping", "")).await.line(), "200 result 7");
    for mut wire in slow {
        wire.send(br#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#).await;
        assert_eq!(wire.reply().await.line(), "200 result 1");
    }
}

#[tokio::test]
async fn memory_of_bodies_is_bounded() {
    let big = UNCHARGED_BYTES_MAX + 1_000;
    let rig = Rig::with(Settings { request_bytes_max: 1_500, ..Settings::default() }).await;
    let ask = |bytes: usize| {
        let frame = r#"{"pad":""}"#.len() + Ask::call("hold", "{}").body_bytes() - 2;
        Ask::call("hold", &format!(r#"{{"pad":"{}"}}"#, "x".repeat(bytes - frame)))
    };
    let mut held = rig.connect().await;
    held.send(&ask(big).bytes()).await;
    Script::take(&rig.script.begun).await;
    assert_eq!(rig.edge.gauges().request_bytes, 1_000, "until its call has ended");
    let over = rig.ask(&padded(big)).await;
    assert_eq!((over.status, over.header("retry-after")), (503, Some("1")));
    assert_eq!(turned(&rig, Turned::Memory), 1);
    // What every call without a blob needs is not charged.
    assert_eq!(rig.ask(&padded(UNCHARGED_BYTES_MAX)).await.line(), "200 result 7");
    assert_eq!(rig.ask(&padded(UNCHARGED_BYTES_MAX + 500)).await.line(), "200 result 7");
    rig.script.gate.add_permits(1);
    assert_eq!(held.reply().await.line(), "200 result 7");
    assert_eq!(rig.edge.gauges().request_bytes, 0);
    assert_eq!(rig.ask(&padded(big)).await.line(), "200 result 7");
}

#[tokio::test]
async fn connections_are_bounded() {
    let rig = Rig::with(Settings { connections_max: 2, ..Settings::default() }).await;
    let ping = Ask::legacy("ping", "").bytes();
    let mut first = rig.connect().await;
    let mut second = rig.connect().await;
    for wire in [&mut first, &mut second] {
        wire.send(&ping).await;
        assert_eq!(wire.reply().await.status, 200);
    }
    assert_eq!(rig.edge.gauges().connections, 2);
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
    let before = turned(&rig, Turned::Connections);
    let mut last = rig.connect().await;
    assert!(last.is_closed().await);
    assert_eq!(turned(&rig, Turned::Connections), before + 1);
}

#[tokio::test]
async fn response_memory_is_bounded() {
    let rig = Rig::with(Settings { response_bytes_max: 4_096, ..Settings::default() }).await;
    assert_eq!(rig.ask(&Ask::call("echo", "{}")).await.status, 200);
    let big = format!(r#"{{"a":"{}"}}"#, "x".repeat(4_096));
    let over = rig.ask(&Ask::call("echo", &big)).await;
    assert_eq!((over.status, over.header("retry-after")), (503, Some("1")));
    assert_eq!(over.at("/id"), serde_json::json!(7));
    assert_eq!(turned(&rig, Turned::Memory), 1);
    assert_eq!(rig.ask(&Ask::call("echo", "{}")).await.status, 200);
    // In a batch the answers that wait for the last one count too.
    let entry = |id: u8| {
        let pad = "x".repeat(900);
        format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","arguments":{{"a":"{pad}"}}}}}}"#
        )
    };
    let batch = format!("[{},{},{}]", entry(1), entry(2), entry(3));
    let reply = rig.ask(&Ask::bare(batch)).await;
    assert_eq!(reply.status, 200);
    assert_eq!(reply.at("/0/error"), serde_json::Value::Null);
    assert_eq!(reply.at("/2/error/code"), serde_json::json!(-32603));
    assert_eq!(rig.edge.gauges().response_bytes, 0);
}
