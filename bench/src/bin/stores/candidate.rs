//! The candidates: each takes a batch of changes and returns once it is durable.

use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode};
use peers::Failure;
use redb::ReadableDatabase as _;
use rusqlite::{Connection, OptionalExtension as _};

use super::work::{Change, Table};

/// The same memory for each.
const CACHE_BYTES: usize = 32 * 1024 * 1024;
const MEMTABLE_BYTES: u64 = 16 * 1024 * 1024;
const JOURNAL_BYTES: u64 = 256 * 1024 * 1024;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Raw,
    Fjall,
    Redb,
    Sqlite,
}

impl Kind {
    /// The raw file first: the others are compared with it.
    pub const ALL: [Self; 4] = [Self::Raw, Self::Fjall, Self::Redb, Self::Sqlite];

    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| format!("{kind:?}") == name)
    }

    pub fn open(self, dir: &Path) -> Result<Box<dyn Candidate>, Failure> {
        Ok(match self {
            Self::Raw => Box::new(Raw::open(dir)?),
            Self::Fjall => Box::new(Fjall::open(dir)?),
            Self::Redb => Box::new(Redb::open(dir)?),
            Self::Sqlite => Box::new(Sqlite::open(dir)?),
        })
    }
}

pub trait Candidate: Send {
    /// Writes all changes or none; on return they are on the disk.
    fn commit(&mut self, changes: &[Change]) -> Result<(), Failure>;

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Failure>;
}

/// A file of checksummed batches with fdatasync, replayed into memory when it is opened: the least
/// that a store of our own would do.
struct Raw {
    file: File,
    /// Only filled by a replay.
    replayed: BTreeMap<(u8, Vec<u8>), Vec<u8>>,
}

impl Raw {
    fn open(dir: &Path) -> Result<Self, Failure> {
        let path = dir.join("raw");
        let file = OpenOptions::new().create(true).append(true).open(&path)?;
        let bytes = std::fs::read(&path)?;
        let mut replayed = BTreeMap::new();
        let mut rest = bytes.as_slice();
        // The first batch that is cut or does not match its sum ends the file.
        while let Some((batch, after)) = next_batch(rest) {
            replay(batch, &mut replayed);
            rest = after;
        }
        file.set_len((bytes.len() - rest.len()) as u64)?;
        Ok(Self { file, replayed })
    }
}

fn next_batch(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let (head, rest) = rest.split_first_chunk::<8>()?;
    let (length, sum) = head.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (batch, after) = rest.split_at_checked(length)?;
    (sum == crc32c::crc32c(batch).to_le_bytes()).then_some((batch, after))
}

fn replay(mut batch: &[u8], into: &mut BTreeMap<(u8, Vec<u8>), Vec<u8>>) {
    while let Some(([table, key_len, put, l0, l1], rest)) = batch.split_first_chunk::<5>() {
        let value_len = usize::from(u16::from_le_bytes([*l0, *l1]));
        let Some((key, rest)) = rest.split_at_checked(usize::from(*key_len)) else { return };
        let Some((value, rest)) = rest.split_at_checked(value_len) else { return };
        if *put == 1 {
            into.insert((*table, key.to_vec()), value.to_vec());
        } else {
            into.remove(&(*table, key.to_vec()));
        }
        batch = rest;
    }
}

impl Candidate for Raw {
    fn commit(&mut self, changes: &[Change]) -> Result<(), Failure> {
        let mut bytes = vec![0; 8];
        for (table, key, value) in changes {
            let value_len = u16::try_from(value.as_ref().map_or(0, Vec::len))?.to_le_bytes();
            bytes.extend_from_slice(&[*table as u8, u8::try_from(key.len())?]);
            bytes.push(u8::from(value.is_some()));
            bytes.extend_from_slice(&value_len);
            bytes.extend_from_slice(key);
            bytes.extend_from_slice(value.as_deref().unwrap_or_default());
        }
        let length = u32::try_from(bytes.len() - 8)?.to_le_bytes();
        let sum = crc32c::crc32c(&bytes[8..]).to_le_bytes();
        bytes[..4].copy_from_slice(&length);
        bytes[4..8].copy_from_slice(&sum);
        self.file.write_all(&bytes)?;
        self.file.sync_data()?;
        Ok(())
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.replayed.get(&(table as u8, key.to_vec())).cloned())
    }
}

/// With the settings of `room-node/src/store/embedded/disk.rs`.
struct Fjall {
    tables: [Keyspace; 4],
    db: Database,
}

impl Fjall {
    fn open(dir: &Path) -> Result<Self, Failure> {
        let db = Database::builder(dir.join("fjall"))
            .cache_size(CACHE_BYTES as u64)
            .max_journaling_size(JOURNAL_BYTES)
            .worker_threads(2)
            .open()?;
        let options = || KeyspaceCreateOptions::default().max_memtable_size(MEMTABLE_BYTES);
        let [one, two, three, four] = Table::ALL.map(|table| db.keyspace(table.name(), options));
        Ok(Self { tables: [one?, two?, three?, four?], db })
    }
}

impl Candidate for Fjall {
    fn commit(&mut self, changes: &[Change]) -> Result<(), Failure> {
        let mut batch = self.db.batch().durability(Some(PersistMode::SyncData));
        for (table, key, value) in changes {
            let keyspace = &self.tables[*table as usize];
            match value {
                Some(value) => batch.insert(keyspace, key.as_slice(), value.as_slice()),
                None => batch.remove(keyspace, key.as_slice()),
            }
        }
        batch.commit()?;
        Ok(())
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        Ok(self.tables[table as usize].get(key)?.map(|value| value.to_vec()))
    }
}

struct Redb(redb::Database);

const fn definition(table: Table) -> redb::TableDefinition<'static, &'static [u8], &'static [u8]> {
    redb::TableDefinition::new(table.name())
}

impl Redb {
    fn open(dir: &Path) -> Result<Self, Failure> {
        let mut builder = redb::Builder::new();
        builder.set_cache_size(CACHE_BYTES);
        let db = builder.create(dir.join("redb"))?;
        let tables = db.begin_write()?;
        for table in Table::ALL {
            tables.open_table(definition(table))?;
        }
        tables.commit()?;
        Ok(Self(db))
    }
}

impl Candidate for Redb {
    fn commit(&mut self, changes: &[Change]) -> Result<(), Failure> {
        let write = self.0.begin_write()?;
        for table in Table::ALL {
            let mut changes = changes.iter().filter(|change| change.0 == table).peekable();
            if changes.peek().is_none() {
                continue;
            }
            let mut opened = write.open_table(definition(table))?;
            for (_, key, value) in changes {
                match value {
                    Some(value) => drop(opened.insert(key.as_slice(), value.as_slice())?),
                    None => drop(opened.remove(key.as_slice())?),
                }
            }
        }
        // The default durability: synced on return.
        write.commit()?;
        Ok(())
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let opened = self.0.begin_read()?.open_table(definition(table))?;
        Ok(opened.get(key)?.map(|value| value.value().to_vec()))
    }
}

struct Sqlite(Connection);

impl Sqlite {
    fn open(dir: &Path) -> Result<Self, Failure> {
        let db = Connection::open(dir.join("sqlite"))?;
        db.execute_batch(&format!(
            "PRAGMA journal_mode=WAL; PRAGMA synchronous=FULL; PRAGMA cache_size=-{};",
            CACHE_BYTES / 1024
        ))?;
        for table in Table::ALL {
            let name = table.name();
            db.execute_batch(&format!(
                "CREATE TABLE IF NOT EXISTS {name} (k BLOB PRIMARY KEY, v BLOB) WITHOUT ROWID;"
            ))?;
        }
        Ok(Self(db))
    }
}

impl Candidate for Sqlite {
    fn commit(&mut self, changes: &[Change]) -> Result<(), Failure> {
        let write = self.0.transaction()?;
        for (table, key, value) in changes {
            let name = table.name();
            match value {
                Some(value) => {
                    let text = format!("INSERT OR REPLACE INTO {name} VALUES (?1, ?2)");
                    write.prepare_cached(&text)?.execute((key, value))?
                }
                None => {
                    let text = format!("DELETE FROM {name} WHERE k = ?1");
                    write.prepare_cached(&text)?.execute((key,))?
                }
            };
        }
        write.commit()?;
        Ok(())
    }

    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Failure> {
        let text = format!("SELECT v FROM {} WHERE k = ?1", table.name());
        let mut query = self.0.prepare_cached(&text)?;
        Ok(query.query_row((key,), |row| row.get(0)).optional()?)
    }
}
