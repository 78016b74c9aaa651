//! SIGTERM and SIGINT: the first asks for a drain, the second ends the process at once. SIGHUP is
//! the end of the terminal where there is one, and otherwise no reason to stop.

use std::io::IsTerminal as _;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// The signals, heard from the moment this exists.
#[derive(Debug)]
pub struct Signals {
    term: Signal,
    int: Signal,
    hup: Signal,
}

impl Signals {
    /// Takes the signals over from their default actions.
    ///
    /// # Errors
    /// The operating system refuses a handler.
    pub fn listen() -> std::io::Result<Self> {
        Ok(Self {
            term: signal(SignalKind::terminate())?,
            int: signal(SignalKind::interrupt())?,
            hup: signal(SignalKind::hangup())?,
        })
    }

    /// Resolves at the next SIGTERM or SIGINT, and at a SIGHUP that closes the terminal. A SIGHUP
    /// without a terminal is a service manager's or an operator's "read again", and nothing needs
    /// it: keys and certificates are followed anyway.
    pub async fn next(&mut self) {
        loop {
            tokio::select! {
                _ = self.term.recv() => return,
                _ = self.int.recv() => return,
                _ = self.hup.recv() => {
                    if std::io::stderr().is_terminal() {
                        return;
                    }
                    tracing::info!("sighup: nothing to do, keys and certificates are read again by themselves");
                }
            }
        }
    }
}
