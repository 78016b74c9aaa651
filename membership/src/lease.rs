//! The node lease as its holder knows it: pure, time is an argument.
//!
//! Who holds a lease may answer from memory, because nobody can claim from a live incarnation. The
//! table counts a lease from the moment it wrote the renewal; the holder counts it from before the
//! renewal was sent, and ends it a margin earlier, so that it is always over here before it is over
//! there, whatever the way took. A lease that runs out here is a self-fence: everything held is
//! dropped. It may be taken up again as long as the table has not ended the incarnation; once it
//! has, the incarnation is lost for good.

use thiserror::Error;

use crate::clock::Mono;

/// The margin before the end, ms, for a lease that is long enough for it.
pub const MARGIN_MS: u64 = 1_000;

/// Short leases keep this part of themselves as the margin.
const MARGIN_PART: u64 = 5;

/// How many heartbeats fit into a lease, at least: fewer make a lease hang on one lost packet.
pub const HEARTBEATS_MIN: u64 = 4;

/// The shortest lease, ms.
pub const TTL_MS_MIN: u64 = 100;

/// The longest lease, ms. It is how long a dead node's rooms stay closed.
pub const TTL_MS_MAX: u64 = 600_000;

/// Between two attempts after one failed, ms, at most.
const RETRY_MS_MAX: u64 = 250;

/// A loop that was not looked at for longer than this stood still, ms: renew at once.
pub const GAP_MS: u64 = 500;

/// How long a node lease lasts, and how often it is renewed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Terms {
    ttl_ms: u64,
    heartbeat_ms: u64,
}

/// 5 s and 1 s: a dead node's rooms come back within 6 s, and one lost packet ends nobody.
impl Default for Terms {
    fn default() -> Self {
        Self { ttl_ms: 5_000, heartbeat_ms: 1_000 }
    }
}

/// Why terms do not hold.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum TermsError {
    #[error("a node lease lasts 100 to 600000 ms: change --node-ttl-ms")]
    Ttl,
    #[error(
        "a node lease lasts 4 heartbeats at least: raise --node-ttl-ms or lower --node-heartbeat-ms"
    )]
    Heartbeat,
}

impl Terms {
    /// Terms that hold, in milliseconds.
    ///
    /// # Errors
    /// What is wrong with them.
    pub const fn new(ttl_ms: u64, heartbeat_ms: u64) -> Result<Self, TermsError> {
        if ttl_ms < TTL_MS_MIN || ttl_ms > TTL_MS_MAX {
            return Err(TermsError::Ttl);
        }
        if heartbeat_ms == 0 || heartbeat_ms.saturating_mul(HEARTBEATS_MIN) > ttl_ms {
            return Err(TermsError::Heartbeat);
        }
        Ok(Self { ttl_ms, heartbeat_ms })
    }

    /// The length of a lease, ms.
    #[must_use]
    pub const fn ttl_ms(self) -> u64 {
        self.ttl_ms
    }

    /// Between two renewals, ms.
    #[must_use]
    pub const fn heartbeat_ms(self) -> u64 {
        self.heartbeat_ms
    }

    /// By how much a lease ends earlier here than in the table, ms.
    #[must_use]
    pub fn margin_ms(self) -> u64 {
        MARGIN_MS.min(self.ttl_ms / MARGIN_PART)
    }

    fn retry_ms(self) -> u64 {
        (self.heartbeat_ms / 4).clamp(1, RETRY_MS_MAX)
    }
}

/// Why an incarnation can never hold a lease again.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
pub enum Lost {
    #[error("this incarnation was declared ended in the node table; restart as a new one")]
    Ended,
    #[error(
        "the node table does not know this incarnation (was it deleted?); restart as a new one"
    )]
    Unknown,
}

/// Where a node stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// It may answer from memory, as long as the clock says so too.
    Leased,
    /// The lease ran out: everything held is dropped, nothing is answered until the next renewal.
    Lapsed,
    /// It must end and come back as another incarnation.
    Lost(Lost),
    /// It left of its own accord.
    Left,
}

/// The lease of one incarnation.
#[derive(Clone, Debug)]
pub struct Lease {
    terms: Terms,
    standing: Standing,
    until: Mono,
    beat_at: Mono,
    looked_at: Mono,
    self_fences: u64,
    gaps: u64,
}

impl Lease {
    /// The lease of a node whose joining was sent at `sent` and confirmed by `now`.
    #[must_use]
    pub fn joined(terms: Terms, sent: Mono, now: Mono) -> Self {
        let mut lease = Self {
            terms,
            standing: Standing::Lapsed,
            until: Mono(0),
            beat_at: now,
            looked_at: now,
            self_fences: 0,
            gaps: 0,
        };
        lease.renewed(sent, now);
        lease
    }

    /// Where it stands since the last input.
    #[must_use]
    pub const fn standing(&self) -> Standing {
        self.standing
    }

    /// When it ends if nothing is heard; `None` while there is none.
    #[must_use]
    pub fn until(&self) -> Option<Mono> {
        (self.standing == Standing::Leased).then_some(self.until)
    }

    /// Whether it holds at `now`.
    #[must_use]
    pub fn is_leased(&self, now: Mono) -> bool {
        self.until().is_some_and(|until| now < until)
    }

    /// How often it ran out.
    #[must_use]
    pub const fn self_fences(&self) -> u64 {
        self.self_fences
    }

    /// How often the loop stood still for more than [`GAP_MS`].
    #[must_use]
    pub const fn gaps(&self) -> u64 {
        self.gaps
    }

    /// When the next renewal is to be sent; `None` if none ever is.
    #[must_use]
    pub const fn beat_at(&self) -> Option<Mono> {
        match self.standing {
            Standing::Leased | Standing::Lapsed => Some(self.beat_at),
            Standing::Lost(_) | Standing::Left => None,
        }
    }

    /// Time has come to `now`. To be called at least every [`GAP_MS`] and at the lease's end.
    pub fn look(&mut self, now: Mono) {
        if now.since(self.looked_at) > GAP_MS {
            // Whatever was thought before the pause is compared with the clock again by
            // `is_leased`; beyond that, the table is asked at once.
            self.gaps += 1;
            self.beat_at = self.beat_at.min(now);
        }
        self.looked_at = self.looked_at.max(now);
        if self.standing == Standing::Leased && now >= self.until {
            self.standing = Standing::Lapsed;
            self.self_fences += 1;
        }
    }

    /// The next renewal is wanted now, whatever the heartbeat says.
    pub fn hurry(&mut self, now: Mono) {
        self.beat_at = self.beat_at.min(now);
    }

    /// A renewal, or the joining, that was sent at `sent` was confirmed by `now`.
    pub fn renewed(&mut self, sent: Mono, now: Mono) {
        self.look(now);
        if self.beat_at().is_none() {
            return;
        }
        let length = self.terms.ttl_ms - self.terms.margin_ms();
        self.until = self.until.max(sent.plus(length));
        self.beat_at = sent.plus(self.terms.heartbeat_ms).max(now);
        if now < self.until {
            self.standing = Standing::Leased;
        }
    }

    /// A renewal got no answer, or one that does not count: it may or may not have been written.
    pub fn failed(&mut self, now: Mono) {
        self.look(now);
        self.beat_at = now.plus(self.terms.retry_ms());
    }

    /// The table refused a renewal for good.
    pub fn refused(&mut self, why: Lost, now: Mono) {
        self.look(now);
        if self.standing != Standing::Left {
            self.standing = Standing::Lost(why);
        }
    }

    /// The node is about to say that it has ended: from here on it holds nothing.
    pub const fn left(&mut self) {
        self.standing = Standing::Left;
    }
}

#[cfg(test)]
mod tests;
