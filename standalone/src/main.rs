//! The `roomring` binary.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::path::Path;
use std::process::ExitCode;

use standalone::flags::{self, Command, Source};

/// Usage or configuration (interfaces.md, process behaviour).
const EXIT_USAGE: u8 = 64;

fn main() -> ExitCode {
    match flags::parse(std::env::args().skip(1), &Process) {
        Ok(Command::Print(text)) => {
            say(&text);
            ExitCode::SUCCESS
        }
        Ok(Command::Serve { .. }) => ExitCode::SUCCESS,
        Err(mistakes) => {
            complain(&mistakes.to_string());
            ExitCode::from(EXIT_USAGE)
        }
    }
}

/// The environment and files of this process.
#[derive(Debug)]
struct Process;

impl Source for Process {
    fn variables(&self) -> BTreeMap<String, String> {
        let text = |(name, value): (std::ffi::OsString, std::ffi::OsString)| {
            Some((name.into_string().ok()?, value.into_string().ok()?))
        };
        std::env::vars_os().filter_map(text).collect()
    }

    fn read(&self, path: &Path) -> std::io::Result<String> {
        std::fs::read_to_string(path)
    }
}

#[expect(clippy::print_stdout, reason = "the binary's own output")]
fn say(text: &str) {
    print!("{text}");
}

#[expect(clippy::print_stderr, reason = "start-up mistakes come before the log is there")]
fn complain(text: &str) {
    eprintln!("{text}");
}
