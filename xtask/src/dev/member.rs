//! One child of the cluster.

use std::io::{self, BufRead as _, BufReader};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, SyncSender};
use std::time::Duration;

use super::Event;
use crate::child::output;

/// Longest time a child may take until it serves; a healthy one takes a second or two.
pub(super) const START: Duration = Duration::from_secs(30);

/// A running child.
pub(super) struct Member {
    name: String,
    child: Child,
}

impl Member {
    /// Starts it in a process group of its own; its lines and its end come as events.
    pub(super) fn spawn(
        name: &str,
        command: &mut Command,
        send: SyncSender<Event>,
    ) -> io::Result<Self> {
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).process_group(0).spawn()?;
        let stdout = child.stdout.take();
        let member = name.to_owned();
        std::thread::spawn(move || {
            for line in stdout.into_iter().flat_map(|out| BufReader::new(out).lines()) {
                let Ok(line) = line else { break };
                if send.send(Event::Line { member: member.clone(), line }).is_err() {
                    return;
                }
            }
            let _ = send.send(Event::Ended { member });
        });
        Ok(Self { name: name.to_owned(), child })
    }

    /// `node` of `node-2`.
    pub(super) fn kind(&self) -> &str {
        self.name.split('-').next().unwrap_or(&self.name)
    }

    /// SIGTERM.
    pub(super) fn ask_to_end(&self) {
        // One that has ended already needs no signal.
        let _ = output(Path::new("."), "kill", &["-s", "TERM", &self.child.id().to_string()]);
    }

    /// Waits for its end, which its standard output tells of; kills it when that takes too long.
    /// True if it ended well.
    pub(super) fn ended_within(&mut self, limit: Duration, events: &Receiver<Event>) -> bool {
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => {
                    if !status.success() {
                        println!("dev: {} ended with {status}", self.name);
                    }
                    return status.success();
                }
                Ok(None) => {}
                Err(_) => return false,
            }
            match events.recv_timeout(limit) {
                // Only the exit is left to wait for.
                Ok(Event::Ended { member }) if member == self.name => {
                    return self.child.wait().is_ok_and(|status| status.success());
                }
                Ok(Event::Line { .. } | Event::Ended { .. }) => {}
                // A second Ctrl-C, or too long.
                Ok(Event::Signal) | Err(_) => {
                    println!("dev: {} is killed", self.name);
                    let _ = self.child.kill();
                    let _ = self.child.wait();
                    return false;
                }
            }
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        // Does nothing to one that has ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Where a member's standard error is kept.
pub(super) fn log(dir: &Path, name: &str) -> PathBuf {
    dir.join(format!("{name}.log"))
}

/// The last line of a member's log.
pub(super) fn last_words(dir: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(log(dir, name)).unwrap_or_default();
    text.lines().last().unwrap_or("none").to_owned()
}
