//! What the runners print at their end, read back as counts.

use super::Count;

/// Reads a runner's lines one by one and adds up what they say.
#[derive(Default)]
pub(crate) struct Reader {
    total: Option<Count>,
}

impl Reader {
    /// Takes one line; anything that is no summary is passed over.
    pub(crate) fn line(&mut self, line: &str) {
        if let Some(count) = nextest(line).or_else(|| libtest(line)).or_else(|| plain(line)) {
            self.total.get_or_insert_default().add(count);
        }
    }

    /// The sum. A run that failed without counting a failure (it did not compile, it died) is one
    /// failure; a run that went well without counting anything ran nothing, which is one too.
    pub(crate) fn finish(self, exit_good: bool) -> Count {
        let mut count = self.total.unwrap_or_default();
        let ran_nothing = count.passed + count.failed == 0;
        if (!exit_good && count.failed == 0) || ran_nothing {
            count.failed += 1;
        }
        count
    }
}

/// `Summary [   0.004s] 5 tests run: 3 passed (1 slow), 1 failed, 1 timed out, 2 skipped`
fn nextest(line: &str) -> Option<Count> {
    let (_, rest) = line.trim().strip_prefix("Summary [")?.split_once(']')?;
    let (_, tail) = rest.split_once("run:")?;
    Some(tally(tail.split(',')))
}

/// `test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.0s`
fn libtest(line: &str) -> Option<Count> {
    let (_, tail) = line.strip_prefix("test result:")?.split_once(". ")?;
    Some(tally(tail.split(';')))
}

/// `N passed, N failed`, alone on a line; `, N skipped` may follow and one word with a colon stand
/// before.
pub(crate) fn plain(line: &str) -> Option<Count> {
    let line = line.trim();
    let line = match line.split_once(": ") {
        Some((word, rest)) if !word.contains(' ') => rest,
        _ => line,
    };
    let words: Vec<&str> = line.split(", ").collect();
    let named = |i: usize, name: &str| -> Option<u64> {
        words.get(i)?.strip_suffix(name)?.strip_suffix(' ')?.parse().ok()
    };
    let count = Count {
        passed: named(0, "passed")?,
        failed: named(1, "failed")?,
        skipped: named(2, "skipped").unwrap_or(0),
    };
    (words.len() == 2 || (words.len() == 3 && words.get(2)?.ends_with("skipped"))).then_some(count)
}

fn tally<'a>(pieces: impl Iterator<Item = &'a str>) -> Count {
    let mut count = Count::default();
    for piece in pieces {
        let mut words = piece.split_whitespace();
        let (Some(n), Some(what)) = (words.next(), words.next()) else { continue };
        let Ok(n) = n.parse::<u64>() else { continue };
        match what {
            "passed" => count.passed += n,
            // `1 timed out`, `1 exec failed`, `1 leaky-failed`
            "failed" | "timed" | "exec" | "leaky-failed" => count.failed += n,
            "skipped" | "ignored" => count.skipped += n,
            _ => {}
        }
    }
    count
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn count(passed: u64, failed: u64, skipped: u64) -> Count {
        Count { passed, failed, skipped }
    }

    #[test]
    fn every_runners_summary_is_read() {
        let table = [
            ("     Summary [   0.005s] 3 tests run: 3 passed, 0 skipped", Some(count(3, 0, 0))),
            (
                "     Summary [  60.1s] 6 tests run: 3 passed (1 slow), 2 failed, 1 timed out, 4 skipped",
                Some(count(3, 3, 4)),
            ),
            (
                "Summary [ 1.0s] 2/9 tests run: 1 passed, 1 exec failed, 0 skipped",
                Some(count(1, 1, 0)),
            ),
            (
                "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; finished in 0.00s",
                Some(count(3, 0, 1)),
            ),
            (
                "test result: FAILED. 0 passed; 2 failed; 0 ignored; 0 measured; 5 filtered out",
                Some(count(0, 2, 0)),
            ),
            ("12 passed, 0 failed", Some(count(12, 0, 0))),
            ("crash: 12 passed, 1 failed, 3 skipped", Some(count(12, 1, 3))),
            ("in all 12 passed, 1 failed", None),
            ("12 passed, 1 failed, and then some", None),
            ("running 3 tests", None),
            ("", None),
        ];
        for (line, want) in table {
            let got = nextest(line).or_else(|| libtest(line)).or_else(|| plain(line));
            assert_eq!(got, want, "{line}");
        }
    }

    #[test]
    fn silence_and_sudden_death_are_failures() {
        let read = |lines: &[&str], good| {
            let mut reader = Reader::default();
            lines.iter().for_each(|line| reader.line(line));
            reader.finish(good)
        };
        assert_eq!(read(&[], true), count(0, 1, 0));
        assert_eq!(read(&["error: could not compile"], false), count(0, 1, 0));
        assert_eq!(read(&["2 passed, 0 failed"], false), count(2, 1, 0));
        assert_eq!(read(&["2 passed, 1 failed"], false), count(2, 1, 0));
        assert_eq!(read(&["2 passed, 0 failed", "3 passed, 0 failed"], true), count(5, 0, 0));
    }
}
