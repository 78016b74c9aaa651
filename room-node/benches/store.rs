//! Durable appends of the embedded store against a raw file with fdatasync, in one run.
//!
//! `cargo bench -p room-node --bench store -- [--passes N] [--ms N] [--dir DIR]` prints one JSON
//! line per figure: `{"name", "n", "min", "median", "max"}`. Passes alternate between the two, so
//! that a noisy machine disturbs both; read the ratios, not the rates.
#![expect(
    clippy::expect_used,
    clippy::print_stdout,
    clippy::disallowed_methods,
    reason = "a bench reads the clock, reports and stops at the first surprise"
)]

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use object::{KindTag, Millis, ObjectId};
use room_node::store::embedded::{Embedded, Options, Sync};
use room_node::store::{
    Append, ClaimRequest, Fence, Frame, Incarnation, Record, Snapshot, Store as _,
};

const EVENT_BYTES: usize = 160;
const SNAPSHOT_EVERY: u64 = 256;
const GROUPS: [usize; 3] = [1, 16, 128];

struct Args {
    passes: usize,
    pass: Duration,
    dir: Option<PathBuf>,
}

/// One pass: appends per second, CPU and bytes written per append, calls per commit.
#[derive(Clone, Copy)]
struct Figures {
    rate: f64,
    cpu_us: f64,
    written_bytes: f64,
    group: f64,
}

fn main() {
    let args = parse_args();
    let scratch = match &args.dir {
        Some(dir) => tempfile::tempdir_in(dir),
        None => tempfile::tempdir(),
    }
    .expect("a scratch directory");
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    for group in GROUPS {
        let mut raw = Vec::new();
        let mut ours = Vec::new();
        for pass in 0..args.passes {
            let dir = scratch.path().join(format!("{group}-{pass}"));
            raw.push(raw_pass(&dir.with_extension("raw"), group, args.pass));
            ours.push(runtime.block_on(our_pass(&dir, group, args.pass)));
        }
        report_group(group, &raw, &ours);
    }
    runtime.block_on(claims(&scratch.path().join("claims"), args.passes));
}

fn report_group(group: usize, raw: &[Figures], ours: &[Figures]) {
    let name = |who: &str, what: &str| format!("store.{who}.batch{group}.{what}");
    for (who, passes) in [("raw", raw), ("ours", ours)] {
        report(&name(who, "appends_per_s"), passes.iter().map(|pass| pass.rate));
        report(&name(who, "cpu_us_per_append"), passes.iter().map(|pass| pass.cpu_us));
        report(&name(who, "bytes_per_append"), passes.iter().map(|pass| pass.written_bytes));
    }
    report(&name("ours", "calls_per_commit"), ours.iter().map(|pass| pass.group));
    let ratios = ours.iter().zip(raw).map(|(ours, raw)| ours.rate / raw.rate);
    report(&name("ours_by_raw", "ratio"), ratios);
}

fn report(name: &str, values: impl Iterator<Item = f64>) {
    let mut values: Vec<f64> = values.collect();
    values.sort_by(f64::total_cmp);
    let median = values.get(values.len() / 2).copied().unwrap_or(f64::NAN);
    let min = values.first().copied().unwrap_or(f64::NAN);
    let max = values.last().copied().unwrap_or(f64::NAN);
    let n = values.len();
    println!(
        "{{\"name\":\"{name}\",\"n\":{n},\"min\":{min:.3},\"median\":{median:.3},\"max\":{max:.3}}}"
    );
}

fn raw_pass(path: &Path, group: usize, length: Duration) -> Figures {
    let mut file = OpenOptions::new().create(true).append(true).open(path).expect("a raw file");
    let mut appends = 0;
    let before = Usage::read();
    let started = Instant::now();
    while started.elapsed() < length {
        let mut bytes = Vec::new();
        for room in 0..group {
            bytes.extend_from_slice(&frame(appends + room as u64, fence(0)).encode());
        }
        file.write_all(&bytes).expect("a raw write");
        file.sync_data().expect("a raw fdatasync");
        appends += group as u64;
    }
    let figures = before.until_now(appends, started.elapsed(), group as f64);
    std::fs::remove_file(path).expect("the raw file goes");
    figures
}

async fn our_pass(dir: &Path, group: usize, length: Duration) -> Figures {
    let store = open(dir);
    let mut rooms = Vec::new();
    for room in 0..group {
        rooms.push((object(room), claim(&store, object(room), room as u64, 1, None).await, 0u64));
    }
    let calls_before = store.stats();
    let before = Usage::read();
    let started = Instant::now();
    let mut appends = 0;
    while started.elapsed() < length {
        let round = rooms.iter_mut().map(|(object, fence, lsn)| {
            let append = append(object, *fence, *lsn);
            *lsn += 1;
            store.append(append)
        });
        for answer in join_all(round).await {
            answer.expect("an append");
        }
        appends += group as u64;
        let at = rooms.first().map_or(0, |(_, _, lsn)| *lsn);
        if at.is_multiple_of(SNAPSHOT_EVERY) {
            let round = rooms
                .iter()
                .map(|(object, fence, lsn)| store.snapshot(object.clone(), *fence, snapshot(*lsn)));
            for answer in join_all(round).await {
                answer.expect("a snapshot");
            }
        }
    }
    let elapsed = started.elapsed();
    let after = store.stats();
    let commits = after.commits - calls_before.commits;
    let figures = before.until_now(appends, elapsed, appends as f64 / commits.max(1) as f64);
    store.close();
    std::fs::remove_dir_all(dir).expect("the data directory goes");
    figures
}

/// Claims of released objects with a snapshot: the price of waking.
async fn claims(dir: &Path, passes: usize) {
    let store = open(dir);
    let mut micros = Vec::new();
    for room in 0..64 {
        let fence = claim(&store, object(room), 0, 1, None).await;
        store.append(append(&object(room), fence, 0)).await.expect("an append");
        store.snapshot(object(room), fence, snapshot(1)).await.expect("a snapshot");
        store.release(object(room), fence).await.expect("a release");
    }
    let mut fences = vec![None; 64];
    for pass in 0..passes {
        let started = Instant::now();
        let nonce = 2 + pass as u64;
        let round = (0..).zip(&fences);
        let round = round.map(|(room, held)| claim(&store, object(room), 0, nonce, *held));
        fences = join_all(round).await.into_iter().map(Some).collect();
        micros.push(started.elapsed().as_secs_f64() * 1e6 / 64.0);
    }
    report("store.ours.claim64.us_each", micros.into_iter());
    store.close();
}

fn open(dir: &Path) -> Arc<Embedded> {
    Embedded::open(&Options::new(dir, Sync::Always, Millis(1))).expect("the store opens")
}

async fn claim(
    store: &Embedded,
    object: ObjectId,
    boot: u64,
    nonce: u64,
    observed: Option<Fence>,
) -> Fence {
    let me = Incarnation { node: "bench".into(), boot };
    let request = ClaimRequest { object, me, nonce, may_create: true, observed };
    store.claim(request, Millis(1)).await.expect("a claim").fence
}

fn append(object: &ObjectId, fence: Fence, lsn: u64) -> Append {
    Append {
        object: object.clone(),
        fence,
        expect_lsn: lsn,
        frame: frame(lsn, fence),
        now: Millis(1_000 + lsn),
        keep_blobs: Vec::new(),
        drop_blobs: Vec::new(),
        leases: Vec::new(),
        drop_leases: Vec::new(),
        due: Some(Millis(9_000_000)),
    }
}

fn frame(lsn: u64, fence: Fence) -> Frame {
    let record = Record { bytes: Bytes::from_static(&[b'v'; EVENT_BYTES]) };
    let batch = u128::from(lsn);
    Frame { first_lsn: lsn + 1, fence, batch, schema: 1, records: vec![record] }
}

const fn fence(nonce: u64) -> Fence {
    Fence { epoch: 1, nonce }
}

fn snapshot(lsn: u64) -> Snapshot {
    Snapshot { schema: 1, lsn, bytes: Bytes::from_static(&[b's'; 512]) }
}

fn object(room: usize) -> ObjectId {
    // As long as a room's usual id.
    let name = format!("{room:08x}-1111-4222-8333-444444444444");
    ObjectId::new(KindTag(b'r'), &name).expect("a valid name")
}

/// CPU time and bytes written by this process so far.
struct Usage {
    cpu_ticks: u64,
    written: u64,
}

impl Usage {
    fn read() -> Self {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        let after_name = stat.rsplit(')').next().unwrap_or_default();
        let cpu = after_name.split_whitespace().skip(11).take(2);
        let cpu_ticks = cpu.filter_map(|ticks| ticks.parse::<u64>().ok()).sum();
        let io = std::fs::read_to_string("/proc/self/io").unwrap_or_default();
        let written = io.lines().find_map(|line| line.strip_prefix("write_bytes: "));
        let written = written.and_then(|bytes| bytes.trim().parse().ok()).unwrap_or(0);
        Self { cpu_ticks, written }
    }

    fn until_now(&self, appends: u64, elapsed: Duration, group: f64) -> Figures {
        let now = Self::read();
        let appends = appends.max(1) as f64;
        Figures {
            rate: appends / elapsed.as_secs_f64(),
            // A tick is 10 ms on every Linux we run on.
            cpu_us: (now.cpu_ticks - self.cpu_ticks) as f64 * 10_000.0 / appends,
            written_bytes: (now.written - self.written) as f64 / appends,
            group,
        }
    }
}

fn parse_args() -> Args {
    let mut args = Args { passes: 5, pass: Duration::from_millis(1_000), dir: None };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let mut value = || words.next().expect("a value");
        match word.as_str() {
            "--passes" => args.passes = value().parse().expect("a number"),
            "--ms" => args.pass = Duration::from_millis(value().parse().expect("a number")),
            "--dir" => args.dir = Some(value().into()),
            // Given by `cargo bench`.
            _ => {}
        }
    }
    // A directory that cannot be written fails here and not in the middle of a pass.
    if let Some(dir) = &args.dir {
        File::create(dir.join(".probe")).expect("a writable directory");
    }
    args
}
