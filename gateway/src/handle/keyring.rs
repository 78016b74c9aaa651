//! The key ring: a file with one `kid:base64(32 bytes)` a line. The first key seals, all open, so
//! a rotation puts the new key first and drops the old one when its handles may end (ours 5).

use std::fmt;
use std::fs;
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use chacha20poly1305::{KeyInit as _, XChaCha20Poly1305};

/// Longest key id, in bytes.
pub(super) const KID_BYTES_MAX: usize = 24;
/// Most keys in a ring: a rotation needs two, an emergency a few.
pub(super) const KEYS_MAX: usize = 16;
/// Largest key file, in bytes: [`KEYS_MAX`] lines with room for spaces.
pub(super) const KEY_FILE_BYTES_MAX: u64 = 4_096;
/// How often [`watch`] looks at the file.
pub const RELOAD_PERIOD: Duration = Duration::from_secs(5);

const KEY_BYTES: usize = 32;

const KEY_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Why a key file is not taken. Names lines, never what is in them.
#[derive(Debug, thiserror::Error)]
pub enum KeyFileError {
    #[error("the handle key file cannot be read")]
    Read(#[source] io::Error),
    #[error("the handle key file cannot be written")]
    Write(#[source] io::Error),
    #[error("no random numbers for a handle key")]
    Random,
    #[error("the handle key file is larger than {KEY_FILE_BYTES_MAX} bytes")]
    TooLarge,
    #[error("the handle key file has no key")]
    Empty,
    #[error("the handle key file has more than {KEYS_MAX} keys")]
    TooMany,
    #[error("line {line} of the handle key file: {problem}")]
    Line { line: usize, problem: LineProblem },
}

/// What is wrong with one line.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum LineProblem {
    #[error("no `:` between key id and key")]
    NoColon,
    #[error("a key id has 1 to {KID_BYTES_MAX} of A-Z, a-z, 0-9, `_`, `-`")]
    KeyId,
    #[error("the key is not base64 of 32 bytes")]
    Key,
    #[error("this key id is in an earlier line")]
    Repeated,
}

/// One key, ready to use. Its `Debug` prints the id only.
pub(super) struct Key {
    id: Box<str>,
    cipher: XChaCha20Poly1305,
}

impl Key {
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    pub(super) const fn cipher(&self) -> &XChaCha20Poly1305 {
        &self.cipher
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key({}, secret)", self.id)
    }
}

/// A ring of keys that can be exchanged while it is in use. Cheap to clone; clones share keys.
#[derive(Clone)]
pub struct KeyRing {
    keys: Arc<RwLock<Keys>>,
}

struct Keys {
    first: Arc<Key>,
    rest: Vec<Arc<Key>>,
}

impl fmt::Debug for KeyRing {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyRing(secret)")
    }
}

impl KeyRing {
    /// Reads the text of a key file.
    pub fn parse(text: &str) -> Result<Self, KeyFileError> {
        Ok(Self { keys: Arc::new(RwLock::new(parse(text)?)) })
    }

    /// Reads a key file.
    pub fn load(path: &Path) -> Result<Self, KeyFileError> {
        Self::parse(&read(path)?)
    }

    /// Reads a key file; where there is none, makes one with a fresh key (mode 0600, in a
    /// directory of mode 0700), durable before this returns.
    pub fn load_or_generate(path: &Path) -> Result<Self, KeyFileError> {
        match fs::symlink_metadata(path) {
            Ok(_) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => generate(path)?,
            Err(error) => return Err(KeyFileError::Read(error)),
        }
        Self::load(path)
    }

    /// A ring with one fresh key that is kept nowhere, for ephemeral servers and tests.
    pub fn ephemeral() -> Result<Self, KeyFileError> {
        Self::parse(&fresh_line()?)
    }

    /// The key that seals.
    pub(super) fn first(&self) -> Arc<Key> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner).first)
    }

    /// The key of an id, if it is in the ring.
    pub(super) fn find(&self, id: &[u8]) -> Option<Arc<Key>> {
        let keys = self.keys.read().unwrap_or_else(PoisonError::into_inner);
        std::iter::once(&keys.first)
            .chain(&keys.rest)
            .find(|key| key.id.as_bytes() == id)
            .map(Arc::clone)
    }

    /// Takes the keys of a new text in place of the present ones; a bad text changes nothing.
    pub fn replace(&self, text: &str) -> Result<(), KeyFileError> {
        let keys = parse(text)?;
        *self.keys.write().unwrap_or_else(PoisonError::into_inner) = keys;
        Ok(())
    }
}

/// A key file under observation.
#[derive(Debug)]
struct Watched {
    path: PathBuf,
    seen: Option<Stamp>,
}

/// What changes when a file is edited or exchanged.
type Stamp = (u64, i64, i64, u64);

impl Watched {
    /// Reloads the ring if the file is another than last time. `Ok(true)` if it was taken.
    fn look(&mut self, ring: &KeyRing) -> Result<bool, KeyFileError> {
        let stamp = stamp(&self.path)?;
        if self.seen == Some(stamp) {
            return Ok(false);
        }
        // Remembered before it is read: a bad file is reported once, not each time.
        self.seen = Some(stamp);
        ring.replace(&read(&self.path)?)?;
        Ok(true)
    }
}

/// Follows a key file for as long as the future is polled: keys of a changed file are taken, a
/// file that cannot be taken leaves the present keys in place and is logged once.
pub async fn watch(ring: KeyRing, path: PathBuf, period: Duration) {
    let mut watched = Watched { seen: stamp(&path).ok(), path };
    let mut failing = false;
    loop {
        tokio::time::sleep(period).await;
        match watched.look(&ring) {
            // A file that stays as it is has been told of; the next change is news again.
            Ok(false) => failing = false,
            Ok(true) => {
                failing = false;
                tracing::info!("handle keys reloaded");
            }
            Err(error) if !failing => {
                failing = true;
                tracing::error!(%error, "handle key file not taken, keeping the present keys");
            }
            Err(_) => {}
        }
    }
}

fn stamp(path: &Path) -> Result<Stamp, KeyFileError> {
    let meta = fs::metadata(path).map_err(KeyFileError::Read)?;
    Ok((meta.ino(), meta.mtime(), meta.mtime_nsec(), meta.len()))
}

fn read(path: &Path) -> Result<String, KeyFileError> {
    if fs::metadata(path).map_err(KeyFileError::Read)?.len() > KEY_FILE_BYTES_MAX {
        return Err(KeyFileError::TooLarge);
    }
    fs::read_to_string(path).map_err(KeyFileError::Read)
}

fn parse(text: &str) -> Result<Keys, KeyFileError> {
    let mut keys: Vec<Arc<Key>> = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() {
            continue;
        }
        let fault = |problem| KeyFileError::Line { line: index + 1, problem };
        let key = parse_line(line).map_err(fault)?;
        if keys.iter().any(|other| other.id == key.id) {
            return Err(fault(LineProblem::Repeated));
        }
        if keys.len() == KEYS_MAX {
            return Err(KeyFileError::TooMany);
        }
        keys.push(Arc::new(key));
    }
    let mut keys = keys.into_iter();
    let first = keys.next().ok_or(KeyFileError::Empty)?;
    Ok(Keys { first, rest: keys.collect() })
}

fn parse_line(line: &str) -> Result<Key, LineProblem> {
    let (id, secret) = line.split_once(':').ok_or(LineProblem::NoColon)?;
    let legal = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_' || byte == b'-';
    if id.is_empty() || id.len() > KID_BYTES_MAX || !id.bytes().all(legal) {
        return Err(LineProblem::KeyId);
    }
    let bytes = KEY_BASE64.decode(secret.trim()).map_err(|_not_base64| LineProblem::Key)?;
    if bytes.len() != KEY_BYTES {
        return Err(LineProblem::Key);
    }
    let cipher =
        XChaCha20Poly1305::new_from_slice(&bytes).map_err(|_bad_length| LineProblem::Key)?;
    Ok(Key { id: id.into(), cipher })
}

fn fresh_line() -> Result<String, KeyFileError> {
    let mut secret = [0_u8; KEY_BYTES];
    getrandom::fill(&mut secret).map_err(|_no_random| KeyFileError::Random)?;
    let id = getrandom::u32().map_err(|_no_random| KeyFileError::Random)?;
    Ok(format!("k{id:08x}:{}\n", KEY_BASE64.encode(secret)))
}

/// Writes a file with one fresh key beside its final name and renames it, so that a crash leaves
/// either no file or a whole one.
fn generate(path: &Path) -> Result<(), KeyFileError> {
    let line = fresh_line()?;
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let write = || -> io::Result<()> {
        if let Some(directory) = directory {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let fresh = path.with_extension("new");
        match fs::remove_file(&fresh) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file =
            fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&fresh)?;
        file.write_all(line.as_bytes())?;
        file.sync_all()?;
        fs::rename(&fresh, path)?;
        fs::File::open(directory.unwrap_or_else(|| Path::new(".")))?.sync_all()
    };
    write().map_err(KeyFileError::Write)
}

#[cfg(test)]
mod tests;
