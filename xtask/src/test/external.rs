//! Parts that are programs of the tree, in whatever language suits them.
//!
//! Such a program installs what it needs below `target/`, ends with the line `N passed, N failed`
//! and exits non-zero on any failure.

use std::path::Path;
use std::process::Command;

use super::{Count, summary};
use crate::child;

/// Runs the program; its last closing line counts.
pub(super) fn run(root: &Path, path: &str) -> Result<Count, String> {
    let mut last = None;
    let mut command = Command::new(root.join(path));
    command.current_dir(root);
    let good = child::shown(&mut command, &mut |line| last = summary::plain(line).or(last))
        .map_err(|e| format!("{path} did not start (is it executable?): {e}"))?;
    let mut count = last.ok_or_else(|| format!("{path} ended without `N passed, N failed`"))?;
    if !good && count.failed == 0 {
        count.failed = 1;
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_counts_nothing_or_is_not_there_did_not_pass() {
        let root = Path::new("/bin");
        assert!(run(root, "true").is_err_and(|e| e.contains("ended without")));
        assert!(run(root, "no-such-part").is_err_and(|e| e.contains("did not start")));
    }
}
