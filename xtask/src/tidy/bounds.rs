//! Every queue is bounded, and the bound has a name that ends in `_max` (I8).

use super::Finding;
use super::scan::{find_words, ident, line_of, matching};
use crate::tree::Tree;

/// Constructors whose first argument is the bound.
const BOUNDED: [&str; 7] = [
    "mpsc::channel",
    "broadcast::channel",
    "mpsc::sync_channel",
    "sync_channel",
    "Semaphore::new",
    "BoundedQueue::new",
    "ArrayQueue::new",
];

/// Constructors that take no bound at all.
const UNBOUNDED: [&str; 4] =
    ["unbounded_channel", "mpsc::unbounded", "UnboundedSender", "UnboundedReceiver"];

/// Constructors outside tests whose bound is no name, or that have none.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (file, masked) in tree.rust() {
        for call in calls(&masked.code) {
            let line = line_of(&masked.code, call.at);
            if !masked.is_test(line) && !is_named_bound(&call.argument) {
                let what = format!(
                    "{}({}): the bound must be a constant or a field ending in `_max`",
                    call.constructor, call.argument
                );
                found.push(Finding::new(&file.path, line, what));
            }
        }
        for name in UNBOUNDED {
            let lines = find_words(&masked.code, name).map(|at| line_of(&masked.code, at));
            found.extend(lines.filter(|line| !masked.is_test(*line)).map(|line| {
                let what = format!("{name} is unbounded: use a bounded one with a named bound");
                Finding::new(&file.path, line, what)
            }));
        }
    }
    found
}

/// Every bounded constructor outside tests, with its bound.
pub(super) fn list(tree: &Tree) -> Vec<Finding> {
    let mut places = Vec::new();
    for (file, masked) in tree.rust() {
        for call in calls(&masked.code) {
            let line = line_of(&masked.code, call.at);
            if !masked.is_test(line) {
                let what = format!("{} bounded by {}", call.constructor, call.argument);
                places.push(Finding::new(&file.path, line, what));
            }
        }
    }
    places
}

struct Call {
    at: usize,
    constructor: &'static str,
    argument: String,
}

fn calls(code: &str) -> Vec<Call> {
    let mut calls: Vec<Call> = Vec::new();
    for constructor in BOUNDED {
        for at in find_words(code, constructor) {
            let after = at + constructor.len();
            let Some(argument) = argument(code, after) else { continue };
            // `sync_channel` is found inside `mpsc::sync_channel` as well.
            if !calls.iter().any(|c| c.at + c.constructor.len() == after) {
                calls.push(Call { at, constructor, argument });
            }
        }
    }
    calls.sort_by_key(|call| call.at);
    calls
}

/// The first argument of the call whose path ends at `at`, past a turbofish.
fn argument(code: &str, at: usize) -> Option<String> {
    let rest = code.get(at..)?;
    let open = match rest.strip_prefix("::<") {
        Some(generic) => at + 3 + generic.find(">(")? + 1,
        None => at,
    };
    code.get(open..)?.strip_prefix('(')?;
    let inside = code.get(open + 1..matching(code, open)?)?;
    let end = inside
        .char_indices()
        .scan(0_i32, |depth, (i, c)| {
            *depth += i32::from(matches!(c, '(' | '[')) - i32::from(matches!(c, ')' | ']'));
            Some((i, c, *depth))
        })
        .find_map(|(i, c, depth)| (c == ',' && depth == 0).then_some(i));
    let first = inside.get(..end.unwrap_or(inside.len())).unwrap_or(inside);
    Some(first.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// Whether the expression names a bound and holds no bare number. A plain 0 is a closed gate
/// (a semaphore that lets nobody in until it is opened), not a bound.
fn is_named_bound(argument: &str) -> bool {
    if argument == "0" {
        return true;
    }
    let words = || argument.split(|c: char| !ident(&c)).filter(|word| !word.is_empty());
    words().any(is_bound_name) && !words().any(|word| word.starts_with(|c: char| c.is_numeric()))
}

pub(super) fn is_bound_name(word: &str) -> bool {
    word.ends_with("_max") || word.ends_with("_MAX")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(found: &[Finding]) -> Vec<usize> {
        found.iter().map(|f| f.line).collect()
    }

    #[test]
    fn a_named_bound_passes_and_a_number_does_not() {
        let source = "\
let a = mpsc::channel(MAILBOX_CALLS_MAX);
let b = tokio::sync::mpsc::channel::<Box<Call>>(config.inflight_max);
let c = Semaphore::new(usize::from(config.connections_max));
let d = broadcast::channel(16);
let e = mpsc::channel::<u8>(limit);
let f = Semaphore::new(2 * CALLS_MAX);
let g = std::sync::mpsc::sync_channel(QUEUE_MAX);
let h = oneshot::channel();
";
        assert_eq!(lines(&check(&Tree::of(&[("a/src/a.rs", source)]))), [4, 5, 6]);
        assert_eq!(check(&Tree::of(&[("a/tests/a.rs", source)])), []);
        assert_eq!(list(&Tree::of(&[("a/src/a.rs", source)])).len(), 7);
    }

    #[test]
    fn an_unbounded_channel_is_found_whatever_its_name() {
        let source = "let (tx, rx) = mpsc::unbounded_channel();\n// unbounded_channel\n";
        assert_eq!(lines(&check(&Tree::of(&[("a/src/a.rs", source)]))), [1]);
        let std = "let (tx, rx) = std::sync::mpsc::channel();\n";
        assert_eq!(lines(&check(&Tree::of(&[("a/src/a.rs", std)]))), [1]);
    }
}
