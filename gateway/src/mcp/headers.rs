//! What the modern era demands of request headers (mcp.md 1.1, checks 7, 9 and 10).
//!
//! A header that appears twice is a mismatch: whoever routes by it may have read the other one.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use http::HeaderMap;

/// The protocol version of the request.
pub const VERSION: &str = "mcp-protocol-version";
/// The JSON-RPC method of the body.
pub const METHOD: &str = "mcp-method";
/// The tool, prompt, resource or task the body names.
pub const NAME: &str = "mcp-name";
/// Prefix of headers that repeat annotated tool parameters.
pub const PARAM_PREFIX: &str = "mcp-param-";

/// Longest echo of a client's value in an error, in characters.
pub const ECHO_CHARS_MAX: usize = 128;

/// A header that is missing or says something else than the body.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// Names the header and what is wrong with it.
    pub message: String,
    /// JSON text of `error.data`.
    pub data: String,
}

/// The value of a header that may appear once; `Err` if it is there twice or is no visible ASCII.
pub fn single<'a>(headers: &'a HeaderMap, name: &str) -> Result<Option<&'a str>, &'static str> {
    let mut values = headers.get_all(name).iter();
    let Some(first) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err("appears more than once");
    }
    match first.to_str() {
        Ok(text) => Ok(Some(text.trim_matches([' ', '\t']))),
        Err(_) => Err("is not plain ASCII; write it as =?base64?...?="),
    }
}

/// Checks that a header is there and equals the body's value. Names are case-insensitive, values
/// are not; `decoded` headers may carry their value as `=?base64?...?=`.
pub fn equal(
    headers: &HeaderMap,
    name: &str,
    shown_name: &str,
    body: &str,
    decoded: bool,
) -> Result<(), Mismatch> {
    let value = match single(headers, name) {
        Ok(Some(value)) => value,
        Ok(None) => return Err(mismatch(shown_name, "is missing", None, body)),
        Err(problem) => return Err(mismatch(shown_name, problem, None, body)),
    };
    let plain = if decoded { decode(value) } else { Some(Cow::Borrowed(value)) };
    match plain {
        None => {
            let problem = "is not valid =?base64?...?= text";
            Err(mismatch(shown_name, problem, Some(value), body))
        }
        Some(plain) if plain == body => Ok(()),
        Some(_) => Err(mismatch(shown_name, "differs from the request body", Some(value), body)),
    }
}

/// The value of a header that may be wrapped as `=?base64?...?=`. Without both markers it is
/// literal; with them the alphabet, the padding and the UTF-8 inside are strict.
#[must_use]
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    let Some(inner) = value.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?="))
    else {
        return Some(Cow::Borrowed(value));
    };
    let bytes = STANDARD.decode(inner).ok()?;
    String::from_utf8(bytes).ok().map(Cow::Owned)
}

/// A client's text, cut to a length that is safe to repeat.
#[must_use]
pub fn echo(text: &str) -> &str {
    text.char_indices().nth(ECHO_CHARS_MAX).map_or(text, |(end, _)| text.get(..end).unwrap_or(""))
}

/// Describes a header that does not fit.
#[must_use]
pub fn mismatch(name: &str, problem: &str, header: Option<&str>, body: &str) -> Mismatch {
    Mismatch {
        message: format!("Header mismatch: {name} {problem}"),
        data: serde_json::json!({
            "mismatch": { "name": name, "header": header.map(echo), "body": echo(body) }
        })
        .to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    fn headers(values: &[&[u8]]) -> HeaderMap {
        let mut map = HeaderMap::new();
        for value in values {
            map.append(NAME, HeaderValue::from_bytes(value).expect("a header value"));
        }
        map
    }

    #[test]
    fn base64_markers_are_exact() {
        let table = [
            ("room_info", Some("room_info")),
            ("=?base64?cm9vbQ==?=", Some("room")),
            ("=?base64?w6k=?=", Some("é")),
            ("=?base64??=", Some("")),
            ("=?base64?cm9vbQ?=", None),
            ("=?base64?cm9vbQ=?=", None),
            ("=?base64?cm9v bQ==?=", None),
            ("=?base64?cm9v_Q==?=", None),
            ("=?base64?/w==?=", None),
            ("=?base64?cm9vbR==?=", None),
            ("=?BASE64?cm9vbQ==?=", Some("=?BASE64?cm9vbQ==?=")),
            ("=?base64?cm9vbQ==", Some("=?base64?cm9vbQ==")),
            ("cm9vbQ==?=", Some("cm9vbQ==?=")),
            ("=?base64?=", Some("=?base64?=")),
        ];
        for (value, expected) in table {
            assert_eq!(decode(value).as_deref(), expected, "{value}");
        }
    }

    #[test]
    fn a_mismatch_names_the_header_and_the_problem() {
        let table: [(&[&[u8]], &str); 8] = [
            (&[b"room"], "ok"),
            (&[b" room\t"], "ok"),
            (&[b"=?base64?cm9vbQ==?="], "ok"),
            (&[], "Mcp-Name is missing"),
            (&[b"ROOM"], "Mcp-Name differs"),
            (&[b"room", b"room"], "Mcp-Name appears more than once"),
            (&[b"\xc3\xa9"], "Mcp-Name is not plain ASCII"),
            (&[b"=?base64?!?="], "Mcp-Name is not valid =?base64?"),
        ];
        for (values, expected) in table {
            let got = match equal(&headers(values), NAME, "Mcp-Name", "room", true) {
                Ok(()) => "ok".to_owned(),
                Err(mismatch) => mismatch.message,
            };
            assert!(got.contains(expected), "{values:?}: {got}");
        }
    }

    #[test]
    fn echoes_are_cut_at_characters() {
        assert_eq!(echo("short"), "short");
        assert_eq!(echo(&"é".repeat(500)), "é".repeat(ECHO_CHARS_MAX));
    }
}
