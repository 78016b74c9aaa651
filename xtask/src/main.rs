//! Project tasks, see `USAGE`. People and the gate run the same commands.
#![forbid(unsafe_code)]
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a command line tool talks there")]

mod bench;
mod child;
mod clock;
mod dev;
mod faults;
mod golden;
mod report;
mod test;
mod tidy;
mod tools;
mod tree;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

const USAGE: &str = "\
usage: cargo xtask TASK

  test [PART...]        every part, cheapest first, or only those named; `test --list` names them
  tidy [--queues]       the rules of the source tree; --queues lists every bounded queue
  golden [--check]      writes the generated files, or tells which are stale
  dev [--nodes N] [--gateways M] [--regions K]
                        a cluster on this machine: Redis, three nodes and two gateways, until
                        Ctrl-C; with regions, each a cluster of its own, linked by certificates
  faults [--seed N] [--minutes M] [--alone]
                        breaks a cluster (or `roomring` alone) again and again under load, and
                        checks what its clients saw, into target/reports/faults.json
  bench [NAME...] [--passes N]
                        runs the benchmarks, interleaved, into target/reports/bench.json
";

/// Usage errors, as the servers' own.
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    let root = root();
    let done = match words.as_slice() {
        ["test", rest @ ..] => test::run(&root, rest),
        ["tidy", rest @ ..] => tidy::run(&root, rest),
        ["golden", rest @ ..] => golden::run(&root, rest),
        ["dev", rest @ ..] => dev::run(&root, rest),
        ["faults", rest @ ..] => faults::run(&root, rest),
        ["bench", rest @ ..] => bench::run(&root, rest),
        [] | ["help" | "--help" | "-h"] => {
            print!("{USAGE}");
            Ok(true)
        }
        [other, ..] => Err(format!("no task named {other}\n{USAGE}")),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(message) => {
            eprintln!("xtask: {message}");
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// The workspace's root: the folder above this crate.
fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_path_buf()
}
