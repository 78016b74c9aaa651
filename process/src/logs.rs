//! Logs on stderr: text for a terminal, JSON for everything else.

use std::io::IsTerminal as _;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::flags::value::LogFormat;

/// Installs the process's subscriber. The panic message of a failed activation is logged by the
/// same route, without its payload: it could hold a message's text.
///
/// # Errors
/// The filter cannot be read; flags are checked before, so this is a mistake of our own.
pub fn install(format: Option<LogFormat>, filter: &str) -> Result<(), ParseError> {
    let terminal = std::io::stderr().is_terminal();
    let format = format.unwrap_or(if terminal { LogFormat::Text } else { LogFormat::Json });
    let builder = tracing_subscriber::fmt()
        .with_writer(std::io::stderr)
        .with_env_filter(EnvFilter::try_new(filter)?)
        .with_ansi(terminal);
    match format {
        LogFormat::Text => builder.init(),
        LogFormat::Json => builder.json().flatten_event(true).init(),
    }
    std::panic::set_hook(Box::new(|panic| {
        let place = panic.location();
        tracing::error!(
            file = place.map(std::panic::Location::file),
            line = place.map(std::panic::Location::line),
            "panicked"
        );
    }));
    Ok(())
}
