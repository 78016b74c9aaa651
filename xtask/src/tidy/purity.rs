//! `object` and `room` never await, read a clock, draw randomness, do IO or name a protocol (I1).

use super::Finding;
use super::scan::find_words;
use crate::tree::Tree;

/// Folders whose sources are pure.
const PURE: [&str; 2] = ["object/src/", "room/src/"];

/// Words that have no business there, and why.
const BANNED: [(&str, &str); 23] = [
    ("std::time", "take `now` as Millis"),
    ("std::fs", "files belong to the host"),
    ("std::net", "sockets belong to the host"),
    ("std::io", "input and output belong to the host"),
    ("std::process", "processes belong to the host"),
    ("std::env", "configuration comes in as an argument"),
    ("std::thread", "threads belong to the host"),
    ("Mutex", "an object is owned by one task: nothing is locked"),
    ("RwLock", "an object is owned by one task: nothing is locked"),
    ("Instant", "take `now` as Millis"),
    ("SystemTime", "take `now` as Millis"),
    ("async", "pure code never waits: return data"),
    ("await", "pure code never waits: return data"),
    ("tokio", "the runtime belongs to the host"),
    ("tonic", "the wire belongs to the host"),
    ("hyper", "HTTP belongs to the gateway"),
    ("http", "HTTP belongs to the gateway"),
    ("redis", "stores belong to the host"),
    ("jsonrpc", "protocols belong to the gateway"),
    ("mcp", "protocols belong to the gateway"),
    ("rand", "randomness comes in through Cx"),
    ("getrandom", "randomness comes in through Cx"),
    ("tracing", "pure code returns facts; the host logs"),
];

/// Words that tests may use: seeds.
const BANNED_OUTSIDE_TESTS: [(&str, &str); 1] = [("fastrand", "randomness comes in through Cx")];

pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, masked) in tree.rust().filter(|(file, _)| is_pure(&file.path)) {
        for (number, line) in masked.lines() {
            if line.contains("std::{") {
                let what = "`std::{`: one module per line, for this rule reads no lists";
                found.push(Finding::new(&file.path, number, what));
            }
            let only_outside = if masked.is_test(number) { &[][..] } else { &BANNED_OUTSIDE_TESTS };
            for (word, why) in BANNED.iter().chain(only_outside) {
                if find_words(line, word).next().is_some() {
                    found.push(Finding::new(&file.path, number, format!("`{word}`: {why}")));
                }
            }
        }
    }
    found
}

fn is_pure(path: &str) -> bool {
    PURE.iter().any(|folder| path.starts_with(folder))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_and_waiting_are_found_in_pure_code_only() {
        let bad = "use std::time::Duration;\nasync fn f() {}\n// std::fs is fine here\n";
        let tree = Tree::of(&[("room/src/a.rs", bad), ("gateway/src/a.rs", bad)]);
        let lines: Vec<usize> = check(&tree).iter().map(|f| f.line).collect();
        assert_eq!(lines, [1, 2]);
        let list = "use std::{collections::BTreeMap, fs};\n";
        assert_eq!(check(&Tree::of(&[("object/src/a.rs", list)])).len(), 1);
        let good = "fn f(now: Millis) -> &'static str { \"tokio\" }\n";
        assert_eq!(check(&Tree::of(&[("object/src/a.rs", good)])), []);
    }

    #[test]
    fn seeds_are_for_tests() {
        let tree = Tree::of(&[
            ("room/src/a.rs", "use fastrand::Rng;\n"),
            ("room/src/a/tests.rs", "use fastrand::Rng;\n"),
        ]);
        assert_eq!(check(&tree).len(), 1);
    }
}
