//! Candidates for the embedded store under the write shape of ours, in one run.
//!
//! `cargo run --release --manifest-path bench/Cargo.toml --target-dir target/bench --features stores
//! --bin stores -- [--passes N] [--ms N] [--dir DIR]` prints one JSON line a figure. All candidates
//! take turns within a pass, so that what the machine does meanwhile falls on each alike; ratios are
//! to the raw file of the same pass.
//!
//! Callers hand single appends to a writer thread; it takes what is queued, commits it as one atomic
//! batch, syncs, and only then answers, as `room-node/src/store/embedded/writer.rs` does. An append
//! is the entry of the log, the object's record, and its entry of the due index moved.

mod candidate;
mod crash;
mod work;

use std::path::PathBuf;
use std::time::{Duration, Instant};

use candidate::Kind;
use peers::Failure;
use work::{Usage, Work};

const GROUPS: [usize; 3] = [1, 16, 128];
/// Appends after which a database is closed and opened again for its time.
const REOPEN_APPENDS: usize = 20_000;

struct Args {
    passes: usize,
    pass: Duration,
    dir: PathBuf,
}

fn main() -> Result<(), Failure> {
    let mut words = std::env::args().skip(1);
    if words.next().as_deref() == Some("--child") {
        let kind = words.next().and_then(|name| Kind::named(&name)).ok_or("no such candidate")?;
        return crash::child(kind, &PathBuf::from(words.next().ok_or("no directory")?));
    }
    let args = arguments()?;
    let scratch = args.dir.join(format!("roomring-stores-{}", std::process::id()));
    std::fs::create_dir_all(&scratch)?;
    let done = all(&args, &scratch);
    std::fs::remove_dir_all(&scratch)?;
    done
}

fn arguments() -> Result<Args, Failure> {
    let mut args =
        Args { passes: 5, pass: Duration::from_millis(800), dir: std::env::temp_dir() };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or("a value is missing")?;
        match word.as_str() {
            "--passes" => args.passes = value.parse()?,
            "--ms" => args.pass = Duration::from_millis(value.parse()?),
            "--dir" => args.dir = value.into(),
            _ => return Err(format!("no flag {word}").into()),
        }
    }
    Ok(args)
}

#[derive(Default)]
struct Figures(Vec<(String, Vec<f64>)>);

impl Figures {
    fn take(&mut self, name: String, value: f64) {
        match self.0.iter_mut().find(|(known, _)| *known == name) {
            Some((_, values)) => values.push(value),
            None => self.0.push((name, vec![value])),
        }
    }

    fn print(mut self) {
        for (name, values) in &mut self.0 {
            values.sort_by(f64::total_cmp);
            let n = values.len();
            let at = |i: usize| values.get(i).copied().unwrap_or(f64::NAN);
            let (min, median, max) = (at(0), at(n / 2), at(n.saturating_sub(1)));
            println!(
                "{{\"name\":\"{name}\",\"n\":{n},\"min\":{min:.3},\"median\":{median:.3},\
                 \"max\":{max:.3}}}"
            );
        }
    }
}

fn all(args: &Args, scratch: &std::path::Path) -> Result<(), Failure> {
    let mut figures = Figures::default();
    for pass in 0..args.passes {
        for group in GROUPS {
            let mut raw = f64::NAN;
            for kind in Kind::ALL {
                let dir = scratch.join(format!("{kind:?}-{group}-{pass}"));
                std::fs::create_dir(&dir)?;
                let mut work = Work::start(kind.open(&dir)?, group);
                let before = Usage::read();
                let began = Instant::now();
                while began.elapsed() < args.pass {
                    work.round()?;
                }
                let appends = work.appends() as f64;
                let rate = appends / began.elapsed().as_secs_f64();
                let used = before.until_now();
                let calls_per_commit = appends / work.commits() as f64;
                work.stop()?;
                if kind == Kind::Raw {
                    raw = rate;
                }
                let name = |what: &str| format!("stores.{kind:?}.batch{group}.{what}");
                figures.take(name("appends_per_s"), rate);
                figures.take(name("by_raw_ratio"), rate / raw);
                figures.take(name("bytes_per_append"), used.written as f64 / appends);
                figures.take(name("cpu_us_per_append"), used.cpu_us as f64 / appends);
                figures.take(name("calls_per_commit"), calls_per_commit);
                std::fs::remove_dir_all(&dir)?;
            }
        }
        for kind in Kind::ALL {
            reopen(kind, scratch, &mut figures)?;
            crash::kill(kind, scratch, &mut figures)?;
        }
    }
    figures.print();
    Ok(())
}

/// How long a database of a fixed size takes to open after a clean end.
fn reopen(kind: Kind, scratch: &std::path::Path, figures: &mut Figures) -> Result<(), Failure> {
    let dir = scratch.join(format!("{kind:?}-reopen"));
    std::fs::create_dir(&dir)?;
    let mut work = Work::start(kind.open(&dir)?, 128);
    while work.appends() < REOPEN_APPENDS {
        work.round()?;
    }
    work.stop()?;
    let began = Instant::now();
    let opened = kind.open(&dir)?;
    figures.take(format!("stores.{kind:?}.reopen_ms"), began.elapsed().as_secs_f64() * 1e3);
    drop(opened);
    std::fs::remove_dir_all(&dir)?;
    Ok(())
}
