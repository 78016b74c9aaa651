//! The JSON-RPC envelope, borrowed from the body: ids and arguments stay the text they came as.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, SeqAccess, Visitor};
use serde_json::value::RawValue;

/// Longest request id, in bytes of its JSON text: it is repeated in the answer.
pub const ID_BYTES_MAX: usize = 512;
/// Most entries of a legacy batch.
pub const BATCH_ENTRIES_MAX: usize = 32;
// Two messages below name them.
const _: () = assert!(ID_BYTES_MAX == 512 && BATCH_ENTRIES_MAX == 32);

/// The error codes this server uses (mcp.md 1.1, rooms 1.5).
pub mod code {
    pub const PARSE: i32 = -32700;
    pub const INVALID_REQUEST: i32 = -32600;
    pub const METHOD_NOT_FOUND: i32 = -32601;
    pub const INVALID_PARAMS: i32 = -32602;
    pub const INTERNAL: i32 = -32603;
    /// A header is missing or says something else than the body.
    pub const HEADER_MISMATCH: i32 = -32020;
    pub const MISSING_CLIENT_CAPABILITY: i32 = -32021;
    pub const UNSUPPORTED_VERSION: i32 = -32022;
    /// Refused by HTTP rules before the body was looked at (the reference's code).
    pub const HTTP: i32 = -32000;
}

/// A request id as its JSON text: a string or an integer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Id<'a>(&'a str);

impl<'a> Id<'a> {
    /// Takes the text of a JSON value, if it can be an id.
    #[must_use]
    pub fn new(text: &'a str) -> Option<Self> {
        let digits = text.strip_prefix('-').unwrap_or(text);
        let integer = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        ((integer || text.starts_with('"')) && text.len() <= ID_BYTES_MAX).then_some(Self(text))
    }

    /// The JSON text.
    #[must_use]
    pub const fn text(self) -> &'a str {
        self.0
    }
}

/// The id of an error answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ErrorId<'a> {
    Of(Id<'a>),
    /// Not readable, and the caller's revision requires one.
    Null,
    /// Not readable, and the caller's revision forbids null.
    Absent,
}

/// A body: one message, or a batch of them.
#[derive(Clone)]
pub enum Body<'a> {
    One(&'a str),
    Batch(Vec<&'a RawValue>),
}

// Bodies hold handles and messages.
impl fmt::Debug for Body<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::One(text) => write!(f, "One({} bytes)", text.len()),
            Self::Batch(entries) => write!(f, "Batch({} entries)", entries.len()),
        }
    }
}

/// One message.
#[derive(Clone, Debug)]
pub enum Message<'a> {
    Request(Request<'a>),
    /// No id: nothing is answered.
    Notification,
    /// A result or an error; no request of ours can be answered, for there are none.
    Response,
}

/// A request.
#[derive(Clone)]
pub struct Request<'a> {
    pub id: Id<'a>,
    pub method: Cow<'a, str>,
    pub params: Option<&'a RawValue>,
}

// Parameters hold handles and messages.
impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Why a body or a message is none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Malformed<'a> {
    pub code: i32,
    /// The id, where it could be read.
    pub id: Option<Id<'a>>,
    pub message: &'static str,
}

impl Malformed<'_> {
    const fn new(code: i32, message: &'static str) -> Self {
        Self { code, id: None, message }
    }
}

/// Tells one message from a batch. A single message is not looked at yet.
pub fn body(text: &str) -> Result<Body<'_>, Malformed<'_>> {
    if !text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('[') {
        return Ok(Body::One(text));
    }
    let mut reader = serde_json::Deserializer::from_str(text);
    let entries = reader.deserialize_seq(BatchVisitor).and_then(|entries| {
        reader.end()?;
        Ok(entries)
    });
    match entries {
        Ok(Some(entries)) if entries.is_empty() => {
            Err(Malformed::new(code::INVALID_REQUEST, "Invalid Request: the batch is empty"))
        }
        Ok(Some(entries)) => Ok(Body::Batch(entries)),
        Ok(None) => Err(Malformed::new(
            code::INVALID_REQUEST,
            "Invalid Request: the batch has more than 32 entries",
        )),
        Err(_) => Err(Malformed::new(code::PARSE, "Parse error: the body is not JSON")),
    }
}

/// Reads one message.
pub fn message(text: &str) -> Result<Message<'_>, Malformed<'_>> {
    let wire = wire(text)?;
    let id = match wire.id.map(RawValue::get) {
        None => None,
        Some(text) => Some(Id::new(text).ok_or(Malformed::new(
            code::INVALID_REQUEST,
            "Invalid Request: id must be a string or an integer of at most 512 bytes",
        ))?),
    };
    let invalid = |message| Malformed { code: code::INVALID_REQUEST, id, message };
    if wire.jsonrpc.map(RawValue::get) != Some("\"2.0\"") {
        return Err(invalid("Invalid Request: jsonrpc must be \"2.0\""));
    }
    let Some(method) = wire.method else {
        if wire.result.is_some() || wire.error.is_some() {
            return Ok(Message::Response);
        }
        return Err(invalid("Invalid Request: method is missing"));
    };
    let method =
        string(method).ok_or_else(|| invalid("Invalid Request: method must be a string"))?;
    match id {
        Some(id) => Ok(Message::Request(Request { id, method, params: wire.params })),
        None => Ok(Message::Notification),
    }
}

/// The value of a JSON string; borrowed unless it has escapes. `None` if it is no string.
#[must_use]
pub fn string(raw: &RawValue) -> Option<Cow<'_, str>> {
    let text = raw.get();
    let inner = text.strip_prefix('"')?.strip_suffix('"')?;
    if inner.contains('\\') {
        serde_json::from_str(text).ok().map(Cow::Owned)
    } else {
        Some(Cow::Borrowed(inner))
    }
}

/// Writes an error answer. `data` is the JSON text of `error.data`.
#[must_use]
pub fn error(id: ErrorId<'_>, code: i32, message: &str, data: Option<&str>) -> Vec<u8> {
    let mut out = Vec::with_capacity(128 + message.len() + data.map_or(0, str::len));
    out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",");
    match id {
        ErrorId::Of(id) => {
            out.extend_from_slice(b"\"id\":");
            out.extend_from_slice(id.text().as_bytes());
            out.push(b',');
        }
        ErrorId::Null => out.extend_from_slice(b"\"id\":null,"),
        ErrorId::Absent => {}
    }
    out.extend_from_slice(b"\"error\":{\"code\":");
    out.extend_from_slice(code.to_string().as_bytes());
    out.extend_from_slice(b",\"message\":");
    write_string(&mut out, message);
    if let Some(data) = data {
        out.extend_from_slice(b",\"data\":");
        out.extend_from_slice(data.as_bytes());
    }
    out.extend_from_slice(b"}}");
    out
}

/// Appends a JSON string.
pub fn write_string(out: &mut Vec<u8>, text: &str) {
    let start = out.len();
    // A write to memory cannot fail; were it to, the answer stays well formed.
    if serde_json::to_writer(&mut *out, text).is_err() {
        out.truncate(start);
        out.extend_from_slice(b"\"\"");
    }
}

fn wire(text: &str) -> Result<Wire<'_>, Malformed<'_>> {
    let no_json = Malformed::new(code::PARSE, "Parse error: the body is not JSON");
    let no_object =
        Malformed::new(code::INVALID_REQUEST, "Invalid Request: not one JSON-RPC object");
    // A derived reader takes arrays for structs; this protocol does not.
    if !text.trim_start_matches([' ', '\t', '\r', '\n']).starts_with('{') {
        let json = serde_json::from_str::<IgnoredAny>(text).is_ok();
        return Err(if json { no_object } else { no_json });
    }
    serde_json::from_str(text).map_err(|error| if error.is_data() { no_object } else { no_json })
}

/// A member that is there, `null` included: `null` is no id, but it is not "no id" either.
pub(crate) fn present<'de, D>(from: D) -> Result<Option<&'de RawValue>, D::Error>
where
    D: Deserializer<'de>,
{
    <&RawValue>::deserialize(from).map(Some)
}

#[derive(Deserialize)]
struct Wire<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    jsonrpc: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    method: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    params: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    result: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    error: Option<&'a RawValue>,
}

/// Reads at most [`BATCH_ENTRIES_MAX`] entries; `None` if there are more.
struct BatchVisitor;

impl<'de> Visitor<'de> for BatchVisitor {
    type Value = Option<Vec<&'de RawValue>>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a batch")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        let mut entries = Vec::new();
        let mut over = false;
        while let Some(entry) = seq.next_element()? {
            // The rest is read, but not kept, so that a broken body is told from a long one.
            over |= entries.len() == BATCH_ENTRIES_MAX;
            if !over {
                entries.push(entry);
            }
        }
        Ok((!over).then_some(entries))
    }
}

#[cfg(test)]
mod tests;
