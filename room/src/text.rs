//! Text that people and agents wrote: cheap to share, never printed by accident.

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// An immutable string whose `Debug` prints a fixed word.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Text(Arc<str>);

impl Text {
    /// The string itself.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl Deref for Text {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Default for Text {
    fn default() -> Self {
        Self("".into())
    }
}

impl From<&str> for Text {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl From<String> for Text {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Text(..)")
    }
}

impl serde::Serialize for Text {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for Text {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer).map(Self::from)
    }
}

impl schemars::JsonSchema for Text {
    fn schema_name() -> Cow<'static, str> {
        "string".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        String::json_schema(generator)
    }
}

/// Trims as the reference's `String.prototype.trim` does: what is trimmed decides what is too
/// short, and which room an id names.
#[must_use]
pub fn trim(text: &str) -> &str {
    // Rust's white space has NEL and lacks the byte order mark; there it is the other way round.
    text.trim_matches(|c: char| (c.is_whitespace() && c != '\u{85}') || c == '\u{feff}')
}

/// Length as the contract counts it (ours 18).
#[must_use]
pub fn utf16_len(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.encode_utf16().count() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_output_hides_the_text() {
        assert_eq!(format!("{:?}", Text::from("canary")), "Text(..)");
    }

    #[test]
    fn trimming_is_javascripts() {
        for (text, want) in [
            (" \t\n a b \r", "a b"),
            ("\u{feff}a\u{a0}\u{3000}\u{2028}", "a"),
            ("\u{85}a\u{85}", "\u{85}a\u{85}"),
            ("\u{200b}a", "\u{200b}a"),
            ("   ", ""),
        ] {
            assert_eq!(trim(text), want, "{text:?}");
        }
    }

    #[test]
    fn lengths_are_utf16_units() {
        for (text, units) in [("", 0), ("abc", 3), ("é", 1), ("😀", 2), ("a😀", 3)] {
            assert_eq!(utf16_len(text), units, "{text}");
        }
    }
}
