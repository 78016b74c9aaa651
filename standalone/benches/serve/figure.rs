//! Figures as `cargo xtask bench` reads them.

/// Prints one figure of all its values.
pub(crate) fn print(name: &str, mut values: Vec<f64>) {
    values.sort_by(f64::total_cmp);
    let (n, at) = (values.len(), |i: usize| values.get(i).copied().unwrap_or_default());
    let (min, median, max) = (at(0), at(n / 2), at(n.saturating_sub(1)));
    let figure =
        serde_json::json!({ "name": name, "n": n, "min": min, "median": median, "max": max });
    println!("{figure}");
}

/// Ratios of two rows of figures, round by round.
pub(crate) fn ratios(above: &[f64], below: &[f64]) -> Vec<f64> {
    above.iter().zip(below).map(|(a, b)| a / b).collect()
}
