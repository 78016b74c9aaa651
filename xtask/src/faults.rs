//! `cargo xtask faults`: builds the programs of the cluster and starts the fault campaign on them.
//! The campaign itself, its nemesis and the checker are `sim/tests/faults`.

use std::path::Path;
use std::process::Command;

use crate::test::Count;
use crate::{child, tools};

/// Where the campaign's programs are built, below the root.
const PROGRAMS: &str = "target/debug";

const SEED_DEFAULT: u64 = 1;
const MINUTES_DEFAULT: u64 = 5;
const MINUTES_MAX: u64 = 24 * 60;

#[derive(Debug, PartialEq, Eq)]
struct Plan {
    seed: u64,
    minutes: u64,
    /// `roomring` instead of the cluster.
    alone: bool,
}

/// `cargo xtask faults [--seed N] [--minutes M] [--alone]`. `Ok(false)` when a promise was broken.
pub(crate) fn run(root: &Path, words: &[&str]) -> Result<bool, String> {
    let good = campaign(root, &plan(words)?)?;
    println!("{} passed, {} failed", u8::from(good), u8::from(!good));
    Ok(good)
}

/// The short campaign, as one of the checks.
pub(crate) fn part(root: &Path) -> Result<Count, String> {
    campaign(root, &plan(&[])?).map(Count::step)
}

fn campaign(root: &Path, plan: &Plan) -> Result<bool, String> {
    if !plan.alone && !tools::present("redis-server") {
        return Err("redis-server is missing: install Redis 7 or newer (Debian: apt-get install \
                    redis-server) or put Valkey's server under that name"
            .to_owned());
    }
    let packages: &[&str] = if plan.alone {
        &["--package", "standalone"]
    } else {
        &["--package", "gateway", "--package", "room-node"]
    };
    let build = [&["build", "--locked", "--bins"], packages].concat();
    if !ran(&mut child::cargo(root, &build))? {
        return Ok(false);
    }
    let test = ["test", "--locked", "--package", "sim", "--test", "faults", "--", "--nocapture"];
    let mut campaign = child::cargo(root, &test);
    campaign
        .env("ROOMRING_FAULTS_SEED", plan.seed.to_string())
        .env("ROOMRING_FAULTS_SECONDS", (plan.minutes * 60).to_string())
        .env("ROOMRING_FAULTS_PROGRAMS", root.join(PROGRAMS));
    if plan.alone {
        campaign.env("ROOMRING_FAULTS_ALONE", "1");
    }
    ran(&mut campaign)
}

fn ran(command: &mut Command) -> Result<bool, String> {
    child::shown(command, &mut |_| {}).map_err(|e| format!("cargo did not start: {e}"))
}

fn plan(words: &[&str]) -> Result<Plan, String> {
    let mut plan = Plan { seed: SEED_DEFAULT, minutes: MINUTES_DEFAULT, alone: false };
    let mut words = words.iter();
    while let Some(word) = words.next() {
        let mut number = || words.next().and_then(|n| n.parse().ok());
        match *word {
            "--alone" => plan.alone = true,
            "--seed" => plan.seed = number().ok_or("--seed takes a number")?,
            "--minutes" => {
                let minutes = number().filter(|n| (1..=MINUTES_MAX).contains(n));
                plan.minutes =
                    minutes.ok_or_else(|| format!("--minutes takes 1 to {MINUTES_MAX}"))?;
            }
            other => return Err(format!("no option {other}: --seed, --minutes and --alone are")),
        }
    }
    Ok(plan)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read_and_others_refused() {
        let read = plan(&["--seed", "7", "--minutes", "30"]);
        assert_eq!(read, Ok(Plan { seed: 7, minutes: 30, alone: false }));
        assert!(plan(&["--alone"]).is_ok_and(|plan| plan.alone && plan.seed == SEED_DEFAULT));
        for wrong in [&["--minutes", "0"][..], &["--seed"], &["--seed", "x"], &["--sed", "1"]] {
            assert!(plan(wrong).is_err(), "{wrong:?}");
        }
    }
}
