//! Values of flags that only the edge understands.

use std::path::PathBuf;

use process::flags::{Source, value};

use crate::handle::KeyRing;

/// A file of handle keys. The gateway reads the keys again whenever the file changes; that it can
/// be read at all is a matter of configuration.
///
/// # Errors
/// The rest of a sentence that names the flag.
pub fn key_file(text: &str, source: &dyn Source) -> Result<PathBuf, String> {
    let path = value::path(text)?;
    KeyRing::parse(&value::read(&path, source)?).map_err(|error| error.to_string())?;
    Ok(path)
}
