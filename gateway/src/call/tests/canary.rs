//! Nothing a client sends or gets reaches a log, a metric, or Debug output (ours 6).

use std::io;
use std::sync::Mutex;

use prometheus::{Encoder as _, TextEncoder};
use tracing::Level;

use super::super::*;
use super::bench::{Bench, INFO, JOIN, SEND, UPLOAD, WAIT};
use crate::fake_node::Act;

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

const CANARIES: [&str; 5] =
    ["canary-room", "canary-text", "canary-name", "Y2FuYXJ5LWJsb2I", "canary-answer"];

#[tokio::test(start_paused = true)]
async fn values_of_all_fields_stay_out_of_logs_metrics_and_debug() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(Level::TRACE)
        .with_writer(move || writer.clone())
        .finish();
    // With one dispatcher alive, a call site first met on another test's thread is judged by that
    // thread's (absent) subscriber for ever; with two, by all that are alive.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::new());
    let guard = tracing::subscriber::set_default(subscriber);
    tracing::info!("capture works");

    let bench = Bench::start(|call| match (&*call.op, call.attempt) {
        ("send_text", 1) => Act::EndStream,
        ("wait_for_events", _) => Act::Wait(r#"{"events":["canary-answer"]}"#, 10_000),
        ("room_info", _) => Act::Newer,
        _ => Act::Success(v1::Success {
            body: Bytes::from_static(br#"{"a":"canary-answer"}"#),
            blob: Some(Bytes::from_static(b"canary-answer")),
            image_mime: None,
        }),
    })
    .await;
    let handle = bench.handle("canary-room", 1);
    let damaged = handle.replacen('A', "B", 1);
    let mut shown = String::new();
    for (tool, args) in [
        (&JOIN, r#"{"roomId":"canary-room","name":"canary-name"}"#.to_owned()),
        (&SEND, format!(r#"{{"participantHandle":"{handle}","text":"canary-text"}}"#)),
        (&SEND, format!(r#"{{"participantHandle":"{damaged}","text":"canary-text"}}"#)),
        (&SEND, format!(r#"{{"participantHandle":"{handle}","bad":"canary-text"}}"#)),
        (&UPLOAD, format!(r#"{{"participantHandle":"{handle}","data":"Y2FuYXJ5LWJsb2I="}}"#)),
        (&UPLOAD, format!(r#"{{"participantHandle":"{handle}","data":"Y2FuYXJ5LWJsb2I?"}}"#)),
        (&WAIT, format!(r#"{{"participantHandle":"{handle}"}}"#)),
        (&WAIT, format!(r#"{{"participantHandle":"{handle}"}}"#)),
        (&INFO, r#"{"roomId":"canary-room"}"#.to_owned()),
    ] {
        let arguments: &RawValue = serde_json::from_str(&args).unwrap();
        let call = ToolCall {
            tool,
            arguments,
            client: ClientAddr::LOOPBACK,
            deadline: clock::now() + Duration::from_secs(5),
        };
        shown.push_str(&format!("{call:?} {:?} ", bench.pipeline.call(call).await));
    }
    shown.push_str(&format!("{:?}", bench.pipeline));
    drop(guard);

    let mut metrics = Vec::new();
    TextEncoder::new().encode(&bench.registry.gather(), &mut metrics).unwrap();
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("capture works") && log.contains("call refused"), "{log}");
    let metrics = String::from_utf8(metrics).unwrap();
    let handle_part = &handle[20..60];
    for canary in CANARIES.into_iter().chain([handle_part]) {
        for (place, text) in [("log", &log), ("metrics", &metrics), ("debug", &shown)] {
            assert!(!text.contains(canary), "{canary} in {place}: {text}");
        }
    }
}
