//! No source lies in the tree without being compiled: a test that is no module of anything never
//! runs, and nobody notices.

use super::Finding;
use super::scan::find_all;
use crate::tree::{File, Tree};

/// Folders whose files are crate roots of their own.
const ROOT_FOLDERS: [&str; 4] = ["tests", "benches", "examples", "bin"];
const ROOT_NAMES: [&str; 3] = ["lib", "main", "build"];

/// Rust files that no other file declares with `mod`.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let orphans =
        tree.rust().filter(|(file, _)| !is_declared(tree, file) && !is_named_by_path(tree, file));
    orphans
        .map(|(file, _)| {
            let what = "no file declares this module: it is not compiled; declare or delete it";
            Finding::new(&file.path, 1, what)
        })
        .collect()
}

fn is_declared(tree: &Tree, file: &File) -> bool {
    let (folder, name) = file.path.rsplit_once('/').unwrap_or(("", &file.path));
    let name = name.trim_end_matches(".rs");
    let last = folder.rsplit('/').next().unwrap_or_default();
    if ROOT_NAMES.contains(&name) || (ROOT_FOLDERS.contains(&last) && is_top(folder)) {
        return true;
    }
    // `a/b/mod.rs` is module `b` of folder `a`; any other file is a module of its own folder.
    let (folder, name) = match folder.rsplit_once('/') {
        Some((above, own)) if name == "mod" => (above, own),
        _ => (folder, name),
    };
    let beside = ["mod.rs", "lib.rs", "main.rs"].map(|parent| format!("{folder}/{parent}"));
    let declaration = format!("mod {name};");
    beside.iter().chain([&format!("{folder}.rs")]).any(|parent| {
        let code = tree.get(parent).and_then(|file| file.rust.as_ref()).map(|rust| &rust.code);
        code.is_some_and(|code| find_all(code, &declaration).next().is_some())
    })
}

/// Whether a module elsewhere has this file by `#[path = "..."]`.
fn is_named_by_path(tree: &Tree, file: &File) -> bool {
    let mark = "#[path = \"";
    tree.rust().any(|(parent, masked)| {
        let folder = parent.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        find_all(&masked.code, mark).any(|at| {
            let rest = parent.text.get(at + mark.len()..).unwrap_or_default();
            let named = rest.split('"').next().unwrap_or_default();
            below(folder, named) == file.path
        })
    })
}

/// A path relative to a folder, without its `..`.
fn below(folder: &str, relative: &str) -> String {
    let mut parts: Vec<&str> = folder.split('/').collect();
    for part in relative.split('/') {
        if part == ".." {
            parts.pop();
        } else {
            parts.push(part);
        }
    }
    parts.join("/")
}

/// Whether the folder is directly below a crate (`room/tests`, `room/src/bin`), not a module's.
fn is_top(folder: &str) -> bool {
    let parts: Vec<&str> = folder.split('/').collect();
    parts.len() == 2 || matches!(parts.as_slice(), [_, "src", "bin"])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn declared_modules_and_roots_pass() {
        let tree = Tree::of(&[
            ("a/src/lib.rs", "mod b;\npub mod c;\n"),
            ("a/src/b.rs", "#[cfg(test)]\nmod tests;\n"),
            ("a/src/b/tests.rs", ""),
            ("a/src/c/mod.rs", "mod d;"),
            ("a/src/c/d.rs", ""),
            ("a/src/bin/e.rs", ""),
            ("a/tests/f.rs", ""),
            ("a/tests/all/main.rs", "mod g;"),
            ("a/tests/all/g.rs", ""),
            ("a/benches/h.rs", ""),
            ("a/build.rs", ""),
            ("a/src/i.rs", ""),
            ("a/tests/all/h.rs", ""),
            (
                "a/tests/f/g.rs",
                "#[path = \"../all/h.rs\"]\nmod h;\n#[path = \"../../src/i.rs\"]\nmod i;\n",
            ),
            ("a/tests/f/main.rs", "mod g;"),
        ]);
        assert_eq!(check(&tree), []);
    }

    #[test]
    fn a_file_that_nothing_declares_is_found() {
        let tree = Tree::of(&[
            ("a/src/lib.rs", "// mod b; #[path = \"b.rs\"]\nmod bb;\n"),
            ("a/src/b.rs", ""),
            ("a/src/bb/tests/c.rs", ""),
            ("a/src/bb.rs", ""),
            ("a/tests/all/main.rs", ""),
            ("a/tests/all/d.rs", ""),
        ]);
        let paths: Vec<String> = check(&tree).into_iter().map(|f| f.path).collect();
        assert_eq!(paths, ["a/src/b.rs", "a/src/bb/tests/c.rs", "a/tests/all/d.rs"]);
    }
}
