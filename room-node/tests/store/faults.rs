//! The faults a test can plant in the reference store.

use room_node::store::memory::{FAULTS_PLANTED_MAX, Fault, Hold, Memory, Method};
use room_node::store::{Appended, Error, Store as _};

use crate::harness::{START, append, block_on, claim, node, object, taking};

fn lost() -> Error {
    Error::Unknown { context: "lost".into() }
}

#[test]
fn refused_and_unknown_appends_say_what_happened() {
    let unavailable = Error::Unavailable { context: "down".into() };
    let rows = [
        (Fault::Refuse(unavailable), 0),
        (Fault::Refuse(Error::Fenced), 0),
        (Fault::Refuse(lost()), 0),
        (Fault::ApplyThenUnknown, 1),
    ];
    for (fault, lsn) in rows {
        block_on(async {
            let store = Memory::new(START);
            let room = object("fault");
            let fence = claim(&*store, &room, 1).await.fence;
            store.inject(Method::Append, fault);
            assert!(store.append(append(&room, fence, 0, 1)).await.is_err());
            let state = store.refence(room.clone(), fence, 2, START).await.unwrap();
            assert_eq!(state.lsn, lsn);
            let again = store.append(append(&room, state.fence, 0, 1)).await.unwrap();
            let expected = if lsn == 1 { Appended::Duplicate } else { Appended::Stored };
            assert_eq!(again, expected);
            assert_eq!(store.calls(Method::Append), 2);
        });
    }
}

#[test]
fn planted_faults_are_bounded() {
    let store = Memory::new(START);
    for _ in 0..FAULTS_PLANTED_MAX {
        assert!(store.inject(Method::Due, Fault::Refuse(lost())));
    }
    assert!(!store.inject(Method::Due, Fault::Refuse(lost())));
}

#[test]
fn held_calls_wait_for_the_test() {
    block_on(async {
        let store = Memory::new(START);
        let room = object("held");
        let fence = claim(&*store, &room, 1).await.fence;
        for (fault, lsn_while_held) in
            [(Fault::HoldCall as fn(Hold) -> Fault, 0), (Fault::HoldAnswer, 2)]
        {
            let hold = Hold::new();
            store.inject(Method::Append, fault(hold.clone()));
            let lsn = store.frames(&room).unwrap().len() as u64;
            let held = store.append(append(&room, fence, lsn, u128::from(lsn)));
            let test = async {
                hold.reached().await;
                let during = store.frames(&room).unwrap().len();
                hold.release();
                during
            };
            let (answer, during) = futures_util::future::join(held, test).await;
            assert_eq!((answer, during), (Ok(Appended::Stored), lsn_while_held));
        }
    });
}

#[test]
fn lost_tail_damage_and_newer_schema() {
    block_on(async {
        let store = Memory::new(START);
        let room = object("lost");
        let fence = claim(&*store, &room, 1).await.fence;
        for lsn in 0..3 {
            store.append(append(&room, fence, lsn, u128::from(lsn))).await.unwrap();
        }
        assert_eq!(store.lose_tail(&room, 2), Some(1));
        assert_eq!(store.fence(&room), Some(fence));
        let refused = store.append(append(&room, fence, 3, 9)).await;
        assert_eq!(refused.err(), Some(Error::Lsn { actual: 1 }));

        store.set_schema_max(0);
        let asks = taking(&room, &node("a", 1), 2, fence);
        let newer = store.claim(asks.clone(), START).await;
        assert_eq!(newer.err(), Some(Error::Newer { found: 1 }));
        store.set_schema_max(1);
        store.set_due(room.clone(), fence, Some(START)).await.unwrap();
        store.damage(&room);
        let damaged = store.claim(asks, START).await;
        assert!(matches!(damaged, Err(Error::Damaged { .. })));
        assert_eq!(store.due(START, None, 9).await, Ok((vec![], None)));
    });
}
