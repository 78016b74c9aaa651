//! The bundle of a Generated App: exact keys, bounded sources, no way out of the frame
//! (rooms 15.1).

use std::borrow::Cow;

use object::Reject;
use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::{Map, Value};

use crate::limits::{APP_BUNDLE_BYTES_MAX, APP_STATE_BYTES_MAX};
use crate::reject::Code;
use crate::text::{Text, utf16_len};

/// Longest title, in UTF-16 units.
pub const TITLE_UTF16_MAX: usize = 80;
/// Longest `html`, in UTF-16 units.
pub const HTML_UTF16_MAX: usize = 20_480;
/// Longest `css`, in UTF-16 units.
pub const CSS_UTF16_MAX: usize = 12_288;
/// Longest `js`, in UTF-16 units.
pub const JS_UTF16_MAX: usize = 32_768;

const _: () = assert!(APP_STATE_BYTES_MAX < APP_BUNDLE_BYTES_MAX);

/// Why a text is no bundle, in the contract's families.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Fault {
    #[error("the bundle must be a JSON object")]
    Object,
    #[error("the bundle is larger than 49152 bytes of JSON")]
    TooLarge,
    #[error("bad bundle: {0}")]
    Invalid(&'static str),
}

impl From<Fault> for Reject {
    fn from(fault: Fault) -> Self {
        match fault {
            Fault::Object => Code::GeneratedAppBundleObject.reject().field("bundle"),
            Fault::TooLarge => {
                let limit = APP_BUNDLE_BYTES_MAX as u64;
                Code::GeneratedAppBundleTooLarge.reject().field("bundle").limit(limit)
            }
            Fault::Invalid(what) => Code::GeneratedAppBundleInvalid.because(what).field("bundle"),
        }
    }
}

/// A checked bundle: what the room keeps of it.
#[derive(Clone, PartialEq, Eq)]
pub struct Bundle {
    title: Text,
    bytes: usize,
    digest: u128,
    initial_state: Text,
}

impl std::fmt::Debug for Bundle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bundle").field("bytes", &self.bytes).finish_non_exhaustive()
    }
}

impl Bundle {
    /// Checks a bundle's JSON text as received: an object, small enough, then its parts.
    pub fn parse(text: &[u8]) -> Result<Self, Fault> {
        let text = std::str::from_utf8(text).map_err(|_| Fault::Object)?;
        let Ok(Value::Object(bundle)) = serde_json::from_str(text) else {
            return Err(Fault::Object);
        };
        let compact = compact(text);
        if compact.len() > APP_BUNDLE_BYTES_MAX {
            return Err(Fault::TooLarge);
        }
        exact_keys(&bundle, &["version", "manifest", "html", "css", "js", "initialState"])?;
        require(bundle.get("version").and_then(Value::as_f64) == Some(1.0), "version must be 1")?;
        let title = check_manifest(bundle.get("manifest"))?;
        let source = |name| bundle.get(name).and_then(Value::as_str);
        check_source(source("html"), HTML_UTF16_MAX, "html")?;
        check_source(source("css"), CSS_UTF16_MAX, "css")?;
        check_source(source("js"), JS_UTF16_MAX, "js")?;
        let Some(state @ Value::Object(_)) = bundle.get("initialState") else {
            return Err(Fault::Invalid("initialState must be an object"));
        };
        // What is checked above is the last of each; a reader of the text might take the first.
        require(serde_json::from_str::<Once>(text).is_ok(), "a key is there twice")?;
        let initial_state = state.to_string();
        let fits = initial_state.len() <= APP_STATE_BYTES_MAX;
        require(fits, "initialState is larger than 16384 bytes")?;
        Ok(Self {
            title: title.into(),
            bytes: compact.len(),
            digest: digest(compact.as_bytes()),
            initial_state: initial_state.into(),
        })
    }

    /// The manifest's title.
    #[must_use]
    pub fn title(&self) -> &Text {
        &self.title
    }

    /// Bytes of the compact text.
    #[must_use]
    pub const fn bytes(&self) -> usize {
        self.bytes
    }

    /// Equal for equal compact texts in the same key order.
    #[must_use]
    pub const fn digest(&self) -> u128 {
        self.digest
    }

    /// Compact JSON of the state the app starts with.
    #[must_use]
    pub fn initial_state(&self) -> &Text {
        &self.initial_state
    }
}

/// The same JSON, keys in the received order, without insignificant white space and with each
/// string written in its shortest form. So neither indenting nor escaping changes a size or makes
/// an equal bundle another one.
///
/// `text` must be valid JSON; other text comes out unspecified, but never panics.
#[must_use]
pub fn compact(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('"') {
        let (between, from_quote) = rest.split_at(at);
        out.extend(between.chars().filter(|c| !c.is_ascii_whitespace()));
        let (token, after) = split_string(from_quote);
        out.push_str(&shortest(token));
        rest = after;
    }
    out.extend(rest.chars().filter(|c| !c.is_ascii_whitespace()));
    out
}

/// Splits a text that begins with a JSON string after that string.
fn split_string(text: &str) -> (&str, &str) {
    let mut escaped = false;
    for (at, byte) in text.bytes().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return text.split_at(at + 1),
            _ => {}
        }
    }
    (text, "")
}

fn shortest(token: &str) -> Cow<'_, str> {
    if !token.contains('\\') {
        return Cow::Borrowed(token);
    }
    match serde_json::from_str::<String>(token) {
        Ok(string) => Cow::Owned(Value::String(string).to_string()),
        Err(_) => Cow::Borrowed(token),
    }
}

/// FNV-1a over 128 bits. It guards against an accident only: a forger could but hide a change of
/// its own bundle from itself.
fn digest(bytes: &[u8]) -> u128 {
    const OFFSET: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    const PRIME: u128 = 0x0000_0000_0100_0000_0000_0000_0000_013b;
    bytes.iter().fold(OFFSET, |hash, byte| (hash ^ u128::from(*byte)).wrapping_mul(PRIME))
}

fn check_manifest(manifest: Option<&Value>) -> Result<&str, Fault> {
    let Some(Value::Object(manifest)) = manifest else {
        return Err(Fault::Invalid("manifest must be an object"));
    };
    exact_keys(manifest, &["title", "networkOrigins"])?;
    let title = manifest.get("title").and_then(Value::as_str).unwrap_or_default();
    let units = utf16_len(title);
    let plain = !title.contains(|c: char| matches!(c, '<' | '>') || c.is_control());
    require((1..=TITLE_UTF16_MAX).contains(&units) && plain, "manifest.title")?;
    let origins = manifest.get("networkOrigins").and_then(Value::as_array);
    require(origins.is_some_and(Vec::is_empty), "manifest.networkOrigins must be empty")?;
    Ok(title)
}

fn check_source(source: Option<&str>, utf16_max: usize, what: &'static str) -> Result<(), Fault> {
    let Some(source) = source else { return Err(Fault::Invalid(what)) };
    let units = utf16_len(source);
    require((1..=utf16_max).contains(&units) && !source.contains('\0'), what)?;
    let lower = source.to_ascii_lowercase();
    let escapes = ["</script", "<iframe", "<object", "<embed", "javascript:"];
    require(!escapes.iter().any(|word| lower.contains(word)), what)
}

fn exact_keys(object: &Map<String, Value>, keys: &[&str]) -> Result<(), Fault> {
    let exact = object.len() == keys.len() && keys.iter().all(|key| object.contains_key(*key));
    require(exact, "a key is missing or unknown")
}

/// The keys of a bundle, each of them once: reading it fails on a repeated one.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "read for its keys alone")]
struct Once {
    version: IgnoredAny,
    manifest: OnceManifest,
    html: IgnoredAny,
    css: IgnoredAny,
    js: IgnoredAny,
    initial_state: IgnoredAny,
}

/// The keys of a manifest.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
#[expect(dead_code, reason = "read for its keys alone")]
struct OnceManifest {
    title: IgnoredAny,
    network_origins: IgnoredAny,
}

const fn require(holds: bool, what: &'static str) -> Result<(), Fault> {
    if holds { Ok(()) } else { Err(Fault::Invalid(what)) }
}
