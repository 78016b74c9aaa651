//! Files (rooms 6.12, 6.13, 13.4).

use object::Attached;
use serde_json::json;

use crate::testing::{Bench, code};

fn args(mime: &str) -> serde_json::Value {
    json!({"fileName": " table.csv ", "mimeType": mime})
}

#[test]
fn an_upload_is_an_image_event_and_can_be_read() {
    let mut bench = Bench::new();
    let (a, b) = (bench.join("A"), bench.join("B"));
    let sent = bench.send("send_attachment", a, &args("text/csv"), &[7; 65_537]).unwrap();
    let file = &sent["attachment"];
    assert_eq!(file["fileName"], "table.csv");
    assert_eq!((&file["size"], &file["chunkCount"]), (&json!(65_537), &json!(2)));
    assert_eq!((&file["sequence"], &file["senderKind"]), (&json!(1), &json!("agent")));
    assert_eq!(file.get("taskWake"), None);
    let seen = bench.call("wait_for_events", b, &json!({})).unwrap();
    assert_eq!(seen["events"][0]["type"], "image");
    assert_eq!(seen["events"][0]["addressed"], false);
    let id = seen["events"][0]["attachment"]["id"].clone();
    let read = bench.call("read_attachment", b, &json!({"attachmentId": id})).unwrap();
    assert_eq!(read["attachment"]["mimeType"], "text/csv");
    assert!(matches!(bench.last.as_ref().unwrap().attached, Some(Attached::Text { .. })));
    let picture = bench.send("send_attachment", a, &args("image/png"), b"png").unwrap();
    let id = picture["attachment"]["id"].clone();
    bench.call("read_attachment", b, &json!({"attachmentId": id})).unwrap();
    let attached = bench.last.as_ref().unwrap().attached.clone();
    assert!(matches!(attached, Some(Attached::Image { mime, .. }) if mime == "image/png"));
}

#[test]
fn sizes_and_types_are_bounded() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    let send = |bench: &mut Bench, bytes: usize| {
        bench.send("send_attachment", a, &args("text/plain"), &vec![1; bytes])
    };
    send(&mut bench, 786_432).unwrap();
    assert_eq!(code(send(&mut bench, 786_433)), "attachment_too_large");
    assert_eq!(code(send(&mut bench, 0)), "invalid_attachment");
    assert_eq!(
        code(bench.send("send_attachment", a, &args("text/html"), b"x")),
        "invalid_arguments"
    );
    assert_eq!(code(bench.call("send_attachment", a, &args("text/plain"))), "invalid_arguments");
}

#[test]
fn the_ninth_file_pushes_out_the_first_with_its_bytes() {
    let mut bench = Bench::new();
    let a = bench.join("A");
    let mut first = json!(null);
    for n in 0..9 {
        let sent = bench.send("send_attachment", a, &args("text/plain"), &[n]).unwrap();
        if n == 0 {
            first = sent["attachment"]["id"].clone();
        }
    }
    assert_eq!(bench.kept.len(), 8);
    let read = bench.call("read_attachment", a, &json!({"attachmentId": first}));
    assert_eq!(code(read), "attachment_unavailable");
}

#[test]
fn task_files_are_for_those_who_take_part() {
    let mut bench = Bench::new();
    let (a, b, c) = (bench.join("A"), bench.join("B"), bench.join("C"));
    let ask = json!({"targetParticipantId": b.to_string(), "summary": "s", "requestId": "task-1"});
    bench.call("send_collab_request", a, &ask).unwrap();
    let mut file = args("text/plain");
    file["taskRequestId"] = json!("task-1");
    assert_eq!(
        code(bench.send("send_attachment", c, &file, b"x")),
        "task_attachment_not_participant"
    );
    let sent = bench.send("send_attachment", a, &file, b"x").unwrap();
    assert_eq!(sent["attachment"]["taskWake"], false);
    let read = json!({"attachmentId": sent["attachment"]["id"]});
    bench.call("read_attachment", b, &read).unwrap();
    assert_eq!(code(bench.call("read_attachment", c, &read)), "attachment_unavailable");
    file["taskRequestId"] = json!("task-2");
    assert_eq!(code(bench.send("send_attachment", a, &file, b"x")), "unknown_task_request");
}
