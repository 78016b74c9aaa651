//! Leftover marks, sleeping and ignored tests, and lints silenced without a reason.

use super::Finding;
use super::scan::{find_all, find_words, line_of, matching};
use crate::tree::Tree;

/// Marks nobody lands, anywhere in Rust code.
const IN_CODE: [(&str, &str); 5] = [
    ("todo!", "no stub is called done: write it, or leave the arm out"),
    ("unimplemented!", "no stub is called done: write it, or leave the arm out"),
    ("dbg!", "remove it, or log a field"),
    ("#[ignore", "a test runs or is deleted; a flake is a defect to mend"),
    ("#[should_panic", "check the returned error instead"),
];

/// Marks in comments; written in two halves so that this file does not find itself.
const IN_TEXT: [&str; 3] = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];

/// Where generated code is included: which lints it meets changes with its generator.
const GENERATED: &str = "proto/src/lib.rs";

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, masked) in tree.rust() {
        for (number, line) in masked.lines() {
            let marks = IN_CODE.iter().filter(|(mark, _)| line.contains(mark));
            found.extend(
                marks.map(|(mark, why)| {
                    Finding::new(&file.path, number, format!("`{mark}`: {why}"))
                }),
            );
            if masked.is_test(number) && calls(line, "sleep") && !paused(tree, &file.path) {
                let what = "a test never sleeps: wait for the event, or move the paused clock";
                found.push(Finding::new(&file.path, number, what));
            }
        }
        for (i, line) in file.text.lines().enumerate() {
            if let Some(mark) = IN_TEXT.iter().find(|mark| find_words(line, mark).next().is_some())
            {
                let what = format!("`{mark}`: do it, or file it and say here what is absent");
                found.push(Finding::new(&file.path, i + 1, what));
            }
        }
    }
    found
}

/// A lint is silenced by `#[expect(..., reason = "...")]`, which ends when its cause does.
pub(super) fn attributes(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, masked) in tree.rust().filter(|(file, _)| file.path != GENERATED) {
        let code = &masked.code;
        for start in ["#[allow(", "#![allow("] {
            found.extend(find_all(code, start).map(|at| {
                let what = "use `expect` with a reason: it warns when it is no longer needed";
                Finding::new(&file.path, line_of(code, at), what)
            }));
        }
        for start in ["#[expect(", "#![expect("] {
            let bare = find_all(code, start).filter(|at| {
                let open = at + start.len() - 1;
                let close = matching(code, open).unwrap_or(open);
                find_words(code.get(open..close).unwrap_or_default(), "reason").next().is_none()
            });
            found.extend(bare.map(|at| {
                Finding::new(&file.path, line_of(code, at), "say why: add `reason = \"...\"`")
            }));
        }
    }
    found
}

/// Whether the tests of this folder run on a paused clock, where a sleep only moves the time.
fn paused(tree: &Tree, path: &str) -> bool {
    let folder = path.rfind('/').and_then(|at| path.get(..=at)).unwrap_or_default();
    let mut beside = tree.rust().filter(|(file, _)| file.path.starts_with(folder));
    beside.any(|(_, masked)| masked.code.contains("start_paused = true"))
}

fn calls(line: &str, name: &str) -> bool {
    find_words(line, name).any(|at| line.get(at + name.len()..).is_some_and(|s| s.starts_with('(')))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(found: &[Finding]) -> Vec<usize> {
        found.iter().map(|f| f.line).collect()
    }

    #[test]
    fn marks_are_found_in_code_and_in_comments() {
        let comment = IN_TEXT.first().unwrap();
        let bad = format!("fn a() {{ todo!() }}\n#[ignore]\nfn b() {{}}\n// {comment}: later\n");
        assert_eq!(lines(&check(&Tree::of(&[("a.rs", &bad)]))), [1, 2, 4]);
        let good = "// nothing is to do here\nlet s = \"todo!\";\n";
        assert_eq!(check(&Tree::of(&[("a.rs", good)])), []);
    }

    #[test]
    fn tests_do_not_sleep_and_other_code_may() {
        let source = "fn a() { sleep(x).await }\n";
        assert_eq!(check(&Tree::of(&[("a/src/a.rs", source)])), []);
        assert_eq!(lines(&check(&Tree::of(&[("a/tests/a.rs", source)]))), [1]);
        let paused = ("a/tests/b.rs", "#[tokio::test(start_paused = true)]\nasync fn t() {}\n");
        assert_eq!(check(&Tree::of(&[("a/tests/a.rs", source), paused])), []);
    }

    #[test]
    fn a_silenced_lint_says_why() {
        let bad = "#[allow(dead_code)]\nfn a() {}\n#[expect(clippy::panic)]\nfn b() {}\n";
        assert_eq!(lines(&attributes(&Tree::of(&[("a.rs", bad)]))), [1, 3]);
        let good = "#[expect(\n    clippy::panic,\n    reason = \"proved above\"\n)]\nfn b() {}\n";
        assert_eq!(attributes(&Tree::of(&[("a.rs", good)])), []);
    }
}
