//! A client that goes away (mcp.md 1.1, cancellation). What happens to changes, and drains, needs
//! calls that end when a test says so: `scripted`.

use super::rig::Rig;

#[tokio::test]
async fn a_wait_ends_with_its_caller() {
    let rig = Rig::start().await;
    let held = rig.hold().await;
    assert_eq!(rig.inflight().await, 1);
    drop(held);
    rig.abandoned().await;
}
