//! The two programs as operators see them: help, exit codes, health, start-up failures.

use std::net::TcpListener;
use std::process::Stdio;
use std::time::Duration;

use hyper::StatusCode;

use crate::backend::Backend;
use crate::http::Http;
use crate::program::{Program, STEP, command};
use crate::server::{FAST, Server};

/// Runs to the end: exit code, standard output, standard error.
fn run(program: &str, args: &[&str]) -> (Option<i32>, String, String) {
    let out = command(program).args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (out.status.code(), text(out.stdout), text(out.stderr))
}

#[test]
fn help_version_and_mistakes() {
    let gateway = include_str!("../../../gateway/tests/golden/help.txt");
    let node = include_str!("../../../room-node/tests/golden/help.txt");
    for (program, help) in [("roomring-gateway", gateway), ("roomring-node", node)] {
        assert_eq!(run(program, &["--help"]), (Some(0), help.to_owned(), String::new()));
        let version = format!("{program} 0.1.0\n");
        assert_eq!(run(program, &["--version"]), (Some(0), version, String::new()));
        let (code, stdout, stderr) =
            run(program, &["--listen=nowhere", "--redis-url=http://a:secret@b", "stray"]);
        assert_eq!((code, stdout.as_str()), (Some(64), ""), "{stderr}");
        for needle in ["--listen `nowhere`", "--redis-url: ", "`stray`", "nothing was started"] {
            assert!(stderr.contains(needle), "{needle}: {stderr}");
        }
        assert!(!stderr.contains("secret"), "{stderr}");
    }
}

#[test]
fn what_cannot_be_had_is_one_clear_line() {
    let dir = tempfile::tempdir().unwrap();
    let keys = dir.path().join("keys");
    std::fs::write(&keys, "k1:AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=\n").unwrap();
    let keys = format!("--handle-keys-file={}", keys.display());
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let taken = taken.local_addr().unwrap();
    // Nothing listens at the address of a listener that is gone.
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    for program in ["roomring-gateway", "roomring-node"] {
        for (listen, redis, needle) in [
            (taken.to_string(), gone.to_string(), taken.to_string()),
            ("127.0.0.1:0".to_owned(), gone.to_string(), gone.to_string()),
        ] {
            let listen = format!("--listen={listen}");
            let redis = format!("--redis-url=redis://{redis}");
            let mut args = vec![listen.as_str(), &redis, "--admin-listen=127.0.0.1:0"];
            args.extend((program == "roomring-gateway").then_some(keys.as_str()));
            let (code, stdout, stderr) = run(program, &args);
            assert_eq!((code, stdout.as_str()), (Some(1), ""), "{program}: {stderr}");
            let last = stderr.lines().last().unwrap();
            assert!(last.starts_with(&format!("{program}: cannot ")), "{stderr}");
            assert!(last.contains(&needle), "{needle}: {stderr}");
        }
    }
}

#[tokio::test]
async fn health_and_metrics_are_served_and_a_signal_drains() {
    let server = Server::start(&FAST);
    let (gateway, node) = (server.gateways[0].admin, server.backend().nodes[0].admin);
    for admin in [gateway, node] {
        for path in ["/livez", "/readyz", "/metrics"] {
            let answer = Http::new(admin).get(path).await.unwrap();
            assert_eq!(answer.status, StatusCode::OK, "{path} on {admin}");
        }
    }
    let metrics = Http::new(node).get("/metrics").await.unwrap();
    assert!(metrics.text().contains("roomring_room_wakes_total"), "{}", metrics.text());
    server.signal("TERM");
    let ended = tokio::task::spawn_blocking(move || server.wait()).await.unwrap();
    assert_eq!(ended.code, Some(0), "{}", ended.stderr);
}

#[tokio::test]
async fn a_gateway_without_nodes_is_not_ready() {
    let server = Server::start(&FAST);
    for node in server.backend().nodes.drain(..) {
        node.kill();
    }
    let ready =
        || async { Http::new(server.gateways[0].admin).get("/readyz").await.unwrap().status };
    let unready = async { while ready().await != StatusCode::SERVICE_UNAVAILABLE {} };
    tokio::time::timeout(STEP, unready).await.unwrap();
    assert_eq!(Http::new(server.gateways[0].admin).get("/livez").await.unwrap().status, 200);
}

#[tokio::test]
async fn a_node_that_waits_to_join_can_be_looked_at() {
    let dir = tempfile::tempdir().unwrap();
    let backend = Backend::of(dir.path(), &[], 0);
    let flags = [
        format!("--redis-url={}", backend.url),
        "--node-id=a".to_owned(),
        "--node-ttl-ms=600000".to_owned(),
    ];
    // Its node lease outlives it by ten minutes.
    Program::start("roomring-node", &flags).kill();
    let admin = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut node = command("roomring-node")
        .args(["--listen=127.0.0.1:0", &format!("--admin-listen={admin}")])
        .args(&flags)
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut tick = tokio::time::interval(Duration::from_millis(20));
    let waits = async {
        loop {
            tick.tick().await;
            let Ok(answer) = Http::new(admin).get("/readyz").await else { continue };
            assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
            if answer.text() == "not ready: it waits to join its region\n" {
                return;
            }
        }
    };
    let waited = tokio::time::timeout(STEP, waits).await;
    let mut statuses = Vec::new();
    for path in ["/livez", "/healthz", "/metrics"] {
        statuses.push(Http::new(admin).get(path).await.map(|answer| answer.status));
    }
    let pid = node.id().to_string();
    let told = std::process::Command::new("kill").args(["-s", "TERM", &pid]).status();
    let ended = tokio::task::spawn_blocking(move || node.wait()).await.unwrap();
    assert!(waited.is_ok(), "it answers and says what it waits for");
    assert_eq!(statuses, [Ok(StatusCode::OK); 3]);
    assert!(told.unwrap().success());
    assert_eq!(ended.unwrap().code(), Some(0));
}
