//! The data directory: what may be in it, its format file, its lock, and the mark of the last
//! durable commit.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{ErrorKind, Read, Write};
use std::os::unix::fs::{DirBuilderExt as _, FileExt};
use std::path::{Path, PathBuf};

/// The layout this code writes.
const FORMAT_VERSION: u32 = 1;
const PRODUCT: &str = "roomring";
/// A format file is two short lines; more is not ours.
const FORMAT_BYTES_MAX: u64 = 256;
const MARK_BYTES: usize = 12;

/// Why a data directory was not opened. A refusal leaves the directory as it was.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("the data directory {path:?} cannot be created, read or written")]
    Directory { path: PathBuf, source: std::io::Error },
    #[error("the data directory {path:?} is in use by another process")]
    Locked { path: PathBuf },
    #[error("the directory {path:?} holds files that are not ours and no FORMAT")]
    Foreign { path: PathBuf },
    #[error("the data directory has format {found}, newer than {supported}")]
    Newer { found: u32, supported: u32 },
    #[error("the data directory is damaged: {what}")]
    Damaged { what: String },
}

/// An open, locked data directory.
#[derive(Debug)]
pub(super) struct Directory {
    /// Where the key-value store lives.
    pub(super) db: PathBuf,
    path: PathBuf,
    mark: File,
    /// Held for life; the lock ends with the file handle.
    _lock: File,
}

impl Directory {
    /// Checks, creates and locks `path`.
    pub(super) fn open(path: &Path) -> Result<Self, OpenError> {
        let io = |source| OpenError::Directory { path: path.to_owned(), source };
        // Messages and files of rooms are nobody else's business.
        fs::DirBuilder::new().recursive(true).mode(0o700).create(path).map_err(io)?;
        let before = read_format(path)?;
        if before.is_none() && !is_fresh(path).map_err(io)? {
            return Err(OpenError::Foreign { path: path.to_owned() });
        }
        let lock = lock(path)?;
        // Another process may have created the directory's content since the first look.
        if before.is_none() && read_format(path)?.is_none() {
            write_format(path).map_err(io)?;
        }
        let mark = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path.join("MARK"))
            .map_err(io)?;
        Ok(Self { db: path.join("db"), path: path.to_owned(), mark, _lock: lock })
    }

    /// Makes the entries of the directory itself durable, once everything in it has been made.
    pub(super) fn sync(&self) -> Result<(), OpenError> {
        let synced = File::open(&self.path).and_then(|directory| directory.sync_all());
        synced.map_err(|source| OpenError::Directory { path: self.path.clone(), source })
    }

    /// The number of a commit that was durable when the mark was written; `None` if there is no
    /// readable mark.
    pub(super) fn mark(&self) -> Option<u64> {
        let mut bytes = [0; MARK_BYTES];
        self.mark.read_exact_at(&mut bytes, 0).ok()?;
        let (number, sum) = bytes.split_first_chunk::<8>()?;
        let sum: [u8; 4] = sum.try_into().ok()?;
        (crc32c::crc32c(number) == u32::from_be_bytes(sum)).then(|| u64::from_be_bytes(*number))
    }

    /// Notes that commit `number` is durable. Not synced itself: a late mark only detects less.
    pub(super) fn set_mark(&self, number: u64) -> std::io::Result<()> {
        let number = number.to_be_bytes();
        let mut bytes = [0; MARK_BYTES];
        let sum = crc32c::crc32c(&number).to_be_bytes();
        for (slot, byte) in bytes.iter_mut().zip(number.into_iter().chain(sum)) {
            *slot = byte;
        }
        self.mark.write_all_at(&bytes, 0)
    }
}

/// Whether a directory without a format file holds nothing but what may be there before us.
fn is_fresh(path: &Path) -> std::io::Result<bool> {
    for entry in fs::read_dir(path)? {
        let name = entry?.file_name();
        let ours = ["LOCK", "FORMAT.new", "keys", "lost+found"];
        if !ours.iter().any(|known| name == *known) {
            return Ok(false);
        }
    }
    Ok(true)
}

fn lock(path: &Path) -> Result<File, OpenError> {
    let io = |source| OpenError::Directory { path: path.to_owned(), source };
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .read(true)
        .write(true)
        .open(path.join("LOCK"))
        .map_err(io)?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::Locked { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(io(source)),
    }
}

/// Checks the format file; `None` if there is none.
fn read_format(path: &Path) -> Result<Option<()>, OpenError> {
    let io = |source| OpenError::Directory { path: path.to_owned(), source };
    let file = match File::open(path.join("FORMAT")) {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(io(error)),
    };
    let mut bytes = Vec::new();
    file.take(FORMAT_BYTES_MAX).read_to_end(&mut bytes).map_err(io)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut words = text.split_whitespace();
    let product = words.next();
    if product.is_some_and(|product| product != PRODUCT) {
        return Err(OpenError::Foreign { path: path.to_owned() });
    }
    let version = match (product, words.next(), words.next()) {
        (Some(_), Some("format"), Some(version)) => version.parse::<u32>().ok(),
        _ => None,
    };
    match version {
        Some(found) if found > FORMAT_VERSION => {
            Err(OpenError::Newer { found, supported: FORMAT_VERSION })
        }
        Some(FORMAT_VERSION) => Ok(Some(())),
        _ => Err(OpenError::Damaged { what: "FORMAT cannot be read".into() }),
    }
}

/// Written whole or not at all, and before anything else, so that a directory with data always
/// has it.
fn write_format(path: &Path) -> std::io::Result<()> {
    let new = path.join("FORMAT.new");
    let mut file = File::create(&new)?;
    file.write_all(format!("{PRODUCT}\nformat {FORMAT_VERSION}\n").as_bytes())?;
    file.sync_all()?;
    fs::rename(&new, path.join("FORMAT"))?;
    File::open(path)?.sync_all()
}
