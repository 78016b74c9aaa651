//! Child processes: run, show every line as it comes, and let the caller read the lines too.

use std::io::{self, BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs `command` with no standard input, prints both its outputs and hands each line to `each`.
/// `Ok(true)` is exit code 0.
pub(crate) fn shown(command: &mut Command, each: &mut dyn FnMut(&str)) -> io::Result<bool> {
    let (reader, writer) = io::pipe()?;
    let mut child =
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer).spawn()?;
    // The command holds the writing ends until it is told otherwise; end of file needs them gone.
    command.stdout(Stdio::null()).stderr(Stdio::null());
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    while reader.read_until(b'\n', &mut line)? > 0 {
        let text = String::from_utf8_lossy(&line);
        print!("{text}");
        each(text.trim_end());
        line.clear();
    }
    Ok(child.wait()?.success())
}

/// Runs `program` quietly in `dir` and returns its standard output, or one line that says why not.
pub(crate) fn output(dir: &Path, program: &str, args: &[&str]) -> Result<String, String> {
    let done = Command::new(program)
        .args(args)
        .current_dir(dir)
        .stdin(Stdio::null())
        .output()
        .map_err(|e| format!("{program} did not start: {e}"))?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr);
        return Err(format!("{program} {} failed: {}", args.join(" "), said.trim()));
    }
    String::from_utf8(done.stdout).map_err(|_| format!("{program} printed bytes that are no text"))
}

/// `cargo` with these arguments, in the workspace.
pub(crate) fn cargo(root: &Path, args: &[&str]) -> Command {
    let mut command = Command::new("cargo");
    command.args(args).current_dir(root);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_both_outputs_arrive_in_order_and_the_exit_code_counts() {
        let mut lines = Vec::new();
        let mut command = Command::new("sh");
        command.args(["-c", "echo one; echo two >&2; printf three; exit 3"]);
        let good = shown(&mut command, &mut |line| lines.push(line.to_owned())).unwrap();
        assert!(!good);
        assert_eq!(lines, ["one", "two", "three"]);
    }

    #[test]
    fn a_program_that_is_not_there_is_one_line() {
        let message = output(Path::new("/"), "no-such-program-here", &[]).unwrap_err();
        assert!(message.starts_with("no-such-program-here did not start"), "{message}");
    }
}
