//! Host, Origin, CORS, methods and paths: rooms 1.6 as amended by ours 4, pitfalls 4, 5, 7, 11-13.

use super::rig::{Ask, Rig, Setup, table};

#[tokio::test]
async fn host_and_origin() {
    let list = || Ask::modern("tools/list", "");
    table(&[
        (list().set("Host", "127.0.0.1:8080"), "200 result 7"),
        (list().set("Host", "[::1]:8080"), "200 result 7"),
        (list().set("Host", "evil.example"), "403 -32000 - Invalid Host: evil.example"),
        (list().without("Host"), "403 -32000 - Missing Host header"),
        (list().set("Host", "192.168.1.5"), "403 -32000 - Invalid Host"),
        (list().with("Origin", "http://localhost:3000"), "200 result 7"),
        (list().with("Origin", "http://evil.example"), "403 -32000 - Invalid Origin"),
        (list().with("Origin", "null"), "403 -32000 - Invalid Origin header: null"),
        (list().line("OPTIONS /mcp HTTP/1.1").with("Origin", "http://evil.example"), "403 "),
        (list().line("GET /mcp HTTP/1.1").set("Host", "evil.example"), "403 "),
        (Ask::legacy("ping", "").with("Origin", "http://evil.example"), "403 -32000 null "),
        (list().line("POST /nowhere HTTP/1.1").set("Host", "evil.example"), "404 text Not Found"),
        (list().line("POST http://evil.example/mcp HTTP/1.1"), "403 -32000 - Invalid Host"),
    ])
    .await;
}

#[tokio::test]
async fn configured_names_pass() {
    let rig = Rig::with(Setup {
        allowed_hosts: vec!["rooms.example".into()],
        allowed_origins: vec!["https://app.example".into()],
        ..Setup::default()
    })
    .await;
    let list = || Ask::modern("tools/list", "").set("Host", "rooms.example:443");
    for (ask, status) in [
        (list(), 200),
        (list().with("Origin", "https://app.example"), 200),
        (list().with("Origin", "https://rooms.example"), 200),
        (list().with("Origin", "https://other.example"), 403),
        (list().set("Host", "app.example"), 403),
    ] {
        assert_eq!(rig.ask(&ask).await.status, status, "{ask:?}");
    }
}

#[tokio::test]
async fn a_browser_can_preflight_and_read() {
    let rig = Rig::start().await;
    let origin = "http://localhost:3000";
    let preflight = Ask::bare("")
        .line("OPTIONS /mcp HTTP/1.1")
        .with("Origin", origin)
        .with("Access-Control-Request-Method", "POST");
    let post = Ask::modern("tools/list", "").with("Origin", origin);
    let error = Ask::bare("{").with("Origin", origin);
    for (ask, status) in [(preflight, 200), (post, 200), (error, 400)] {
        let reply = rig.ask(&ask).await;
        assert_eq!(reply.status, status);
        assert_eq!(reply.header("access-control-allow-origin"), Some(origin));
        assert_eq!(reply.header("vary"), Some("origin"));
        assert_eq!(reply.header("access-control-allow-credentials"), None);
        assert_eq!(reply.header("access-control-max-age"), Some("86400"));
        assert_eq!(reply.header("access-control-allow-methods"), Some("POST, OPTIONS"));
        let allowed = reply.header("access-control-allow-headers").expect("allowed headers");
        for name in [
            "content-type",
            "accept",
            "authorization",
            "mcp-protocol-version",
            "mcp-method",
            "mcp-name",
            "mcp-session-id",
            "last-event-id",
        ] {
            assert!(allowed.contains(name), "{name} in {allowed}");
        }
        assert_eq!(reply.body.is_empty(), status == 200 && ask.bytes().starts_with(b"OPTIONS"));
    }
    let silent = rig.ask(&Ask::modern("tools/list", "")).await;
    assert_eq!(silent.header("access-control-allow-origin"), None);
}

#[tokio::test]
async fn other_methods_are_not_allowed() {
    let rig = Rig::start().await;
    for method in ["GET", "DELETE", "PUT", "PATCH"] {
        for path in ["/mcp", "/mcp/"] {
            let ask = Ask::bare("").line(&format!("{method} {path} HTTP/1.1"));
            let reply = rig.ask(&ask).await;
            assert_eq!(reply.line(), "405 -32000 null Method not allowed.", "{method} {path}");
            assert_eq!(reply.header("allow"), Some("POST, OPTIONS"));
        }
    }
    let mut wire = rig.connect().await;
    wire.send(b"HEAD /mcp HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
    wire.send(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").await;
    let both = wire.rest().await;
    assert!(both.starts_with("HTTP/1.1 405 "), "{both}");
    assert!(both.ends_with("\r\n\r\nok\n"), "{both}");
}

#[tokio::test]
async fn other_paths() {
    let rig = Rig::start().await;
    for (line, status, start) in [
        ("GET /livez HTTP/1.1", 200, "ok"),
        ("GET /healthz HTTP/1.1", 200, "ok"),
        ("GET /readyz HTTP/1.1", 200, "ok"),
        ("POST /livez HTTP/1.1", 405, ""),
        ("GET /.well-known/oauth-protected-resource HTTP/1.1", 404, "{"),
        ("GET /.well-known/oauth-protected-resource/mcp HTTP/1.1", 404, "{"),
        ("GET /.well-known/oauth-authorization-server HTTP/1.1", 404, "{"),
        ("GET / HTTP/1.1", 404, "Not Found"),
        ("POST /mcp/x HTTP/1.1", 404, "Not Found"),
        ("POST //mcp HTTP/1.1", 404, "Not Found"),
        ("POST /MCP HTTP/1.1", 404, "Not Found"),
    ] {
        // Health is asked by address, so no host rule applies to it.
        let reply = rig.ask(&Ask::bare("").line(line).set("Host", "10.0.0.9:8080")).await;
        assert_eq!(reply.status, status, "{line}");
        assert!(reply.body.starts_with(start), "{line}: {}", reply.body);
        assert_eq!(reply.header("location"), None);
        assert_eq!(reply.header("www-authenticate"), None);
    }
}
