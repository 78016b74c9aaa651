//! A process that dies at any moment of a commit or of its first start: the directory it leaves
//! always opens again.
//!
//! kill -9 leaves what the system calls of the process have written, in their order. So every
//! state it can leave is a beginning of the bytes one commit writes to the journal, with the mark
//! of the commit before (the mark is written after the journal).

use std::collections::BTreeMap;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use object::{BlobId, Millis};
use room_node::store::embedded::{Embedded, OpenError, Options, Sync};
use room_node::store::{Appended, Store as _};
use tempfile::TempDir;

use crate::harness::{START, append, block_on, claim, object, open, starting};

/// Every file of a directory with its content.
fn content(dir: &Path, under: &Path, files: &mut BTreeMap<PathBuf, Vec<u8>>) {
    for entry in fs::read_dir(under).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            content(dir, &path, files);
        } else {
            files.insert(path.strip_prefix(dir).unwrap().to_owned(), fs::read(&path).unwrap());
        }
    }
}

fn files(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    content(dir, dir, &mut files);
    files
}

fn try_open(dir: &Path) -> Result<Arc<Embedded>, OpenError> {
    starting(|| Embedded::open(&Options::new(dir, Sync::Always, START)))
}

/// In memory where there is such a place: hundreds of directories are synced here.
fn scratch() -> TempDir {
    let memory = Path::new("/dev/shm");
    let made = if memory.is_dir() { tempfile::tempdir_in(memory) } else { tempfile::tempdir() };
    made.unwrap()
}

fn lay_out(dir: &Path, files: &BTreeMap<PathBuf, Vec<u8>>) {
    for (path, bytes) in files {
        let path = dir.join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}

#[test]
fn every_beginning_of_a_commit_opens_with_all_commits_before_it() {
    let source = scratch();
    let room = object("torn");
    let store = open(source.path(), START);
    let fence = block_on(async {
        let fence = claim(&*store, &room, 1).await.fence;
        for lsn in 0..5 {
            store.append(append(&room, fence, lsn, u128::from(lsn))).await.unwrap();
        }
        fence
    });
    let before = files(source.path());
    // One commit of everything an append can change at once.
    block_on(async {
        let bytes = Bytes::from(vec![7; 30]);
        let (blob, expires) = (BlobId(9), Millis::FAR_FUTURE);
        let mut sixth = append(&room, fence, 5, 5);
        sixth.frame.records[0].bytes = Bytes::from(vec![8; 300]);
        sixth.due = Some(START.plus(77));
        let put = store.put_blob(object("other"), blob, bytes, expires);
        let (put, appended) = futures_util::future::join(put, store.append(sixth)).await;
        assert_eq!((put, appended), (Ok(()), Ok(Appended::Stored)));
    });
    let after = files(source.path());
    store.close();
    let journal = Path::new("db/0.jnl");
    let changed: Vec<_> =
        after.keys().filter(|path| before.get(*path) != after.get(*path)).collect();
    assert_eq!(changed, [Path::new("MARK"), journal], "a commit writes these and no others");
    let (old, new) = (&before[journal], &after[journal]);
    let end = |bytes: &[u8]| bytes.iter().rposition(|byte| *byte != 0).unwrap() + 1;
    let (from, to) = (end(old), end(new));
    let mut rest = before.clone();
    rest.remove(journal);
    // Every byte where lengths and the end mark stand, every seventh of the long values between.
    let near = |cut: &usize| cut - from < 48 || to - cut < 48 || (cut - from).is_multiple_of(7);
    for cut in (from..=to).filter(near) {
        let dir = scratch();
        lay_out(dir.path(), &rest);
        let mut file = fs::File::create(dir.path().join(journal)).unwrap();
        file.write_all(&new[..cut]).unwrap();
        // The journal is made long at first and written from its beginning.
        file.set_len(new.len() as u64).unwrap();
        drop(file);
        let store =
            try_open(dir.path()).unwrap_or_else(|error| panic!("at {}: {error}", cut - from));
        let found = block_on(claim(&*store, &room, 2));
        assert_eq!(found.lsn, if cut == to { 6 } else { 5 }, "at {}", cut - from);
        // What is written behind the cut end is found again.
        let again = append(&room, found.fence, found.lsn, 99);
        assert_eq!(block_on(store.append(again)), Ok(Appended::Stored));
        store.close();
        drop(store);
        let store = open(dir.path(), START);
        assert_eq!(block_on(claim(&*store, &room, 3)).lsn, found.lsn + 1);
    }
}

#[test]
fn a_database_whose_creation_was_cut_short_is_made_anew() {
    let dir = scratch();
    drop(open(dir.path(), START));
    let whole = files(dir.path());
    for keep in 0..whole.len() {
        let dir = scratch();
        let part = whole.iter().take(keep).map(|(path, bytes)| {
            let unfinished = path.strip_prefix("db").map(|path| Path::new("db.new").join(path));
            // The last file of the part is cut in half.
            let bytes = if path.starts_with("db") { &bytes[..bytes.len() / 2] } else { bytes };
            (unfinished.unwrap_or_else(|_| path.clone()), bytes.to_vec())
        });
        lay_out(dir.path(), &part.collect());
        fs::write(dir.path().join("FORMAT"), "roomring\nformat 1\n").unwrap();
        // No commit has been made yet when the database is created.
        fs::remove_file(dir.path().join("MARK")).ok();
        let store = try_open(dir.path()).unwrap_or_else(|error| panic!("{keep}: {error}"));
        assert_eq!(block_on(claim(&*store, &object("first"), 1)).lsn, 0);
        store.close();
        assert!(!dir.path().join("db.new").exists());
    }
}

#[test]
fn a_first_start_killed_at_any_step_opens_again() {
    for step in ["LOCK", "MARK", "db.new", "db.new/0.jnl", "db.new/version", "db.new/keyspaces/4"] {
        let dir = tempfile::tempdir().unwrap();
        let mut child = crate::crash::spawn(dir.path(), None);
        // A step that was missed is seen by what comes after all of them.
        while !dir.path().join(step).exists() && !dir.path().join("db").exists() {
            assert!(child.try_wait().unwrap().is_none(), "the child ended");
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let store = try_open(dir.path()).unwrap_or_else(|error| panic!("{step}: {error}"));
        assert!(block_on(claim(&*store, &object("first"), 1)).created, "{step}");
    }
}

#[test]
fn a_periodic_sync_comes_without_further_calls() {
    let dir = tempfile::tempdir().unwrap();
    let store = Embedded::open(&Options::new(dir.path(), Sync::EveryMs(1), START)).unwrap();
    let mark = || fs::read(dir.path().join("MARK")).unwrap();
    for nonce in 1..4 {
        let before = mark();
        block_on(claim(&*store, &object("periodic"), nonce));
        // The mark moves only after a sync; nothing else is asked of the store meanwhile.
        while mark() == before {
            assert!(!store.stats().failed);
            std::thread::yield_now();
        }
    }
}
