//! ARCHITECTURE.md is true: its code map names paths that exist and every crate, and each proof of
//! an invariant exists.

use super::Finding;
use super::scan::{Masked, find_words};
use crate::tree::Tree;

const DOCUMENT: &str = "ARCHITECTURE.md";

/// Checks the two sections that can be checked; `rules` are the names of the tidy rules.
pub(super) fn check(tree: &Tree, rules: &[&str]) -> Vec<Finding> {
    let Some(document) = tree.get(DOCUMENT) else {
        return vec![Finding::new(DOCUMENT, 1, "is missing: write the code map")];
    };
    let mut found = Vec::new();
    let mut section = "";
    let mut mapped = Vec::new();
    for (i, line) in document.text.lines().enumerate() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.trim();
        }
        let what = match section {
            "Code map" => {
                let paths: Vec<&str> = quoted(line).filter(|path| path.contains('/')).collect();
                mapped.extend(paths.iter().copied());
                paths
                    .into_iter()
                    .find(|path| !tree.has(path))
                    .map(|path| format!("`{path}` is not there: mend the code map"))
            }
            "Invariants" => quoted(line).find_map(|proof| missing_proof(tree, rules, proof)),
            _ => None,
        };
        found.extend(what.map(|what| Finding::new(DOCUMENT, i + 1, what)));
    }
    found.extend(unproved(&document.text));
    let crates = tree.files.iter().filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    let unmapped = crates
        .filter(|name| !name.contains('/'))
        .filter(|name| !mapped.iter().any(|path| path.trim_end_matches('/') == *name));
    found.extend(unmapped.map(|name| {
        Finding::new(DOCUMENT, 1, format!("`{name}/` is missing from the code map: add a line"))
    }));
    found
}

/// Invariants that name nothing that holds them.
fn unproved(text: &str) -> Vec<Finding> {
    let mut bare: Vec<usize> = Vec::new();
    // The line of the invariant that no proof has followed yet.
    let mut open = None;
    let mut section = "";
    for (i, line) in text.lines().enumerate() {
        if let Some(title) = line.strip_prefix("## ") {
            section = title.trim();
            bare.extend(open.take());
        }
        if section == "Invariants" && line.starts_with("- **") {
            bare.extend(open.replace(i + 1));
        }
        if quoted(line).any(|proof| proof.contains(": ")) {
            open = None;
        }
    }
    bare.extend(open);
    let what = "nothing is named that holds this invariant: name a test or a rule";
    bare.into_iter().map(|line| Finding::new(DOCUMENT, line, what)).collect()
}

/// What lacks, where `proof` is `path.rs: name` or `tidy: rule`; anything else is prose.
pub(super) fn missing_proof(tree: &Tree, rules: &[&str], proof: &str) -> Option<String> {
    let (place, name) = proof.split_once(": ")?;
    if place == "tidy" {
        let known = rules.contains(&name);
        return (!known).then(|| format!("there is no tidy rule `{name}`"));
    }
    let Some(file) = tree.get(place) else {
        return Some(format!("`{place}` is not there: name the test that holds this invariant"));
    };
    let there = file.rust.as_ref().is_some_and(|rust| has_test(rust, name));
    (!there).then(|| format!("`{place}` has no test `{name}`"))
}

/// Whether a function of this name stands there with a `#[test]` or `#[tokio::test]` above it.
fn has_test(rust: &Masked, name: &str) -> bool {
    find_words(&rust.code, name).any(|at| {
        let above = rust.code.get(..at).and_then(|code| code.trim_end().strip_suffix("fn"));
        let attributes = above.and_then(|above| above.rsplit(['}', ';']).next());
        attributes.is_some_and(|text| text.contains("test]") || text.contains("::test("))
    })
}

/// The pieces of a line between back quotes.
pub(super) fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "\
## Code map
- `a/` first; `a/src/lib.rs` its root
## Invariants
- **I1** words `a/src/lib.rs: it_holds` and `tidy: edges`, `Any` prose
## Other
`not/checked`
";

    const SOURCE: &str = "\
// fn it_only_says() {}
fn it_helps() {}
#[tokio::test(start_paused = true)]
async fn it_holds() {}
";

    fn tree(map: &str) -> Tree {
        Tree::of(&[(DOCUMENT, map), ("a/Cargo.toml", ""), ("a/src/lib.rs", SOURCE)])
    }

    #[test]
    fn a_true_document_passes() {
        assert_eq!(check(&tree(MAP), &["edges"]), []);
    }

    #[test]
    fn what_is_not_there_is_found() {
        let lines = |map: &str| -> Vec<usize> {
            check(&tree(map), &["edges"]).into_iter().map(|f| f.line).collect()
        };
        assert_eq!(lines(&MAP.replace("lib.rs` its", "gone.rs` its")), [2]);
        for name in ["it_held", "it_helps", "it_only_says"] {
            assert_eq!(lines(&MAP.replace("it_holds", name)), [4], "{name}");
        }
        let bare = "- **I2** words\n## Other\n`room: prose`\n";
        assert_eq!(lines(&MAP.replace("## Other\n", bare)), [5]);
        assert_eq!(lines(&MAP.replace("tidy: edges", "tidy: hedges")), [4]);
        assert_eq!(lines(&MAP.replace("- `a/` first;", "- ")), [1]);
        assert_eq!(check(&Tree::of(&[]), &[]).len(), 1);
    }
}
