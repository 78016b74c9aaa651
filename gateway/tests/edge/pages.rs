//! `/agent.md` and `/room?id=` (ours 4).

use super::rig::{Ask, Rig};

#[tokio::test]
async fn the_contract_and_the_invite() {
    let rig = Rig::start().await;
    let get = |path: &str| Ask::bare("").line(&format!("GET {path} HTTP/1.1"));
    let contract = rig.ask(&get("/agent.md")).await;
    assert_eq!(contract.status, 200);
    assert_eq!(contract.header("content-type"), Some("text/markdown; charset=utf-8"));
    for tool in super::rig::tools() {
        assert!(contract.body.contains(&format!("### `{}`", tool.meta.name)));
    }
    let invite = rig.ask(&get("/room?id=%3Cimg%20src%3Dx%3E")).await;
    assert_eq!(invite.status, 200);
    assert!(invite.body.contains("&lt;img src=x&gt;"), "{}", invite.body);
    assert!(!invite.body.contains("<img"));
    let policy = invite.header("content-security-policy").expect("a policy");
    assert!(policy.starts_with("default-src 'none'"), "{policy}");
    assert_eq!(invite.header("x-content-type-options"), Some("nosniff"));
    assert_eq!(invite.header("referrer-policy"), Some("no-referrer"));
    assert_eq!(rig.ask(&get("/room")).await.status, 400);
    let post = rig.ask(&Ask::bare("").line("POST /room?id=x HTTP/1.1")).await;
    assert_eq!((post.status, post.header("allow")), (405, Some("GET, HEAD")));
}
