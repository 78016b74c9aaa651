//! The process as operators see it: first line, banner, health, exit codes, signals, start-up
//! failures that damage nothing.

use std::collections::BTreeMap;
use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;

use bytes::Bytes;
use hyper::{Method, StatusCode};
use serde_json::{Value, json};

use crate::http::Http;
use crate::mcp::{Client, Era};
use crate::metrics::{scrape, sum};
use crate::server::{FAST, Server, run};

#[tokio::test]
async fn the_banner_s_curl_call_makes_a_room() {
    let server = Server::start(&["--ephemeral"]);
    let lines = server.lines_until(|line| line.contains("curl -s"));
    let url = format!("http://{}/mcp", server.mcp);
    let line = lines.last().unwrap();
    assert!(line.contains(&format!("curl -s {url} ")), "{line}");
    let body = line.split_once("-d '").unwrap().1.trim_end_matches('\'');
    let headers =
        [("content-type", "application/json"), ("accept", "application/json, text/event-stream")];
    let body = Bytes::from(body.to_owned());
    let mut http = Http::new(server.mcp);
    let answer = http.send(Method::POST, "/mcp", &headers, body).await.unwrap();
    let answer: Value = serde_json::from_slice(&answer.body).unwrap();
    assert!(answer["result"]["structuredContent"]["participantHandle"].is_string(), "{answer}");
}

#[tokio::test]
async fn health_and_metrics_are_served() {
    let server = Server::start(&["--ephemeral"]);
    for (address, path, expected) in [
        (server.mcp, "/livez", StatusCode::OK),
        (server.mcp, "/healthz", StatusCode::OK),
        (server.mcp, "/readyz", StatusCode::OK),
        (server.admin, "/livez", StatusCode::OK),
        (server.admin, "/readyz", StatusCode::OK),
        (server.admin, "/metrics", StatusCode::OK),
        (server.mcp, "/metrics", StatusCode::NOT_FOUND),
    ] {
        let answer = Http::new(address).get(path).await.unwrap();
        assert_eq!(answer.status, expected, "{path} on {address}");
    }
    let metrics = Http::new(server.admin).get("/metrics").await.unwrap();
    assert!(metrics.text().contains("roomring_room_wakes_total"), "{}", metrics.text());
}

/// Arguments, environment, exit code, standard output, parts of standard error.
type Row<'a> = (&'a [&'a str], &'a [(&'a str, &'a str)], i32, &'a str, &'a [&'a str]);

#[test]
fn command_lines_that_serve_nothing() {
    let help = include_str!("../golden/help.txt");
    let rows: &[Row<'_>] = &[
        (&["--help"], &[], 0, help, &[]),
        (&["--version"], &[], 0, "roomring 0.1.0\n", &[]),
        (
            &["--listen=nowhere", "--wait-burst=0", "stray"],
            &[("ROOMRING_SYNC", "never")],
            64,
            "",
            &["--listen `nowhere`", "--wait-burst `0`", "`stray`", "ROOMRING_SYNC `never`"],
        ),
    ];
    for (args, variables, code, stdout, stderr) in rows {
        let ended = run(args, variables);
        assert_eq!(ended.code, Some(*code), "{args:?}: {}", ended.stderr);
        assert_eq!(ended.stdout, *stdout, "{args:?}");
        for needle in *stderr {
            assert!(ended.stderr.contains(needle), "{args:?}: {}", ended.stderr);
        }
    }
}

#[test]
fn unknown_variables_are_warned_of_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let in_the_way = dir.path().join("file");
    std::fs::write(&in_the_way, "").unwrap();
    let dir = format!("--data-dir={}", in_the_way.display());
    let ended = run(&[&dir, "--listen=127.0.0.1:0"], &[("ROOMRING_WAIT_PERIOD", "1")]);
    assert!(ended.stderr.contains("ROOMRING_WAIT_PERIOD is ignored"), "{}", ended.stderr);
}

/// Every file below a directory with its bytes.
fn contents(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(contents(&path));
        } else {
            found.insert(path.display().to_string(), std::fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_directory_that_cannot_be_used_is_one_clear_line_and_stays_as_it_is() {
    let base = tempfile::tempdir().unwrap();
    let make = |name: &str, files: &[(&str, &str)]| {
        let dir = base.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        for (file, text) in files {
            std::fs::write(dir.join(file), text).unwrap();
        }
        dir.display().to_string()
    };
    std::fs::write(base.path().join("file"), "text").unwrap();
    let rows = [
        (make("foreign", &[("diary.txt", "dear diary")]), "not ours"),
        (make("newer", &[("FORMAT", "roomring\nformat 99\n")]), "newer"),
        (make("other", &[("FORMAT", "something else\n")]), "not ours"),
        (base.path().join("file").display().to_string(), "file"),
        // Nobody can make a directory here, not even root.
        ("/proc/roomring-data".to_owned(), "/proc/roomring-data"),
    ];
    let before = contents(base.path());
    for (dir, needle) in rows {
        let flag = format!("--data-dir={dir}");
        let ended = run(&[&flag, "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"], &[]);
        assert_eq!(ended.code, Some(1), "{dir}: {}", ended.stderr);
        assert_eq!(ended.stdout, "", "{dir}");
        assert_eq!(ended.stderr.lines().count(), 1, "{dir}: {}", ended.stderr);
        assert!(ended.stderr.contains(needle), "{dir}: {}", ended.stderr);
    }
    assert_eq!(contents(base.path()), before);
}

#[tokio::test]
async fn a_second_process_on_one_directory_is_refused_and_the_first_serves_on() {
    let dir = tempfile::tempdir().unwrap();
    let first = Server::start_in(dir.path(), &[]);
    let flag = format!("--data-dir={}", dir.path().display());
    let ended = run(&[&flag, "--listen=127.0.0.1:0", "--admin-listen=127.0.0.1:0"], &[]);
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("another"), "{}", ended.stderr);
    assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
    let mut client = Client::new(first.mcp, Era::Modern);
    client.call("create_room", json!({"name": "Ana"})).await.unwrap().ok();
}

#[test]
fn a_busy_port_is_one_clear_line() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    for (listen, admin) in [
        (taken.to_string(), "127.0.0.1:0".to_owned()),
        ("127.0.0.1:0".to_owned(), taken.to_string()),
    ] {
        let args = [format!("--listen={listen}"), format!("--admin-listen={admin}")];
        let ended = run(&["--ephemeral", &args[0], &args[1]], &[]);
        assert_eq!(ended.code, Some(1), "{}", ended.stderr);
        assert_eq!(ended.stdout, "");
        assert_eq!(ended.stderr.lines().count(), 1, "{}", ended.stderr);
        assert!(ended.stderr.contains(&taken.to_string()), "{}", ended.stderr);
    }
}

#[tokio::test]
async fn either_signal_drains_and_the_next_start_finds_everything() {
    let dir = tempfile::tempdir().unwrap();
    let mut handle = Value::Null;
    for signal in ["TERM", "INT"] {
        let server = Server::start_in(dir.path(), &FAST);
        let mut client = Client::new(server.mcp, Era::Legacy);
        if handle.is_null() {
            let mut made = client.call("create_room", json!({"name": "Ana"})).await.unwrap().ok();
            handle = made["participantHandle"].take();
        }
        let text = json!({"participantHandle": handle, "text": signal});
        client.call("send_text", text).await.unwrap().ok();
        server.signal(signal);
        let ended = server.wait();
        assert_eq!(ended.code, Some(0), "{signal}: {}", ended.stderr);
    }
    let server = Server::start_in(dir.path(), &FAST);
    let mut client = Client::new(server.mcp, Era::Legacy);
    let read = json!({"participantHandle": handle});
    let context = client.call("read_room_context", read).await.unwrap().ok();
    let texts: Vec<&Value> =
        context["events"].as_array().unwrap().iter().map(|event| &event["text"]).collect();
    assert_eq!(texts, ["TERM", "INT"]);
}

#[tokio::test]
async fn a_held_wait_is_refused_by_a_drain_and_its_cursor_stays_good() {
    let dir = tempfile::tempdir().unwrap();
    let held = ["--mcp-longpoll-enabled=true", "--hold-ms-max=20000"];
    let server = Server::start_in(dir.path(), &[&FAST[..], &held].concat());
    let mut client = Client::new(server.mcp, Era::Modern);
    let made = client.call("create_room", json!({"name": "Ana"})).await.unwrap().ok();
    let wait = json!({"participantHandle": made["participantHandle"], "cursor": made["cursor"],
        "timeoutSeconds": 20});
    let parked =
        async { while sum(&scrape(server.admin).await, "roomring_parked_held_calls", "") < 1.0 {} };
    {
        let mut answer = std::pin::pin!(client.call("wait_for_events", wait.clone()));
        tokio::select! {
            answer = &mut answer => panic!("not held: {answer:?}"),
            () = parked => server.signal("TERM"),
        }
        // Held to its end it would be a success.
        let answer = answer.await.unwrap();
        assert_eq!((answer.code(), &answer.value["retryable"]), ("room_unavailable", &json!(true)));
    }
    let ended = server.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
    assert!(!ended.stderr.contains("ran out of time"), "{}", ended.stderr);

    let server = Server::start_in(dir.path(), &FAST);
    let mut client = Client::new(server.mcp, Era::Modern);
    let join = json!({"roomId": made["invite"]["roomId"], "name": "Ben"});
    let joined = client.call("join_room", join).await.unwrap().ok();
    let text = json!({"participantHandle": joined["participantHandle"], "text": "kept"});
    client.call("send_text", text).await.unwrap().ok();
    let answer = client.call("wait_for_events", wait).await.unwrap().ok();
    let texts: Vec<&Value> =
        answer["events"].as_array().unwrap().iter().map(|event| &event["text"]).collect();
    assert!(texts.contains(&&json!("kept")), "{answer}");
}

#[tokio::test]
async fn a_full_disk_ends_the_process_and_the_next_start_finds_what_was_acknowledged() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start_fillable(dir.path());
    let mut client = Client::new(server.mcp, Era::Legacy);
    let mut made = client.call("create_room", json!({"name": "Ana"})).await.unwrap().ok();
    let handle = made["participantHandle"].take();
    let text = |text: &str| json!({"participantHandle": handle, "text": text});
    client.call("send_text", text("kept")).await.unwrap().ok();
    server.fill_disk();
    let refused = client.call("send_text", text("not acknowledged")).await;
    assert!(refused.is_ok_and(|answer| answer.refused));
    let ended = server.wait();
    assert_eq!(ended.code, Some(1), "{}", ended.stderr);
    let last = ended.stderr.lines().last().unwrap();
    assert!(last.starts_with("roomring: the data directory can no longer be written"), "{last}");
    let server = Server::start_in(dir.path(), &FAST);
    let mut client = Client::new(server.mcp, Era::Legacy);
    let read = json!({"participantHandle": handle});
    let context = client.call("read_room_context", read).await.unwrap().ok();
    assert_eq!(context["events"][0]["text"], "kept");
}

#[test]
fn a_second_signal_forces_the_end_of_a_drain() {
    let server = Server::start(&["--ephemeral"]);
    // A request whose body is awaited holds the drain up; `100` says that it is being served.
    let mut slow = TcpStream::connect(server.mcp).unwrap();
    let head = "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n\
        content-length: 9\r\nexpect: 100-continue\r\n\r\n";
    slow.write_all(head.as_bytes()).unwrap();
    let mut status = [0; 12];
    slow.read_exact(&mut status).unwrap();
    assert_eq!(&status, b"HTTP/1.1 100");
    server.signal("TERM");
    server.stderr_until("draining");
    server.signal("TERM");
    let ended = server.wait();
    assert_eq!(ended.code, Some(130), "{}", ended.stderr);
}

#[test]
fn a_hangup_without_a_terminal_stops_nothing() {
    let server = Server::start(&["--ephemeral", "--log-format=json"]);
    server.stderr_until("\"started\"");
    server.signal("HUP");
    server.stderr_until("sighup");
    server.signal("TERM");
    let ended = server.wait();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[test]
fn what_is_kept_is_private_and_keys_that_everybody_can_read_are_warned_of() {
    use std::os::unix::fs::PermissionsExt as _;
    let base = tempfile::tempdir().unwrap();
    let dir = base.path().join("data");
    drop(Server::start_in(&dir, &[]));
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&dir), 0o700);
    let keys = dir.join("keys/handle-keys");
    std::fs::set_permissions(&keys, std::fs::Permissions::from_mode(0o644)).unwrap();
    Server::start_in(&dir, &[]).stderr_until("handle keys can be read by every user");
}

#[test]
fn handle_keys_are_made_once_and_private() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("keys/handle-keys");
    drop(Server::start_in(dir.path(), &[]));
    let first = std::fs::read(&file).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
    drop(Server::start_in(dir.path(), &[]));
    assert_eq!(std::fs::read(&file).unwrap(), first);
}
