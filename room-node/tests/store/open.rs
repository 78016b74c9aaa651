//! What a directory must be to be opened, and that a refusal leaves it as it was.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use object::Millis;
use room_node::store::embedded::{Embedded, OpenError, Options, Sync};
use room_node::store::{Appended, Error, Fence, Store as _};

use crate::harness::{START, append, block_on, claim, node, object, open, put, starting, taking};

fn try_open(dir: &Path) -> Result<std::sync::Arc<Embedded>, OpenError> {
    starting(|| Embedded::open(&Options::new(dir, Sync::Always, START)))
}

/// Every file of a directory with its content.
fn content(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(content(&path));
        } else {
            files.insert(path.clone(), fs::read(&path).unwrap());
        }
    }
    files
}

/// A directory with one object of one event, closed.
fn used(dir: &Path) -> Fence {
    let store = open(dir, START);
    let held = block_on(async {
        let room = object("kept");
        let fence = claim(&*store, &room, 1).await.fence;
        store.append(append(&room, fence, 0, 1)).await.unwrap();
        fence
    });
    store.close();
    held
}

#[test]
fn format_and_lock_are_where_the_contract_says() {
    let dir = tempfile::tempdir().unwrap();
    // The handle keys may be there before the store.
    fs::create_dir(dir.path().join("keys")).unwrap();
    used(dir.path());
    assert_eq!(fs::read_to_string(dir.path().join("FORMAT")).unwrap(), "roomring\nformat 1\n");
    assert!(dir.path().join("LOCK").is_file() && dir.path().join("db").is_dir());
    let store = open(dir.path(), START);
    assert_eq!(block_on(claim(&*store, &object("kept"), 2)).lsn, 1);
}

#[test]
fn foreign_newer_and_unreadable_directories_are_refused_untouched() {
    type Row = (&'static str, fn(&Path), fn(&OpenError) -> bool);
    let rows: [Row; 6] = [
        (
            "files of somebody else",
            |dir| fs::write(dir.join("photo.jpg"), "x").unwrap(),
            |error| matches!(error, OpenError::Foreign { .. }),
        ),
        (
            "another product",
            |dir| fs::write(dir.join("FORMAT"), "other\nformat 1\n").unwrap(),
            |error| matches!(error, OpenError::Foreign { .. }),
        ),
        (
            "a newer format",
            |dir| {
                used(dir);
                fs::write(dir.join("FORMAT"), "roomring\nformat 2\n").unwrap();
            },
            |error| matches!(error, OpenError::Newer { found: 2, supported: 1 }),
        ),
        (
            "a format that says nothing",
            |dir| {
                used(dir);
                fs::write(dir.join("FORMAT"), "roomring\n").unwrap();
            },
            |error| matches!(error, OpenError::Damaged { .. }),
        ),
        (
            "a format behind more than a format file has",
            |dir| {
                used(dir);
                let text = format!("roomring\nformat {}1\n", " ".repeat(256));
                fs::write(dir.join("FORMAT"), text).unwrap();
            },
            |error| matches!(error, OpenError::Damaged { .. }),
        ),
        (
            "a file where the directory should be",
            |dir| {
                fs::remove_dir(dir).unwrap();
                fs::write(dir, "x").unwrap();
            },
            |error| matches!(error, OpenError::Directory { .. }),
        ),
    ];
    for (name, prepare, expected) in rows {
        let scratch = tempfile::tempdir().unwrap();
        let dir = scratch.path().join("data");
        fs::create_dir(&dir).unwrap();
        prepare(&dir);
        let lock = dir.join("LOCK");
        let without_lock = |mut files: BTreeMap<PathBuf, Vec<u8>>| {
            files.remove(&lock);
            files
        };
        let before = without_lock(content(scratch.path()));
        let error = try_open(&dir).expect_err(name);
        assert!(expected(&error), "{name}: {error:?}");
        assert_eq!(without_lock(content(scratch.path())), before, "{name}");
    }
}

#[test]
fn second_open_is_refused_while_the_first_lives() {
    let dir = tempfile::tempdir().unwrap();
    let store = open(dir.path(), START);
    assert!(matches!(try_open(dir.path()), Err(OpenError::Locked { .. })));
    block_on(async {
        let room = object("locked");
        let fence = claim(&*store, &room, 1).await.fence;
        assert_eq!(store.append(append(&room, fence, 0, 1)).await, Ok(Appended::Stored));
        store.close();
        let closed = store.append(append(&room, fence, 1, 2)).await;
        assert!(matches!(closed, Err(Error::Unavailable { .. })));
        assert!(store.get_blob(room, object::BlobId(1)).await.is_err());
    });
    // Closed, though the handle still exists.
    assert!(try_open(dir.path()).is_ok());
}

#[test]
fn database_behind_its_mark_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    used(dir.path());
    let old = tempfile::tempdir().unwrap();
    copy(&dir.path().join("db"), &old.path().join("db"));
    let store = open(dir.path(), START);
    block_on(claim(&*store, &object("more"), 1));
    store.close();
    fs::remove_dir_all(dir.path().join("db")).unwrap();
    copy(&old.path().join("db"), &dir.path().join("db"));
    assert!(matches!(try_open(dir.path()), Err(OpenError::Damaged { .. })));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        let target = to.join(path.file_name().unwrap());
        if path.is_dir() {
            copy(&path, &target);
        } else {
            fs::copy(&path, &target).unwrap();
        }
    }
}

#[test]
fn schema_above_the_supported_one_refuses_the_claim() {
    let dir = tempfile::tempdir().unwrap();
    let held = used(dir.path());
    let room = object("kept");
    let mut options = Options::new(dir.path(), Sync::Always, START);
    options.schema_max = 0;
    let store = Embedded::open(&options).unwrap();
    block_on(async {
        let refused = store.claim(taking(&room, &node("a", 1), 7, held), START).await;
        assert_eq!(refused.err(), Some(Error::Newer { found: 1 }));
    });
    drop(store);
    // Nothing was taken by the refused claim.
    let store = open(dir.path(), START);
    assert_eq!(block_on(claim(&*store, &room, 8)).fence.epoch, 2);
}

#[test]
fn periodic_sync_keeps_everything_over_a_close() {
    let dir = tempfile::tempdir().unwrap();
    let options = Options::new(dir.path(), Sync::EveryMs(1), START);
    let store = Embedded::open(&options).unwrap();
    let room = object("periodic");
    block_on(async {
        let fence = claim(&*store, &room, 1).await.fence;
        put(&*store, &room, 1, Millis::FAR_FUTURE).await;
        for lsn in 0..50 {
            store.append(append(&room, fence, lsn, u128::from(lsn))).await.unwrap();
        }
    });
    store.close();
    let store = open(dir.path(), START);
    assert_eq!(block_on(claim(&*store, &room, 2)).tail.len(), 50);
}
