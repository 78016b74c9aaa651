//! Capability tokens: self-reported discovery hints (rooms 5.4).

use object::Reject;

use crate::limits;
use crate::reject::Code;
use crate::spec::{Kind, Text as Rule};
use crate::text::{Text, trim};

/// The argument's shape; the tokens' own form is judged by [`tokens`].
pub(crate) const CAPABILITIES: Kind = Kind::List {
    item: &Kind::Text(Rule {
        trim: true,
        min: 1,
        max: limits::CAPABILITY_UTF16_MAX,
        pattern: None,
    }),
    items_max: limits::CAPABILITIES_MAX,
};

/// Lower-cased, checked and without duplicates, in order.
pub(crate) fn tokens(raw: &[String]) -> Result<Vec<Text>, Reject> {
    let mut tokens: Vec<Text> = Vec::with_capacity(raw.len());
    for token in raw {
        let token = trim(token).to_lowercase();
        if !well_formed(&token) {
            return Err(Code::InvalidCapabilities.reject().field("capabilities"));
        }
        let token = Text::from(token);
        if !tokens.contains(&token) {
            tokens.push(token);
        }
    }
    Ok(tokens)
}

/// The stateless part of an op that takes `capabilities`.
pub(crate) fn check(args: &serde_json::Value) -> Result<(), Reject> {
    let list = args.get("capabilities").and_then(serde_json::Value::as_array);
    let words = list.into_iter().flatten().filter_map(serde_json::Value::as_str);
    tokens(&words.map(str::to_owned).collect::<Vec<_>>()).map(|_| ())
}

/// Groups of lower-case letters or digits, joined by single separators.
fn well_formed(token: &str) -> bool {
    !token.is_empty()
        && token.len() <= limits::CAPABILITY_UTF16_MAX
        && token.split(['.', '_', '-']).all(|group| {
            !group.is_empty() && group.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_are_lowered_checked_and_deduplicated() {
        let own = |list: &[&str]| list.iter().map(|s| (*s).to_owned()).collect::<Vec<_>>();
        let given = own(&["Text.Review", " shell ", "text.review", "a-b_c.9"]);
        let kept: Vec<String> =
            tokens(&given).unwrap().iter().map(|t| t.as_str().to_owned()).collect();
        assert_eq!(kept, ["text.review", "shell", "a-b_c.9"]);
        for bad in ["", ".a", "a.", "a..b", "a-_b", "a b", "é", "a/b"] {
            assert_eq!(tokens(&own(&[bad])).unwrap_err().code, "invalid_capabilities", "{bad}");
        }
    }
}
