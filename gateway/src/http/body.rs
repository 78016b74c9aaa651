//! Reading a request body under its bounds: size before and while it arrives, memory of all bodies
//! together, time, JSON depth.

use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::HeaderMap;
use http::header::CONTENT_LENGTH;
use http_body::Body;
use http_body_util::BodyExt;

use super::budget::{Budget, Charge};

/// Deepest nesting of a body's JSON, all levels counted.
pub const JSON_DEPTH_MAX: usize = 64;

/// The part of each body that is not charged to the memory of all bodies, in bytes: every call
/// without a blob fits, so that it goes on while others hold that memory with slow uploads. The
/// number of connections bounds it.
pub const UNCHARGED_BYTES_MAX: usize = 16 * 1024;

/// Why there is no body.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// More bytes than allowed: 413.
    TooLarge,
    /// More than the memory of all bodies has left: 503.
    NoMemory,
    /// Not complete in time: 408.
    TooSlow,
    /// The client went away or broke the framing: 400, if anybody still reads it.
    Broken,
}

/// Whether the declared length is over the bound: refused before a byte is read.
#[must_use]
pub fn declared_is_over(headers: &HeaderMap, bytes_max: usize) -> bool {
    headers
        .get(CONTENT_LENGTH)
        .and_then(|value| value.to_str().ok())
        .and_then(|text| text.parse::<u64>().ok())
        .is_some_and(|declared| declared > u64::try_from(bytes_max).unwrap_or(u64::MAX))
}

/// Reads a body of at most `bytes_max` bytes within `timeout`. What it holds beyond
/// [`UNCHARGED_BYTES_MAX`] is charged to `budget` as it arrives, not as it is announced.
pub async fn read<B>(
    body: B,
    bytes_max: usize,
    timeout: Duration,
    budget: &Arc<Budget>,
) -> Result<(Bytes, Charge), Refused>
where
    B: Body<Data = Bytes> + Unpin,
{
    match tokio::time::timeout(timeout, collect(body, bytes_max, budget.force(0))).await {
        Ok(result) => result,
        Err(_) => Err(Refused::TooSlow),
    }
}

/// Reads a body to its end, or to one of the bounds, and keeps nothing.
pub(crate) async fn read_and_drop<B>(mut body: B, bytes_max: usize, timeout: Duration)
where
    B: Body<Data = Bytes> + Unpin,
{
    let reading = async {
        let mut bytes_left = bytes_max;
        while let Some(Ok(frame)) = body.frame().await {
            let bytes = frame.data_ref().map_or(0, Bytes::len);
            match bytes_left.checked_sub(bytes) {
                Some(left) => bytes_left = left,
                None => return,
            }
        }
    };
    // Past the time the connection is closed, as it would have been at once.
    drop(tokio::time::timeout(timeout, reading).await);
}

async fn collect<B>(
    mut body: B,
    bytes_max: usize,
    mut charge: Charge,
) -> Result<(Bytes, Charge), Refused>
where
    B: Body<Data = Bytes> + Unpin,
{
    // A body that arrives in one piece, as nearly all do, is not copied.
    let mut first = Bytes::new();
    let mut more = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(piece) = frame.map_err(|_| Refused::Broken)?.into_data() else { continue };
        let bytes = first.len() + more.len() + piece.len();
        if bytes > bytes_max {
            return Err(Refused::TooLarge);
        }
        if !charge.grow(bytes.saturating_sub(UNCHARGED_BYTES_MAX)) {
            return Err(Refused::NoMemory);
        }
        if first.is_empty() && more.is_empty() {
            first = piece;
        } else {
            if more.is_empty() {
                more.reserve(first.len() + piece.len());
                more.extend_from_slice(&std::mem::take(&mut first));
            }
            more.extend_from_slice(&piece);
        }
    }
    Ok((if more.is_empty() { first } else { more.freeze() }, charge))
}

/// Whether no value of this JSON text lies deeper than `depth_max`. Malformed text may pass: the
/// parser finds it.
#[must_use]
pub fn depth_is_within(text: &str, depth_max: usize) -> bool {
    // As many openings as levels are allowed cannot nest too deep, whatever they are.
    let openings = text.bytes().filter(|byte| matches!(byte, b'{' | b'[')).count();
    openings <= depth_max || scan_depth(text.as_bytes()) <= depth_max
}

fn scan_depth(text: &[u8]) -> usize {
    let mut depth: usize = 0;
    let mut deepest: usize = 0;
    let mut in_string = false;
    let mut escaped = false;
    for byte in text {
        if in_string {
            match byte {
                _ if escaped => escaped = false,
                b'\\' => escaped = true,
                b'"' => in_string = false,
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => in_string = true,
            b'{' | b'[' => {
                depth += 1;
                deepest = deepest.max(depth);
            }
            b'}' | b']' => depth = depth.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn depth_counts_only_what_nests() {
        let nested = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
        let table = [
            (nested(JSON_DEPTH_MAX), true),
            (nested(JSON_DEPTH_MAX + 1), false),
            (nested(10_000), false),
            (format!("[{}0]", "[],".repeat(1_000)), true),
            (format!("{{\"a\":\"{}\"}}", "[".repeat(1_000)), true),
            (format!("{{\"a\":\"\\\"{}\"}}", "{".repeat(1_000)), true),
            (format!("\"\\\\\"{}", "[".repeat(1_000)), false),
            ("{\"a\":".repeat(JSON_DEPTH_MAX + 1), false),
        ];
        for (text, expected) in table {
            let shown = text.get(..40.min(text.len())).unwrap_or("");
            assert_eq!(depth_is_within(&text, JSON_DEPTH_MAX), expected, "{shown}");
        }
    }
}
