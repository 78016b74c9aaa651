//! Agents that come to a room alone and leave it, so that it dies: some come back once it should
//! have.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fastrand::Rng;
use serde_json::{Value, json};
use tokio::time::{Instant, sleep_until};

use crate::crash::agent::{Outcome, outcome};
use crate::crash::log::{About, Log};
use crate::mcp::{Client, Era};
use crate::workload::{DEADLINE, Floor};
use sim::history::Phase;

/// For so long an empty room lives here, in milliseconds.
pub(crate) const EMPTY_MS: u64 = 5_000;
/// How late it may die, in milliseconds: faults have 60 s to be got over, and this is one of them.
pub(crate) const BOUND_MS: u64 = 60_000;
/// Rooms that one visitor may come back to.
const LEFT_MAX: usize = 16;
/// Longest pause between two visits.
const PAUSE_MS_MAX: u64 = 1_500;

/// Visits rooms until the end; returns those that nobody has come back to.
pub(crate) async fn visit(
    who: usize,
    floor: Arc<Floor>,
    log: Log,
    mut rng: Rng,
) -> BTreeSet<String> {
    let (mut left, mut empty, mut rooms, mut visits) = (Vec::new(), BTreeSet::new(), 0, 0);
    while !floor.over.load(Ordering::Relaxed) {
        let due = |(_, at): &(String, Instant)| at.elapsed() > Duration::from_millis(EMPTY_MS);
        let old = left.iter().position(due).filter(|_| rng.bool());
        let room = old.map(|at| left.remove(at).0).unwrap_or_else(|| {
            rooms += 1;
            format!("brief-{who}-{rooms}")
        });
        empty.remove(&room);
        visits += 1;
        let client = format!("brief{who}");
        let key = format!("{client}-{visits}");
        let about = |op| About { client: client.clone(), op, key: key.clone(), room: room.clone() };
        if stayed(&about, &floor.gateways, &log, &mut rng).await {
            empty.insert(room.clone());
            left.push((room, Instant::now()));
            let old = left.len().saturating_sub(LEFT_MAX);
            left.drain(..old);
        }
        sleep_until(Instant::now() + Duration::from_millis(rng.u64(..PAUSE_MS_MAX))).await;
    }
    empty
}

/// Comes and goes; true if it has certainly done both.
async fn stayed(
    about: &impl Fn(&'static str) -> About,
    gateways: &[SocketAddr],
    log: &Log,
    rng: &mut Rng,
) -> bool {
    let join = about("join");
    let arguments = json!({"roomId": join.room, "name": join.client});
    log.add(&join, Phase::Invoke, None, Value::Null);
    let joined = outcome(client(gateways, rng).call("join_room", arguments).await);
    let Some(joined) = ended(&join, log, joined) else { return false };
    let leave = about("leave");
    let arguments = json!({"participantHandle": joined["participantHandle"]});
    let give_up = Instant::now() + Duration::from_millis(BOUND_MS);
    while Instant::now() < give_up {
        let period = json!({"emptyMs": EMPTY_MS, "boundMs": BOUND_MS});
        log.add(&leave, Phase::Invoke, None, period);
        let left = outcome(client(gateways, rng).call("leave_room", arguments.clone()).await);
        let gone = matches!(&left, Outcome::Refused(code)
            if code == "already_left" || code == "invalid_participant_handle");
        if ended(&leave, log, left).is_some() || gone {
            return true;
        }
        sleep_until(Instant::now() + Duration::from_millis(100)).await;
    }
    false
}

fn client(gateways: &[SocketAddr], rng: &mut Rng) -> Client {
    let era = if rng.bool() { Era::Legacy } else { Era::Modern };
    Client::within(gateways[rng.usize(..gateways.len())], era, DEADLINE)
}

/// Writes down how a call ended; its answer if it was done.
fn ended(about: &About, log: &Log, how: Outcome) -> Option<Value> {
    let (phase, detail, answer) = match how {
        Outcome::Done(answer) => {
            let detail = match about.op {
                "join" => json!({"cursor": answer["cursor"], "leaseMs": answer["agentLeaseMs"]}),
                _ => Value::Null,
            };
            (Phase::Ok, detail, Some(answer))
        }
        Outcome::Refused(code) => (Phase::Fail, json!({"code": code}), None),
        Outcome::NotSent => (Phase::Fail, json!({"code": "not_sent"}), None),
        Outcome::Unknown => (Phase::Unknown, Value::Null, None),
    };
    log.add(about, phase, None, detail);
    answer
}
