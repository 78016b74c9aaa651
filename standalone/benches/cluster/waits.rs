//! What a parked wait takes (goal 16), in processes that have done nothing else.

use std::path::Path;

use super::fleet::{Fleet, Fsync, resident};
use super::pace::parked;
use super::saturation::{PEERS, create, until_asleep};
use crate::serve::figure::print;
use crate::serve::{server, words};

/// Waits parked, each on a connection and in a room of its own.
const WAITS: usize = 2_000;
/// How long each may be held, in seconds.
const HELD: u64 = 25;

fn parked_by_rmcp() -> f64 {
    let rmcp = server::peer(&Path::new(PEERS).join("rmcp"), &[]);
    let sends: Vec<Vec<u8>> = (0..WAITS).map(words::peer_send).collect();
    crate::serve::ask::run(rmcp.at, &sends, WAITS, "sequence");
    let waits: Vec<Vec<u8>> =
        (0..WAITS).map(|room| words::peer_wait(room, u64::MAX, HELD)).collect();
    parked(rmcp.at, &waits, &|| resident(rmcp.pid()))
}

fn parked_by_ours() -> f64 {
    let fleet = Fleet::start(Fsync::EverySecond);
    let made = create(fleet.at(), WAITS);
    until_asleep(&fleet, WAITS);
    let waits: Vec<Vec<u8>> =
        made.iter().map(|(handle, cursor)| words::wait_after(handle, *cursor, HELD)).collect();
    let bytes = parked(fleet.at(), &waits, &|| fleet.resident());
    print("goal16_rooms_woken_by_parked_waits", vec![fleet.metric("roomring_room_wakes_total")]);
    bytes
}

pub(crate) fn report() {
    let (ours, rmcp) = (parked_by_ours(), parked_by_rmcp());
    print("parked_wait_bytes", vec![ours]);
    print("rmcp_parked_wait_bytes", vec![rmcp]);
    print("goal16_parked_wait_by_rmcp_ratio", vec![ours / rmcp]);
}
