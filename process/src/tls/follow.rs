//! The three files, looked at again and again.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use super::{Links, TlsError};
use crate::flags::tls::{Pem, Pems};

/// How often [`follow`] looks at the files. A change is taken at the second look that finds it: the
/// three are seldom written in one instant, and half of a change would be refused.
pub const RELOAD_PERIOD: Duration = Duration::from_secs(5);
/// Largest of the files, in bytes: a long chain, or a hundred authorities.
pub(super) const PEM_BYTES_MAX: u64 = 256 * 1024;

/// What changes when a file is edited or exchanged; `None` where there is none.
type Stamp = Option<(u64, i64, i64, u64)>;

/// Certificate files under observation.
#[derive(Debug)]
pub(super) struct Followed {
    /// The paths, and what was read last.
    pems: Pems,
    /// As they were when they were read last.
    read: [Stamp; 3],
    /// As they were at the last look.
    seen: [Stamp; 3],
}

impl Followed {
    /// Begins with files that have just been read.
    pub(super) fn new(pems: Pems) -> Self {
        let now = stamps(&pems);
        Self { pems, read: now, seen: now }
    }

    /// Takes what the files say if they have changed and are the same as at the last look.
    /// `Ok(true)` if something was taken; a bad change is reported once.
    pub(super) fn look(&mut self, links: &Links) -> Result<bool, TlsError> {
        let now = stamps(&self.pems);
        let settled = now == self.seen;
        self.seen = now;
        if !settled || now == self.read {
            return Ok(false);
        }
        self.read = now;
        let pems = match read_all(&self.pems) {
            Ok(pems) => pems,
            Err(error) => {
                let failed = Err(error);
                links.told(&failed);
                return failed.map(|()| false);
            }
        };
        links.replace(&pems)?;
        self.pems = pems;
        Ok(true)
    }
}

/// Follows the files of `pems` for as long as the future is polled: what can be used is taken, what
/// cannot leaves the present certificates in place and is logged once.
pub async fn follow(links: Arc<Links>, pems: Pems, period: Duration) {
    let mut followed = Followed::new(pems);
    loop {
        tokio::time::sleep(period).await;
        match followed.look(&links) {
            Ok(false) => {}
            Ok(true) => tracing::info!("certificates reloaded"),
            Err(error) => {
                let error = crate::run::chain(&error);
                tracing::error!(
                    error,
                    "certificate files not taken, keeping the present certificates; correct \
                     --tls-cert, --tls-key and --tls-ca"
                );
            }
        }
    }
}

fn stamps(pems: &Pems) -> [Stamp; 3] {
    [&pems.certificate, &pems.key, &pems.authority].map(|pem| {
        let meta = fs::metadata(&pem.path).ok()?;
        Some((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len()))
    })
}

fn read_all(pems: &Pems) -> Result<Pems, TlsError> {
    Ok(Pems {
        certificate: read(&pems.certificate.path)?,
        key: read(&pems.key.path)?,
        authority: read(&pems.authority.path)?,
    })
}

fn read(path: &Path) -> Result<Pem, TlsError> {
    if fs::metadata(path).map_err(TlsError::Read)?.len() > PEM_BYTES_MAX {
        return Err(TlsError::TooLarge);
    }
    let text = fs::read_to_string(path).map_err(TlsError::Read)?;
    Ok(Pem { path: path.to_owned(), text })
}
