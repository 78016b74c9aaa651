//! The whole cluster on replicated sets of servers, and their failovers: a primary with two replicas
//! under three sentinels, and a Redis Cluster of three primaries with two replicas each.

use std::io::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use redis_link::rig::Sentinel;
use tokio::time::Instant;

use crate::backend::{cluster, sentinel};
use crate::load::Speaker;
use crate::mcp::Era;
use crate::metrics::{scrape, sum};
use crate::program::STEP;
use crate::server::{FAST, Server};
use crate::{canary, scenario};

/// Rooms that speak: enough that every node and every primary has some.
const ROOMS: usize = 12;
/// Texts of each room before the primary is killed, and after.
const EACH: usize = 4;
/// Texts of one room at most: so that all of them can be read back at once.
const TEXTS_MAX: usize = 45;
/// Between two texts of one room.
const PAUSE: Duration = Duration::from_millis(250);

/// The suites run over both sets by `ROOMRING_TESTS_REDIS`, but for this one, whose second start is
/// over what the first has left.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn secrets_are_kept_on_replicated_sets_too() {
    let (sentinel, cluster) = (sentinel(), cluster());
    for url in [sentinel.url(), cluster.url()] {
        let dir = tempfile::tempdir().unwrap();
        canary::keeps_secrets(|flags| Server::start_over(url.clone(), dir.path(), flags)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failover_of_sentinels_loses_nothing_that_a_replica_has_confirmed() {
    let mut set = sentinel();
    let lost = failover(&set.url(), "d3", || kill_of_sentinels(&mut set)).await;
    assert_eq!(lost, Lost::default());
}

/// Without the wait for a replica an acknowledged text may go with the primary; then it is told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_failover_loses_without_a_replicas_word_is_told() {
    let mut set = sentinel();
    let lost = failover(&set.url(), "d1", || kill_of_sentinels(&mut set)).await;
    assert!(lost.rooms <= lost.told, "{lost:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_primary_of_a_redis_cluster_loses_nothing_that_a_replica_has_confirmed() {
    let mut set = cluster();
    let lost = failover(&set.url(), "d3", || {
        set.servers[0].kill();
        let replicas = [&set.servers[3], &set.servers[6]];
        redis_link::rig::until("a replica is promoted", || {
            Ok(replicas.iter().any(|replica| replica.is_primary()))
        })
    })
    .await;
    assert_eq!(lost, Lost::default());
}

fn kill_of_sentinels(set: &mut Sentinel) -> Result<(), Error> {
    let old = set.kill_primary()?;
    redis_link::rig::until("a replica is promoted", || {
        let named = set.primary_index().ok().filter(|index| *index != old);
        Ok(named.is_some_and(|index| set.servers[index].is_primary()))
    })
}

/// What was acknowledged and is gone.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Lost {
    /// Rooms that miss something.
    rooms: u64,
    /// Rooms of which the nodes say so.
    told: u64,
}

/// Kills a primary (which `kill` does, and waits for the next) while all rooms speak; returns when
/// all have spoken on and two agents have lived a whole life.
async fn failover(url: &str, level: &str, kill: impl FnOnce() -> Result<(), Error>) -> Lost {
    let dir = tempfile::tempdir().unwrap();
    let of_level = format!("--durability={level}");
    let flags = [&FAST[..], &[of_level.as_str()]].concat();
    let server = Server::start_over(url.to_owned(), dir.path(), &flags);
    let gateways: Vec<_> = server.gateways.iter().map(|gateway| gateway.at).collect();
    let speakers = Speaker::several(&gateways, ROOMS).await;
    let stop = Arc::new(AtomicBool::new(false));
    let counts: Arc<[AtomicUsize]> = (0..ROOMS).map(|_| AtomicUsize::new(0)).collect();
    let speaking: Vec<_> = speakers
        .into_iter()
        .enumerate()
        .map(|(at, speaker)| speak_on(speaker, &stop, &counts, at))
        .collect();
    reach(&counts, [EACH; ROOMS]).await;
    let before: [usize; ROOMS] = std::array::from_fn(|at| counts[at].load(Ordering::SeqCst));
    let begin = Instant::now();
    tokio::task::block_in_place(kill).unwrap();
    let promoted = begin.elapsed();
    reach(&counts, before.map(|count| (count + EACH).min(TEXTS_MAX))).await;
    let again = begin.elapsed();
    stop.store(true, Ordering::SeqCst);
    let (mut lost, mut said, mut failed, mut away) = (Lost::default(), 0, 0, Duration::ZERO);
    for speaking in speaking {
        let (mut speaker, slowest) = speaking.await.unwrap();
        let missing = speaker.missing().await;
        lost.rooms += u64::from(!missing.is_empty());
        said += speaker.count();
        failed += speaker.failed.len();
        away = away.max(slowest);
    }
    lost.told = told(&server, lost.rooms).await;
    println!(
        "failover at {level}: promoted after {promoted:.2?}, all rooms speak after {again:.2?}; \
         {said} texts acknowledged, {failed} calls failed and were repeated, the longest wait \
         {away:.2?}; {lost:?}"
    );
    scenario::life(&server, Era::Modern).await;
    lost
}

/// Of how many rooms the nodes say that something is lost, once that is `least` or they have had
/// time enough.
async fn told(server: &Server, least: u64) -> u64 {
    let mut turn = tokio::time::interval(Duration::from_millis(100));
    let begin = Instant::now();
    loop {
        turn.tick().await;
        let told = sum(&scrape(server.admin).await, "roomring_store_lost_acked_total", "");
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "a small count"
        )]
        let told = told as u64;
        if told >= least || begin.elapsed() > STEP {
            return told;
        }
    }
}

/// Speaks until told to stop, each text repeated until it is acknowledged; the longest that took.
fn speak_on(
    mut speaker: Speaker,
    stop: &Arc<AtomicBool>,
    counts: &Arc<[AtomicUsize]>,
    at: usize,
) -> tokio::task::JoinHandle<(Speaker, Duration)> {
    let (stop, counts) = (Arc::clone(stop), Arc::clone(counts));
    tokio::spawn(async move {
        let mut pace = tokio::time::interval(PAUSE);
        let mut slowest = Duration::ZERO;
        while !stop.load(Ordering::SeqCst) && speaker.count() < TEXTS_MAX {
            pace.tick().await;
            slowest = slowest.max(speaker.insist().await);
            counts[at].store(speaker.count(), Ordering::SeqCst);
        }
        (speaker, slowest)
    })
}

/// Waits until each room has that many acknowledged texts.
async fn reach(counts: &[AtomicUsize], goals: [usize; ROOMS]) {
    let mut turn = tokio::time::interval(Duration::from_millis(20));
    let reached = async {
        while counts.iter().zip(goals).any(|(count, goal)| count.load(Ordering::SeqCst) < goal) {
            turn.tick().await;
        }
    };
    tokio::time::timeout(STEP, reached).await.unwrap_or_else(|_| panic!("{counts:?}: {goals:?}"));
}
