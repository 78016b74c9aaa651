//! What a process says of itself on its admin port.

use std::net::SocketAddr;

use crate::http::Http;

/// The text of `/metrics`.
pub(crate) async fn scrape(admin: SocketAddr) -> String {
    Http::new(admin).get("/metrics").await.unwrap().text().to_owned()
}

/// The sum of all samples of a metric whose labels hold some text.
pub(crate) fn sum(metrics: &str, name: &str, label: &str) -> f64 {
    let sample = |line: &str| {
        let (series, value) = line.rsplit_once(' ')?;
        let rest = series.strip_prefix(name)?;
        let whole = rest.is_empty() || rest.starts_with('{');
        (whole && rest.contains(label)).then(|| value.parse::<f64>().ok())?
    };
    metrics.lines().filter_map(sample).sum()
}
