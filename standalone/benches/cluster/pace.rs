//! Asking at a pace, waking those who wait, and leaving many waits parked.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::time::{Instant, MissedTickBehavior, interval, interval_at};

use crate::serve::ask::{Connection, on_this_thread};
use crate::serve::words;

/// A hundred requests a second.
const PACE: Duration = Duration::from_millis(10);
/// From asking for a wait until it is surely parked.
const PARKED_AFTER: Duration = Duration::from_millis(5);
/// From the last of many parked waits until memory is looked at.
const SETTLE: Duration = Duration::from_secs(2);

/// Milliseconds from each of `count` requests to its whole answer, one each 10 ms.
pub(crate) fn latencies(at: SocketAddr, requests: &[Vec<u8>], count: usize) -> Vec<f64> {
    on_this_thread(async {
        let mut connections = Vec::new();
        for _ in requests {
            connections.push(Connection::open(at).await);
        }
        let mut ticks = interval(PACE);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut found = Vec::with_capacity(count);
        for number in 0..count {
            let turn = number % requests.len();
            ticks.tick().await;
            let begin = Instant::now();
            connections[turn].ask(&requests[turn]).await;
            found.push(begin.elapsed().as_secs_f64() * 1e3);
        }
        found
    })
}

/// Milliseconds from the start of each send to the whole answer of the wait that it ends.
pub(crate) fn wakes(
    at: SocketAddr,
    mut cursor: u64,
    wait: &dyn Fn(u64) -> Vec<u8>,
    send: &[u8],
    count: usize,
) -> Vec<f64> {
    on_this_thread(async {
        let (mut waiter, mut sender) = (Connection::open(at).await, Connection::open(at).await);
        let mut found = Vec::with_capacity(count);
        for _ in 0..count {
            waiter.send(&wait(cursor)).await;
            pass(PARKED_AFTER).await;
            let begin = Instant::now();
            let (_, woken) = tokio::join!(sender.ask(send), async {
                waiter.receive().await;
                begin.elapsed()
            });
            found.push(woken.as_secs_f64() * 1e3);
            cursor = words::sequence(sender.body());
            let answer = String::from_utf8_lossy(waiter.body());
            assert!(answer.contains(words::TEXT), "woken without the message: {answer}");
        }
        found
    })
}

/// Parks each wait on a connection of its own and says by how much `memory` has grown, in bytes a
/// wait.
pub(crate) fn parked(at: SocketAddr, waits: &[Vec<u8>], memory: &dyn Fn() -> f64) -> f64 {
    on_this_thread(async {
        let before = memory();
        let mut connections = Vec::with_capacity(waits.len());
        for wait in waits {
            let mut connection = Connection::open(at).await;
            connection.send(wait).await;
            connections.push(connection);
        }
        pass(SETTLE).await;
        let grown = memory() - before;
        for connection in &connections {
            assert!(connection.is_silent(), "a wait was answered at once");
        }
        grown / waits.len() as f64
    })
}

/// Ends when so much time has passed: benchmarks live in real time.
pub(crate) async fn pass(time: Duration) {
    interval_at(Instant::now() + time, time).tick().await;
}
