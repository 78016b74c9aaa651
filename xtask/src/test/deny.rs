//! Licences, banned crates and sources, by cargo-deny and `deny.toml`.

use std::path::Path;
use std::process::Command;

use super::Count;
use crate::{child, tools};

/// One step for each kind of check. Advisories are left out: their database is not in the tree.
pub(super) fn run(root: &Path) -> Result<Count, String> {
    let program = tools::cargo_deny(root)?;
    let mut count = Count::default();
    for kind in ["bans", "licenses", "sources"] {
        let mut command = Command::new(&program);
        command.args(["--locked", "check", "--hide-inclusion-graph", kind]).current_dir(root);
        let good = child::shown(&mut command, &mut |_| {})
            .map_err(|e| format!("cargo-deny did not start: {e}"))?;
        count.add(Count::step(good));
    }
    Ok(count)
}
