//! `cargo xtask test`: every check of the project as a table of parts, cheapest first.
//!
//! A part is one row of [`PARTS`] and one small file. Each says how many things it checked, so
//! that the closing line counts tests and steps, not wishes.

mod cargo;
mod deny;
mod external;
mod summary;

use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};

use crate::{clock, faults, golden, report, tidy};

/// What a part found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Count {
    pub(crate) passed: u64,
    pub(crate) failed: u64,
    pub(crate) skipped: u64,
}

impl Count {
    /// One step that went well or not.
    pub(crate) const fn step(good: bool) -> Self {
        if good {
            Self { passed: 1, failed: 0, skipped: 0 }
        } else {
            Self { passed: 0, failed: 1, skipped: 0 }
        }
    }

    pub(crate) const fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

/// How a part runs. `Err` is one line that says what to install or mend before the part can run at
/// all; it counts as a failure.
enum Run {
    Own(fn(&Path) -> Result<Count, String>),
    /// A program of the tree that ends with the line `N passed, N failed`; until it is there, the
    /// part is not registered.
    Program(&'static str),
}

struct Part {
    name: &'static str,
    what: &'static str,
    run: Run,
}

const PARTS: [Part; 13] = [
    Part { name: "tidy", what: "rules of the source tree", run: Run::Own(tidy::part) },
    Part { name: "fmt", what: "rustfmt", run: Run::Own(cargo::fmt) },
    Part { name: "deny", what: "licences, bans, sources", run: Run::Own(deny::run) },
    Part { name: "golden", what: "generated files are fresh", run: Run::Own(golden::part) },
    Part { name: "clippy", what: "lints, warnings are errors", run: Run::Own(cargo::clippy) },
    Part { name: "docs", what: "rustdoc, warnings are errors", run: Run::Own(cargo::docs) },
    Part { name: "tests", what: "unit and integration tests", run: Run::Own(cargo::tests) },
    Part { name: "hooks", what: "tests of a test-hooks build", run: Run::Own(cargo::hooks) },
    Part {
        name: "cluster",
        what: "the suites on gateways, nodes and Redis as processes",
        run: Run::Own(cargo::cluster),
    },
    Part {
        name: "faults",
        what: "five minutes of faults on a cluster, and its history checked",
        run: Run::Own(faults::part),
    },
    Part {
        name: "process",
        what: "kills and 10,000 sleeping rooms, in release",
        run: Run::Own(cargo::process),
    },
    Part {
        name: "clients",
        what: "other people's MCP clients play a scenario",
        run: Run::Program("standalone/clients/run.sh"),
    },
    Part {
        name: "conformance",
        what: "the protocol's own suite against the product",
        run: Run::Program("standalone/clients/conformance.sh"),
    },
];

/// One part's outcome, for the closing lines and the report.
struct Done {
    name: &'static str,
    count: Count,
    took: Duration,
    why: Option<String>,
}

/// Runs the parts named, or all. `Ok(false)` when anything failed; `Err` for a name nobody knows.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let there: Vec<&Part> = PARTS.iter().filter(|part| registered(root, part)).collect();
    if words == ["--list"] {
        for part in there {
            println!("{:12} {}", part.name, part.what);
        }
        return Ok(true);
    }
    let chosen = choose(&there, words)?;
    let done: Vec<Done> = chosen.into_iter().map(|part| run_part(root, part)).collect();
    let mut total = Count::default();
    println!();
    for part in &done {
        total.add(part.count);
        println!("{}", line(part));
    }
    report::write(root, "test", &as_json(root, &done))?;
    println!("{} passed, {} failed", total.passed, total.failed);
    Ok(total.failed == 0)
}

fn registered(root: &Path, part: &Part) -> bool {
    match part.run {
        Run::Own(_) => true,
        Run::Program(path) => root.join(path).is_file(),
    }
}

/// The parts to run, in the table's order whatever the order of the words.
fn choose<'a>(there: &[&'a Part], words: &[&str]) -> Result<Vec<&'a Part>, String> {
    if let Some(unknown) = words.iter().find(|word| !there.iter().any(|p| p.name == **word)) {
        let names: Vec<&str> = there.iter().map(|part| part.name).collect();
        return Err(format!("no part named {unknown}; there are: {}", names.join(", ")));
    }
    let wanted = |part: &&&Part| words.is_empty() || words.contains(&part.name);
    Ok(there.iter().filter(wanted).copied().collect())
}

fn run_part(root: &Path, part: &Part) -> Done {
    println!("\n== {}: {}", part.name, part.what);
    let (outcome, took) = clock::timed(|| match part.run {
        Run::Own(own) => own(root),
        Run::Program(path) => external::run(root, path),
    });
    match outcome {
        Ok(count) => Done { name: part.name, count, took, why: None },
        Err(why) => {
            println!("{}: {why}", part.name);
            Done { name: part.name, count: Count::step(false), took, why: Some(why) }
        }
    }
}

fn line(done: &Done) -> String {
    let Count { passed, failed, skipped } = done.count;
    let verdict = if failed == 0 { "ok" } else { "FAILED" };
    let skipped = if skipped == 0 { String::new() } else { format!(", {skipped} skipped") };
    let seconds = done.took.as_secs_f64();
    // No part's line may look like the closing one: that is the last line's alone.
    format!("{:12} {verdict:6} {passed} ok, {failed} bad{skipped}, {seconds:.1} s", done.name)
}

fn as_json(root: &Path, done: &[Done]) -> Value {
    let steps: Vec<Value> = done
        .iter()
        .map(|part| {
            json!({
                "name": part.name,
                "n": part.count.passed + part.count.failed,
                "passed": part.count.passed,
                "failed": part.count.failed,
                "skipped": part.count.skipped,
                "seconds": part.took.as_secs_f64(),
                "why": part.why,
            })
        })
        .collect();
    json!({ "commit": report::commit(root), "machine": report::machine(), "steps": steps })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_run_in_the_tables_order_and_unknown_names_are_refused() {
        let there: Vec<&Part> = PARTS.iter().collect();
        let names = |words: &[&str]| -> Vec<&str> {
            choose(&there, words).unwrap().iter().map(|part| part.name).collect()
        };
        assert_eq!(names(&["clippy", "tidy"]), ["tidy", "clippy"]);
        assert_eq!(names(&[]).len(), PARTS.len());
        assert!(choose(&there, &["tidi"]).is_err_and(|e| e.contains("tidi") && e.contains("fmt")));
    }

    #[test]
    fn a_parts_line_counts_and_never_looks_like_the_closing_line() {
        let count = Count { passed: 3, failed: 1, skipped: 2 };
        let done = Done { name: "tests", count, took: Duration::from_millis(1500), why: None };
        let line = line(&done);
        assert!(line.contains("FAILED 3 ok, 1 bad, 2 skipped, 1.5 s"), "{line}");
        assert_eq!(summary::plain(&line), None);
    }
}
