//! One test per rule of the store, on every implementation.

use bytes::Bytes;
use object::{BlobId, Millis};
use room_node::store::{
    Appended, BLOB_BYTES_MAX, ClaimRequest, DEAD_MARK_MS, Due, Error, FRAME_BYTES_MAX, Fence,
    SNAPSHOT_BYTES_MAX, Snapshot,
};

use crate::harness::{
    START, append, blob, claim, each, frame, node, object, put, request, snapshot, taking, who,
};

#[test]
fn claim_states_who_may_own() {
    each(async |subject| {
        let store = subject.store();
        let room = object("owned");
        let mut asks = request(&room, &node("a", 1), 10);
        asks.may_create = false;
        assert_eq!(store.claim(asks, START).await.err(), Some(Error::Absent));

        let first = claim(store, &room, 11).await;
        assert!(first.created && first.lsn == 0 && first.fence == Fence { epoch: 1, nonce: 11 });

        // Nobody takes the owner's place who does not state exactly the stored fence, be it another
        // run of the same node or the running one.
        let stored = first.fence;
        let refused = Some(Error::Owned { fence: stored, owner: node("a", 1) });
        let half = [Fence { epoch: 2, ..stored }, Fence { nonce: 12, ..stored }];
        for (me, nonce) in [(node("b", 7), 12), (node("a", 2), 13), (node("a", 1), 14)] {
            for observed in [None, Some(half[0]), Some(half[1])] {
                let mut asks = request(&room, &me, nonce);
                asks.observed = observed;
                assert_eq!(store.claim(asks, START).await.err(), refused);
            }
        }
        let mut observed = stored;
        for (me, nonce, epoch) in [(node("b", 7), 12, 2), (node("b", 8), 13, 3)] {
            let asks = taking(&room, &me, nonce, observed);
            let taken = store.claim(asks, START).await.unwrap();
            assert!(taken.fence == Fence { epoch, nonce } && !taken.created);
            observed = taken.fence;
        }

        // Where nobody owns it, it makes no difference what was seen before.
        store.release(room.clone(), observed).await.unwrap();
        let asks = taking(&room, &node("c", 1), 15, stored);
        let taken = store.claim(asks, START).await.unwrap();
        assert_eq!(taken.fence, Fence { epoch: 4, nonce: 15 });
    });
}

#[test]
fn a_late_claim_of_an_earlier_run_takes_nothing_from_its_successor() {
    each(async |subject| {
        let store = subject.store();
        let room = object("late");
        let (old, new) = (node("a", 1), node("a", 2));
        let first = store.claim(request(&room, &old, 1), START).await.unwrap().fence;
        // The old run claims anew, states what it holds, and is killed before that arrives.
        let late = taking(&room, &old, 2, first);
        let next = taking(&room, &new, 3, first);
        let taken = store.claim(next, START).await.unwrap().fence;
        assert_eq!(store.append(append(&room, taken, 0, 1)).await, Ok(Appended::Stored));

        let refused = Some(Error::Owned { fence: taken, owner: new });
        // So is its first claim, of a room that nobody had, should it be sent once more.
        let again = [late, request(&room, &old, 1), request(&room, &old, 4)];
        for claim in again {
            assert_eq!(store.claim(claim, START).await.err(), refused);
        }
        assert_eq!(store.check(room.clone(), taken).await, Ok(()));
        assert_eq!(store.append(append(&room, taken, 1, 2)).await, Ok(Appended::Stored));
    });
}

#[test]
fn claim_is_idempotent_by_nonce() {
    each(async |subject| {
        let store = subject.store();
        let room = object("twice");
        let mut asks = request(&room, &node("a", 1), 5);
        let first = store.claim(asks.clone(), START).await.unwrap();
        let again = store.claim(asks.clone(), START).await.unwrap();
        assert_eq!(format!("{first:?}"), format!("{again:?}"));
        // A claim that took a place finds itself, too, whatever its repeat states.
        asks.nonce = 6;
        asks.observed = Some(first.fence);
        let second = store.claim(asks.clone(), START).await.unwrap();
        assert_eq!(second.fence, Fence { epoch: 2, nonce: 6 });
        for observed in [asks.observed, None] {
            let repeat = ClaimRequest { observed, ..asks.clone() };
            let again = store.claim(repeat, START).await.unwrap();
            assert_eq!(format!("{second:?}"), format!("{again:?}"));
        }
        // Once its fence has moved on, the repeat is late and changes nothing.
        let moved = store.refence(room.clone(), second.fence, 7, START).await.unwrap().fence;
        let owned = Some(Error::Owned { fence: moved, owner: node("a", 1) });
        assert_eq!(store.claim(asks, START).await.err(), owned);
        // The same nonce from somebody else is a claim of its own.
        let mut other = request(&room, &node("a", 2), 7);
        assert_eq!(store.claim(other.clone(), START).await.err(), owned);
        other.observed = Some(moved);
        assert_eq!(store.claim(other, START).await.unwrap().fence.epoch, 4);
    });
}

#[test]
fn old_fence_is_refused_after_a_claim_by_the_same_node() {
    each(async |subject| {
        let store = subject.store();
        let room = object("fenced");
        let old = claim(store, &room, 1).await.fence;
        let new = claim(store, &room, 2).await.fence;
        let half = [
            old,
            Fence { epoch: new.epoch, nonce: old.nonce },
            Fence { epoch: old.epoch, nonce: new.nonce },
            Fence { epoch: new.epoch + 1, nonce: new.nonce },
        ];
        for fence in half {
            let fenced = Some(Error::Fenced);
            assert_eq!(store.check(room.clone(), fence).await.err(), fenced);
            assert_eq!(store.append(append(&room, fence, 0, 1)).await.err(), fenced);
            assert_eq!(store.lease(room.clone(), fence, vec![], None).await.err(), fenced);
            assert_eq!(store.snapshot(room.clone(), fence, snapshot(0)).await.err(), fenced);
            assert_eq!(store.set_due(room.clone(), fence, None).await.err(), fenced);
            assert_eq!(store.release(room.clone(), fence).await.err(), fenced);
            assert_eq!(store.destroy(room.clone(), fence, 0, START).await.err(), fenced);
            assert_eq!(store.refence(room.clone(), fence, 9, START).await.err(), fenced);
        }
        assert_eq!(store.check(room.clone(), new).await, Ok(()));
        assert_eq!(store.check(object("nobody"), new).await.err(), Some(Error::Fenced));
        assert_eq!(store.append(append(&room, new, 0, 1)).await, Ok(Appended::Stored));
    });
}

#[test]
fn release_ends_the_fence_and_repeats() {
    each(async |subject| {
        let store = subject.store();
        let room = object("released");
        let fence = claim(store, &room, 1).await.fence;
        assert_eq!(store.append(append(&room, fence, 0, 1)).await, Ok(Appended::Stored));
        for _ in 0..2 {
            assert_eq!(store.release(room.clone(), fence).await, Ok(()));
        }
        assert_eq!(store.append(append(&room, fence, 1, 2)).await.err(), Some(Error::Fenced));
        // Free for any node now; the epoch goes on, and the old release is no repeat any more.
        let other = store.claim(request(&room, &node("b", 1), 2), START).await.unwrap();
        assert!(other.fence.epoch == 2 && other.lsn == 1 && other.tail.len() == 1);
        assert_eq!(store.release(room.clone(), fence).await.err(), Some(Error::Fenced));
    });
}

#[test]
fn duplicate_is_told_by_the_last_two_batches() {
    each(async |subject| {
        let store = subject.store();
        let room = object("duplicate");
        let old = claim(store, &room, 1).await.fence;
        for (lsn, batch) in [(0, 10), (1, 11), (2, 12)] {
            assert_eq!(store.append(append(&room, old, lsn, batch)).await, Ok(Appended::Stored));
        }
        // After a refence the repeat of what had landed is found under the new fence.
        let new = store.refence(room.clone(), old, 2, START).await.unwrap();
        assert!(new.lsn == 3 && new.tail.last().unwrap().batch == 12);
        let again = store.refence(room.clone(), old, 2, START).await.unwrap();
        assert_eq!(again.fence, new.fence);
        let mut missing = append(&room, new.fence, 2, 12);
        missing.keep_blobs = vec![BlobId(99)];
        for append in [append(&room, new.fence, 1, 11), missing] {
            assert_eq!(store.append(append).await, Ok(Appended::Duplicate));
        }
        let actual = Some(Error::Lsn { actual: 3 });
        for (lsn, batch) in [(0, 10), (2, 13), (4, 14)] {
            assert_eq!(store.append(append(&room, new.fence, lsn, batch)).await.err(), actual);
        }
        // A frame that does not follow the lsn it was decided on.
        let mut gap = append(&room, new.fence, 3, 15);
        gap.frame.first_lsn = 5;
        assert_eq!(store.append(gap).await.err(), actual);
    });
}

#[test]
fn destroy_leaves_a_dead_mark_for_an_hour() {
    each(async |subject| {
        let store = subject.store();
        let room = object("dead");
        let fence = claim(store, &room, 1).await.fence;
        put(store, &room, 1, START.plus(1_000)).await;
        let mut first = append(&room, fence, 0, 1);
        first.keep_blobs = vec![BlobId(1)];
        first.due = Some(START.plus(5));
        store.append(first).await.unwrap();
        let wrong = store.destroy(room.clone(), fence, 0, START).await;
        assert_eq!(wrong.err(), Some(Error::Lsn { actual: 1 }));
        for _ in 0..2 {
            assert_eq!(store.destroy(room.clone(), fence, 1, START).await, Ok(()));
        }
        assert_eq!(store.append(append(&room, fence, 1, 2)).await.err(), Some(Error::Fenced));
        assert_eq!(store.set_due(room.clone(), fence, None).await.err(), Some(Error::Fenced));
        assert_eq!(blob(store, &room, 1).await, None);
        assert_eq!(store.due(START.plus(10), None, 9).await, Ok((vec![], None)));
        let mut asks = request(&room, &node("b", 1), 3);
        asks.may_create = false;
        assert_eq!(store.claim(asks, START).await.err(), Some(Error::Absent));

        // A new generation starts empty, above the old epochs.
        let again = claim(store, &room, 4).await;
        assert!(again.created && again.lsn == 0 && again.tail.is_empty());
        assert_eq!(again.fence.epoch, fence.epoch + 2);
        store.destroy(room.clone(), again.fence, 0, START).await.unwrap();

        // After the mark has ended nothing of the object is left, not even its epoch.
        let late = START.plus(DEAD_MARK_MS);
        store.due(late, None, 1).await.unwrap();
        let gone = store.destroy(room.clone(), again.fence, 0, late).await;
        assert_eq!(gone.err(), Some(Error::Fenced));
        assert_eq!(claim(store, &room, 5).await.fence, Fence { epoch: 1, nonce: 5 });
    });
}

#[test]
fn missing_blob_refuses_the_whole_append() {
    each(async |subject| {
        let room = object("blobs");
        let store = subject.store();
        let fence = claim(store, &room, 1).await.fence;
        put(store, &room, 1, START.plus(100)).await;
        let mut both = append(&room, fence, 0, 1);
        both.keep_blobs = vec![BlobId(1), BlobId(2)];
        both.leases = vec![(who(1), START)];
        both.due = Some(START);
        let missing = Some(Error::BlobMissing { blob: BlobId(2) });
        assert_eq!(store.append(both.clone()).await.err(), missing);
        assert_eq!(store.due(START, None, 9).await, Ok((vec![], None)));
        let state = store.refence(room.clone(), fence, 2, START).await.unwrap();
        assert!(state.lsn == 0 && state.leases.is_empty());

        put(store, &room, 2, START.plus(100)).await;
        both.fence = state.fence;
        assert_eq!(store.append(both).await, Ok(Appended::Stored));
        // Kept for good: past the expiry, past a restart, until an append drops it.
        put(store, &room, 3, START.plus(100)).await;
        assert!(blob(store, &room, 3).await.is_some());
        store.due(START.plus(100), None, 1).await.unwrap();
        assert!(blob(store, &room, 1).await.is_some() && blob(store, &room, 3).await.is_none());
        let mut late = append(&room, state.fence, 1, 2);
        late.keep_blobs = vec![BlobId(3)];
        assert!(matches!(store.append(late).await, Err(Error::BlobMissing { .. })));
        put(store, &room, 4, START.plus(9_000)).await;
        subject.reopen(START.plus(200)).await;
        let store = subject.store();
        assert_eq!(blob(store, &room, 1).await, Some(Bytes::from("blob 1")));
        assert_eq!(blob(store, &room, 4).await, None, "an upload nobody kept");
        let mut drops = append(&room, state.fence, 1, 3);
        drops.drop_blobs = vec![BlobId(1), BlobId(77)];
        drops.keep_blobs = vec![BlobId(2)];
        assert_eq!(store.append(drops).await, Ok(Appended::Stored));
        assert!(blob(store, &room, 1).await.is_none() && blob(store, &room, 2).await.is_some());
    });
}

#[test]
fn repeated_upload_of_a_kept_blob_changes_nothing() {
    each(async |subject| {
        let store = subject.store();
        let room = object("upload");
        let fence = claim(store, &room, 1).await.fence;
        put(store, &room, 1, START.plus(100)).await;
        let mut keeps = append(&room, fence, 0, 1);
        keeps.keep_blobs = vec![BlobId(1)];
        store.append(keeps).await.unwrap();
        let other = Bytes::from("other");
        store.put_blob(room.clone(), BlobId(1), other, START.plus(100)).await.unwrap();
        store.due(START.plus(1_000), None, 1).await.unwrap();
        assert_eq!(blob(store, &room, 1).await, Some(Bytes::from("blob 1")));
    });
}

#[test]
fn leases_are_only_raised() {
    each(async |subject| {
        let store = subject.store();
        let room = object("leases");
        let fence = claim(store, &room, 1).await.fence;
        let mut first = append(&room, fence, 0, 1);
        first.leases = vec![(who(2), START.plus(50)), (who(1), START.plus(90))];
        store.append(first).await.unwrap();
        let lower = vec![(who(1), START.plus(60)), (who(2), START.plus(70))];
        for _ in 0..2 {
            let due = Some(START.plus(70));
            store.lease(room.clone(), fence, lower.clone(), due).await.unwrap();
        }
        let state = store.refence(room.clone(), fence, 2, START).await.unwrap();
        assert_eq!(state.leases, [(who(1), START.plus(90)), (who(2), START.plus(70))]);
        assert!(state.lsn == 1 && state.due == Some(START.plus(70)));
        let mut goes = append(&room, state.fence, 1, 2);
        goes.drop_leases = vec![who(1), who(9)];
        goes.leases = vec![(who(1), START.plus(500)), (who(2), START)];
        store.append(goes).await.unwrap();
        // Folded the same way from the log after a restart.
        subject.reopen(START.plus(1)).await;
        let state = claim(subject.store(), &room, 3).await;
        assert!(state.leases == [(who(2), START.plus(70))] && state.due.is_none());
    });
}

#[test]
fn due_pages_past_skipped_entries_of_one_time() {
    each(async |subject| {
        let store = subject.store();
        let at = START.plus(10);
        for number in 0..30u64 {
            let room = object(&format!("due {number:02}"));
            let fence = claim(store, &room, number).await.fence;
            let due = if number < 25 { at } else { START.plus(number) };
            store.set_due(room, fence, Some(due)).await.unwrap();
        }
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let (page, next) = store.due(at, after.clone(), 4).await.unwrap();
            assert_eq!(next, Some(START.plus(25)));
            let Some(last) = page.last() else { break };
            after = Some(last.clone());
            seen.extend(page);
        }
        let all: Vec<Due> =
            (0..25).map(|n| Due { at, object: object(&format!("due {n:02}")) }).collect();
        assert_eq!(seen, all);
        assert_eq!(store.due(START.plus(99), after, 99).await.unwrap().0.len(), 5);
    });
}

#[test]
fn snapshot_trims_the_log() {
    each(async |subject| {
        let store = subject.store();
        let room = object("snapshot");
        let fence = claim(store, &room, 1).await.fence;
        let mut two = append(&room, fence, 0, 1);
        two.frame = frame(fence, 0, 1, &["one", "two"]);
        store.append(two).await.unwrap();
        for (lsn, batch) in [(2, 2), (3, 3)] {
            store.append(append(&room, fence, lsn, batch)).await.unwrap();
        }
        // Only where a batch ends, never past the log, never of nothing.
        for lsn in [0, 1, 5] {
            let refused = store.snapshot(room.clone(), fence, snapshot(lsn)).await;
            assert_eq!(refused.err(), Some(Error::Lsn { actual: 4 }));
        }
        store.snapshot(room.clone(), fence, snapshot(3)).await.unwrap();
        // A late repeat of an older one must not bring back a state whose log is gone.
        store.snapshot(room.clone(), fence, snapshot(2)).await.unwrap();
        for reopened in [false, true] {
            if reopened {
                subject.reopen(START.plus(1)).await;
            }
            let state = claim(subject.store(), &room, 7).await;
            assert_eq!(state.snapshot, Some(snapshot(3)));
            assert!(state.lsn == 4 && state.tail.len() == 1 && state.tail[0].first_lsn == 4);
        }
    });
}

#[test]
fn written_is_the_time_of_the_last_append() {
    each(async |subject| {
        let store = subject.store();
        let room = object("written");
        let fence = claim(store, &room, 1).await.fence;
        let mut late = append(&room, fence, 0, 1);
        late.now = START.plus(77);
        store.append(late).await.unwrap();
        subject.reopen(START.plus(500)).await;
        let store = subject.store();
        assert_eq!(store.up_since(), START.plus(500));
        let asks = taking(&room, &node("a", 2), 2, fence);
        assert_eq!(store.claim(asks, START.plus(501)).await.unwrap().written, START.plus(77));
    });
}

#[test]
fn sizes_are_bounded() {
    each(async |subject| {
        let store = subject.store();
        let room = object("sizes");
        let fence = claim(store, &room, 1).await.fence;
        let big = Bytes::from(vec![0; BLOB_BYTES_MAX + 1]);
        let refused = store.put_blob(room.clone(), BlobId(1), big, Millis::FAR_FUTURE).await;
        assert!(matches!(refused, Err(Error::Full { .. })));
        let mut big = append(&room, fence, 0, 1);
        big.frame.records[0].bytes = Bytes::from(vec![0; FRAME_BYTES_MAX + 1]);
        assert!(matches!(store.append(big).await, Err(Error::Full { .. })));
        let bytes = Bytes::from(vec![0; SNAPSHOT_BYTES_MAX + 1]);
        let big = Snapshot { schema: 1, lsn: 0, bytes };
        let refused = store.snapshot(room.clone(), fence, big).await;
        assert!(matches!(refused, Err(Error::Full { .. })), "{refused:?}");
        let mut empty = append(&room, fence, 0, 1);
        empty.frame.records.clear();
        assert!(matches!(store.append(empty).await, Err(Error::Damaged { .. })));
        assert_eq!(store.append(append(&room, fence, 0, 1)).await, Ok(Appended::Stored));
    });
}
