//! The life of a program: read the flags, start, say where, wait for a signal, drain, exit with the
//! code that says how it went.

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use crate::flags::{Command, Program, Source};
use crate::logs;
use crate::signals::Signals;

/// A failure at run time (interfaces.md, process behaviour).
const EXIT_RUN_TIME: u8 = 1;
/// Usage or configuration.
const EXIT_USAGE: u8 = 64;
/// Forced by a second signal.
const EXIT_FORCED: i32 = 130;

/// What has been started, as the life of the process needs it.
pub trait Service {
    /// The first line and the banner, for stdout.
    fn greeting(&self) -> String;

    /// Resolves when it can serve no more, with one line that says why and what to do.
    fn failure(&self) -> impl Future<Output = String>;

    /// Ends it; true if nothing had to be cut short.
    fn drain(self) -> impl Future<Output = bool>;
}

/// Runs a program to its end.
pub fn main<C, S: Service>(
    program: &Program<C>,
    start: impl AsyncFnOnce(&C) -> Result<S, Box<dyn Error>>,
) -> ExitCode {
    match program.parse(std::env::args().skip(1), &Process) {
        Ok(Command::Print(text)) => {
            say(&text);
            ExitCode::SUCCESS
        }
        Ok(Command::Serve { config, warnings }) => match run(program, &config, &warnings, start) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(&format!("{}: {}", program.name, chain(error.as_ref())));
                ExitCode::from(EXIT_RUN_TIME)
            }
        },
        Err(mistakes) => {
            complain(&program.complaint(&mistakes));
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn run<C, S: Service>(
    program: &Program<C>,
    config: &C,
    warnings: &[String],
    start: impl AsyncFnOnce(&C) -> Result<S, Box<dyn Error>>,
) -> Result<(), Box<dyn Error>> {
    let (format, filter) = (program.logs)(config);
    logs::install(format, filter)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let mut signals = Signals::listen()?;
        match unless_told_to_stop(start(config), &mut signals).await {
            Some(started) => serve(started?, &mut signals).await,
            None => {
                tracing::info!("stopped before it had started");
                Ok(())
            }
        }
    })
}

/// What a start comes to, or nothing if a signal comes first. A start may wait for others, such as
/// for the end of a node lease, and whoever stops the program must not wait with it. What the start
/// has done so far is left as a kill would leave it.
async fn unless_told_to_stop<T>(
    start: impl Future<Output = T>,
    signals: &mut Signals,
) -> Option<T> {
    tokio::select! {
        started = start => Some(started),
        () = signals.next() => None,
    }
}

async fn serve(service: impl Service, signals: &mut Signals) -> Result<(), Box<dyn Error>> {
    say(&service.greeting());
    let failed = tokio::select! {
        () = signals.next() => None,
        why = service.failure() => Some(why),
    };
    tracing::info!("draining");
    tokio::select! {
        finished = service.drain() => {
            match finished {
                true => tracing::info!("stopped"),
                false => tracing::warn!("stopped before everything had ended by itself"),
            }
            failed.map_or(Ok(()), |why| Err(why.into()))
        }
        () = signals.next() => {
            tracing::warn!("forced by a second signal");
            std::process::exit(EXIT_FORCED);
        }
    }
}

/// An error with its causes, on one line. A cause that the error has told itself is not repeated.
pub(crate) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let told = error.to_string();
        if !text.ends_with(&told) {
            text.push_str(": ");
            text.push_str(&told);
        }
        cause = error.source();
    }
    text.replace('\n', " ")
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

/// Writes to standard output; nobody listening there is no reason to stop serving.
fn say(text: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(text.as_bytes());
    let _ = out.flush();
}

#[expect(clippy::print_stderr, reason = "mistakes and failures come with or without a log")]
fn complain(text: &str) {
    eprintln!("{text}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("nobody is there")]
    struct Inner;

    #[derive(Debug, thiserror::Error)]
    enum Outer {
        #[error("cannot join: {0}")]
        Told(#[source] Inner),
        #[error("cannot join")]
        Untold(#[source] Inner),
    }

    #[test]
    fn a_cause_is_told_once() {
        assert_eq!(chain(&Outer::Told(Inner)), "cannot join: nobody is there");
        assert_eq!(chain(&Outer::Untold(Inner)), "cannot join: nobody is there");
    }

    #[tokio::test]
    async fn a_signal_ends_a_start_that_waits() {
        let mut signals = Signals::listen().unwrap();
        let me = std::process::id().to_string();
        let sent = std::process::Command::new("kill").args(["-TERM", &me]).status().unwrap();
        assert!(sent.success());
        let start = unless_told_to_stop(std::future::pending::<()>(), &mut signals);
        let by = std::time::Duration::from_secs(10);
        assert_eq!(tokio::time::timeout(by, start).await, Ok(None));
    }
}
