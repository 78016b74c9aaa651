//! The gateways of other regions: asked for their rooms, never their nodes, and never waited for
//! if they are away (cluster 2.12).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use proto::v1;

use crate::clock::{self, Instant};
use crate::error::Refusal;
use crate::region::Regions;
use crate::upstream::Upstream;
use crate::upstream::retry::{self, Failure, Next, Options, Progress, drawn};

/// Taken off what a peer is told of the deadline, so that its own refusal arrives in time.
const DEADLINE_MARGIN: Duration = Duration::from_millis(20);

/// A call for another region, and what is known of it.
#[derive(Debug)]
pub(crate) struct Abroad<'a> {
    pub(crate) region: &'a Arc<str>,
    pub(crate) call: v1::Call,
    /// The home recognises the request: a second run changes nothing.
    pub(crate) repeatable: bool,
    /// A lost answer leaves nothing in doubt.
    pub(crate) harmless: bool,
    pub(crate) deadline: Instant,
}

/// Streams to the peer gateways of every other region.
#[derive(Debug)]
pub struct Peers {
    regions: Regions,
    /// Bounded by the regions file.
    upstreams: BTreeMap<Arc<str>, Vec<Upstream>>,
    turn: AtomicUsize,
}

impl Peers {
    /// One region: nobody to ask.
    #[must_use]
    pub fn none(own: &str) -> Self {
        Self { regions: Regions::alone(own), upstreams: BTreeMap::new(), turn: AtomicUsize::new(0) }
    }

    /// Opens streams to all peers of other regions by `dial`, which is given their address.
    #[must_use]
    pub fn open(regions: Regions, dial: impl Fn(&str) -> Option<Upstream>) -> Self {
        let of = |(name, peers): (&Arc<str>, &[String])| {
            (Arc::clone(name), peers.iter().filter_map(|address| dial(address)).collect())
        };
        let upstreams = regions.others().map(of).collect();
        Self { regions, upstreams, turn: AtomicUsize::new(0) }
    }

    /// The regions there are.
    #[must_use]
    pub const fn regions(&self) -> &Regions {
        &self.regions
    }

    /// The next peer that takes calls, in turn.
    fn pick(&self, region: &str) -> Option<&Upstream> {
        let peers = self.upstreams.get(region)?;
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        (0..peers.len())
            .filter_map(|step| peers.get(turn.wrapping_add(step) % peers.len()))
            .find(|peer| peer.is_open())
    }

    /// Asks the home region. Nothing is held: a region that is away is said to be.
    pub(crate) async fn call(&self, mut abroad: Abroad<'_>) -> Result<v1::Answer, Refusal> {
        let (started, age_ms) = (clock::now(), abroad.call.age_ms);
        let mut progress = Progress {
            doubts: 0,
            hops: 0,
            pauses: 0,
            since_failure: Duration::ZERO,
            remaining: Duration::ZERO,
        };
        let mut failed_at = None;
        let options = Options { repeatable: abroad.repeatable, hinted: false, can_move: false };
        loop {
            let now = clock::now();
            progress.remaining = abroad.deadline.saturating_duration_since(now);
            let peer = self.pick(abroad.region).filter(|_| !progress.remaining.is_zero());
            let Some(peer) = peer else { return Err(end(&abroad, progress.doubts)) };
            abroad.call.deadline_ms =
                millis(progress.remaining.saturating_sub(DEADLINE_MARGIN)).max(1);
            abroad.call.age_ms = age_ms.saturating_add(millis(now.duration_since(started)));
            let failure = match peer.attempt(abroad.call.clone(), abroad.deadline).await {
                Ok(answer) if settles(&answer, &abroad, progress.doubts) => return Ok(answer),
                Ok(_) => return Err(end(&abroad, progress.doubts.max(1))),
                Err(failure) => failure,
            };
            let failed = clock::now();
            progress.since_failure = failed.duration_since(*failed_at.get_or_insert(failed));
            progress.remaining = abroad.deadline.saturating_duration_since(failed);
            if failure.in_doubt() {
                progress.doubts += 1;
                abroad.call.attempt = abroad.call.attempt.saturating_add(1);
            } else {
                progress.pauses += 1;
            }
            match retry::next(failure, options, progress) {
                // The stream closed under the call: another one may be open.
                Next::Hold { .. } => {}
                Next::Repeat { backoff_max } => tokio::time::sleep(drawn(backoff_max)).await,
                Next::Follow | Next::GiveUp => return Err(end(&abroad, progress.doubts)),
            }
        }
    }
}

/// Whether this is the last word on a call of which so many sendings may have run.
fn settles(answer: &v1::Answer, abroad: &Abroad<'_>, doubts: u32) -> bool {
    let Some(v1::answer::What::Refusal(refusal)) = &answer.what else { return true };
    let doubts = if abroad.harmless { 0 } else { doubts };
    Failure::Refused(proto::class::class(refusal.class)).settles(doubts)
}

fn end(abroad: &Abroad<'_>, doubts: u32) -> Refusal {
    if doubts > 0 && !abroad.harmless {
        Refusal::outcome_unknown()
    } else {
        Refusal::region_away(abroad.region)
    }
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
