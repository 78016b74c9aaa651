//! The clients: agents in rooms that write and poll without a pause, each call with a deadline, and
//! that ask again, under the same key, for whatever they have not heard of.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use fastrand::Rng;
use tokio::time::{Instant, sleep_until};

use crate::crash::agent::Agent;
use crate::mcp::{Client, Era};

/// Longest a client waits for an answer.
pub(crate) const DEADLINE: Duration = Duration::from_secs(10);
/// Longest pause between two calls of one agent.
const PAUSE_MS_MAX: u64 = 250;
/// Pause before another gateway is tried.
const AGAIN: Duration = Duration::from_millis(100);
/// Acknowledged changes that one agent remembers, for the reads at the end.
const ACKED_MAX: usize = 64;
/// How long agents may take at the end to learn what they do not know.
const SETTLE: Duration = Duration::from_secs(60);

/// The gateways, and the end of the work.
#[derive(Debug)]
pub(crate) struct Floor {
    pub(crate) gateways: Vec<SocketAddr>,
    pub(crate) over: AtomicBool,
}

/// A client of one gateway, and its place in the list.
struct Door {
    at: usize,
    client: Client,
}

impl Door {
    fn new(floor: &Floor, at: usize, rng: &mut Rng) -> Self {
        let at = at % floor.gateways.len();
        let era = if rng.bool() { Era::Legacy } else { Era::Modern };
        Self { at, client: Client::within(floor.gateways[at], era, DEADLINE) }
    }

    /// The next gateway, after a moment.
    async fn next(&mut self, floor: &Floor, rng: &mut Rng) {
        sleep_until(Instant::now() + AGAIN).await;
        *self = Self::new(floor, self.at + 1, rng);
    }
}

/// One agent until the end; returns it for the last reads.
pub(crate) async fn work(mut agent: Agent, floor: Arc<Floor>, mut rng: Rng) -> Agent {
    let mut door = Door::new(&floor, rng.usize(..8), &mut rng);
    let mut uploads = 0;
    while !floor.over.load(Ordering::Relaxed) {
        let alive = if let Some(change) = agent.unknown.pop() {
            agent.change(&mut door.client, change).await
        } else if rng.u32(..5) == 0 {
            door.client.in_cadence().await;
            agent.poll(&mut door.client, 1).await
        } else {
            let change = agent.choose(&mut rng, &mut uploads);
            agent.change(&mut door.client, change).await
        };
        if !alive {
            door.next(&floor, &mut rng).await;
        }
        let old = agent.acked.len().saturating_sub(ACKED_MAX);
        agent.acked.drain(..old);
        let pause = rng.u64(..PAUSE_MS_MAX);
        sleep_until(Instant::now() + Duration::from_millis(pause)).await;
    }
    settle(&mut agent, &floor, door, &mut rng).await;
    agent
}

/// Learns what became of every change, and polls to the end.
async fn settle(agent: &mut Agent, floor: &Floor, mut door: Door, rng: &mut Rng) {
    let give_up = Instant::now() + SETTLE;
    while let Some(change) = agent.unknown.pop()
        && Instant::now() < give_up
    {
        if !agent.change(&mut door.client, change).await {
            door.next(floor, rng).await;
        }
    }
    let mut before = None;
    while before != Some(agent.cursor) && Instant::now() < give_up {
        before = Some(agent.cursor);
        door.client.in_cadence().await;
        if !agent.poll(&mut door.client, 0).await {
            before = None;
            door.next(floor, rng).await;
        }
    }
}
