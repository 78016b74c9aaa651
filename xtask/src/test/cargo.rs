//! The parts that cargo itself runs: format, lints, docs, tests.

use std::path::Path;
use std::process::Command;

use super::{Count, summary::Reader};
use crate::{child, tools};

/// The feature that only tests and the conformance suite use.
const HOOKS: &str = "test-hooks";
/// The packages and modules that show more with it.
const HOOKED: &str =
    "package(gateway) or (package(standalone) and binary(all) and test(/^(parity|canary)::/))";
/// Rooms asleep at once in the long form.
const SLEEPERS: &str = "10000";
/// The same over a cluster built for debugging, whose six processes share the machine.
const CLUSTER_SLEEPERS: &str = "200";
/// The suites that a single process and a cluster both pass.
const PARITY: [&str; 3] = ["parity::", "scenario::", "hibernate::"];

pub(super) fn fmt(root: &Path) -> Result<Count, String> {
    step(root, &["fmt", "--all", "--check"], &[])
}

/// As released, with the test hooks, and the fault campaign, which is no test to cargo.
pub(super) fn clippy(root: &Path) -> Result<Count, String> {
    let base = ["clippy", "--locked", "--workspace", "--all-targets", "--quiet", "--keep-going"];
    let deny = ["--", "-D", "warnings"];
    let mut count = step(root, &[&base[..], &deny].concat(), &[])?;
    count.add(step(root, &[&base[..], &["--features", HOOKS], &deny].concat(), &[])?);
    let campaign = ["clippy", "--locked", "--quiet", "--package", "sim", "--test", "faults"];
    count.add(step(root, &[&campaign[..], &deny].concat(), &[])?);
    Ok(count)
}

pub(super) fn docs(root: &Path) -> Result<Count, String> {
    let args = ["doc", "--locked", "--workspace", "--no-deps", "--quiet"];
    step(root, &args, &[("RUSTDOCFLAGS", "-D warnings")])
}

/// All but the whole cluster, which has a part of its own.
pub(super) fn tests(root: &Path) -> Result<Count, String> {
    let which: &[&str] = if nextest() {
        &["--workspace", "--filterset", "not (package(standalone) and binary(cluster))"]
    } else {
        &["--workspace"]
    };
    tests_of(root, which)
}

/// The suites on a whole cluster of processes, in one process of tests: so they share what they can.
/// All tests over one Redis, then what a single process passes too over each set of replicas.
/// The whole workspace is selected so that every crate keeps the features it was built with before.
pub(super) fn cluster(root: &Path) -> Result<Count, String> {
    let build = ["test", "--locked", "--workspace", "--test", "cluster", "--", "--nocapture"];
    let mut count = Count::default();
    for form in [None, Some("sentinel"), Some("cluster")] {
        let which: &[&str] = if form.is_some() { &PARITY } else { &[] };
        let mut command = child::cargo(root, &[&build[..], which].concat());
        command.env("ROOMRING_SLEEPERS", CLUSTER_SLEEPERS);
        if let Some(form) = form {
            println!("the suites of one process over Redis as a {form}");
            command.env("ROOMRING_TESTS_REDIS", form);
        }
        count.add(counted(&mut command)?);
    }
    Ok(count)
}

/// The edge and the product again with the hooks: whatever only a hooks build can show. The whole
/// workspace is selected so that every other crate keeps the features it was built with before.
pub(super) fn hooks(root: &Path) -> Result<Count, String> {
    let which: &[&str] = if nextest() {
        &["--workspace", "--features", HOOKS, "--filterset", HOOKED]
    } else {
        &["--package", "gateway", "--features", HOOKS]
    };
    tests_of(root, which)
}

/// The long tests of the whole process, built as it is released: in a debug build the rooms would
/// wait for the processor instead of the disk.
pub(super) fn process(root: &Path) -> Result<Count, String> {
    let build = ["test", "--locked", "--release", "--package", "standalone", "--test", "all"];
    let which = ["--", "--nocapture", "crash::", "hibernate::"];
    let mut command = child::cargo(root, &[&build[..], &which].concat());
    command.env("ROOMRING_SLEEPERS", SLEEPERS);
    counted(&mut command)
}

/// nextest where it is installed (a process per test, faster on few cores), else cargo's own.
fn tests_of(root: &Path, which: &[&str]) -> Result<Count, String> {
    let runner: &[&str] = if nextest() {
        &["nextest", "run", "--locked", "--no-fail-fast", "--status-level", "fail"]
    } else {
        &["test", "--locked", "--no-fail-fast", "--all-targets"]
    };
    counted(&mut child::cargo(root, &[runner, which].concat()))
}

/// Runs a test runner and adds up what it says.
fn counted(command: &mut Command) -> Result<Count, String> {
    let mut reader = Reader::default();
    let good = child::shown(command, &mut |line| reader.line(line)).map_err(|e| no_cargo(&e))?;
    Ok(reader.finish(good))
}

fn nextest() -> bool {
    tools::present("cargo-nextest")
}

fn step(root: &Path, args: &[&str], env: &[(&str, &str)]) -> Result<Count, String> {
    let mut command = child::cargo(root, args);
    command.envs(env.iter().copied());
    child::shown(&mut command, &mut |_| {}).map(Count::step).map_err(|e| no_cargo(&e))
}

fn no_cargo(error: &std::io::Error) -> String {
    format!("cargo did not start: {error}")
}
