//! The key-value store under the rules: tables, reads, and one atomic batch per commit.

use std::collections::HashMap;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

use bytes::Bytes;
use fjall::{Database, Keyspace, KeyspaceCreateOptions, KvSeparationOptions, PersistMode};

use super::super::{Error, Result};
use super::files::{Directory, OpenError};

/// Bytes a table gathers in memory before it is written out. Small, because a restart replays
/// what has not been written out yet. The database does not tell this setting, nor the next one.
const MEMTABLE_BYTES_MAX: u64 = 16 * 1024 * 1024;
/// Bytes of journal kept for tables that have not been written out.
const JOURNAL_BYTES_MAX: u64 = 256 * 1024 * 1024;
/// Bytes of blocks cached for reads.
pub(super) const CACHE_BYTES_MAX: u64 = 32 * 1024 * 1024;
/// One thread writes tables out while another compacts.
const WORKERS: usize = 2;

/// The key under which the number of the last commit is kept, in [`Table::Mark`].
const COMMIT_KEY: &[u8] = b"c";

#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub(super) enum Table {
    /// One record per object.
    Meta,
    /// One entry per append, by object and last lsn.
    Log,
    Snapshot,
    /// By time and object.
    Due,
    Blob,
    /// Small marks: the commit number, uploads not kept yet (`p`), dead marks by time (`d`).
    Mark,
}

pub(super) struct Disk {
    meta: Keyspace,
    log: Keyspace,
    snapshot: Keyspace,
    due: Keyspace,
    blob: Keyspace,
    mark: Keyspace,
    db: Database,
    #[cfg(test)]
    pub(super) fail_commits: std::sync::atomic::AtomicBool,
    #[cfg(test)]
    pub(super) panic_reads: std::sync::atomic::AtomicBool,
    // Last, so that the directory is unlocked only after the database has been closed.
    directory: Directory,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").finish_non_exhaustive()
    }
}

impl Disk {
    pub(super) fn open(directory: Directory) -> std::result::Result<(Self, u64), OpenError> {
        let db = directory.db.clone();
        // Recovery asserts on some kinds of damage instead of reporting them.
        let opened = catch_unwind(AssertUnwindSafe(|| {
            create(&db)?;
            open_tables(&db)
        }));
        let tables = match opened {
            Ok(Ok(tables)) => tables,
            Ok(Err(error)) => return Err(open_error(&db, error)),
            Err(_) => {
                return Err(OpenError::Damaged { what: "the database cannot be recovered".into() });
            }
        };
        let (db, [meta, log, snapshot, due, blob, mark]) = tables;
        let disk = Self {
            meta,
            log,
            snapshot,
            due,
            blob,
            mark,
            db,
            #[cfg(test)]
            fail_commits: std::sync::atomic::AtomicBool::new(false),
            #[cfg(test)]
            panic_reads: std::sync::atomic::AtomicBool::new(false),
            directory,
        };
        disk.directory.sync()?;
        let commit = disk.last_commit()?;
        Ok((disk, commit))
    }

    /// Reads the number of the last commit and compares it with the mark: a database that went
    /// back behind a durable commit must not be taken for the truth.
    fn last_commit(&self) -> std::result::Result<u64, OpenError> {
        let stored = self.mark.get(COMMIT_KEY).map_err(|error| OpenError::Damaged {
            what: format!("the commit number cannot be read: {error}"),
        })?;
        let commit = match stored {
            None => 0,
            Some(bytes) => {
                let bytes: [u8; 8] = bytes.as_ref().try_into().map_err(|_| OpenError::Damaged {
                    what: "the commit number has a wrong length".into(),
                })?;
                u64::from_be_bytes(bytes)
            }
        };
        match self.directory.mark() {
            Some(mark) if mark > commit => Err(OpenError::Damaged {
                what: format!("the database ends at commit {commit}, but {mark} was durable"),
            }),
            _ => Ok(commit),
        }
    }

    pub(super) fn get(&self, table: Table, key: &[u8]) -> Result<Option<Bytes>> {
        let found = self.table(table).get(key).map_err(read_error)?;
        Ok(found.map(|value| Bytes::from_owner(Owned(value))))
    }

    pub(super) fn contains(&self, table: Table, key: &[u8]) -> Result<bool> {
        self.table(table).contains_key(key).map_err(read_error)
    }

    /// Keys of a range, at most `limit`, in order.
    pub(super) fn keys(
        &self,
        table: Table,
        range: impl std::ops::RangeBounds<Vec<u8>>,
        limit: usize,
    ) -> Result<Vec<Vec<u8>>> {
        let mut keys = Vec::new();
        for guard in self.table(table).range(range).take(limit) {
            keys.push(guard.key().map_err(read_error)?.to_vec());
        }
        Ok(keys)
    }

    /// Values of a range, in order.
    pub(super) fn values(
        &self,
        table: Table,
        range: impl std::ops::RangeBounds<Vec<u8>>,
    ) -> Result<Vec<Bytes>> {
        let mut values = Vec::new();
        for guard in self.table(table).range(range) {
            let value = guard.value().map_err(read_error)?;
            values.push(Bytes::from_owner(Owned(value)));
        }
        Ok(values)
    }

    /// Writes all changes as one atomic batch. With `durable` it returns after fdatasync.
    pub(super) fn commit(
        &self,
        changes: &mut Changes,
        number: u64,
        durable: bool,
    ) -> std::result::Result<(), String> {
        #[cfg(test)]
        if self.fail_commits.load(std::sync::atomic::Ordering::SeqCst) {
            return Err("injected".into());
        }
        let mode = if durable { PersistMode::SyncData } else { PersistMode::Buffer };
        let mut batch = self.db.batch().durability(Some(mode));
        for ((table, key), value) in changes.items.drain() {
            match value {
                Some(value) => batch.insert(self.table(table), key, value.as_ref()),
                None => batch.remove(self.table(table), key),
            }
        }
        changes.bytes = 0;
        batch.insert(&self.mark, COMMIT_KEY, number.to_be_bytes());
        batch.commit().map_err(|error| error.to_string())?;
        if durable {
            self.set_mark(number);
        }
        Ok(())
    }

    /// Makes everything committed so far durable.
    pub(super) fn sync(&self, number: u64) -> std::result::Result<(), String> {
        self.db.persist(PersistMode::SyncData).map_err(|error| error.to_string())?;
        self.set_mark(number);
        Ok(())
    }

    fn set_mark(&self, number: u64) {
        if let Err(error) = self.directory.set_mark(number) {
            // The mark only helps to notice lost commits; the commit itself is durable.
            tracing::warn!(%error, "the mark of the last commit was not written");
        }
    }

    /// The size of the cache as the database knows it.
    #[cfg(test)]
    pub(super) fn cache_bytes(&self) -> u64 {
        self.db.cache_capacity()
    }

    fn table(&self, table: Table) -> &Keyspace {
        #[cfg(test)]
        assert!(!self.panic_reads.load(std::sync::atomic::Ordering::SeqCst), "injected");
        match table {
            Table::Meta => &self.meta,
            Table::Log => &self.log,
            Table::Snapshot => &self.snapshot,
            Table::Due => &self.due,
            Table::Blob => &self.blob,
            Table::Mark => &self.mark,
        }
    }
}

/// Changes gathered for one commit; a later change of a key replaces an earlier one.
#[derive(Debug, Default)]
pub(super) struct Changes {
    /// At most [`super::writer::COMMIT_BYTES_MAX`] and one call beyond it.
    items: HashMap<(Table, Vec<u8>), Option<Bytes>>,
    bytes: usize,
}

impl Changes {
    pub(super) fn put(&mut self, table: Table, key: Vec<u8>, value: Bytes) {
        self.bytes += key.len() + value.len();
        self.items.insert((table, key), Some(value));
    }

    pub(super) fn delete(&mut self, table: Table, key: Vec<u8>) {
        self.bytes += key.len();
        self.items.insert((table, key), None);
    }

    /// Whether a key will be there after the commit; `None` if the commit does not touch it.
    pub(super) fn find(&self, table: Table, key: &[u8]) -> Option<bool> {
        self.items.get(&(table, key.to_vec())).map(Option::is_some)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Bytes gathered, counting replaced values too.
    pub(super) const fn bytes(&self) -> usize {
        self.bytes
    }
}

/// Lets [`Bytes`] share a value of the database without a copy.
struct Owned(fjall::Slice);

impl AsRef<[u8]> for Owned {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

/// Makes a new database beside its place and moves it there once it is whole: the database itself
/// cannot open what a kill during its own creation leaves behind.
fn create(path: &Path) -> fjall::Result<()> {
    if path.try_exists()? {
        return Ok(());
    }
    let new = path.with_extension("new");
    if new.try_exists()? {
        // Unfinished, so nothing was ever acknowledged from it.
        fs::remove_dir_all(&new)?;
    }
    drop(open_tables(&new)?);
    fs::rename(&new, path)?;
    Ok(())
}

fn open_tables(path: &Path) -> fjall::Result<(Database, [Keyspace; 6])> {
    let db = Database::builder(path)
        .cache_size(CACHE_BYTES_MAX)
        .max_journaling_size(JOURNAL_BYTES_MAX)
        .worker_threads(WORKERS)
        .open()?;
    let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES_MAX);
    let tables = [
        db.keyspace("meta", options)?,
        db.keyspace("log", options)?,
        db.keyspace("snapshot", options)?,
        db.keyspace("due", options)?,
        // Large values stay out of the way of compaction.
        db.keyspace("blob", || options().with_kv_separation(Some(KvSeparationOptions::default())))?,
        db.keyspace("mark", options)?,
    ];
    Ok((db, tables))
}

fn open_error(path: &Path, error: fjall::Error) -> OpenError {
    match error {
        fjall::Error::Io(source) => OpenError::Directory { path: path.to_owned(), source },
        fjall::Error::Locked => OpenError::Locked { path: path.to_owned() },
        error => OpenError::Damaged { what: error.to_string() },
    }
}

fn read_error(error: fjall::Error) -> Error {
    match error {
        fjall::Error::Io(error) => Error::Unavailable { context: error.to_string() },
        fjall::Error::Poisoned => Error::Unavailable { context: "the store has failed".into() },
        _ => Error::Damaged { what: "the database" },
    }
}
