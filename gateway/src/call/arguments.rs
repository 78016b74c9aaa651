//! A call's arguments: read once, the blob taken out, the rest kept as it came.

use std::borrow::Cow;
use std::fmt;

use base64::Engine as _;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use bytes::Bytes;
use object::{BlobEncoding, BlobField};
use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::error::Refusal;

/// The standard alphabet; padding may be there or not; bits after the last byte are ignored, as
/// browsers and the reference do.
const BLOB_BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// JSON by its grammar, and yet nothing that can be kept.
const UNREADABLE: &str = "A string holds half of a surrogate pair, or a number is out of range; \
    correct it and call again.";

/// What a call brings.
pub(super) struct Arguments {
    /// The arguments without the blob.
    pub(super) value: Value,
    pub(super) blob: Option<Bytes>,
    /// The text without the blob's member, where one was taken out.
    rest: Option<String>,
}

impl Arguments {
    /// Reads the text of one JSON object. The blob is decoded here, once for the whole cluster; a
    /// blob over its bound is left to the op's check, which knows the code.
    pub(super) fn read(text: &str, field: Option<BlobField>) -> Result<Self, Refusal> {
        let parts = field.map(|field| take_out(text, field)).transpose()?.flatten();
        let (blob, rest) = parts.map_or((None, None), |(blob, rest)| (Some(blob), Some(rest)));
        let value = serde_json::from_str::<Value>(rest.as_deref().unwrap_or(text))
            .map_err(|_too_deep| Refusal::invalid_arguments("", "json", UNREADABLE))?;
        if !value.is_object() {
            return Err(Refusal::invalid_arguments("", "type", "The arguments must be an object."));
        }
        Ok(Self { value, blob, rest })
    }

    /// The bytes to forward, given the text this was read from.
    pub(super) fn forwarded(&self, text: &str) -> Bytes {
        Bytes::copy_from_slice(self.rest.as_deref().unwrap_or(text).as_bytes())
    }
}

/// The blob and the text without its member; `None` if there is none of the right type, which is
/// the op's check to refuse.
fn take_out(text: &str, field: BlobField) -> Result<Option<(Bytes, String)>, Refusal> {
    let members = Members { name: field.name, size: text.len() };
    let mut reader = serde_json::Deserializer::from_str(text);
    let Ok((rest, Some(raw))) = reader.deserialize_map(members) else { return Ok(None) };
    let blob = match field.encoding {
        BlobEncoding::Json => Bytes::copy_from_slice(raw.get().as_bytes()),
        BlobEncoding::Base64 => {
            let Ok(text) = serde_json::from_str::<Text<'_>>(raw.get()) else { return Ok(None) };
            let decoded = BLOB_BASE64.decode(text.0.as_bytes());
            let bytes = decoded.map_err(|_not_base64| Refusal::invalid_attachment(field.name))?;
            Bytes::from(bytes)
        }
    };
    Ok(Some((blob, rest)))
}

/// A JSON string, borrowed where it has no escapes.
#[derive(serde::Deserialize)]
struct Text<'a>(#[serde(borrow)] Cow<'a, str>);

/// Copies all members but the named one; hands out the named one's last value.
struct Members {
    name: &'static str,
    size: usize,
}

impl<'de> Visitor<'de> for Members {
    type Value = (String, Option<&'de RawValue>);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut blob = None::<&'de RawValue>;
        let mut kept = Vec::<(&'de RawValue, &'de RawValue)>::new();
        while let Some((key, value)) = map.next_entry::<&RawValue, &RawValue>()? {
            let named = key.get().get(1..key.get().len().saturating_sub(1)) == Some(self.name)
                || (key.get().contains('\\')
                    && serde_json::from_str::<Text<'_>>(key.get())
                        .is_ok_and(|key| key.0 == self.name));
            if named {
                blob = Some(value);
            } else {
                kept.push((key, value));
            }
        }
        let mut rest = String::with_capacity(
            self.size.saturating_sub(blob.map_or(0, |blob| blob.get().len())),
        );
        rest.push('{');
        for (at, (key, value)) in kept.into_iter().enumerate() {
            if at > 0 {
                rest.push(',');
            }
            rest.push_str(key.get());
            rest.push(':');
            rest.push_str(value.get());
        }
        rest.push('}');
        Ok((rest, blob))
    }
}

#[cfg(test)]
mod tests;
