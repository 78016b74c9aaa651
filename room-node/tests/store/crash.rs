//! kill -9 of a process in the middle of its writes: everything it acknowledged is there, once.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use bytes::Bytes;
use object::{Millis, ObjectId};
use room_node::store::embedded::{Embedded, Options, Sync};
use room_node::store::{Append, Appended, Fence, Store as _};

use crate::harness::{START, append, block_on, claim, object, open, snapshot, starting};

const ROOMS: usize = 8;
const KILLS: usize = 10;
const SNAPSHOT_EVERY: u64 = 64;
/// Large enough that tables are written out and journals change during the test.
const EVENT_BYTES: usize = 8_192;
const DIR: &str = "STORE_CRASH_DIR";
const PERIOD_MS: &str = "STORE_CRASH_PERIOD_MS";

fn room(number: usize) -> ObjectId {
    object(&format!("crash {number}"))
}

/// An event that names its own place.
fn event(number: usize, lsn: u64) -> Bytes {
    let place = format!("{number}:{lsn} ");
    place.repeat(EVENT_BYTES / place.len() + 1).into()
}

fn next(number: usize, fence: Fence, lsn: u64) -> Append {
    let mut append = append(&room(number), fence, lsn, u128::from(lsn));
    append.frame.records[0].bytes = event(number, lsn + 1);
    append.due = Some(START.plus(lsn));
    append
}

/// Appends to all rooms at once and tells each acknowledged lsn, for `rounds` rounds.
async fn appends(store: Arc<Embedded>, rounds: u64, mut tell: impl FnMut(usize, u64)) {
    let mut rooms = Vec::new();
    for number in 0..ROOMS {
        let claimed = claim(&*store, &room(number), u64::from(std::process::id())).await;
        rooms.push((number, claimed.fence, claimed.lsn));
    }
    for _ in 0..rounds {
        let round = rooms.iter().map(|(number, fence, lsn)| {
            let store = &store;
            async move {
                let stored = store.append(next(*number, *fence, *lsn)).await;
                assert_eq!(stored, Ok(Appended::Stored));
                let lsn = lsn + 1;
                if lsn.is_multiple_of(SNAPSHOT_EVERY) {
                    store.snapshot(room(*number), *fence, snapshot(lsn)).await.unwrap();
                }
            }
        });
        futures_util::future::join_all(round).await;
        for (number, _, lsn) in &mut rooms {
            *lsn += 1;
            tell(*number, *lsn);
        }
    }
}

/// Checks every room against what was acknowledged; returns the stored lsns.
fn verify(dir: &Path, acknowledged: &[u64]) {
    let store = open(dir, START);
    block_on(async {
        for (number, told) in acknowledged.iter().enumerate() {
            let state = claim(&*store, &room(number), u64::MAX).await;
            assert!(state.lsn >= *told, "room {number} ends at {}, told {told}", state.lsn);
            let mut lsn = state.snapshot.as_ref().map_or(0, |snapshot| snapshot.lsn);
            assert_eq!(lsn % SNAPSHOT_EVERY, 0);
            for frame in &state.tail {
                assert_eq!(frame.first_lsn, lsn + 1);
                assert_eq!(frame.records[0].bytes, event(number, lsn + 1));
                lsn = frame.last_lsn();
            }
            assert_eq!(lsn, state.lsn);
            assert_eq!(state.due, (lsn > 0).then(|| START.plus(lsn - 1)));
        }
        // One due entry per room, none left behind by a moved one.
        let (due, _) = store.due(Millis::FAR_FUTURE, None, 99).await.unwrap();
        assert!(due.len() <= ROOMS);
    });
    store.close();
}

/// The child of the test below when the directory is named; by itself, the same work to its end.
#[test]
#[expect(clippy::disallowed_methods, reason = "the parent names the directory to its child")]
fn child_tells_what_is_acknowledged() {
    if let Ok(dir) = std::env::var(DIR) {
        let mut out = std::io::stdout().lock();
        let tell = |number, lsn| writeln!(out, "told {number} {lsn}").unwrap();
        let period = std::env::var(PERIOD_MS).map(|ms| Sync::EveryMs(ms.parse().unwrap()));
        let sync = period.unwrap_or(Sync::Always);
        let store = Embedded::open(&Options::new(Path::new(&dir), sync, START)).unwrap();
        block_on(appends(store, u64::MAX, tell));
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let mut told = [0; ROOMS];
    block_on(appends(open(dir.path(), START), 70, |number, lsn| told[number] = lsn));
    assert_eq!(told, [70; ROOMS]);
    verify(dir.path(), &told);
}

/// A process that appends to `dir` until it is killed; synced each so many milliseconds, or always.
pub(crate) fn spawn(dir: &Path, period_ms: Option<u64>) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["crash::child_tells_what_is_acknowledged", "--exact", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped());
    if let Some(ms) = period_ms {
        command.env(PERIOD_MS, ms.to_string());
    }
    starting(|| command.spawn()).unwrap()
}

#[test]
fn everything_acknowledged_survives_kill_9() {
    let dir = tempfile::tempdir().unwrap();
    let mut random = fastrand::Rng::with_seed(0x0009);
    let mut told = [0; ROOMS];
    for kill in 0..KILLS {
        // Every third run syncs by the clock: kill -9 may cost nothing there either.
        let mut child = spawn(dir.path(), (kill % 3 == 1).then_some(3));
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut take = |line: String| {
            let mut words = line.split_whitespace();
            if words.next() == Some("told") {
                let number: usize = words.next().unwrap().parse().unwrap();
                told[number] = words.next().unwrap().parse().unwrap();
                return true;
            }
            false
        };
        // At a point of its own each time: right after the first answers, or far into the log.
        let until = if kill % 3 == 0 { random.u32(1..40) } else { random.u32(200..700) };
        let mut answers = 0;
        while answers < until {
            answers += u32::from(take(lines.next().expect("the child lives").unwrap()));
        }
        child.kill().unwrap();
        // What it had told before it died counts; a line cut in half does not.
        let mut rest: Vec<String> = lines.map_while(Result::ok).collect();
        rest.pop();
        for line in rest {
            take(line);
        }
        child.wait().unwrap();
        verify(dir.path(), &told);
    }
    assert!(told.iter().all(|lsn| *lsn > 50), "{told:?}");
}
