//! `docs/bounds.md` is true: every bound of the programs has a row, what a row names is there, and
//! each names the test that reaches its bound, or says why there is none.

use super::Finding;
use super::codemap::{missing_proof, quoted};
use super::scan::{find_words, ident, line_of};
use crate::tree::Tree;

const DOCUMENT: &str = "docs/bounds.md";
/// Whose bounds are written down; those of `room` are the contract's.
const PLACES: [&str; 5] =
    ["gateway/src/", "membership/src/", "process/src/", "redis-link/src/", "room-node/src/"];

/// Rows begin with the name and the file of a bound, and end with its tests.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let Some(document) = tree.get(DOCUMENT) else {
        return vec![Finding::new(DOCUMENT, 1, "is missing: write the table of bounds")];
    };
    let (mut found, mut rows) = (Vec::new(), Vec::new());
    for (i, line) in document.text.lines().enumerate().filter(|(_, line)| line.starts_with("| `")) {
        let mut words = quoted(line);
        let (Some(name), Some(path)) = (words.next(), words.next()) else { continue };
        rows.push((name, path));
        let rust = tree.get(path).and_then(|file| file.rust.as_ref());
        if rust.is_none_or(|rust| find_words(&rust.code, name).next().is_none()) {
            let what = format!("`{path}` has no `{name}`: mend the row");
            found.push(Finding::new(DOCUMENT, i + 1, what));
        }
        let proof = line.trim_end_matches(['|', ' ']).rsplit('|').next().unwrap_or("").trim();
        if !proof.starts_with("none: ") && !quoted(proof).any(|test| test.contains(": ")) {
            let what = "no test is named: name one that reaches the bound, or say `none: ` and why";
            found.push(Finding::new(DOCUMENT, i + 1, what));
        }
        let missing = quoted(proof).filter_map(|test| missing_proof(tree, &[], test));
        found.extend(missing.map(|what| Finding::new(DOCUMENT, i + 1, what)));
    }
    for (file, masked) in tree.rust() {
        if !PLACES.iter().any(|place| file.path.starts_with(place)) {
            continue;
        }
        for (line, name) in constants(&masked.code) {
            if !masked.is_test(line) && !rows.contains(&(name, &file.path)) {
                let what = format!("no row of {DOCUMENT} tells of `{name}`: add one");
                found.push(Finding::new(&file.path, line, what));
            }
        }
    }
    found
}

/// Constants whose names end in `_MAX`, with their lines.
fn constants(code: &str) -> impl Iterator<Item = (usize, &str)> {
    find_words(code, "const").filter_map(|at| {
        let rest = code.get(at + "const".len()..)?.trim_start();
        let name = rest.get(..rest.find(|c| !ident(&c))?)?;
        name.ends_with("_MAX").then(|| (line_of(code, at), name))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROW: &str = "\
| bound | where | at it | test |
|---|---|---|---|
| `A_MAX` | `gateway/src/a.rs` | refused | `gateway/src/a.rs: it_is_reached` |
| `b_max` | `gateway/src/a.rs` | `b` goes on | none: a setting of the library |
";
    const SOURCE: &str = "\
pub(crate) const A_MAX: usize = 1;
struct B { b_max: u32 }
// const C_MAX: usize = 1;
const A_MAX_MS: u64 = 1;
#[cfg(test)]
mod tests {
    const D_MAX: usize = 1;
    #[test]
    fn it_is_reached() {}
}
";

    fn lines(table: &str, source: &str) -> Vec<(String, usize)> {
        let tree = Tree::of(&[(DOCUMENT, table), ("gateway/src/a.rs", source)]);
        check(&tree).into_iter().map(|found| (found.path, found.line)).collect()
    }

    #[test]
    fn a_table_of_all_bounds_passes() {
        assert_eq!(lines(ROW, SOURCE), []);
        let elsewhere = ("room/src/limits.rs", "pub const E_MAX: usize = 1;");
        assert_eq!(
            check(&Tree::of(&[(DOCUMENT, ROW), ("gateway/src/a.rs", SOURCE), elsewhere])),
            []
        );
    }

    #[test]
    fn what_is_missing_on_either_side_is_found() {
        let table = |line| vec![(DOCUMENT.to_owned(), line)];
        let source = |line| vec![("gateway/src/a.rs".to_owned(), line)];
        assert_eq!(lines(&ROW.replace("| `A_MAX`", "| A_MAX"), SOURCE), source(1));
        assert_eq!(lines(ROW, &SOURCE.replace("// const C", "const C")), source(3));
        assert_eq!(lines(ROW, &SOURCE.replace("b_max", "c_max")), table(4));
        assert_eq!(lines(&ROW.replace("it_is_reached", "it_was_reached"), SOURCE), table(3));
        assert_eq!(lines(&ROW.replace("none: a", "a"), SOURCE), table(4));
        assert_eq!(check(&Tree::of(&[])).len(), 1);
    }
}
