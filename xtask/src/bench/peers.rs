//! The peers that the benchmark `serve` measures against: built and installed into `target/bench`.

use std::path::Path;

use crate::child;

const WORKERD: &str = "workerd@1.20261117.1";

/// Builds the servers of `bench/` and installs workerd; without workerd, goal 2 is not measured.
pub(super) fn build(root: &Path) -> Result<(), String> {
    println!("building the peers");
    let place = ["--manifest-path", "bench/Cargo.toml", "--target-dir", "target/bench"];
    let args = ["build", "--release", "--locked", "--quiet"];
    child::output(root, "cargo", &[&args[..], &place].concat())?;
    if let Err(why) = workerd(root) {
        println!("workerd is not installed: {}", why.lines().next().unwrap_or_default());
    }
    Ok(())
}

fn workerd(root: &Path) -> Result<(), String> {
    if root.join("target/bench/worker/node_modules/workerd").is_dir() {
        return Ok(());
    }
    let place = ["--prefix", "target/bench/worker"];
    let args = ["install", "--no-save", "--no-audit", "--no-fund", "--silent", WORKERD];
    child::output(root, "npm", &[&args[..], &place].concat()).map(drop)
}
