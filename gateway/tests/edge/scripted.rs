//! What only a script can show: calls that end when the test says so, tools that fail in ways no
//! room does, a clock that jumps, budgets that no flag sets, and the insides of the edge.

use std::time::Duration;

use gateway::http::Settings;
use gateway::http::body::UNCHARGED_BYTES_MAX;
use gateway::http::route::DISCARD_MAX;
use gateway::http::server::IDLE_MAX;
use gateway::http::stats::Turned;
use gateway::mcp::dispatch::{self, Answer, Context};
use gateway::mcp::jsonrpc;
use gateway::mcp::tools::Catalog;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use super::bounds::padded;
use super::results::block;
use super::rig::{Ask, Rig, Script, encoded, table};

#[tokio::test]
async fn names_beyond_ascii() {
    table(&[
        (Ask::call("nämed", "{}").set("Mcp-Name", &encoded("nämed")), "200 result 7"),
        (Ask::call("nämed", "{}"), "400 -32020 7 Header mismatch: Mcp-Name is not plain ASCII"),
    ])
    .await;
}

#[tokio::test]
async fn arguments_arrive_as_they_were_written() {
    let rig = Rig::start().await;
    let call = rig.ask(&Ask::call("echo", r#"{"a" :  1e2}"#)).await;
    assert!(call.body.contains(r#""structuredContent":{"got":{"a" :  1e2}}"#), "{}", call.body);
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
async fn what_cannot_be_answered_is_not_executed() {
    let rig = Rig::start().await;
    let refused = rig.ask(&Ask::call("write", "{}").with("Accept", "text/html")).await;
    assert_eq!((refused.status, rig.script.calls()), (406, 0), "nothing was executed");
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

#[tokio::test]
async fn a_body_that_does_not_come_is_waited_for_so_long_after_a_refusal() {
    let rig = Rig::start().await;
    let mut wire = rig.connect().await;
    wire.send(Ask::bare("").line("PUT /mcp HTTP/1.1").head(100).as_bytes()).await;
    assert_eq!(wire.reply().await.status, 405);
    assert_eq!(rig.edge.gauges().discards, 1);
    jump(DISCARD_MAX).await;
    assert!(wire.is_closed().await);
    assert_eq!(rig.edge.gauges().discards, 0);
}

#[tokio::test]
async fn requests_in_flight_are_bounded() {
    let rig = Rig::settings(Settings { inflight_max: 2, ..Settings::default() }).await;
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
    assert_eq!(rig.turned(Turned::Inflight).await, 1);
    let live = rig.ask(&Ask::bare("").line("GET /livez HTTP/1.1")).await;
    assert_eq!(live.status, 200, "health is always answered");
    rig.script.gate.add_permits(2);
    for mut wire in held {
        assert_eq!(wire.reply().await.line(), "200 result 7");
    }
    assert_eq!(rig.ask(&Ask::modern("tools/list", "")).await.status, 200);
}

#[tokio::test]
async fn memory_of_bodies_is_bounded() {
    let big = UNCHARGED_BYTES_MAX + 1_000;
    let rig = Rig::settings(Settings { request_bytes_max: 1_500, ..Settings::default() }).await;
    let ask = |bytes: usize| {
        let frame = r#"{"pad":""}"#.len() + body_bytes(&Ask::call("hold", "{}")) - 2;
        Ask::call("hold", &format!(r#"{{"pad":"{}"}}"#, "x".repeat(bytes - frame)))
    };
    let mut held = rig.connect().await;
    held.send(&ask(big).bytes()).await;
    Script::take(&rig.script.begun).await;
    assert_eq!(rig.edge.gauges().request_bytes, 1_000, "until its call has ended");
    let over = rig.ask(&padded(big)).await;
    assert_eq!((over.status, over.header("retry-after")), (503, Some("1")));
    assert_eq!(rig.turned(Turned::Memory).await, 1);
    // What every call without a blob needs is not charged.
    assert_eq!(rig.ask(&padded(UNCHARGED_BYTES_MAX)).await.line(), "200 result 7");
    assert_eq!(rig.ask(&padded(UNCHARGED_BYTES_MAX + 500)).await.line(), "200 result 7");
    rig.script.gate.add_permits(1);
    assert_eq!(held.reply().await.line(), "200 result 7");
    assert_eq!(rig.edge.gauges().request_bytes, 0);
    assert_eq!(rig.ask(&padded(big)).await.line(), "200 result 7");
}

#[tokio::test]
async fn response_memory_is_bounded() {
    let rig = Rig::settings(Settings { response_bytes_max: 4_096, ..Settings::default() }).await;
    assert_eq!(rig.ask(&Ask::call("echo", "{}")).await.status, 200);
    let big = format!(r#"{{"a":"{}"}}"#, "x".repeat(4_096));
    let over = rig.ask(&Ask::call("echo", &big)).await;
    assert_eq!((over.status, over.header("retry-after")), (503, Some("1")));
    assert_eq!(over.at("/id"), json!(7));
    assert_eq!(rig.turned(Turned::Memory).await, 1);
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
    assert_eq!(reply.at("/0/error"), Value::Null);
    assert_eq!(reply.at("/2/error/code"), json!(-32603));
    assert_eq!(rig.edge.gauges().response_bytes, 0);
}

#[test]
fn debug_output_holds_no_body() {
    let headers = http::HeaderMap::new();
    let catalog = Catalog::new(super::rig::tools());
    let context = Context::new(&catalog, &headers, true);
    let call = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call",
        "params":{"name":"echo","arguments":{"participantHandle":"canary"}}}"#;
    let answer = Answer::owned(http::StatusCode::OK, b"canary".to_vec());
    let shown = [
        format!("{:?}", dispatch::single(&context, call)),
        format!("{answer:?}"),
        format!("{:?}", answer.payload.into_body(true)),
        format!("{:?}", jsonrpc::body(call)),
        format!("{:?}", jsonrpc::message(call)),
    ];
    for text in shown {
        assert!(!text.is_empty());
        assert!(!text.contains("canary") && !text.contains("99, 97, 110"), "{text}");
    }
}

/// Moves the clock of all timers; sockets know nothing of it.
async fn jump(by: Duration) {
    tokio::time::pause();
    tokio::time::advance(by).await;
    tokio::time::resume();
}

/// The length of a request's body.
fn body_bytes(ask: &Ask) -> usize {
    let bytes = ask.bytes();
    let head = bytes.windows(4).position(|window| window == b"\r\n\r\n").expect("a head");
    bytes.len() - head - 4
}

#[tokio::test]
async fn a_change_goes_on_without_its_caller() {
    let rig = Rig::start().await;
    let mut wire = rig.connect().await;
    wire.send(&Ask::call("write", "{}").bytes()).await;
    Script::take(&rig.script.begun).await;
    drop(wire);
    // Nothing tells when the server has seen the end of the connection but this: its place is free.
    while rig.edge.gauges().connections > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.edge.gauges().inflight, 1, "the change is still counted");
    rig.script.gate.add_permits(1);
    Script::take(&rig.script.ended).await;
    while rig.edge.gauges().inflight > 0 {
        tokio::task::yield_now().await;
    }
    assert_eq!(rig.edge.stats().detached(), 1);
    assert_eq!(rig.script.dropped.available_permits(), 0);
}

#[tokio::test]
async fn a_drain_finishes_what_is_in_flight() {
    let rig = Rig::start().await;
    let mut idle = rig.connect().await;
    idle.send(&Ask::legacy("ping", "").bytes()).await;
    assert_eq!(idle.reply().await.status, 200);
    let mut busy = rig.connect().await;
    busy.send(&Ask::call("write", "{}").bytes()).await;
    Script::take(&rig.script.begun).await;
    assert!(rig.edge.is_ready());
    rig.shutdown.cancel();
    assert!(idle.is_closed().await, "an idle connection ends at once");
    assert!(!rig.edge.is_ready());
    assert!(TcpStream::connect(rig.at).await.is_err(), "nobody is accepted");
    rig.script.gate.add_permits(1);
    let reply = busy.reply().await;
    assert_eq!(reply.line(), "200 result 7");
    assert_eq!(reply.header("connection"), Some("close"));
    assert!(busy.is_closed().await);
    assert!(rig.server.await.expect("no panic"), "everything ended by itself");
}

#[tokio::test]
async fn a_drain_waits_for_detached_changes() {
    let rig = Rig::start().await;
    let mut wire = rig.connect().await;
    wire.send(&Ask::call("write", "{}").bytes()).await;
    Script::take(&rig.script.begun).await;
    drop(wire);
    rig.shutdown.cancel();
    while rig.edge.gauges().connections > 0 {
        tokio::task::yield_now().await;
    }
    assert!(!rig.server.is_finished());
    rig.script.gate.add_permits(1);
    assert!(rig.server.await.expect("no panic"));
}

#[tokio::test]
async fn a_drain_ends_in_time() {
    let settings = Settings { drain_max: Duration::from_millis(20), ..Settings::default() };
    let rig = Rig::settings(settings).await;
    let mut wire = rig.connect().await;
    wire.send(&Ask::call("hold", "{}").bytes()).await;
    Script::take(&rig.script.begun).await;
    rig.shutdown.cancel();
    assert!(!rig.server.await.expect("no panic"), "it was cut");
    assert!(wire.is_closed().await);
    Script::take(&rig.script.dropped).await;
}

#[tokio::test]
async fn the_entries_of_a_batch_share_the_time_of_one_request() {
    let rig = Rig::start().await;
    let entry = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo"}}"#;
    let reply = rig.ask(&Ask::bare(format!("[{entry},{entry}]"))).await;
    assert_eq!(reply.status, 200);
    let deadlines = rig.script.deadlines.lock().expect("no panic").clone();
    let [first, second] = deadlines[..] else { panic!("{deadlines:?}") };
    assert_eq!(first, second);
}
