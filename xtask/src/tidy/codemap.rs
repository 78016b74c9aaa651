//! ARCHITECTURE.md is true: its code map names paths that exist and every crate, and each proof of
//! an invariant exists.

use super::Finding;
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
    let crates = tree.files.iter().filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    let unmapped = crates
        .filter(|name| !name.contains('/'))
        .filter(|name| !mapped.iter().any(|path| path.trim_end_matches('/') == *name));
    found.extend(unmapped.map(|name| {
        Finding::new(DOCUMENT, 1, format!("`{name}/` is missing from the code map: add a line"))
    }));
    found
}

/// What lacks, where `proof` is `path.rs: name` or `tidy: rule`; anything else is prose.
fn missing_proof(tree: &Tree, rules: &[&str], proof: &str) -> Option<String> {
    let (place, name) = proof.split_once(": ")?;
    if place == "tidy" {
        let known = rules.contains(&name);
        return (!known).then(|| format!("there is no tidy rule `{name}`"));
    }
    let Some(file) = tree.get(place) else {
        return Some(format!("`{place}` is not there: name the test that holds this invariant"));
    };
    let there = file.text.contains(&format!("fn {name}("));
    (!there).then(|| format!("`{place}` has no test `{name}`"))
}

/// The pieces of a line between back quotes.
fn quoted(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MAP: &str = "\
## Code map
- `a/` first; `a/src/lib.rs` its root
## Invariants
I1 words `a/src/lib.rs: it_holds` and `tidy: edges`, `Any` prose
## Other
`not/checked`
";

    fn tree(map: &str) -> Tree {
        Tree::of(&[(DOCUMENT, map), ("a/Cargo.toml", ""), ("a/src/lib.rs", "fn it_holds() {}\n")])
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
        assert_eq!(lines(&MAP.replace("it_holds", "it_held")), [4]);
        assert_eq!(lines(&MAP.replace("tidy: edges", "tidy: hedges")), [4]);
        assert_eq!(lines(&MAP.replace("- `a/` first;", "- ")), [1]);
        assert_eq!(check(&Tree::of(&[]), &[]).len(), 1);
    }
}
