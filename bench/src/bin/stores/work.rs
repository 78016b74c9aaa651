//! The write shape: callers, a writer thread with group commit, and what one append writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::JoinHandle;

use peers::Failure;

use super::candidate::Candidate;

const EVENT_BYTES: usize = 160;
/// What stands around the event in the log: prelude, lsn, fence, batch, schema.
const ENVELOPE_BYTES: usize = 54;
const RECORD_BYTES: usize = 110;
const SNAPSHOT_BYTES: usize = 512;
const SNAPSHOT_EVERY: u64 = 256;
const QUEUE_MAX: usize = 4_096;
const GATHER_TURNS_MAX: u32 = 24;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Table {
    Record,
    Log,
    Snapshot,
    Due,
}

impl Table {
    pub const ALL: [Self; 4] = [Self::Record, Self::Log, Self::Snapshot, Self::Due];

    pub const fn name(self) -> &'static str {
        match self {
            Self::Record => "record",
            Self::Log => "log",
            Self::Snapshot => "snapshot",
            Self::Due => "due",
        }
    }
}

/// A key to put, or without a value to delete.
pub type Change = (Table, Vec<u8>, Option<Vec<u8>>);

pub fn object_key(object: usize) -> Vec<u8> {
    // As long as that of a room with a usual id.
    format!("r{:02}{object:08x}-1111-4222-8333-444444444444", 36).into_bytes()
}

pub fn log_key(object: usize, lsn: u64) -> Vec<u8> {
    let mut key = object_key(object);
    key.extend_from_slice(&lsn.to_be_bytes());
    key
}

pub fn due_key(object: usize, lsn: u64) -> Vec<u8> {
    let mut key = (9_000_000 + lsn).to_be_bytes().to_vec();
    key.extend_from_slice(&object_key(object));
    key
}

/// The changes of append number `lsn`, from 1, of an object.
pub fn append(object: usize, lsn: u64, into: &mut Vec<Change>) {
    let mut entry = lsn.to_be_bytes().to_vec();
    entry.resize(ENVELOPE_BYTES + EVENT_BYTES, b'v');
    into.push((Table::Log, log_key(object, lsn), Some(entry)));
    let mut record = lsn.to_be_bytes().to_vec();
    record.resize(RECORD_BYTES, b'm');
    into.push((Table::Record, object_key(object), Some(record)));
    if lsn > 1 {
        into.push((Table::Due, due_key(object, lsn - 1), None));
    }
    into.push((Table::Due, due_key(object, lsn), Some(Vec::new())));
}

/// The changes of a snapshot at `lsn`: the log up to it goes.
fn snapshot(object: usize, lsn: u64, into: &mut Vec<Change>) {
    into.push((Table::Snapshot, object_key(object), Some(vec![b's'; SNAPSHOT_BYTES])));
    into.extend((lsn - SNAPSHOT_EVERY + 1..=lsn).map(|old| (Table::Log, log_key(object, old), None)));
}

struct Call {
    object: usize,
    lsn: u64,
    is_snapshot: bool,
    reply: Sender<Result<(), String>>,
}

/// One candidate at work behind its writer thread.
pub struct Work {
    queue: SyncSender<Call>,
    writer: JoinHandle<()>,
    commits: Arc<AtomicU64>,
    reply: Sender<Result<(), String>>,
    replies: Receiver<Result<(), String>>,
    group: usize,
    lsn: u64,
}

impl Work {
    pub fn start(candidate: Box<dyn Candidate>, group: usize) -> Self {
        let (queue, calls) = sync_channel(QUEUE_MAX);
        let (reply, replies) = channel();
        let commits = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&commits);
        let writer = std::thread::spawn(move || write(candidate, &calls, &counted));
        Self { queue, writer, commits, reply, replies, group, lsn: 0 }
    }

    /// One append of each object, all in flight at once; returns when all are durable.
    pub fn round(&mut self) -> Result<(), Failure> {
        self.lsn += 1;
        self.send(false)?;
        if self.lsn.is_multiple_of(SNAPSHOT_EVERY) {
            self.send(true)?;
        }
        Ok(())
    }

    fn send(&self, is_snapshot: bool) -> Result<(), Failure> {
        for object in 0..self.group {
            let reply = self.reply.clone();
            self.queue.send(Call { object, lsn: self.lsn, is_snapshot, reply })?;
        }
        for _ in 0..self.group {
            self.replies.recv()??;
        }
        Ok(())
    }

    pub const fn lsn(&self) -> u64 {
        self.lsn
    }

    pub fn appends(&self) -> usize {
        self.group * usize::try_from(self.lsn).unwrap_or(usize::MAX)
    }

    pub fn commits(&self) -> u64 {
        self.commits.load(Ordering::Relaxed)
    }

    /// Ends the writer and closes the candidate.
    pub fn stop(self) -> Result<(), Failure> {
        drop(self.queue);
        self.writer.join().map_err(|_| "the writer panicked")?;
        Ok(())
    }
}

fn write(mut candidate: Box<dyn Candidate>, calls: &Receiver<Call>, commits: &AtomicU64) {
    let mut changes = Vec::new();
    let mut taken: Vec<Call> = Vec::new();
    let mut expected = 0;
    while let Ok(call) = calls.recv() {
        taken.push(call);
        let mut turns = 0;
        loop {
            match calls.try_recv() {
                Ok(call) => {
                    taken.push(call);
                    turns = 0;
                }
                Err(TryRecvError::Empty) if taken.len() < expected && turns < GATHER_TURNS_MAX => {
                    std::thread::yield_now();
                    turns += 1;
                }
                Err(_) => break,
            }
        }
        expected = taken.len().max(expected / 2);
        for call in &taken {
            if call.is_snapshot {
                snapshot(call.object, call.lsn, &mut changes);
            } else {
                append(call.object, call.lsn, &mut changes);
            }
        }
        let done = candidate.commit(&changes).map_err(|error| error.to_string());
        commits.fetch_add(1, Ordering::Relaxed);
        changes.clear();
        for call in taken.drain(..) {
            // The caller ends the run at the first error, so it may be gone.
            drop(call.reply.send(done.clone()));
        }
    }
}

/// CPU time and bytes written by this process so far.
pub struct Usage {
    pub cpu_us: u64,
    pub written: u64,
}

impl Usage {
    pub fn read() -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let ticks = after_name.split_whitespace().skip(11).take(2);
        let ticks: u64 = ticks.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let written = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        let written = written.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0);
        // A tick is 10 ms on every Linux we run on.
        Self { cpu_us: ticks * 10_000, written }
    }

    pub fn until_now(&self) -> Self {
        let now = Self::read();
        Self { cpu_us: now.cpu_us - self.cpu_us, written: now.written - self.written }
    }
}
