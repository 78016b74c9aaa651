//! `/room?id=`: what a person sees who opens an invite before there is a page to enter by.

use std::borrow::Cow;

use http::StatusCode;
use object::ObjectId;

/// Nothing is loaded, run, framed or sent anywhere.
pub(super) const POLICY: &str =
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'";

pub(super) struct Page {
    pub(super) status: StatusCode,
    pub(super) html: String,
}

/// Writes the page for a query string. The id is shown, never looked up: a page view must not
/// tell whether a room exists.
pub(super) fn write(query: &str, app_url: &str) -> Page {
    let id = query
        .split('&')
        .filter_map(|pair| pair.strip_prefix("id="))
        .find_map(decode)
        .filter(|id| is_room_id(id));
    let Some(id) = id else {
        let body = "<h1>No room</h1>\n<p>This address lacks a room id. An invite looks like \
                    <code>/room?id=word-word-code</code>.</p>\n";
        return Page { status: StatusCode::BAD_REQUEST, html: html("No room", body) };
    };
    let id = escape(&id);
    let app_url = escape(app_url);
    let body = format!(
        "<h1>Invite to the room <code>{id}</code></h1>\n\
         <p>A room is where agents and people talk, hand each other tasks and exchange files. \
         Whoever knows its id may join it, so pass this address on with care.</p>\n\
         <h2>How an agent joins</h2>\n\
         <ol>\n\
         <li>Add the MCP server <code>{app_url}/mcp</code> to the agent.</li>\n\
         <li>Tell it: <code>Join the room {id} and wait for events.</code> It calls \
         <code>join_room</code> with <code>roomId</code> set to <code>{id}</code>.</li>\n\
         </ol>\n\
         <p>The whole contract: <a href=\"{app_url}/agent.md\">agent.md</a>.</p>\n"
    );
    Page { status: StatusCode::OK, html: html("Invite to a room", &body) }
}

fn html(title: &str, body: &str) -> String {
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <title>{title}</title>\n</head>\n<body>\n{body}</body>\n</html>\n"
    )
}

fn is_room_id(id: &str) -> bool {
    let units = id.encode_utf16().take(ObjectId::NAME_UTF16_MAX + 1).count();
    (1..=ObjectId::NAME_UTF16_MAX).contains(&units) && !id.chars().any(char::is_control)
}

/// Percent-decoding of a query value; `None` if the bytes are no UTF-8.
fn decode(value: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(value.len());
    let mut rest = value.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'+' => b' ',
            b'%' => {
                let high = hex(rest.next()?)?;
                let low = hex(rest.next()?)?;
                high * 16 + low
            }
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok().map(|text| room::text::trim(&text).to_owned())
}

const fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        b'A'..=b'F' => Some(digit - b'A' + 10),
        _ => None,
    }
}

fn escape(text: &str) -> Cow<'_, str> {
    if !text.contains(['&', '<', '>', '"', '\'']) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            other => out.push(other),
        }
    }
    Cow::Owned(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_shown_escaped_or_refused() {
        let table = [
            ("id=blue-otter-k2", 200, "<code>blue-otter-k2</code>"),
            ("type=audio&id=blue", 200, "<code>blue</code>"),
            ("id=%3Cscript%3E", 200, "<code>&lt;script&gt;</code>"),
            ("id=%22%27%26", 200, "<code>&quot;&#39;&amp;</code>"),
            ("id=a+b%20c", 200, "<code>a b c</code>"),
            ("id=%F0%9F%98%80", 200, "<code>😀</code>"),
            ("", 400, "lacks a room id"),
            ("id=", 400, "lacks a room id"),
            ("id=%ff", 400, "lacks a room id"),
            ("id=%0", 400, "lacks a room id"),
            ("id=%00", 400, "lacks a room id"),
            ("xid=1", 400, "lacks a room id"),
        ];
        for (query, status, part) in table {
            let page = write(query, "http://127.0.0.1:8080");
            assert_eq!(page.status.as_u16(), status, "{query}");
            assert!(page.html.contains(part), "{query}: {}", page.html);
            assert!(!page.html.contains("<script"), "{query}");
        }
        assert_eq!(write(&format!("id={}", "x".repeat(65)), "").status.as_u16(), 400);
    }
}
