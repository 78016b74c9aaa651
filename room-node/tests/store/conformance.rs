//! Random sequences on every store, compared with the reference step by step.
//!
//! A seed names a run: a failure prints it. Steps come alone or as a group sent at once, which
//! the embedded store decides within one commit; it is closed and opened again in between. Redis
//! promises an order only within what was answered, so its groups hold one step per object.

use bytes::Bytes;
use fastrand::Rng;
use futures_util::future::join_all;
use object::{BlobId, Millis, ObjectId};
use room_node::store::{Append, ClaimRequest, DEAD_MARK_MS, Due, Fence, Record, Snapshot, Store};

use crate::harness::{START, Subject, append, block_on, node, object, who};

const SEEDS: u64 = 12;
const REDIS_SEEDS: u64 = 6;
pub(crate) const STEPS: usize = 400;
const OBJECTS: usize = 4;

/// Stands before the time of the next due entry in an answer.
const NEXT: &str = " next ";

#[derive(Clone, Debug)]
enum Op {
    Claim(ClaimRequest),
    Refence(ObjectId, Fence, u64),
    Append(Box<Append>),
    Lease(ObjectId, Fence, u128, Millis, Option<Millis>),
    Snapshot(ObjectId, Fence, u64),
    Release(ObjectId, Fence),
    Destroy(ObjectId, Fence, u64),
    SetDue(ObjectId, Fence, Option<Millis>),
    PutBlob(ObjectId, u128, u64, Millis),
    GetBlob(ObjectId, u128),
    Due(Option<Due>, usize),
}

/// The answer as text: the errors carry everything a caller can see.
async fn apply(store: &dyn Store, op: Op, now: Millis) -> String {
    match op {
        Op::Claim(request) => format!("{:?}", store.claim(request, now).await),
        Op::Refence(object, old, nonce) => {
            format!("{:?}", store.refence(object, old, nonce, now).await)
        }
        Op::Append(append) => format!("{:?}", store.append(*append).await),
        Op::Lease(object, fence, id, end, due) => {
            format!("{:?}", store.lease(object, fence, vec![(who(id), end)], due).await)
        }
        Op::Snapshot(object, fence, lsn) => {
            let bytes = Bytes::from(format!("state {lsn}"));
            let snapshot = Snapshot { schema: 1, lsn, bytes };
            format!("{:?}", store.snapshot(object, fence, snapshot).await)
        }
        Op::Release(object, fence) => format!("{:?}", store.release(object, fence).await),
        Op::Destroy(object, fence, lsn) => {
            format!("{:?}", store.destroy(object, fence, lsn, now).await)
        }
        Op::SetDue(object, fence, due) => {
            format!("{:?}", store.set_due(object, fence, due).await)
        }
        Op::PutBlob(object, blob, content, expires) => {
            let bytes = Bytes::from(format!("bytes {content}"));
            format!("{:?}", store.put_blob(object, BlobId(blob), bytes, expires).await)
        }
        Op::GetBlob(object, blob) => format!("{:?}", store.get_blob(object, BlobId(blob)).await),
        Op::Due(after, limit) => {
            let page = store.due(now, after, limit).await.unwrap();
            let names: Vec<_> =
                page.0.iter().map(|due| (due.at, due.object.name().to_owned())).collect();
            format!("{names:?}{NEXT}{}", page.1.map_or(u64::MAX, |at| at.0))
        }
    }
}

/// What the generator knows of one object, right or wrong: both make good steps.
#[derive(Clone, Default)]
struct Guess {
    fences: Vec<Fence>,
    lsn: u64,
    batches: Vec<u128>,
}

struct Run {
    random: Rng,
    now: Millis,
    guesses: Vec<Guess>,
    count: u64,
    /// Whether an upload may be repeated with other bytes. In Redis the first one stays; the host
    /// never repeats one.
    uploads_differ: bool,
}

impl Run {
    fn new(seed: u64, uploads_differ: bool) -> Self {
        let guesses = vec![Guess::default(); OBJECTS];
        let random = Rng::with_seed(seed);
        Self { random, now: START, guesses, count: 0, uploads_differ }
    }

    fn chance(&mut self, percent: u8) -> bool {
        self.random.u8(0..100) < percent
    }

    fn some_due(&mut self) -> Option<Millis> {
        (!self.chance(25)).then(|| self.now.plus(self.random.u64(0..6) * 10))
    }

    fn fence(&mut self, at: usize) -> Fence {
        let back = if self.chance(85) { 0 } else { self.random.usize(0..4) };
        let fences = &self.guesses[at].fences;
        let newest = fences.iter().rev().nth(back).or_else(|| fences.last());
        newest.copied().unwrap_or(Fence { epoch: 1, nonce: 1 })
    }

    fn op(&mut self, reads: bool) -> (usize, Op) {
        let at = self.random.usize(0..OBJECTS);
        let object = object(&format!("object {at}"));
        self.count += 1;
        let fence = self.fence(at);
        let op = match self.random.u8(0..if reads { 100 } else { 85 }) {
            0..12 => Op::Claim(self.claim(at, object)),
            12..18 => {
                // A repeat of the last refence now and then.
                let nonce = if self.chance(20) { fence.nonce } else { self.count };
                Op::Refence(object, fence, nonce)
            }
            18..54 => Op::Append(Box::new(self.append(at, &object, fence))),
            54..59 => {
                let end = self.now.plus(self.random.u64(0..100));
                Op::Lease(object, fence, self.random.u128(0..3), end, self.some_due())
            }
            59..65 => {
                let lsn = self.guesses[at].lsn.saturating_sub(self.random.u64(0..3));
                Op::Snapshot(object, fence, lsn)
            }
            65..69 => Op::Release(object, fence),
            69..72 => {
                let off = u64::from(self.chance(20));
                Op::Destroy(object, fence, self.guesses[at].lsn + off)
            }
            72..75 => Op::SetDue(object, fence, self.some_due()),
            75..85 => {
                let expires = self.now.plus(self.random.u64(0..4) * 20);
                let blob = self.random.u128(0..4);
                let content = if self.uploads_differ { self.count } else { blob as u64 };
                Op::PutBlob(object, blob, content, expires)
            }
            85..92 => Op::GetBlob(object, self.random.u128(0..4)),
            _ => {
                let after = self.chance(50).then(|| {
                    let at = Millis(self.now.0.saturating_sub(self.random.u64(0..50)));
                    Due { at, object }
                });
                Op::Due(after, self.random.usize(0..5))
            }
        };
        (at, op)
    }

    fn claim(&mut self, at: usize, object: ObjectId) -> ClaimRequest {
        let me = node(["a", "b"][self.random.usize(0..2)], self.random.u64(0..2));
        let nonce = match self.guesses[at].fences.last().copied() {
            Some(fence) if self.chance(15) => fence.nonce,
            _ => self.count,
        };
        let stored = self.fence(at);
        let observed = self.chance(75).then_some(stored);
        ClaimRequest { object, me, nonce, may_create: self.chance(80), observed }
    }

    fn append(&mut self, at: usize, object: &ObjectId, fence: Fence) -> Append {
        let back = if self.chance(85) { 0 } else { self.random.u64(0..4) };
        let lsn = self.guesses[at].lsn.saturating_sub(back);
        let batches = &self.guesses[at].batches;
        let old = batches.iter().rev().nth(back.saturating_sub(1) as usize).copied();
        let batch = old.filter(|_| back > 0).unwrap_or_else(|| u128::from(self.count));
        let mut made = append(object, fence, lsn, batch);
        for event in 1..self.random.usize(1..4) {
            made.frame.records.push(Record { bytes: Bytes::from(vec![7; event]) });
        }
        made.now = self.now;
        made.due = self.some_due();
        for _ in 0..self.random.u8(0..3) {
            match self.random.u8(0..6) {
                0 => made.keep_blobs.push(BlobId(self.random.u128(0..4))),
                1 => made.drop_blobs.push(BlobId(self.random.u128(0..4))),
                2 => made.drop_leases.push(who(self.random.u128(0..3))),
                _ => {
                    let end = self.now.plus(self.random.u64(0..100));
                    made.leases.push((who(self.random.u128(0..3)), end));
                }
            }
        }
        made
    }

    /// Learns from the reference's own state, so that most steps are valid ones.
    fn learn(&mut self, at: usize, op: &Op, answer: &str, reference: &Subject) {
        let Subject::Memory(reference) = reference else { panic!("the reference is in memory") };
        let guess = &mut self.guesses[at];
        let name = object(&format!("object {at}"));
        if let Some(fence) = reference.fence(&name)
            && guess.fences.last() != Some(&fence)
        {
            guess.fences.push(fence);
        }
        match op {
            Op::Claim(_) if answer.starts_with("Ok") && answer.contains("created: true") => {
                guess.lsn = 0;
            }
            Op::Append(append) if answer == "Ok(Stored)" => {
                guess.lsn = append.frame.last_lsn();
                guess.batches.push(append.frame.batch);
            }
            _ => {}
        }
    }
}

#[test]
fn embedded_answers_as_the_reference_does() {
    let mut stored = 0;
    for seed in 0..SEEDS {
        stored += block_on(async { run(seed, STEPS, Subject::embedded()).await });
    }
    assert!(stored > SEEDS as usize * STEPS / 10, "only {stored} appends were stored");
}

#[test]
fn redis_answers_as_the_reference_does() {
    let mut stored = 0;
    for seed in 0..REDIS_SEEDS {
        stored += block_on(async { run(seed, STEPS, Subject::redis().await).await });
    }
    assert!(stored > REDIS_SEEDS as usize * STEPS / 10, "only {stored} appends were stored");
}

/// `steps` random steps of `seed` on a subject and on the reference; how many appends were stored.
pub(crate) async fn run(seed: u64, steps: usize, mut subject: Subject) -> usize {
    let redis = matches!(subject, Subject::Redis(..));
    let mut run = Run::new(seed, !redis);
    let mut reference = Subject::memory();
    let mut stored = 0;
    let mut step = 0;
    while step < steps {
        let group = if run.chance(30) { run.random.usize(2..12) } else { 1 };
        let mut ops = Vec::new();
        let mut expected = Vec::new();
        let mut touched = Vec::new();
        for _ in 0..group {
            // Reads stand in no order with writes in flight, so groups have none.
            let (at, op) = run.op(group == 1);
            let unordered = touched.contains(&at) || matches!(op, Op::PutBlob(..));
            if redis && group > 1 && unordered {
                continue;
            }
            touched.push(at);
            let answer = apply(reference.store(), op.clone(), run.now).await;
            run.learn(at, &op, &answer, &reference);
            stored += usize::from(answer == "Ok(Stored)");
            ops.push(op);
            expected.push(answer);
        }
        let sent = ops.iter().map(|op| apply(subject.store(), op.clone(), run.now));
        for (at, answer) in join_all(sent).await.into_iter().enumerate() {
            let op = &ops[at];
            let same = same(&answer, &expected[at], redis);
            assert!(same, "seed {seed}, step {}, {op:?}\n{answer}\n{}", step + at, expected[at]);
        }
        step += ops.len();
        if run.chance(25) {
            let ms = if run.chance(3) { DEAD_MARK_MS } else { run.random.u64(0..30) };
            run.now = run.now.plus(ms);
        }
        if run.chance(2) {
            reference.reopen(run.now).await;
            subject.reopen(run.now).await;
        }
    }
    stored
}

/// Equal; but a store that remembers due times may name the next one too early, never too late.
fn same(answer: &str, expected: &str, early: bool) -> bool {
    match (answer.split_once(NEXT), expected.split_once(NEXT)) {
        (Some((page, next)), Some((expected, at))) if early => {
            page == expected && next.parse::<u64>().unwrap() <= at.parse().unwrap()
        }
        _ => answer == expected,
    }
}
