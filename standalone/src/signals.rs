//! SIGTERM and SIGINT: the first asks for a drain, the second ends the process at once.

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Both signals, heard from the moment this exists.
#[derive(Debug)]
pub struct Signals {
    term: Signal,
    int: Signal,
}

impl Signals {
    /// Takes both signals over from the default action.
    ///
    /// # Errors
    /// The operating system refuses a handler.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self { term: signal(SignalKind::terminate())?, int: signal(SignalKind::interrupt())? })
    }

    /// Resolves at the next of either.
    pub async fn next(&mut self) {
        tokio::select! {
            _ = self.term.recv() => {}
            _ = self.int.recv() => {}
        }
    }
}
