//! Tool results as text (ours 2 and 3). Pure: bytes in, bytes out.
//!
//! A success is `structuredContent` and the same object as compact JSON in one text block, an image
//! before it. A refusal is an `isError` result without `structuredContent`, whose text is JSON.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use super::era::Era;
use super::jsonrpc::{self, Id};
use super::prepared::HEAD;
use crate::call::{Attached, Success};
use crate::error::Refusal;

/// Bytes of an answer around its content.
const FRAME_BYTES: usize = 512;

/// A success whose body is not what the protocol allows: a fault of this service.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("the body of a success is not one JSON object")]
pub struct NoObject;

/// The most bytes [`success`] can make of this.
#[must_use]
pub fn success_bytes_bound(success: &Success) -> usize {
    // The body is compact JSON: quotes and backslashes double in the text block, nothing grows more.
    let body = success.body.len().saturating_mul(3);
    let blob = success.blob.as_ref().map_or(0, |blob| match blob.image_mime {
        Some(_) => blob.bytes.len().saturating_mul(4) / 3 + 4,
        // As text: a control character takes 6 bytes in the object and 7 in the text block, an
        // invalid byte 3 and 3; and base64 once.
        None => blob.bytes.len().saturating_mul(15),
    });
    body.saturating_add(blob).saturating_add(FRAME_BYTES).saturating_add(jsonrpc::ID_BYTES_MAX)
}

/// Writes the answer to a call that succeeded. `extras` are the modern era's own result members.
pub fn success(
    era: Era,
    id: Id<'_>,
    success: &Success,
    extras: &[u8],
) -> Result<Vec<u8>, NoObject> {
    let body = std::str::from_utf8(&success.body).map_err(|_| NoObject)?;
    if !(body.starts_with('{') && body.ends_with('}')) {
        return Err(NoObject);
    }
    let mut out = Vec::with_capacity(body.len() * 2 + body.len() / 4 + FRAME_BYTES);
    open(&mut out, id);
    match &success.blob {
        None => write_content(&mut out, body, body),
        Some(Attached { bytes, image_mime: Some(mime) }) => {
            out.reserve(bytes.len() / 3 * 4 + 4);
            out.extend_from_slice(b"{\"type\":\"image\",\"data\":\"");
            write_base64(&mut out, bytes);
            out.extend_from_slice(b"\",\"mimeType\":");
            jsonrpc::write_string(&mut out, mime);
            out.extend_from_slice(b"},");
            write_content(&mut out, body, body);
        }
        Some(Attached { bytes, image_mime: None }) => {
            let text = String::from_utf8_lossy(bytes);
            let structured = extended(body, &text, None);
            let block = extended(body, &text, Some(bytes));
            write_content(&mut out, &block, &structured);
        }
    }
    close(&mut out, era, extras);
    Ok(out)
}

/// Writes the answer to a call that was refused.
#[must_use]
pub fn refusal(era: Era, id: Id<'_>, refusal: &Refusal, extras: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(FRAME_BYTES);
    open(&mut out, id);
    write_text_block(&mut out, &refusal_text(refusal));
    out.extend_from_slice(b"],\"isError\":true");
    close(&mut out, era, extras);
    out
}

/// The JSON a refused client reads (ours 3).
fn refusal_text(refusal: &Refusal) -> String {
    let fields = refusal
        .faults
        .iter()
        .map(|fault| FieldFault { path: &fault.path, rule: &fault.rule, message: &fault.message })
        .collect();
    let shape = RefusalShape {
        error: &refusal.code,
        message: &refusal.message,
        retryable: refusal.retryable,
        retry_after_ms: refusal.retry_after_ms,
        field: refusal.field.as_deref(),
        limit: refusal.limit,
        fields,
    };
    // Strings, numbers and a bool cannot fail to be written.
    serde_json::to_string(&shape).unwrap_or_else(|_| "{\"error\":\"internal_error\"}".to_owned())
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct RefusalShape<'a> {
    error: &'a str,
    message: &'a str,
    retryable: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    field: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    limit: Option<u64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    fields: Vec<FieldFault<'a>>,
}

#[derive(Serialize)]
struct FieldFault<'a> {
    path: &'a str,
    rule: &'a str,
    message: &'a str,
}

fn open(out: &mut Vec<u8>, id: Id<'_>) {
    out.extend_from_slice(HEAD);
    out.extend_from_slice(id.text().as_bytes());
    out.extend_from_slice(b",\"result\":{\"content\":[");
}

fn write_content(out: &mut Vec<u8>, block: &str, structured: &str) {
    write_text_block(out, block);
    out.extend_from_slice(b"],\"structuredContent\":");
    out.extend_from_slice(structured.as_bytes());
}

fn write_text_block(out: &mut Vec<u8>, text: &str) {
    out.extend_from_slice(b"{\"type\":\"text\",\"text\":");
    jsonrpc::write_string(out, text);
    out.push(b'}');
}

fn close(out: &mut Vec<u8>, era: Era, extras: &[u8]) {
    match era {
        Era::Modern => out.extend_from_slice(extras),
        Era::Legacy => {}
    }
    out.extend_from_slice(b"}}");
}

/// The object with `data` (base64) and `text` added.
fn extended(body: &str, text: &str, data: Option<&[u8]>) -> String {
    let members = body.strip_suffix('}').unwrap_or(body);
    let mut out = Vec::with_capacity(
        members.len() + text.len() + text.len() / 8 + data.map_or(0, |d| d.len() / 3 * 4) + 32,
    );
    out.extend_from_slice(members.as_bytes());
    let mut comma: &[u8] = if members.trim_end() == "{" { b"" } else { b"," };
    if let Some(data) = data {
        out.extend_from_slice(comma);
        out.extend_from_slice(b"\"data\":\"");
        write_base64(&mut out, data);
        out.push(b'"');
        comma = b",";
    }
    out.extend_from_slice(comma);
    out.extend_from_slice(b"\"text\":");
    jsonrpc::write_string(&mut out, text);
    out.push(b'}');
    // All parts are text.
    String::from_utf8(out).unwrap_or_default()
}

fn write_base64(out: &mut Vec<u8>, bytes: &[u8]) {
    let start = out.len();
    out.resize(start + bytes.len().div_ceil(3) * 4, 0);
    let written = out
        .get_mut(start..)
        .and_then(|room| STANDARD.encode_slice(bytes, room).ok())
        .unwrap_or_default();
    out.truncate(start + written);
}

#[cfg(test)]
mod tests;
