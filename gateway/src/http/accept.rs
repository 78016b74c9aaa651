//! Which form of answer a client takes: lenient on purpose (mcp.md 1.3, pitfall 6). Pure.

use http::HeaderMap;
use http::header::{ACCEPT, CONTENT_TYPE};

/// The form of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    Json,
    /// One server-sent event with the one message, then the end.
    EventStream,
}

/// The form to answer in: JSON wherever the client takes it; `None` if it takes neither form.
#[must_use]
pub fn form(headers: &HeaderMap) -> Option<Form> {
    let mut named = false;
    let mut json = false;
    let mut event_stream = false;
    for value in headers.get_all(ACCEPT) {
        // What cannot be read cannot exclude anything.
        let Ok(text) = value.to_str() else { return Some(Form::Json) };
        for range in text.split(',').filter(|range| !range.trim().is_empty()) {
            named = true;
            let mut parts = range.split(';').map(str::trim);
            let media = parts.next().unwrap_or("").to_ascii_lowercase();
            if parts.any(is_zero_quality) {
                continue;
            }
            match media.as_str() {
                "*/*" | "application/*" | "application/json" => json = true,
                "text/*" | "text/event-stream" => event_stream = true,
                _ => {}
            }
        }
    }
    if json || !named {
        Some(Form::Json)
    } else if event_stream {
        Some(Form::EventStream)
    } else {
        None
    }
}

/// Whether the body is declared as JSON, whatever the parameters.
#[must_use]
pub fn is_json(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|text| {
        let media = text.split(';').next().unwrap_or("").trim();
        media.eq_ignore_ascii_case("application/json")
    })
}

fn is_zero_quality(parameter: &str) -> bool {
    let Some((name, value)) = parameter.split_once('=') else { return false };
    name.trim().eq_ignore_ascii_case("q") && value.trim().parse::<f32>().is_ok_and(|q| q <= 0.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::HeaderValue;

    #[test]
    fn json_wherever_it_is_taken() {
        use Form::{EventStream, Json};
        let table: [(&[&str], Option<Form>); 14] = [
            (&[], Some(Json)),
            (&[""], Some(Json)),
            (&["*/*"], Some(Json)),
            (&["application/json"], Some(Json)),
            (&["Application/JSON; charset=utf-8"], Some(Json)),
            (&["application/json, text/event-stream"], Some(Json)),
            (&["text/event-stream, application/json"], Some(Json)),
            (&["text/event-stream", "application/json"], Some(Json)),
            (&["text/event-stream"], Some(EventStream)),
            (&["text/*;q=0.5"], Some(EventStream)),
            (&["application/json;q=0, text/event-stream"], Some(EventStream)),
            (&["text/html, */*;q=0.1"], Some(Json)),
            (&["text/html"], None),
            (&["application/json; q=0.0"], None),
        ];
        for (values, expected) in table {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(ACCEPT, HeaderValue::from_str(value).expect("a value"));
            }
            assert_eq!(form(&headers), expected, "{values:?}");
        }
    }

    #[test]
    fn only_json_bodies_are_taken() {
        for (value, expected) in [
            ("application/json", true),
            ("application/json; charset=utf-8", true),
            ("APPLICATION/JSON;x", true),
            ("text/plain", false),
            ("application/jsonp", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(CONTENT_TYPE, HeaderValue::from_str(value).expect("a value"));
            assert_eq!(is_json(&headers), expected, "{value}");
        }
        assert!(!is_json(&HeaderMap::new()));
    }
}
