//! Reads that need no order with writes in flight: blobs and the due index.

use std::collections::VecDeque;
use std::ops::Bound;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use object::{BlobId, Millis, ObjectId};
use tokio::sync::oneshot;

use super::super::sealed;
use super::super::{Due, Error, Result};
use super::disk::{Disk, Table};
use super::queue::{Queue, Taken};
use super::record;
use super::writer::{Shared, mark_key};

/// Reads taken from the queue at once.
pub(super) const READS_TAKEN_MAX: usize = 64;
/// Entries of the due index in one page at most.
pub(super) const DUE_PAGE_MAX: usize = 4_096;

type Reply<T> = oneshot::Sender<Result<T>>;

pub(super) enum Read {
    Due { now: Millis, after: Option<Due>, limit: usize, reply: Reply<(Vec<Due>, Option<Millis>)> },
    Blob { object: ObjectId, blob: BlobId, reply: Reply<Option<Bytes>> },
}

/// Serves the queue until it is closed. A caller that has gone away no longer wants its answer.
pub(super) fn run(disk: &Disk, shared: &Shared, queue: &Queue<Read>) {
    let mut reads = VecDeque::new();
    while queue.take(&mut reads, READS_TAKEN_MAX) != Taken::Closed {
        if reads.len() >= READS_TAKEN_MAX {
            shared.bound_hit("reads_taken_max");
        }
        while let Some(read) = reads.pop_front() {
            match read {
                Read::Due { now, after, limit, reply } => {
                    shared.tick(now);
                    if limit > DUE_PAGE_MAX {
                        shared.bound_hit("due_page_max");
                    }
                    let _gone = reply.send(guarded(|| due(disk, now, after.as_ref(), limit)));
                }
                Read::Blob { object, blob, reply } => {
                    let now = shared.now();
                    let _gone = reply.send(guarded(|| get_blob(disk, now, &object, blob)));
                }
            }
        }
    }
}

/// The database asserts on some kinds of damage. One such read must not end the thread: nobody
/// would serve the queue any more, and every later read would wait for ever.
fn guarded<T>(read: impl FnOnce() -> Result<T>) -> Result<T> {
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(|_panic| {
        tracing::error!("a read of the store ended by a panic");
        Err(Error::Damaged { what: "the database" })
    })
}

fn due(
    disk: &Disk,
    now: Millis,
    after: Option<&Due>,
    limit: usize,
) -> Result<(Vec<Due>, Option<Millis>)> {
    // Keys begin with the time, so the first key after `now` is the first time after it.
    let later = now.0.checked_add(1).map(|later| later.to_be_bytes().to_vec());
    let from = match after {
        Some(due) => Bound::Excluded(record::time_key(due.at, &due.object)),
        None => Bound::Unbounded,
    };
    let to = later.clone().map_or(Bound::Unbounded, Bound::Excluded);
    let mut entries = Vec::new();
    if after.is_none_or(|after| after.at <= now) {
        let keys = disk.keys(Table::Due, (from, to), limit.min(DUE_PAGE_MAX))?;
        let parsed = keys.iter().filter_map(|key| record::parse_time_key(key));
        entries.extend(parsed.map(|(at, object)| Due { at, object }));
    }
    let next = match later {
        Some(later) => disk.keys(Table::Due, later.., 1)?.pop(),
        None => None,
    };
    let next = next.and_then(|key| record::parse_time_key(&key)).map(|(at, _)| at);
    Ok((entries, next))
}

fn get_blob(disk: &Disk, now: Millis, object: &ObjectId, blob: BlobId) -> Result<Option<Bytes>> {
    let key = record::blob_key(object, blob);
    let Some(bytes) = disk.get(Table::Blob, &key)? else { return Ok(None) };
    if let Some(expires) = disk.get(Table::Mark, &mark_key(b'p', &key))? {
        let expires: Option<[u8; 8]> = expires.as_ref().try_into().ok();
        if expires.is_none_or(|expires| Millis(u64::from_be_bytes(expires)) <= now) {
            return Ok(None);
        }
    }
    sealed::unseal(bytes, "a blob").map(Some)
}
