//! `cargo xtask bench`: the registered benchmarks as child processes, interleaved, so that what the
//! machine does meanwhile falls on all of them alike.
//!
//! A benchmark prints one JSON line a figure: `{"name", "n", "min", "median", "max"}`, all numbers
//! in the unit that ends the name (`append_us`, `stub_bytes`). Other lines are shown and passed
//! over. Figures of all passes are merged into `target/reports/bench.json` and a Markdown table.

mod figure;
mod peers;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};

use crate::{child, report};
use figure::{Figure, Merged};

/// A benchmark target (`harness = false`) of a member; it runs where its source is there.
struct Bench {
    name: &'static str,
    package: &'static str,
    source: &'static str,
}

const BENCHES: [Bench; 6] = [
    Bench { name: "store", package: "room-node", source: "room-node/benches/store.rs" },
    Bench { name: "host", package: "room-node", source: "room-node/benches/host.rs" },
    Bench { name: "sleep", package: "room-node", source: "room-node/benches/sleep.rs" },
    Bench { name: "edge", package: "gateway", source: "gateway/benches/edge.rs" },
    Bench { name: "serve", package: "standalone", source: "standalone/benches/serve.rs" },
    Bench { name: "cluster", package: "standalone", source: "standalone/benches/cluster/main.rs" },
];

const PASSES_DEFAULT: usize = 3;
const PASSES_MAX: usize = 100;

/// `cargo xtask bench [NAME...] [--passes N]`.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let (names, passes) = arguments(words)?;
    let there: Vec<&Bench> = BENCHES.iter().filter(|b| root.join(b.source).is_file()).collect();
    if let Some(unknown) = names.iter().find(|name| !there.iter().any(|b| b.name == **name)) {
        let known: Vec<&str> = there.iter().map(|b| b.name).collect();
        return Err(format!("no benchmark {unknown}; there are: {}", known.join(", ")));
    }
    let chosen = there.into_iter().filter(|b| names.is_empty() || names.contains(&b.name));
    let built: Vec<(&Bench, PathBuf)> =
        chosen.map(|b| Ok((b, build(root, b)?))).collect::<Result<_, String>>()?;
    let chosen = |name| built.iter().any(|(bench, _)| bench.name == name);
    if chosen("serve") || chosen("cluster") {
        peers::build(root)?;
    }
    if chosen("cluster") {
        let packages = ["--package", "gateway", "--package", "room-node"];
        let args = ["build", "--release", "--locked", "--quiet", "--bins"];
        child::output(root, "cargo", &[&args[..], &packages].concat())?;
    }
    let mut merged = Merged::default();
    for pass in 1..=passes {
        for (bench, program) in &built {
            println!("\n== pass {pass} of {passes}: {}", bench.name);
            let mut command = Command::new(program);
            command.arg("--bench").current_dir(root);
            let good = child::shown(&mut command, &mut |line| {
                if let Some(figure) = Figure::parse(line) {
                    merged.take(bench.name, &figure);
                }
            });
            if !good.map_err(|e| format!("{} did not start: {e}", bench.name))? {
                println!("{} failed", bench.name);
                return Ok(false);
            }
        }
    }
    report::write(root, "bench", &as_json(root, &merged, passes))?;
    println!("\n{}", merged.markdown());
    Ok(!merged.is_empty())
}

fn arguments<'a>(words: &[&'a str]) -> Result<(Vec<&'a str>, usize), String> {
    let mut names = Vec::new();
    let mut passes = PASSES_DEFAULT;
    let mut words = words.iter();
    while let Some(word) = words.next() {
        if *word == "--passes" {
            let n = words.next().and_then(|n| n.parse().ok());
            passes = n
                .filter(|n| (1..=PASSES_MAX).contains(n))
                .ok_or_else(|| format!("--passes takes a number from 1 to {PASSES_MAX}"))?;
        } else {
            names.push(*word);
        }
    }
    Ok((names, passes))
}

/// Builds the target and returns its program, as cargo names it.
fn build(root: &Path, bench: &Bench) -> Result<PathBuf, String> {
    println!("building {}", bench.name);
    let target = ["--bench", bench.name];
    let args = ["bench", "--locked", "--no-run", "--quiet", "--message-format", "json"];
    let package = ["--package", bench.package];
    let out = child::output(root, "cargo", &[&args[..], &package, &target].concat())?;
    executable(&out, bench.name).ok_or_else(|| format!("cargo named no program for {}", bench.name))
}

/// The program of this benchmark among cargo's messages: a package's binaries are built and named
/// beside its benchmarks.
fn executable(messages: &str, name: &str) -> Option<PathBuf> {
    let mut programs = messages.lines().filter_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let target = message.get("target")?;
        let is_bench = target.get("kind")?.as_array()?.iter().any(|kind| kind == "bench");
        let ours = is_bench && target.get("name")?.as_str()? == name;
        let program = message.get("executable")?.as_str()?;
        ours.then(|| PathBuf::from(program))
    });
    programs.next_back()
}

fn as_json(root: &Path, merged: &Merged, passes: usize) -> Value {
    let commit = report::commit(root);
    let machine = report::machine();
    let figures: Vec<Value> = merged
        .rows()
        .map(|(bench, figure)| {
            json!({
                "name": figure.name,
                "command": format!("cargo xtask bench {bench} --passes {passes}"),
                "commit": commit,
                "machine": machine,
                "n": figure.n,
                "min": figure.min,
                "median": figure.median,
                "max": figure.max,
            })
        })
        .collect();
    Value::Array(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passes_are_told_apart() {
        assert_eq!(arguments(&["store", "--passes", "5"]), Ok((vec!["store"], 5)));
        assert_eq!(arguments(&[]), Ok((vec![], PASSES_DEFAULT)));
        for bad in [&["--passes"][..], &["--passes", "0"], &["--passes", "101"]] {
            assert!(arguments(bad).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn the_program_is_read_from_cargos_messages() {
        let messages = r#"{"reason":"compiler-artifact","target":{"kind":["lib"],"name":"store"},"executable":null}
{"reason":"compiler-artifact","target":{"kind":["bench"],"name":"store"},"executable":"/t/store-1"}
{"reason":"compiler-artifact","target":{"kind":["bin"],"name":"store"},"executable":"/t/store"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages, "store"), Some(PathBuf::from("/t/store-1")));
        assert_eq!(executable(messages, "edge"), None);
        assert_eq!(executable("not json", "store"), None);
    }
}
