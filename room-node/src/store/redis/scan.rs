//! Reading due times: only from buckets this node owns, and only when something may be due.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use membership::{Bucket, BucketSet};
use object::Millis;
use redis_link::redis::{Value, cmd};
use tokio::sync::watch;

use super::super::{Due, Result};
use super::due::{BUCKET_ENTRIES_MAX, Found, Memory, Pass};
use super::wire::{Code, failed};
use super::{CALL_MS, RedisStore, keys, wire};
use crate::metrics::InFlight;

/// Reads of buckets in flight at once.
pub(super) const READS_INFLIGHT_MAX: usize = 128;

#[derive(Debug)]
pub(super) struct Scan {
    memory: Mutex<Memory>,
    /// One scan at a time: pages of one pass are served from it.
    pass: tokio::sync::Mutex<(watch::Receiver<BucketSet>, Option<Pass>)>,
}

/// What one read of a bucket has told.
struct Read {
    bucket: Bucket,
    found: Found,
    first: Option<Millis>,
    later: Option<Millis>,
}

impl Scan {
    pub(super) fn new(mut owned: watch::Receiver<BucketSet>) -> Self {
        owned.mark_changed();
        Self { memory: Mutex::default(), pass: tokio::sync::Mutex::new((owned, None)) }
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An entry of the bucket was written.
    pub(super) fn lower(&self, bucket: Bucket, due: Option<Millis>) {
        if let Some(at) = due {
            self.memory().lower(bucket, at);
        }
    }
}

impl RedisStore {
    pub(super) async fn scan_due(
        &self,
        now: Millis,
        after: Option<Due>,
        limit: usize,
    ) -> Result<(Vec<Due>, Option<Millis>)> {
        let mut held = self.scan.pass.lock().await;
        let (owned, running) = &mut *held;
        // A sender that is gone leaves the set as it was.
        let changed = owned.has_changed().unwrap_or(false);
        let owned = owned.borrow_and_update().clone();
        let goes_on = |pass: &Pass| !changed && after.is_some() && pass.served == after;
        let mut pass = match running.take().filter(goes_on) {
            Some(pass) => pass,
            None => self.begin(&owned, changed, now, after).await?,
        };
        let mut page = Vec::new();
        while page.len() < limit {
            match pass.take() {
                Ok(Some(due)) => page.push(due),
                Ok(None) => {
                    // Only if something has become due since the pass began.
                    let next = self.scan.memory().next(&owned, pass.now);
                    if pass.now >= now || next.is_none_or(|next| next > now) {
                        break;
                    }
                    pass = self.begin(&owned, false, now, pass.served).await?;
                }
                Err((bucket, last)) => {
                    let read = self.read_bucket(bucket, pass.now, Some(&last)).await?;
                    pass.read_on(bucket, read.found);
                }
            }
        }
        let next = self.scan.memory().next(&owned, pass.now);
        *running = Some(pass);
        Ok((page, next))
    }

    async fn begin(
        &self,
        owned: &BucketSet,
        changed: bool,
        now: Millis,
        after: Option<Due>,
    ) -> Result<Pass> {
        let buckets = self.scan.memory().begin_pass(owned, changed, now);
        if buckets.len() > READS_INFLIGHT_MAX {
            self.metrics.bound_hit("reads_inflight_max");
        }
        let reads =
            stream::iter(buckets).map(|bucket| self.read_bucket(bucket, now, after.as_ref()));
        let reads: Vec<Read> = reads.buffer_unordered(READS_INFLIGHT_MAX).try_collect().await?;
        let mut pass = Pass::new(now, after);
        let mut memory = self.scan.memory();
        for read in reads {
            memory.end_read(read.bucket, read.first, read.later);
            pass.add(read.bucket, read.found);
        }
        Ok(pass)
    }

    /// Reads the due entries of a bucket after `from`, and when the next one is due.
    async fn read_bucket(&self, bucket: Bucket, now: Millis, from: Option<&Due>) -> Result<Read> {
        let _in_flight = InFlight::of(&self.metrics.scans);
        // Where the bucket is read from its middle, its first entry is due already.
        let mut read =
            Read { bucket, found: Found::default(), first: from.map(|due| due.at), later: None };
        let mut offset = 0;
        loop {
            let min = from.map_or_else(|| "-inf".to_owned(), |from| from.at.0.to_string());
            let (count, entries) = self.range(bucket, &min, offset, BUCKET_ENTRIES_MAX).await?;
            for due in entries {
                read.first = read.first.or(Some(due.at));
                if due.at > now {
                    read.later = Some(due.at);
                    return Ok(read);
                }
                if from.is_none_or(|from| (due.at, &due.object) > (from.at, &from.object)) {
                    read.found.entries.push_back(due);
                }
            }
            if count < BUCKET_ENTRIES_MAX {
                return Ok(read);
            }
            if !read.found.entries.is_empty() {
                break;
            }
            offset += count;
        }
        read.found.more = true;
        self.metrics.bound_hit("bucket_entries_max");
        let (_, later) = self.range(bucket, &format!("({}", now.0), 0, 1).await?;
        read.later = later.front().map(|due| due.at);
        Ok(read)
    }

    /// How many entries there are in the range, and those of them that can be read.
    async fn range(
        &self,
        bucket: Bucket,
        min: &str,
        offset: usize,
        count: usize,
    ) -> Result<(usize, VecDeque<Due>)> {
        let key = keys::due(bucket);
        let mut ask = cmd("ZRANGEBYSCORE");
        ask.arg(key.as_ref()).arg(min).arg("+inf").arg("WITHSCORES");
        ask.arg("LIMIT").arg(offset).arg(count);
        let deadline = self.clock.instant(self.within(CALL_MS));
        let answer = self.link.command(&key, ask, deadline).await;
        let answer = answer.map_err(|failure| failed(failure, false));
        self.metrics.count("scan", answer.as_ref().map(|_| Code::Done));
        let mut entries = VecDeque::new();
        let pairs = pairs(answer?)?;
        let found = pairs.len();
        // At most `count`, which is BUCKET_ENTRIES_MAX or less.
        for (member, score) in pairs {
            match (keys::parse_member(&member), score) {
                (Some(object), Some(at)) => entries.push_back(Due { at, object }),
                _ => self.metrics.foreign_due.inc(),
            }
        }
        Ok((found, entries))
    }
}

type Pair = (bytes::Bytes, Option<Millis>);

/// Members with scores: a flat list, or pairs where the protocol has them.
fn pairs(answer: Value) -> Result<Vec<Pair>> {
    let mut pairs = Vec::new();
    let mut values = wire::array(Some(answer))?.into_iter();
    while let Some(value) = values.next() {
        let (member, score) = match value {
            Value::Array(pair) => {
                let mut pair = pair.into_iter();
                (pair.next(), pair.next())
            }
            member => (Some(member), values.next()),
        };
        pairs.push((wire::bytes(member)?, score.and_then(time)));
    }
    Ok(pairs)
}

/// A score in any of its forms.
fn time(score: Value) -> Option<Millis> {
    match score {
        Value::Double(number) => Some(wire::whole(number)),
        Value::Int(number) => Some(Millis(u64::try_from(number).unwrap_or(0))),
        text => wire::parse_score(&wire::bytes(Some(text)).ok()?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_forms_of_members_with_scores_are_read() {
        let text = |text: &str| Value::BulkString(text.as_bytes().to_vec());
        let flat = Value::Array(vec![text("r:a"), text("5"), text("r:b"), text("1e3")]);
        let nested = Value::Array(vec![
            Value::Array(vec![text("r:a"), Value::Double(5.5)]),
            Value::Array(vec![text("r:b"), Value::Int(1_000)]),
        ]);
        let all = vec![("r:a".into(), Some(Millis(5))), ("r:b".into(), Some(Millis(1_000)))];
        for form in [flat, nested] {
            assert_eq!(pairs(form), Ok(all.clone()));
        }
        assert_eq!(
            pairs(Value::Array(vec![text("r:a"), text("x")])),
            Ok(vec![("r:a".into(), None)])
        );
        assert!(pairs(Value::Nil).is_err());
    }
}
