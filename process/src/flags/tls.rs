//! The certificates of links between processes: `--tls-cert`, `--tls-key`, `--tls-ca`. What they
//! hold is checked by whoever uses them; here only that all three are there.

use std::fmt;
use std::path::PathBuf;

use super::{Check, Source, value};

/// One of the files.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pem {
    pub path: PathBuf,
    /// What is in it, PEM.
    pub text: String,
}

/// The three files; empty where a flag is not given.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pems {
    /// Shown to the other side, whichever opened the connection.
    pub certificate: Pem,
    pub key: Pem,
    /// Whose certificates are accepted, and no others.
    pub authority: Pem,
}

// The key is a secret.
impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pem").field("path", &self.path).finish_non_exhaustive()
    }
}

impl fmt::Debug for Pems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pems").field("given", &self.is_given()).finish_non_exhaustive()
    }
}

impl Pems {
    /// Whether there are certificates at all.
    #[must_use]
    pub const fn is_given(&self) -> bool {
        !self.authority.text.is_empty()
    }

    /// Reports what is missing; true if they can be used as far as can be seen here.
    pub fn relate(&self, check: &mut Check<'_>) -> bool {
        let missing: Vec<&str> =
            NAMES.iter().filter(|name| !check.is_set(name)).map(|name| &**name).collect();
        if !missing.is_empty() && missing.len() < NAMES.len() {
            let missing = missing.join(", --");
            check.mistake(format!(
                "--tls-cert, --tls-key and --tls-ca go together; missing: --{missing}"
            ));
        }
        [&self.certificate, &self.key, &self.authority].iter().all(|pem| !pem.text.is_empty())
    }
}

const NAMES: [&str; 3] = ["tls-cert", "tls-key", "tls-ca"];

/// A PEM file.
///
/// # Errors
/// The rest of a sentence that names the flag.
pub fn pem(text: &str, source: &dyn Source) -> Result<Pem, String> {
    let path = value::path(text)?;
    let text = value::read(&path, source)?;
    if text.contains("-----BEGIN ") {
        Ok(Pem { path, text })
    } else {
        Err("it is no PEM file".to_owned())
    }
}
