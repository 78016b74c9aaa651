//! The `roomring` binary: read the flags, start, say where, wait for a signal, drain.
#![forbid(unsafe_code)]

use std::collections::BTreeMap;
use std::error::Error;
use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;

use standalone::compose::{self, Running};
use standalone::flags::{self, Command, Config, Source};
use standalone::signals::Signals;
use standalone::{banner, logs};

/// Small, short-lived allocations weigh in a call (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// A failure at run time: port, data directory (interfaces.md, process behaviour).
const EXIT_RUN_TIME: u8 = 1;
/// Said when the process gives up its data directory.
const DISK_FAILED: &str = "the data directory can no longer be written (is the disk full?); \
    all that was acknowledged is in it: make it writable and start again";
/// Usage or configuration.
const EXIT_USAGE: u8 = 64;
/// Forced by a second signal.
const EXIT_FORCED: i32 = 130;

fn main() -> ExitCode {
    match flags::parse(std::env::args().skip(1), &Process) {
        Ok(Command::Print(text)) => {
            say(&text);
            ExitCode::SUCCESS
        }
        Ok(Command::Serve { config, warnings }) => match run(&config, &warnings) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                complain(&format!("roomring: {}", chain(error.as_ref())));
                ExitCode::from(EXIT_RUN_TIME)
            }
        },
        Err(mistakes) => {
            complain(&mistakes.to_string());
            ExitCode::from(EXIT_USAGE)
        }
    }
}

fn run(config: &Config, warnings: &[String]) -> Result<(), Box<dyn Error>> {
    logs::install(config.log_format, &config.log)?;
    for warning in warnings {
        tracing::warn!("{warning}");
    }
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(config))
}

async fn serve(config: &Config) -> Result<(), Box<dyn Error>> {
    let mut signals = Signals::listen()?;
    let running = compose::start(config).await?;
    say(&format!("{}\n", banner::first_line(running.listen, running.admin)));
    say(&banner::text(running.listen, &storage(config)));
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        listen = %running.listen,
        admin_listen = %running.admin,
        storage = storage(config),
        sync = sync(config),
        "started"
    );
    let failed = tokio::select! {
        () = signals.next() => false,
        () = running.failure() => true,
    };
    tracing::info!("draining");
    tokio::select! {
        () = drain(running) => match failed {
            false => Ok(()),
            true => Err(DISK_FAILED.into()),
        },
        () = signals.next() => {
            tracing::warn!("forced by a second signal");
            std::process::exit(EXIT_FORCED);
        }
    }
}

async fn drain(running: Running) {
    if running.drain().await {
        tracing::info!("stopped");
    } else {
        tracing::warn!("stopped before everything had ended by itself");
    }
}

/// Where rooms are, in words for the banner.
fn storage(config: &Config) -> String {
    if config.ephemeral {
        "rooms in memory only (--ephemeral)".to_owned()
    } else {
        format!("rooms in {}", config.data_dir.display())
    }
}

/// When writes reach the disk, as on the command line.
fn sync(config: &Config) -> String {
    match config.sync {
        flags::Sync::Always => "always".to_owned(),
        flags::Sync::EveryMs(ms) => format!("every-ms={ms}"),
    }
}

/// An error with its causes, on one line.
fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
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
