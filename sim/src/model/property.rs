//! What must always hold.

use stateright::Property;

use super::node::Sight;
use super::{Ack, Fate, Level, Protocol, State};

/// Every property, by the name a counterexample carries.
pub fn all() -> Vec<Property<Protocol>> {
    vec![
        Property::always("an acknowledged key is in the log once, at its lsn", acked_once),
        Property::always("nothing acknowledged is lost where the replica is awaited", none_lost),
        Property::always("a loss is seen by the owner that acknowledged", loss_is_seen),
        Property::always("a key is in the log at most once", key_once),
        Property::always("a key refused for certain is absent", failed_absent),
        Property::always("one incarnation acknowledges under one fence", one_owner),
        Property::always("along the log epochs never fall, and one claim has each", epochs),
        Property::always("a read from memory shows every earlier ack", reads_see_acks),
        Property::always("a released room stands still", released_stands_still),
        Property::always("the due entry is never later than the log says", due_not_late),
    ]
}

fn kept(state: &State) -> impl Iterator<Item = &Ack> {
    state.acks.iter().filter(|ack| ack.fate == Fate::Kept)
}

fn at(state: &State, lsn: u8) -> Option<u8> {
    let frame = state.primary.log.get(usize::from(lsn).checked_sub(1)?)?;
    Some(frame.batch.key)
}

/// Also: per lsn one key, since the log has one entry there.
fn acked_once(_: &Protocol, state: &State) -> bool {
    kept(state).all(|ack| at(state, ack.lsn) == Some(ack.key))
}

fn none_lost(protocol: &Protocol, state: &State) -> bool {
    protocol.rules.level == Level::Window || kept(state).count() == state.acks.len()
}

/// A loss may be unseen only while its owner has yet to compare, or when its process has ended.
fn loss_is_seen(_: &Protocol, state: &State) -> bool {
    state.acks.iter().filter(|ack| ack.fate == Fate::Lost).all(|ack| {
        let node = state.node(ack.by.node);
        node.boot != ack.by.boot || node.sight != Sight::Current
    })
}

fn key_once(_: &Protocol, state: &State) -> bool {
    let log = &state.primary.log;
    let again = |at: usize| log.iter().skip(at + 1).any(|f| Some(f.batch.key) == key(log, at));
    !(0..log.len()).any(again)
}

fn key(log: &[super::store::Frame], at: usize) -> Option<u8> {
    log.get(at).map(|frame| frame.batch.key)
}

fn failed_absent(_: &Protocol, state: &State) -> bool {
    !state.primary.log.iter().any(|frame| state.failed.contains(&frame.batch))
}

fn one_owner(_: &Protocol, state: &State) -> bool {
    let acks = || state.acks.iter();
    acks().all(|a| acks().all(|b| a.fence != b.fence || a.by == b.by))
}

fn epochs(_: &Protocol, state: &State) -> bool {
    state.primary.log.windows(2).all(|pair| match pair {
        [a, b] => a.fence.epoch < b.fence.epoch || a.fence == b.fence,
        _ => true,
    })
}

fn reads_see_acks(_: &Protocol, state: &State) -> bool {
    state.nodes.iter().filter_map(|node| node.answers()).all(|log| {
        kept(state).all(|ack| {
            let frame = usize::from(ack.lsn).checked_sub(1).and_then(|at| log.get(at));
            frame.is_some_and(|frame| frame.batch.key == ack.key)
        })
    })
}

const fn released_stands_still(_: &Protocol, state: &State) -> bool {
    !state.grew_unowned
}

fn due_not_late(_: &Protocol, state: &State) -> bool {
    state.primary.due <= state.primary.lsn() && state.replica.due <= state.replica.lsn()
}
