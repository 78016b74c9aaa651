//! `kill -9` in the middle of writing: what was acknowledged is there, and nothing is half there.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use peers::Failure;

use super::Figures;
use super::candidate::{Candidate, Kind};
use super::work::{Table, Work, due_key, log_key, object_key};

const GROUP: usize = 16;
const RUNS_FOR: Duration = Duration::from_millis(600);
/// No run gets as far.
const LSN_MAX: u64 = 1 << 20;

/// Writes without end and says after each round how far everything is durable.
pub fn child(kind: Kind, dir: &Path) -> Result<(), Failure> {
    let mut work = Work::start(kind.open(dir)?, GROUP);
    let mut out = std::io::stdout().lock();
    loop {
        work.round()?;
        writeln!(out, "{}", work.lsn())?;
        out.flush()?;
    }
}

/// Kills a child at work, opens what it left, and compares.
pub fn kill(kind: Kind, scratch: &Path, figures: &mut Figures) -> Result<(), Failure> {
    let dir = scratch.join(format!("{kind:?}-kill"));
    std::fs::create_dir(&dir)?;
    let mut child = Command::new(std::env::current_exe()?)
        .args(["--child", &format!("{kind:?}")])
        .arg(&dir)
        .stdout(Stdio::piped())
        .spawn()?;
    let lines = BufReader::new(child.stdout.take().ok_or("no output")?).lines();
    let reader = std::thread::spawn(move || {
        let numbers = lines.map_while(Result::ok).filter_map(|line| line.parse::<u64>().ok());
        numbers.last().unwrap_or(0)
    });
    std::thread::sleep(RUNS_FOR);
    child.kill()?;
    child.wait()?;
    let acknowledged = reader.join().map_err(|_| "the reader panicked")?;
    let began = Instant::now();
    let opened = kind.open(&dir)?;
    let name = |what: &str| format!("stores.{kind:?}.kill.{what}");
    figures.take(name("reopen_ms"), began.elapsed().as_secs_f64() * 1e3);
    let (mut lost, mut torn) = (0, 0);
    for object in 0..GROUP {
        match state(&*opened, object)? {
            Some(lsn) if lsn >= acknowledged => {}
            Some(_) => lost += 1,
            None => torn += 1,
        }
    }
    figures.take(name("acknowledged_appends"), (acknowledged * GROUP as u64) as f64);
    figures.take(name("objects_behind"), f64::from(lost));
    figures.take(name("objects_torn"), f64::from(torn));
    drop(opened);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}

/// How far an object is, if its record, its log and its due entry agree.
fn state(opened: &dyn Candidate, object: usize) -> Result<Option<u64>, Failure> {
    let lsn_of = |value: Option<Vec<u8>>| {
        value.and_then(|value| value.first_chunk::<8>().map(|lsn| u64::from_be_bytes(*lsn)))
    };
    let Some(lsn) = lsn_of(opened.get(Table::Record, &object_key(object))?) else {
        // Not even its first append.
        return Ok(Some(0));
    };
    let log = |lsn: u64| Ok::<_, Failure>(lsn_of(opened.get(Table::Log, &log_key(object, lsn))?));
    let due = |lsn: u64| Ok::<_, Failure>(opened.get(Table::Due, &due_key(object, lsn))?.is_some());
    if lsn > LSN_MAX || !due(lsn)? || due(lsn - 1)? || due(lsn + 1)? || log(lsn + 1)?.is_some() {
        return Ok(None);
    }
    // A snapshot takes the log up to it away, whole.
    let mut first = lsn;
    while first > 0 && log(first)? == Some(first) {
        first -= 1;
    }
    let below = (1..first).rev().take(1_000);
    for older in below {
        if log(older)?.is_some() {
            return Ok(None);
        }
    }
    let snapshot = opened.get(Table::Snapshot, &object_key(object))?.is_some();
    Ok((first == 0 || (snapshot && first.is_multiple_of(256))).then_some(lsn))
}
