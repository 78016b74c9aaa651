//! Telling the protocol eras apart, per request and without state (mcp.md 1.0).

/// The modern revision.
pub const MODERN: &str = "2026-07-28";
/// The legacy revisions, newest first.
pub const LEGACY: [&str; 4] = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];
/// Every revision served, newest first.
pub const SUPPORTED: [&str; 5] = [MODERN, "2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"];

/// Which rules answer a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Era {
    Modern,
    Legacy,
}

/// What the request itself says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Verdict {
    /// It names a version in `_meta`, of whatever type and value.
    Modern,
    /// Only a modern client sends this, but `_meta` names no version: -32602.
    ModernUnnamed,
    Legacy,
}

/// Tells the era of one request: `meta_version` is whether
/// `params._meta["io.modelcontextprotocol/protocolVersion"]` is there at all.
#[must_use]
pub fn tell(method: &str, meta_version: bool, header: Option<&str>) -> Verdict {
    if meta_version {
        Verdict::Modern
    } else if method == "server/discover"
        || (method != "initialize" && header.is_some_and(is_modern))
    {
        Verdict::ModernUnnamed
    } else {
        Verdict::Legacy
    }
}

/// Whether a version header names the modern revision or a later one. Revisions are dates, so
/// text order is time order; what is no date is no revision.
#[must_use]
pub fn is_modern(header: &str) -> bool {
    is_date(header) && header >= MODERN
}

/// Whether a legacy request may carry this version header. Absence is always fine: the revisions
/// before 2025-06-18 do not know it and some later clients forget it.
#[must_use]
pub fn legacy_header_is_known(header: Option<&str>) -> bool {
    header.is_none_or(|version| SUPPORTED.contains(&version))
}

/// Whether a body under this header may be an array: only before batches were removed.
#[must_use]
pub fn takes_batches(header: Option<&str>) -> bool {
    header.is_none_or(|version| matches!(version, "2025-03-26" | "2024-11-05"))
}

/// Whether an error whose request id could not be read says `"id":null` (older schemas require
/// an id) or leaves the id out (newer schemas forbid null).
#[must_use]
pub fn unreadable_id_is_null(header: Option<&str>) -> bool {
    !header.is_some_and(|version| version == "2025-11-25" || is_modern(version))
}

/// The version a legacy handshake agrees on: the asked one, else the newest legacy one.
#[must_use]
pub fn negotiate(asked: &str) -> &'static str {
    let [newest, ..] = LEGACY;
    LEGACY.into_iter().find(|version| *version == asked).unwrap_or(newest)
}

fn is_date(text: &str) -> bool {
    text.len() == 10
        && text.bytes().enumerate().all(|(at, byte)| match at {
            4 | 7 => byte == b'-',
            _ => byte.is_ascii_digit(),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_rule_that_fits_decides() {
        use Verdict::{Legacy, Modern, ModernUnnamed};
        let table: [(&str, bool, Option<&str>, Verdict); 14] = [
            ("initialize", true, None, Modern),
            ("tools/list", true, Some("2025-11-25"), Modern),
            ("server/discover", false, None, ModernUnnamed),
            ("server/discover", false, Some("2025-11-25"), ModernUnnamed),
            ("tools/list", false, Some(MODERN), ModernUnnamed),
            ("tools/list", false, Some("2027-01-01"), ModernUnnamed),
            ("initialize", false, Some(MODERN), Legacy),
            ("initialize", false, None, Legacy),
            ("tools/list", false, None, Legacy),
            ("tools/list", false, Some("2025-11-25"), Legacy),
            ("tools/list", false, Some("1900-01-01"), Legacy),
            ("tools/list", false, Some("v999"), Legacy),
            ("tools/list", false, Some(""), Legacy),
            ("tools/list", false, Some("9999-99-9x"), Legacy),
        ];
        for (method, meta, header, verdict) in table {
            assert_eq!(tell(method, meta, header), verdict, "{method} {meta} {header:?}");
        }
    }

    #[test]
    fn what_each_header_allows() {
        let table = [
            (None, true, true, true),
            (Some("2024-11-05"), true, true, true),
            (Some("2025-03-26"), true, true, true),
            (Some("2025-06-18"), true, false, true),
            (Some("2025-11-25"), true, false, false),
            (Some(MODERN), true, false, false),
            (Some("2027-01-01"), false, false, false),
            (Some("1900-01-01"), false, false, true),
        ];
        for (header, known, batches, null) in table {
            assert_eq!(legacy_header_is_known(header), known, "{header:?}");
            assert_eq!(takes_batches(header), batches, "{header:?}");
            assert_eq!(unreadable_id_is_null(header), null, "{header:?}");
        }
    }

    #[test]
    fn a_handshake_agrees_on_a_legacy_version() {
        for version in LEGACY {
            assert_eq!(negotiate(version), version);
        }
        for odd in [MODERN, "", "1900-01-01", "2099-01-01"] {
            assert_eq!(negotiate(odd), "2025-11-25", "{odd}");
        }
    }

    #[test]
    fn the_lists_agree() {
        assert_eq!(SUPPORTED.first(), Some(&MODERN));
        assert_eq!(SUPPORTED.get(1..), Some(&LEGACY[..]));
    }
}
