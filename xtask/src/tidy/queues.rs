//! Whatever a process keeps and lets grow says by what it is bounded (I8): a field of a collection
//! in its comment or its struct's, a local queue in its function.

use std::collections::HashSet;
use std::ops::Range;

use super::Finding;
use super::bounds::is_bound_name;
use super::scan::{Masked, find_words, ident, line_of, matching};
use crate::tree::{File, Tree};

/// Collections that grow with the work.
const KEPT: [&str; 11] = [
    "HashMap",
    "HashSet",
    "BTreeMap",
    "BTreeSet",
    "DashMap",
    "IndexMap",
    "VecDeque",
    "BinaryHeap",
    "JoinSet",
    "FuturesUnordered",
    "DelayQueue",
];

/// Those of them that are queues: one in a function outlives a step of its loop.
const QUEUES: [&str; 5] = ["VecDeque", "BinaryHeap", "JoinSet", "FuturesUnordered", "DelayQueue"];

/// How a collection grows; a function that only reads one needs no bound.
const GROWTH: [&str; 6] =
    [".push_back(", ".push_front(", ".extend(", ".push(", ".spawn(", ".insert("];

/// Fields and functions outside tests that name no bound.
pub(super) fn check(tree: &Tree) -> Vec<Finding> {
    let bounds = names(tree);
    let mut found = Vec::new();
    for (file, masked) in tree.rust().filter(|(file, _)| !is_tool(&file.path)) {
        fields(file, masked, &bounds, &mut found);
        locals(file, masked, &bounds, &mut found);
    }
    found.sort_by(|one, two| (&one.path, one.line).cmp(&(&two.path, two.line)));
    found
}

/// The tasks of this project, what it is measured against and what it is modelled by run for one
/// person at a time.
fn is_tool(path: &str) -> bool {
    ["xtask/", "bench/", "sim/"].iter().any(|tool| path.starts_with(tool))
}

/// Every name of a bound that stands in code.
fn names(tree: &Tree) -> HashSet<&str> {
    let words = tree.rust().flat_map(|(_, masked)| masked.code.split(|c: char| !ident(&c)));
    words.filter(|word| is_bound_name(word)).collect()
}

/// Whether a text says what bounds a collection: in words, or by a name that is there.
fn says(text: &str, bounds: &HashSet<&str>) -> bool {
    let mut words = text.split(|c: char| !ident(&c));
    text.contains("ounded by ") || words.any(|word| is_bound_name(word) && bounds.contains(word))
}

fn fields(file: &File, masked: &Masked, bounds: &HashSet<&str>, found: &mut Vec<Finding>) {
    let code = &masked.code;
    for at in find_words(code, "struct") {
        let Some(body) = body(code, at) else { continue };
        if masked.is_test(line_of(code, at)) || says(comment_above(&file.text, at), bounds) {
            continue;
        }
        for (index, field) in split(code, &body).into_iter().enumerate() {
            let (Some(declared), Some(told)) =
                (code.get(field.clone()), file.text.get(field.clone()))
            else {
                continue;
            };
            let (name, kind) = parts(declared, index);
            let owned = !kind.starts_with('&');
            let grows =
                owned && is_kept(kind) || (kind.starts_with("Vec<") && is_pushed(masked, &name));
            if grows && !says(told, bounds) {
                let skipped = declared.len() - declared.trim_start().len();
                let line = line_of(code, field.start + skipped);
                let what = format!(
                    "{name}: say in its comment what bounds it: the `..._max` that is checked, or \
                     `Bounded by` and what there is no more of"
                );
                found.push(Finding::new(&file.path, line, what));
            }
        }
    }
}

fn locals(file: &File, masked: &Masked, bounds: &HashSet<&str>, found: &mut Vec<Finding>) {
    let code = &masked.code;
    let lines: Vec<&str> = file.text.lines().collect();
    for function in masked.functions() {
        if masked.is_test(function.first) {
            continue;
        }
        let all = |lines: &[&str]| {
            lines.get(function.first - 1..function.last).unwrap_or_default().join("\n")
        };
        let masked_lines: Vec<&str> = code.lines().collect();
        let body = all(&masked_lines);
        let makes = QUEUES.iter().find(|name| {
            find_words(&body, name).any(|at| body.get(at..).is_some_and(|s| is_made(s, name)))
        });
        let grows = GROWTH.iter().any(|call| body.contains(call)) || body.contains("&mut ");
        if let Some(name) = makes.filter(|_| grows && !says(&all(&lines), bounds)) {
            let what = format!("{name} in {}: name the bound that it is kept to", function.name);
            found.push(Finding::new(&file.path, function.first, what));
        }
    }
}

/// Whether the text goes on as the making of this collection.
fn is_made(text: &str, name: &str) -> bool {
    let rest = text.get(name.len()..).unwrap_or_default();
    ["::new(", "::with_capacity(", "::default(", "::from("]
        .iter()
        .any(|made| rest.starts_with(made))
}

fn is_kept(kind: &str) -> bool {
    KEPT.iter().any(|name| find_words(kind, name).next().is_some())
}

/// Whether the file makes a field longer outside tests.
fn is_pushed(masked: &Masked, name: &str) -> bool {
    let calls = ["push", "extend", "insert", "resize"].map(|call| format!(".{name}.{call}("));
    let mut lines = masked.lines().filter(|(number, _)| !masked.is_test(*number));
    lines.any(|(_, line)| calls.iter().any(|call| line.contains(call)))
}

/// The fields of the struct whose keyword is at `at`, without the brackets around them.
fn body(code: &str, at: usize) -> Option<Range<usize>> {
    let mut angles = 0_usize;
    let mut before = ' ';
    for (i, c) in code.get(at..)?.char_indices() {
        match c {
            '<' => angles += 1,
            '>' if before != '-' => angles = angles.saturating_sub(1),
            ';' if angles == 0 => return None,
            '{' | '(' if angles == 0 => return Some(at + i + 1..matching(code, at + i)?),
            _ => {}
        }
        before = c;
    }
    None
}

/// What stands between the commas of the outermost level.
fn split(code: &str, body: &Range<usize>) -> Vec<Range<usize>> {
    let mut fields = Vec::new();
    let (mut depth, mut start, mut before) = (0_usize, body.start, ' ');
    for (i, c) in code.get(body.clone()).unwrap_or_default().char_indices() {
        match c {
            '(' | '[' | '{' | '<' => depth += 1,
            '>' if before == '-' => {}
            ')' | ']' | '}' | '>' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                fields.push(start..body.start + i);
                start = body.start + i + 1;
            }
            _ => {}
        }
        before = c;
    }
    fields.push(start..body.end);
    fields
}

/// Name and type of a field; a field of a tuple is named by its place.
fn parts(declared: &str, index: usize) -> (String, &str) {
    let colon = declared.match_indices(':').find(|(at, _)| {
        let around = declared.get(at.saturating_sub(1)..(at + 2).min(declared.len()));
        around.is_some_and(|around| !around.contains("::"))
    });
    match colon {
        Some((at, _)) => {
            let (name, kind) = declared.split_at(at);
            let name = name.rsplit(|c: char| !ident(&c)).find(|word| !word.is_empty());
            (name.unwrap_or_default().to_owned(), kind.trim_start_matches(':').trim())
        }
        None => {
            let kind = declared.trim().rsplit(") ").next().unwrap_or_default();
            (index.to_string(), kind.strip_prefix("pub ").unwrap_or(kind))
        }
    }
}

/// Comments and attributes right above the item whose line holds `at`.
fn comment_above(text: &str, at: usize) -> &str {
    let line_start = text.get(..at).and_then(|s| s.rfind('\n')).map_or(0, |newline| newline + 1);
    let mut start = line_start;
    while let Some(above) = text.get(..start.saturating_sub(1)) {
        let from = above.rfind('\n').map_or(0, |newline| newline + 1);
        let line = above.get(from..).unwrap_or_default().trim_start();
        if start == 0 || !(line.starts_with("//") || line.starts_with("#[")) {
            break;
        }
        start = from;
    }
    text.get(start..line_start).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_lines(source: &str, lines: &[usize]) {
        let found = check(&Tree::of(&[("a/src/a.rs", source)]));
        assert_eq!(found.iter().map(|found| found.line).collect::<Vec<_>>(), lines, "{found:?}");
    }

    #[test]
    fn a_field_says_what_bounds_it() {
        let bad = "\
struct Kept {
    /// Who waits.
    waiting: HashMap<u64, Vec<(u8, u8)>>,
    /// Bounded by the calls in flight.
    calls: BTreeMap<u64, fn(u8) -> u8>,
    /// Checked against `RINGS_MAX`.
    rings: VecDeque<u8>,
    /// Checked against `GONE_MAX`.
    stale: HashSet<u8>,
    borrowed: &'a HashMap<u8, u8>,
}
const RINGS_MAX: usize = 3;
struct Ring(u8, pub(super) DashMap<u8, u8>);
";
        assert_lines(bad, &[3, 9, 13]);
        let whole =
            "/// Bounded by the objects awake.\n#[derive(Debug)]\nstruct Ring(HashMap<u8, u8>);\n";
        assert_lines(whole, &[]);
        assert_eq!(check(&Tree::of(&[("a/src/tests.rs", bad)])), []);
        assert_lines("struct Unit;\nfn f(a: HashMap<u8, u8>) {}\n", &[]);
    }

    #[test]
    fn a_list_that_is_pushed_to_is_a_queue() {
        let list = "struct List { all: Vec<u8> }\nimpl List { fn f(&self) { self.all.len(); } }\n";
        assert_lines(list, &[]);
        assert_lines(&list.replace("len()", "push(1)"), &[1]);
        assert_lines("struct List(Vec<u8>);\nfn f(l: List) { l.0.push(1) }\n", &[1]);
    }

    #[test]
    fn one_name_does_not_speak_for_the_whole_file() {
        let queue = "fn f() { let mut all = VecDeque::new(); all.push_back(1); }\n";
        let named = "const OTHER_MAX: usize = 1;\nfn g(n: usize) -> bool { n < OTHER_MAX }\n";
        assert_lines(&format!("{named}{queue}"), &[3]);
        let good = queue.replace("all.push", "if all.len() < OTHER_MAX { return }; all.push");
        assert_lines(&format!("{named}{good}"), &[]);
    }
}
