//! The order of all checks and the table of methods, for one message (mcp.md 1.0 to 1.2).
//!
//! Everything here is synchronous and touches nothing but the message and its headers: the result
//! is an [`Answer`], or the plan of one tool call.

use std::fmt;

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use room::catalog::Tool;
use serde::Deserialize;
use serde_json::json;
use serde_json::value::RawValue;

use super::era::{self, Era, Verdict};
use super::headers::{self, Mismatch, echo};
use super::jsonrpc::{self, ErrorId, Id, Malformed, Message, Request, code, present, string};
use super::tools::{Catalog, arguments_are_fit, unknown_tool};
use crate::error::OVERLOADED_RETRY_AFTER_MS;
use crate::http::budget::Charge;
use crate::http::reply::Payload;

/// Seconds after which an overloaded edge may be asked again.
pub const OVERLOADED_RETRY_AFTER_S: u64 = OVERLOADED_RETRY_AFTER_MS.div_ceil(1_000);

/// What goes back for one HTTP request, before it is framed.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub payload: Payload,
    /// `Retry-After`, in seconds.
    pub retry_after_s: Option<u64>,
}

impl Answer {
    /// Nothing to say: 202 without a body.
    #[must_use]
    pub const fn accepted() -> Self {
        Self { status: StatusCode::ACCEPTED, payload: Payload::Empty, retry_after_s: None }
    }

    /// Bytes made for this request.
    #[must_use]
    pub fn owned(status: StatusCode, bytes: Vec<u8>) -> Self {
        Self { status, payload: Payload::One(Bytes::from(bytes)), retry_after_s: None }
    }

    /// Bytes that count against the response budget.
    #[must_use]
    pub fn charged(charge: Charge, bytes: Vec<u8>) -> Self {
        Self {
            status: StatusCode::OK,
            payload: Payload::One(charge.bind(bytes)),
            retry_after_s: None,
        }
    }

    /// 503 with `Retry-After`.
    #[must_use]
    pub fn overloaded(id: ErrorId<'_>) -> Self {
        let mut answer =
            fault(StatusCode::SERVICE_UNAVAILABLE, id, code::INTERNAL, "Overloaded, retry", None);
        answer.retry_after_s = Some(OVERLOADED_RETRY_AFTER_S);
        answer
    }

    fn prepared(id: Id<'_>, rest: &Bytes) -> Self {
        Self {
            status: StatusCode::OK,
            payload: Payload::spliced(id, rest.clone()),
            retry_after_s: None,
        }
    }
}

/// The `MCP-Protocol-Version` header; one that cannot be read is no known version.
#[must_use]
pub fn version(headers: &HeaderMap) -> Option<&str> {
    headers::single(headers, headers::VERSION).unwrap_or(Some("unreadable"))
}

/// The id of an error whose request's id could not be read, for a caller of this version.
#[must_use]
pub fn unreadable_id(version: Option<&str>) -> ErrorId<'static> {
    if era::unreadable_id_is_null(version) { ErrorId::Null } else { ErrorId::Absent }
}

/// A JSON-RPC error as an answer.
#[must_use]
pub fn fault(
    status: StatusCode,
    id: ErrorId<'_>,
    code: i32,
    message: &str,
    data: Option<&str>,
) -> Answer {
    Answer::owned(status, jsonrpc::error(id, code, message, data))
}

/// A tool call that passed all checks of the protocol.
#[derive(Clone, Copy)]
pub struct Planned<'a> {
    pub era: Era,
    pub id: Id<'a>,
    pub tool: &'a Tool,
    /// One JSON object as received; `None` where the caller sent none.
    pub arguments: Option<&'a RawValue>,
}

// Arguments hold handles and messages.
impl fmt::Debug for Planned<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Planned")
            .field("era", &self.era)
            .field("tool", &self.tool.meta.name)
            .finish_non_exhaustive()
    }
}

/// What one message leads to.
#[derive(Debug)]
pub enum Step<'a> {
    Done(Answer),
    Call(Planned<'a>),
}

/// What a message is checked against.
#[derive(Clone, Copy)]
pub struct Context<'a> {
    pub catalog: &'a Catalog,
    pub headers: &'a HeaderMap,
    /// The `MCP-Protocol-Version` header, see [`version`].
    pub version: Option<&'a str>,
    /// Whether the caller accepts a form we can answer in; `false` leads to 406 for requests.
    pub acceptable: bool,
}

// Headers hold whatever a client puts there.
impl fmt::Debug for Context<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("acceptable", &self.acceptable).finish_non_exhaustive()
    }
}

impl<'a> Context<'a> {
    /// Reads what the checks need from the headers.
    #[must_use]
    pub fn new(catalog: &'a Catalog, headers: &'a HeaderMap, acceptable: bool) -> Self {
        Self { catalog, headers, version: version(headers), acceptable }
    }

    /// The id of an error whose request's id could not be read.
    #[must_use]
    pub fn unreadable_id(&self) -> ErrorId<'static> {
        unreadable_id(self.version)
    }

    /// The answer to what is no message.
    #[must_use]
    pub fn malformed(&self, bad: &Malformed<'_>) -> Answer {
        let id = bad.id.map_or_else(|| self.unreadable_id(), ErrorId::Of);
        fault(StatusCode::BAD_REQUEST, id, bad.code, bad.message, None)
    }
}

/// Decides one message that came alone in its body.
#[must_use]
pub fn single<'a>(context: &Context<'a>, text: &'a str) -> Step<'a> {
    let request = match jsonrpc::message(text) {
        Ok(Message::Request(request)) => request,
        Ok(Message::Notification) => return Step::Done(Answer::accepted()),
        Ok(Message::Response) => return Step::Done(response(context)),
        Err(bad) => return Step::Done(context.malformed(&bad)),
    };
    if !context.acceptable {
        let text = "Not Acceptable: answers are application/json or text/event-stream";
        return refuse(StatusCode::NOT_ACCEPTABLE, &request, code::HTTP, text);
    }
    let params = match Params::read(request.params) {
        Ok(params) => params,
        Err(text) => return refuse(StatusCode::BAD_REQUEST, &request, code::INVALID_PARAMS, text),
    };
    let named = params.meta.version.is_some();
    match era::tell(&request.method, named, context.version) {
        Verdict::Modern => modern(context, &request, &params),
        Verdict::ModernUnnamed => envelope_fault(&request, meta_key::VERSION, "missing"),
        Verdict::Legacy => {
            if request.method != "initialize" && !era::legacy_header_is_known(context.version) {
                return Step::Done(unsupported_legacy(&request));
            }
            legacy(context, &request, &params)
        }
    }
}

/// Decides one entry of a legacy batch; `None` for what is not answered.
#[must_use]
pub fn batched<'a>(context: &Context<'a>, text: &'a str) -> Option<Step<'a>> {
    let request = match jsonrpc::message(text) {
        Ok(Message::Request(request)) => request,
        Ok(Message::Notification | Message::Response) => return None,
        Err(bad) => return Some(Step::Done(context.malformed(&bad))),
    };
    let invalid = |text| Some(refuse(StatusCode::OK, &request, code::INVALID_REQUEST, text));
    if request.method == "initialize" {
        return invalid("Invalid Request: initialize cannot be part of a batch");
    }
    match Params::read(request.params) {
        Ok(params) if params.meta.version.is_some() || request.method == "server/discover" => {
            invalid("Invalid Request: this revision has no batches")
        }
        Ok(params) => Some(legacy(context, &request, &params)),
        Err(text) => Some(refuse(StatusCode::OK, &request, code::INVALID_PARAMS, text)),
    }
}

/// Checks 6 to 13 of the modern era, in their order.
fn modern<'a>(context: &Context<'a>, request: &Request<'a>, params: &Params<'a>) -> Step<'a> {
    let Some(version) = params.meta.version.and_then(string) else {
        return envelope_fault(request, meta_key::VERSION, "not a string");
    };
    match params.meta.capabilities.map(RawValue::get) {
        None => return envelope_fault(request, meta_key::CAPABILITIES, "missing"),
        Some(object) if object.starts_with('{') => {}
        Some(_) => return envelope_fault(request, meta_key::CAPABILITIES, "not an object"),
    }
    let shown = "MCP-Protocol-Version";
    if let Err(bad) = headers::equal(context.headers, headers::VERSION, shown, &version, false) {
        return mismatched(request, &bad);
    }
    if version != era::MODERN {
        return Step::Done(unsupported_modern(request, &version));
    }
    let shown = "Mcp-Method";
    let method = &request.method;
    if let Err(bad) = headers::equal(context.headers, headers::METHOD, shown, method, false) {
        return mismatched(request, &bad);
    }
    let named = match method.as_ref() {
        "tools/call" | "prompts/get" => Some(("params.name", params.name)),
        "resources/read" => Some(("params.uri", params.uri)),
        "tasks/get" | "tasks/update" | "tasks/cancel" => Some(("params.taskId", params.task_id)),
        _ => None,
    };
    if let Some((field, value)) = named {
        let Some(value) = value.and_then(string) else {
            let text = format!("Invalid params: {field} must be a string");
            return refuse(StatusCode::BAD_REQUEST, request, code::INVALID_PARAMS, &text);
        };
        if let Err(bad) = headers::equal(context.headers, headers::NAME, "Mcp-Name", &value, true) {
            return mismatched(request, &bad);
        }
    }
    let prepared = &context.catalog.prepared;
    match method.as_ref() {
        "server/discover" => Step::Done(Answer::prepared(request.id, &prepared.discover)),
        "tools/list" => list(context, Era::Modern, request, params),
        "tools/call" => call(context, Era::Modern, request, params),
        _ => unknown_method(StatusCode::NOT_FOUND, request),
    }
}

/// The legacy table of methods, the same for every legacy revision.
fn legacy<'a>(context: &Context<'a>, request: &Request<'a>, params: &Params<'a>) -> Step<'a> {
    let prepared = &context.catalog.prepared;
    match request.method.as_ref() {
        "initialize" => {
            let asked = params.protocol_version.and_then(string).unwrap_or_default();
            Step::Done(Answer::prepared(request.id, prepared.initialize(&asked)))
        }
        "ping" => Step::Done(Answer::prepared(request.id, &prepared.pong)),
        "tools/list" => list(context, Era::Legacy, request, params),
        "tools/call" => call(context, Era::Legacy, request, params),
        _ => unknown_method(StatusCode::OK, request),
    }
}

fn list<'a>(
    context: &Context<'a>,
    era: Era,
    request: &Request<'a>,
    params: &Params<'a>,
) -> Step<'a> {
    if params.cursor.is_some_and(|cursor| cursor.get() != "null") {
        let text = "Invalid params: unknown cursor; the list has one page";
        return refuse(StatusCode::OK, request, code::INVALID_PARAMS, text);
    }
    Step::Done(Answer::prepared(request.id, context.catalog.prepared.list(era)))
}

fn call<'a>(
    context: &Context<'a>,
    era: Era,
    request: &Request<'a>,
    params: &Params<'a>,
) -> Step<'a> {
    let invalid = |text: &str| refuse(StatusCode::OK, request, code::INVALID_PARAMS, text);
    let Some(name) = params.name.and_then(string) else {
        return invalid("Invalid params: params.name must be a string");
    };
    if !arguments_are_fit(params.arguments) {
        return invalid("Invalid params: params.arguments must be an object");
    }
    #[cfg(feature = "test-hooks")]
    if let Some(answer) = super::hooks::call(context, era, request.id, &name, params) {
        return Step::Done(answer);
    }
    match context.catalog.find(&name) {
        Some(tool) => {
            Step::Call(Planned { era, id: request.id, tool, arguments: params.arguments })
        }
        None => invalid(&unknown_tool(&name)),
    }
}

/// A result or error posted to us: there is no request of ours it could answer.
fn response(context: &Context<'_>) -> Answer {
    if context.version.is_some_and(era::is_modern) {
        let text = "Invalid Request: responses cannot be posted";
        let id = context.unreadable_id();
        fault(StatusCode::BAD_REQUEST, id, code::INVALID_REQUEST, text, None)
    } else {
        Answer::accepted()
    }
}

fn refuse<'a>(status: StatusCode, request: &Request<'a>, code: i32, text: &str) -> Step<'a> {
    Step::Done(fault(status, ErrorId::Of(request.id), code, text, None))
}

fn unknown_method<'a>(status: StatusCode, request: &Request<'a>) -> Step<'a> {
    let text = format!("Method not found: {}", echo(&request.method));
    refuse(status, request, code::METHOD_NOT_FOUND, &text)
}

fn mismatched<'a>(request: &Request<'a>, bad: &Mismatch) -> Step<'a> {
    Step::Done(fault(
        StatusCode::BAD_REQUEST,
        ErrorId::Of(request.id),
        code::HEADER_MISMATCH,
        &bad.message,
        Some(&bad.data),
    ))
}

fn envelope_fault<'a>(request: &Request<'a>, key: &str, problem: &str) -> Step<'a> {
    Step::Done(fault(
        StatusCode::BAD_REQUEST,
        ErrorId::Of(request.id),
        code::INVALID_PARAMS,
        &format!("Invalid params: the _meta envelope is invalid: {key} is {problem}"),
        Some(&json!({ "envelope": { "key": key, "problem": problem } }).to_string()),
    ))
}

fn unsupported_modern(request: &Request<'_>, version: &str) -> Answer {
    let requested = echo(version);
    fault(
        StatusCode::BAD_REQUEST,
        ErrorId::Of(request.id),
        code::UNSUPPORTED_VERSION,
        &format!("Unsupported protocol version: {requested}"),
        Some(&json!({ "supported": era::SUPPORTED, "requested": requested }).to_string()),
    )
}

fn unsupported_legacy(request: &Request<'_>) -> Answer {
    let text = format!(
        "Bad Request: unsupported MCP-Protocol-Version; supported versions: {}",
        era::SUPPORTED.join(", ")
    );
    fault(StatusCode::BAD_REQUEST, ErrorId::Of(request.id), code::HTTP, &text, None)
}

/// Keys of `params._meta`.
pub(crate) mod meta_key {
    pub(crate) const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
    pub(crate) const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
}

/// The members of `params` that the protocol itself reads; all others are left alone.
#[derive(Default)]
pub(crate) struct Params<'a> {
    pub(crate) name: Option<&'a RawValue>,
    pub(crate) arguments: Option<&'a RawValue>,
    uri: Option<&'a RawValue>,
    task_id: Option<&'a RawValue>,
    cursor: Option<&'a RawValue>,
    protocol_version: Option<&'a RawValue>,
    pub(crate) meta: Meta<'a>,
}

/// The members of `params._meta` that are read.
#[derive(Default)]
pub(crate) struct Meta<'a> {
    version: Option<&'a RawValue>,
    pub(crate) capabilities: Option<&'a RawValue>,
}

impl<'a> Params<'a> {
    /// Reads `params`; an absent one is empty. So is `null`, which some clients send for it.
    fn read(raw: Option<&'a RawValue>) -> Result<Self, &'static str> {
        let text = raw.map(RawValue::get).filter(|text| *text != "null");
        let Some(text) = text else { return Ok(Self::default()) };
        let wire = if text.starts_with('{') {
            serde_json::from_str::<ParamsWire<'a>>(text).ok()
        } else {
            None
        };
        let Some(wire) = wire else {
            return Err("Invalid params: params must be one object without repeated members");
        };
        Ok(Self {
            name: wire.name,
            arguments: wire.arguments,
            uri: wire.uri,
            task_id: wire.task_id,
            cursor: wire.cursor,
            protocol_version: wire.protocol_version,
            meta: Meta::read(wire.meta)?,
        })
    }
}

impl<'a> Meta<'a> {
    fn read(raw: Option<&'a RawValue>) -> Result<Self, &'static str> {
        let Some(text) = raw.map(RawValue::get) else { return Ok(Self::default()) };
        let wire = if text.starts_with('{') {
            serde_json::from_str::<MetaWire<'a>>(text).ok()
        } else {
            None
        };
        let Some(wire) = wire else {
            return Err("Invalid params: _meta must be one object without repeated members");
        };
        Ok(Self { version: wire.version, capabilities: wire.capabilities })
    }
}

#[derive(Deserialize)]
struct ParamsWire<'a> {
    #[serde(borrow, default, deserialize_with = "present")]
    name: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    arguments: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    uri: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "taskId", deserialize_with = "present")]
    task_id: Option<&'a RawValue>,
    #[serde(borrow, default, deserialize_with = "present")]
    cursor: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "protocolVersion", deserialize_with = "present")]
    protocol_version: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "_meta", deserialize_with = "present")]
    meta: Option<&'a RawValue>,
}

#[derive(Deserialize)]
struct MetaWire<'a> {
    #[serde(
        borrow,
        default,
        rename = "io.modelcontextprotocol/protocolVersion",
        deserialize_with = "present"
    )]
    version: Option<&'a RawValue>,
    #[serde(
        borrow,
        default,
        rename = "io.modelcontextprotocol/clientCapabilities",
        deserialize_with = "present"
    )]
    capabilities: Option<&'a RawValue>,
}
