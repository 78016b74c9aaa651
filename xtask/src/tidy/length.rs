//! Files and functions stay short enough to be read.

use super::Finding;
use crate::tree::Tree;

const FILE_LINES_MAX: usize = 499;
const FUNCTION_LINES_MAX: usize = 69;

/// Every Rust file, tests included.
pub(super) fn files(tree: &Tree) -> Vec<Finding> {
    let too_long = tree.rust().filter_map(|(file, _)| {
        let lines = file.text.lines().count();
        let what = format!("{lines} lines, at most {FILE_LINES_MAX}: cut it by concern");
        (lines > FILE_LINES_MAX).then(|| Finding::new(&file.path, FILE_LINES_MAX + 1, what))
    });
    too_long.collect()
}

/// Every function, tests included, from its `fn` to its closing brace.
pub(super) fn functions(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, masked) in tree.rust() {
        for function in masked.functions() {
            let lines = function.last - function.first + 1;
            if lines > FUNCTION_LINES_MAX {
                let name = function.name;
                let what =
                    format!("{name} has {lines} lines, at most {FUNCTION_LINES_MAX}: cut it");
                found.push(Finding::new(&file.path, function.first, what));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_at_the_bound_passes_and_one_over_it_does_not() {
        let at = "//\n".repeat(FILE_LINES_MAX);
        assert_eq!(files(&Tree::of(&[("a.rs", &at), ("b.md", &at.repeat(9))])), []);
        let over = format!("{at}//\n");
        assert_eq!(files(&Tree::of(&[("a.rs", &over)])).len(), 1);
    }

    #[test]
    fn a_function_at_the_bound_passes_and_one_over_it_does_not() {
        let body = |lines| format!("fn f() {{\n{}}}\n", "    g();\n".repeat(lines));
        let at = body(FUNCTION_LINES_MAX - 2);
        assert_eq!(functions(&Tree::of(&[("a.rs", &at)])), []);
        let over = format!("//\n{}", body(FUNCTION_LINES_MAX - 1));
        let found = functions(&Tree::of(&[("a.rs", &over)]));
        assert_eq!(found.iter().map(|f| f.line).collect::<Vec<_>>(), [2]);
    }
}
