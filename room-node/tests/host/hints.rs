//! Who serves an object: the table is a hint, whoever owns it in the store is the truth.

use std::sync::atomic::Ordering;

use object::{Caller, Class};
use room_node::store::memory::Method;

use super::rig::{id, pass, who};
use super::town::{Town, elsewhere, is_moved};

#[tokio::test(start_paused = true)]
async fn only_the_owner_answers_and_the_other_says_where_it_is() {
    let town = Town::new();
    town.a.rig.join("x", 1).await;
    let refused = town.b.rig.full("add", "x", 1, "1").await;
    assert!(is_moved(&refused));
    assert_eq!(refused.elsewhere, elsewhere("a", 1));
    assert_eq!(town.b.rig.active(), 0);
    assert!(!town.b.rig.host.attach(&id("x"), who(1), 1, super::link::sink()));
    assert_eq!(town.a.rig.call("add", "x", 1, "1").await, r#"ok {"value":1}"#);
    assert_eq!(town.b.rig.host.metrics().not_owner.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_live_owner_keeps_what_the_table_gives_to_another_and_claims_are_few() {
    let town = Town::new();
    town.a.rig.join("x", 1).await;
    // Only `b` has the new view yet.
    town.b.script.all_to("b");
    let claims = town.store.calls(Method::Claim);
    for _ in 0..50 {
        let refused = town.b.rig.full("add", "x", 1, "1").await;
        assert!(is_moved(&refused));
        assert_eq!(refused.elsewhere, elsewhere("a", 2), "the store's word, not the table's");
        let poll = town.b.rig.full("wait", "x", 1, "0").await;
        assert!(is_moved(&poll));
    }
    assert_eq!(town.store.calls(Method::Claim), claims + 1);
    assert_eq!(town.b.rig.host.metrics().away.get(), 1);
    assert_eq!(town.a.rig.call("add", "x", 1, "2").await, r#"ok {"value":2}"#);
    pass(100).await;
    assert!(is_moved(&town.b.rig.full("add", "x", 1, "1").await));
    assert_eq!(town.store.calls(Method::Claim), claims + 2);
}

#[tokio::test(start_paused = true)]
async fn an_object_in_memory_is_served_although_the_table_says_otherwise() {
    let town = Town::with(|config| config.idle_to_stub_ms = 1_000, 0);
    town.a.rig.join("x", 1).await;
    pass(2_000).await;
    assert_eq!((town.a.rig.active(), town.a.rig.stubs()), (0, 1));
    // The view is new to both, the hand-off has not begun: nothing ran in between.
    town.all_to("b");
    assert_eq!(town.a.rig.call("add", "x", 1, "3").await, r#"ok {"value":3}"#);
    pass(6_000).await;
    assert_eq!(town.store.fence(&id("x")), None, "it has left since");
    assert_eq!(town.call("a", "add", "x", 1, "1").await, r#"ok {"value":4}"#);
}

#[tokio::test(start_paused = true)]
async fn a_call_sent_on_reaches_its_object_whoever_is_named_as_its_owner() {
    let town = Town::new();
    town.a.rig.join("x", 1).await;
    pass(31_000).await;
    // `a` loses its memory without a release, and keeps its name in the store.
    town.a.script.lease(false);
    pass(500).await;
    assert_eq!((town.a.rig.active(), town.a.rig.stubs()), (0, 0));
    town.a.script.lease(true);
    town.all_to("b");
    assert!(town.store.fence(&id("x")).is_some());
    assert_eq!(town.call("b", "add", "x", 1, "1").await, r#"ok {"value":1}"#);
    let given = town.a.rig.host.metrics().handoffs.with_label_values(&["given_back"]).get();
    assert_eq!(given, 1);
    assert_eq!(town.a.rig.active(), 0);
}

#[tokio::test(start_paused = true)]
async fn swapped_views_end_in_a_refusal_and_not_in_a_circle() {
    let town = Town::new();
    town.a.script.all_to("b");
    let request = town.a.rig.request("join", "x", Caller::Joining(who(1)), "");
    let refused = town.follow("a", request.clone(), 4).await;
    assert!(is_moved(&refused), "{refused:?}");
    // A call that was sent on too often is not even looked at.
    let mut lost = request;
    lost.hops = 4;
    let refused = town.a.rig.host.call(lost).await;
    assert_eq!(refused.result.unwrap_err().class, Class::Unavailable);
    assert_eq!(town.a.rig.bound_hit("hops_max"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_later_view_of_the_caller_is_waited_for_and_then_decided_by() {
    let town = Town::new();
    town.a.script.all_to("b");
    let mut request = town.b.rig.request("join", "x", Caller::Joining(who(1)), "");
    request.view = 2;
    let begun = town.clock.mono();
    let late = async {
        pass(100).await;
        assert_eq!(town.b.script.refreshed.load(Ordering::Relaxed), 2);
        town.b.script.all_to("b");
    };
    let (joined, ()) = tokio::join!(town.b.rig.host.call(request.clone()), late);
    assert!(joined.result.is_ok(), "{joined:?}");
    assert_eq!(town.clock.mono().since(begun), 100);
    // A view that does not come is not waited for longer than that.
    request.view = 9;
    let begun = town.clock.mono();
    assert!(town.b.rig.host.call(request).await.result.is_ok());
    assert_eq!(town.clock.mono().since(begun), 250);
    assert_eq!(town.b.rig.host.metrics().view_waits.get(), 2);
}
