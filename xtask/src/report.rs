//! Reports: what was run, where, and how it went, as JSON under `target/reports/`.

use std::fs;
use std::path::Path;

use serde_json::{Value, json};

use crate::child;

/// The commit that is measured; `+dirty` where the tree differs from it.
pub(crate) fn commit(root: &Path) -> String {
    let Ok(head) = child::output(root, "git", &["rev-parse", "HEAD"]) else {
        return "unknown".to_owned();
    };
    let dirty = child::output(root, "git", &["status", "--porcelain"])
        .is_ok_and(|out| !out.trim().is_empty());
    format!("{}{}", head.trim(), if dirty { "+dirty" } else { "" })
}

/// The machine that measures: cores, processor, memory in bytes, kernel.
pub(crate) fn machine() -> Value {
    let read = |path| fs::read_to_string(path).unwrap_or_default();
    json!({
        "cores": std::thread::available_parallelism().map_or(0, usize::from),
        "cpu": field(&read("/proc/cpuinfo"), "model name").unwrap_or_default(),
        "memory_bytes": field(&read("/proc/meminfo"), "MemTotal")
            .and_then(|kib| kib.trim_end_matches(" kB").parse::<u64>().ok())
            .unwrap_or(0) * 1024,
        "kernel": read("/proc/sys/kernel/osrelease").trim(),
        "arch": std::env::consts::ARCH,
    })
}

/// Writes `target/reports/NAME.json`.
pub(crate) fn write(root: &Path, name: &str, value: &Value) -> Result<(), String> {
    let dir = root.join("target/reports");
    let path = dir.join(format!("{name}.json"));
    let mut text = serde_json::to_string_pretty(value).map_err(|e| e.to_string())?;
    text.push('\n');
    fs::create_dir_all(&dir)
        .and_then(|()| fs::write(&path, text))
        .map_err(|e| format!("{} cannot be written: {e}", path.display()))
}

/// The value of the first `key : value` line.
fn field(text: &str, key: &str) -> Option<String> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find_map(|(k, value)| (k.trim() == key).then(|| value.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_whatever_the_spaces() {
        let text = "processor\t: 0\nmodel name\t: A CPU @ 2.00GHz\nMemTotal:   100 kB\n";
        assert_eq!(field(text, "model name").as_deref(), Some("A CPU @ 2.00GHz"));
        assert_eq!(field(text, "MemTotal").as_deref(), Some("100 kB"));
        assert_eq!(field(text, "absent"), None);
    }
}
