//! `cargo xtask tidy`: the rules of the source tree that no compiler holds.
//!
//! A rule is one row of [`RULES`] and one function over the tree. It finds places; each place is
//! printed with what to do about it.

mod bounds;
mod codemap;
mod codes;
mod edges;
mod length;
mod limits;
mod manifest;
mod marks;
mod orphans;
mod purity;
mod queues;
pub(crate) mod scan;
mod words;

use std::path::Path;

use crate::child;
use crate::test::Count;
use crate::tree::Tree;
pub(crate) use codes::PAGES;
use edges::Graph;

/// A place that breaks a rule.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Finding {
    pub(crate) path: String,
    /// From 1.
    pub(crate) line: usize,
    /// What is wrong and what to do, one line.
    pub(crate) what: String,
}

impl Finding {
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

/// What a rule looks at.
struct World {
    tree: Tree,
    graph: Graph,
}

struct Rule {
    name: &'static str,
    check: fn(&World) -> Vec<Finding>,
}

/// The rules, in the order they are printed.
const RULES: [Rule; 21] = [
    Rule { name: "edges", check: |w| edges::members(&w.graph) },
    Rule { name: "pure-deps", check: |w| edges::pure(&w.graph) },
    Rule { name: "pure-source", check: |w| purity::check(&w.tree) },
    Rule { name: "inherit", check: |w| manifest::inherit(&w.tree) },
    Rule { name: "versions", check: |w| manifest::versions(&w.tree) },
    Rule { name: "unsafe", check: |w| edges::forbid_unsafe(&w.graph, &w.tree) },
    Rule { name: "one-clippy", check: |w| manifest::one_clippy(&w.tree) },
    Rule { name: "file-length", check: |w| length::files(&w.tree) },
    Rule { name: "function-length", check: |w| length::functions(&w.tree) },
    Rule { name: "orphans", check: |w| orphans::check(&w.tree) },
    Rule { name: "bounds", check: |w| bounds::check(&w.tree) },
    Rule { name: "queues", check: |w| queues::check(&w.tree) },
    Rule { name: "limits", check: |w| limits::check(&w.tree) },
    Rule { name: "code-class", check: |w| codes::classes(&w.tree) },
    Rule { name: "code-page", check: |w| codes::pages(&w.tree) },
    Rule { name: "code-test", check: |w| codes::tested(&w.tree) },
    Rule { name: "marks", check: |w| marks::check(&w.tree) },
    Rule { name: "expect", check: |w| marks::attributes(&w.tree) },
    Rule { name: "words", check: |w| words::check(&w.tree) },
    Rule { name: "names", check: |w| words::names(&w.tree) },
    Rule { name: "code-map", check: |w| codemap::check(&w.tree, &rule_names()) },
];

fn rule_names() -> Vec<&'static str> {
    RULES.iter().map(|rule| rule.name).collect()
}

/// `cargo xtask tidy [--queues]`.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    match words {
        [] => {
            let count = part(root)?;
            println!("{} passed, {} failed", count.passed, count.failed);
            Ok(count.failed == 0)
        }
        ["--queues"] => {
            for place in bounds::list(&Tree::read(root)?) {
                println!("{}:{}: {}", place.path, place.line, place.what);
            }
            Ok(true)
        }
        _ => Err("tidy takes nothing, or --queues".to_owned()),
    }
}

/// All rules; a rule passes or fails as a whole, whatever the number of places.
pub(crate) fn part(root: &Path) -> Result<Count, String> {
    let args = ["metadata", "--format-version", "1", "--locked"];
    let graph = Graph::parse(&child::output(root, "cargo", &args)?)?;
    let world = World { tree: Tree::read(root)?, graph };
    let mut count = Count::default();
    for rule in &RULES {
        let mut findings = (rule.check)(&world);
        findings.sort_by(|a, b| (&a.path, a.line).cmp(&(&b.path, b.line)));
        findings.dedup();
        count.add(Count::step(findings.is_empty()));
        for place in findings {
            println!("{}:{}: [{}] {}", place.path, place.line, rule.name, place.what);
        }
    }
    Ok(count)
}
