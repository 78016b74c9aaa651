//! Reading answers of a server, whatever form the protocol gives them.

use redis::Value;

/// The text of a string of any kind.
pub(crate) fn text(value: &Value) -> Option<&str> {
    match value {
        Value::BulkString(bytes) => str::from_utf8(bytes).ok(),
        Value::SimpleString(text) | Value::VerbatimString { text, .. } => Some(text),
        _ => None,
    }
}

/// A whole number, also one written as text.
pub(crate) fn int(value: &Value) -> Option<i64> {
    match value {
        Value::Int(number) => Some(*number),
        other => text(other)?.parse().ok(),
    }
}

/// The items of an array.
pub(crate) fn items(value: &Value) -> &[Value] {
    match value {
        Value::Array(items) | Value::Set(items) => items,
        _ => &[],
    }
}

/// What a map, or an array of names and values, holds under a name.
pub(crate) fn field<'a>(value: &'a Value, name: &str) -> Option<&'a Value> {
    match value {
        Value::Map(pairs) => pairs.iter().find(|(key, _)| text(key) == Some(name)).map(|(_, v)| v),
        Value::Array(items) => {
            let mut pairs = items.chunks_exact(2).filter_map(|pair| pair.first().zip(pair.get(1)));
            pairs.find(|(key, _)| text(key) == Some(name)).map(|(_, v)| v)
        }
        _ => None,
    }
}

/// One field of the text of INFO or CLUSTER INFO.
pub(crate) fn info<'a>(info: &'a str, name: &str) -> Option<&'a str> {
    info.lines().find_map(|line| line.split_once(':').filter(|(key, _)| *key == name)).map(|p| p.1)
}

/// An error of the server as one line.
pub(crate) fn error_line(error: &redis::ServerError) -> String {
    format!("{} {}", error.code(), error.details().unwrap_or_default())
}
