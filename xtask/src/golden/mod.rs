//! `cargo xtask golden`: files made from the code, kept in the tree so that a change is read in
//! review. `--check` (the part of `test`) only tells which are stale.

mod errors;

use std::path::Path;

use crate::child;
use crate::test::Count;
use crate::tree::Tree;

/// One generated file.
struct Golden {
    path: &'static str,
    /// The source that makes it; until it is there the row is skipped.
    source: &'static str,
    make: fn(&Path) -> Result<String, String>,
}

const GOLDEN: [Golden; 5] = [
    Golden { path: "docs/errors/README.md", source: "docs/errors", make: errors::index },
    Golden {
        path: "docs/tools.json",
        source: "gateway/examples/tools_json.rs",
        make: |root| stdout(root, &["--package", "gateway", "--example", "tools_json"]),
    },
    Golden {
        path: "gateway/tests/golden/help.txt",
        source: "gateway/src/flags.rs",
        make: |root| {
            stdout(root, &["--package", "gateway", "--bin", "roomring-gateway", "--", "--help"])
        },
    },
    Golden {
        path: "room-node/tests/golden/help.txt",
        source: "room-node/src/flags.rs",
        make: |root| {
            stdout(root, &["--package", "room-node", "--bin", "roomring-node", "--", "--help"])
        },
    },
    Golden {
        path: "standalone/tests/golden/help.txt",
        source: "standalone/src/flags.rs",
        make: |root| stdout(root, &["--package", "standalone", "--", "--help"]),
    },
];

/// `cargo xtask golden [--check]`.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let count = match words {
        [] => each(root, write)?,
        ["--check"] => part(root)?,
        _ => return Err("golden takes nothing, or --check".to_owned()),
    };
    println!("{} passed, {} failed", count.passed, count.failed);
    Ok(count.failed == 0)
}

/// Compares every generated file with what the code makes now.
pub(crate) fn part(root: &Path) -> Result<Count, String> {
    each(root, check)
}

fn each(root: &Path, act: fn(&Path, &Golden, &str) -> bool) -> Result<Count, String> {
    let mut count = Count::default();
    let tree = Tree::read(root)?;
    for golden in &GOLDEN {
        if !tree.has(golden.source) {
            println!("{}: skipped, {} is not there yet", golden.path, golden.source);
            count.skipped += 1;
            continue;
        }
        let good = match (golden.make)(root) {
            Ok(text) => act(root, golden, &text),
            Err(why) => {
                println!("{}: cannot be made: {why}", golden.path);
                false
            }
        };
        count.add(Count::step(good));
    }
    Ok(count)
}

fn check(root: &Path, golden: &Golden, want: &str) -> bool {
    let have = std::fs::read_to_string(root.join(golden.path)).unwrap_or_default();
    let Some(line) = first_difference(&have, want) else { return true };
    println!("{}:{line}: stale: run `cargo xtask golden` and read the diff", golden.path);
    false
}

fn write(root: &Path, golden: &Golden, text: &str) -> bool {
    match std::fs::write(root.join(golden.path), text) {
        Ok(()) => true,
        Err(e) => {
            println!("{}: cannot be written: {e}", golden.path);
            false
        }
    }
}

/// The first line (from 1) where the two differ.
fn first_difference(have: &str, want: &str) -> Option<usize> {
    if have == want {
        return None;
    }
    let same = have.lines().zip(want.lines()).take_while(|(a, b)| a == b).count();
    Some(same + 1)
}

fn stdout(root: &Path, args: &[&str]) -> Result<String, String> {
    child::output(root, "cargo", &[&["run", "--quiet", "--locked"], args].concat())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_line_that_differs_is_named() {
        assert_eq!(first_difference("a\nb\n", "a\nb\n"), None);
        assert_eq!(first_difference("a\nb\n", "a\nc\n"), Some(2));
        assert_eq!(first_difference("a\n", "a\nb\n"), Some(2));
        assert_eq!(first_difference("", "a\n"), Some(1));
    }
}
