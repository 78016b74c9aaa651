//! One figure of a benchmark, and what several passes say about it together.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Deserialize;

/// A figure as a benchmark prints it, or as the passes together give it.
#[derive(Clone, PartialEq, Debug, Deserialize)]
pub(crate) struct Figure {
    pub(crate) name: String,
    /// How many samples.
    pub(crate) n: u64,
    pub(crate) min: f64,
    pub(crate) median: f64,
    pub(crate) max: f64,
}

impl Figure {
    /// Reads one line; `None` when it is no figure.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let figure: Self = serde_json::from_str(line.trim()).ok()?;
        let ordered = figure.min <= figure.median && figure.median <= figure.max;
        (figure.n > 0 && ordered).then_some(figure)
    }
}

/// Figures of all passes, by benchmark and name.
#[derive(Default)]
pub(crate) struct Merged {
    figures: BTreeMap<(&'static str, String), Passes>,
}

struct Passes {
    n: u64,
    min: f64,
    max: f64,
    medians: Vec<f64>,
}

impl Merged {
    pub(crate) fn take(&mut self, bench: &'static str, figure: &Figure) {
        let fresh = || Passes { n: 0, min: f64::MAX, max: f64::MIN, medians: Vec::new() };
        let passes = self.figures.entry((bench, figure.name.clone())).or_insert_with(fresh);
        passes.n += figure.n;
        passes.min = passes.min.min(figure.min);
        passes.max = passes.max.max(figure.max);
        passes.medians.push(figure.median);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.figures.is_empty()
    }

    /// Each benchmark's figures: samples added up, the extremes of all, the median of the medians.
    pub(crate) fn rows(&self) -> impl Iterator<Item = (&'static str, Figure)> {
        self.figures.iter().map(|((bench, name), passes)| {
            let Passes { n, min, max, medians } = passes;
            let median = median(medians);
            (*bench, Figure { name: name.clone(), n: *n, min: *min, median, max: *max })
        })
    }

    /// The table for docs/performance.md.
    pub(crate) fn markdown(&self) -> String {
        let mut text = "| benchmark | figure | n | min | median | max |\n".to_owned();
        text.push_str("|---|---|---|---|---|---|\n");
        for (bench, Figure { name, n, min, median, max }) in self.rows() {
            // Writing to a String cannot fail.
            let _ =
                writeln!(text, "| {bench} | {name} | {n} | {min:.2} | {median:.2} | {max:.2} |");
        }
        text
    }
}

/// The middle value; the lower one of two.
fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len().saturating_sub(1) / 2).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(n: u64, min: f64, median: f64, max: f64) -> Figure {
        let text = format!(
            "{{\"name\":\"append_us\",\"n\":{n},\"min\":{min},\"median\":{median},\"max\":{max}}}"
        );
        Figure::parse(&text).unwrap()
    }

    #[test]
    fn a_line_that_is_no_figure_is_passed_over() {
        for bad in [
            "",
            "running",
            "{}",
            "{\"name\":\"a\",\"n\":0,\"min\":1,\"median\":1,\"max\":1}",
            "{\"name\":\"a\",\"n\":2,\"min\":3,\"median\":1,\"max\":4}",
        ] {
            assert_eq!(Figure::parse(bad), None, "{bad}");
        }
    }

    #[test]
    fn passes_are_merged() {
        let mut merged = Merged::default();
        assert!(merged.is_empty());
        for figure in [line(10, 1.0, 5.0, 9.0), line(10, 2.0, 3.0, 20.0), line(10, 1.5, 4.0, 8.0)] {
            merged.take("store", &figure);
        }
        let rows: Vec<_> = merged.rows().collect();
        assert_eq!(rows, [("store", line(30, 1.0, 4.0, 20.0))]);
        assert!(merged.markdown().ends_with("| store | append_us | 30 | 1.00 | 4.00 | 20.00 |\n"));
    }
}
