//! From a request to its response: the path, then who may speak, then the bounds, then MCP.

use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use http::header::{
    ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, EXPECT, RETRY_AFTER,
};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response, StatusCode};
use http_body::Body;
use tokio::sync::OwnedSemaphorePermit;

use super::accept::{self, Form};
use super::body::{self, JSON_DEPTH_MAX, Refused};
use super::budget::Charge;
use super::cors::{Allowed, Forbidden};
use super::detach::Detachable;
use super::reply::ReplyBody;
use super::stats::Turned;
use super::{Edge, reply::Payload};
use crate::call;
use crate::client_addr::ClientAddr;
use crate::clock::{self, Instant};
use crate::mcp::dispatch::{self, Answer, Context, Step, fault};
use crate::mcp::jsonrpc::{self, code};
use crate::mcp::tools::{self, Backend, Circumstances, Detach};

/// Most bytes read and dropped after an early refusal, so that the client can read the answer.
pub const DISCARD_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bodies read on at once; beyond them a connection is closed at once, and the answer to a client
/// that is still sending may be lost to it.
pub const DISCARDS_MAX: usize = 128;
/// Longest time spent on one.
pub const DISCARD_MAX: Duration = Duration::from_secs(5);
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const TEXT: HeaderValue = HeaderValue::from_static("text/plain; charset=utf-8");
const EVENT_STREAM: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Who sent a request and how it came.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    pub peer: IpAddr,
    /// Its connection is over `connections_max`: only health is answered.
    pub surplus: bool,
}

/// Answers one request.
pub async fn answer<B, R>(
    edge: &Arc<Edge<B>>,
    arrival: Arrival,
    request: Request<R>,
) -> Response<ReplyBody>
where
    B: Backend,
    R: Body<Data = Bytes> + Send + Unpin + 'static,
{
    edge.stats.request();
    let path = request.uri().path();
    match path {
        "/livez" | "/healthz" => return health(request.method(), true),
        "/readyz" => return health(request.method(), edge.is_ready()),
        _ => {}
    }
    if arrival.surplus {
        edge.stats.turn_away(Turned::Connections);
        let mut response = respond(overloaded(request.headers()), Form::Json);
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        discard(edge, request);
        return response;
    }
    match path {
        "/mcp" | "/mcp/" => mcp(edge, arrival.peer, request).await,
        "/agent.md" | "/room" => edge.pages.answer(&request),
        _ if path.starts_with("/.well-known/") => {
            let body = Bytes::from_static(b"{\"error\":\"not_found\"}");
            with_type(StatusCode::NOT_FOUND, JSON, body)
        }
        _ => with_type(StatusCode::NOT_FOUND, TEXT, Bytes::from_static(b"Not Found\n")),
    }
}

async fn mcp<B, R>(edge: &Arc<Edge<B>>, peer: IpAddr, request: Request<R>) -> Response<ReplyBody>
where
    B: Backend,
    R: Body<Data = Bytes> + Send + Unpin + 'static,
{
    let allowed = match edge.rules.check(request.uri(), request.headers()) {
        Ok(allowed) => allowed,
        Err(Forbidden(text)) => {
            edge.stats.turn_away(Turned::Forbidden);
            let answer = refusal(request.headers(), StatusCode::FORBIDDEN, code::HTTP, &text);
            discard(edge, request);
            return respond(answer, Form::Json);
        }
    };
    let mut response = if request.method() == Method::POST {
        post(edge, peer, request).await
    } else {
        not_post(edge, request)
    };
    allowed_headers(&allowed, edge, &mut response);
    response
}

fn allowed_headers<B>(allowed: &Allowed, edge: &Edge<B>, response: &mut Response<ReplyBody>) {
    allowed.write(response.headers_mut(), &edge.catalog.prepared.allow_headers);
}

/// `OPTIONS` is answered before any other rule; there is no stream to `GET` and no session to
/// `DELETE`.
fn not_post<B, R>(edge: &Edge<B>, request: Request<R>) -> Response<ReplyBody>
where
    R: Body<Data = Bytes> + Send + Unpin + 'static,
{
    let mut response = if request.method() == Method::OPTIONS {
        Response::new(ReplyBody::default())
    } else {
        let text = "Method not allowed.";
        let status = StatusCode::METHOD_NOT_ALLOWED;
        respond(refusal(request.headers(), status, code::HTTP, text), Form::Json)
    };
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("POST, OPTIONS"));
    discard(edge, request);
    response
}

async fn post<B, R>(edge: &Arc<Edge<B>>, peer: IpAddr, request: Request<R>) -> Response<ReplyBody>
where
    B: Backend,
    R: Body<Data = Bytes> + Send + Unpin + 'static,
{
    if edge.inflight.available_permits() == 0 {
        edge.stats.turn_away(Turned::Inflight);
        let answer = overloaded(request.headers());
        discard(edge, request);
        return respond(answer, Form::Json);
    }
    if !accept::is_json(request.headers()) {
        let text = "Unsupported Media Type: Content-Type must be application/json";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        let answer = refusal(request.headers(), status, code::HTTP, text);
        discard(edge, request);
        return respond(answer, Form::Json);
    }
    let settings = &edge.settings;
    if body::declared_is_over(request.headers(), settings.body_bytes_max) {
        let answer = unread(edge, request.headers(), Refused::TooLarge);
        discard(edge, request);
        return respond(answer, Form::Json);
    }
    let (head, incoming) = request.into_parts();
    let (bytes_max, timeout) = (settings.body_bytes_max, settings.body_timeout);
    let (bytes, charge) = match body::read(incoming, bytes_max, timeout, &edge.bodies).await {
        Ok(read) => read,
        Err(why) => {
            let mut response = respond(unread(edge, &head.headers, why), Form::Json);
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            return response;
        }
    };
    // A place is taken only now: bodies that trickle in must not keep it from others.
    let Ok(permit) = Arc::clone(&edge.inflight).try_acquire_owned() else {
        edge.stats.turn_away(Turned::Inflight);
        return respond(overloaded(&head.headers), Form::Json);
    };
    let form = accept::form(&head.headers);
    let detach = Detach::default();
    let work = Work {
        edge: Arc::clone(edge),
        began: clock::now(),
        client: edge.client(peer, &head.headers),
        headers: head.headers,
        bytes,
        _charge: charge,
        acceptable: form.is_some(),
        detach: detach.clone(),
        permit,
    };
    let guarded = AssertUnwindSafe(work.run()).catch_unwind();
    match Detachable::new(guarded, detach).await {
        Ok(answer) => respond(answer, form.unwrap_or(Form::Json)),
        Err(_) => {
            edge.stats.panic();
            tracing::error!("answering a request panicked");
            let status = StatusCode::INTERNAL_SERVER_ERROR;
            let headers = HeaderMap::new();
            respond(refusal(&headers, status, code::INTERNAL, "Internal server error"), Form::Json)
        }
    }
}

/// One request whose body is complete: owns all it needs, so that it can outlive its connection.
struct Work<B> {
    edge: Arc<Edge<B>>,
    /// All entries of a batch share the time of one request.
    began: Instant,
    headers: HeaderMap,
    bytes: Bytes,
    _charge: Charge,
    client: ClientAddr,
    acceptable: bool,
    detach: Detach,
    permit: OwnedSemaphorePermit,
}

impl<B: Backend> Work<B> {
    async fn run(self) -> Answer {
        let detach = self.detach.clone();
        let answer = self.answer().await;
        drop(self.permit);
        if detach.was_orphaned() {
            self.edge.stats.detach();
        }
        answer
    }

    async fn answer(&self) -> Answer {
        let context = Context::new(&self.edge.catalog, &self.headers, self.acceptable);
        let Ok(text) = std::str::from_utf8(&self.bytes) else {
            return self.bad(&context, code::PARSE, "Parse error: the body is not UTF-8");
        };
        if !body::depth_is_within(text, JSON_DEPTH_MAX) {
            self.edge.stats.turn_away(Turned::JsonTooDeep);
            let text =
                format!("Invalid Request: the JSON is nested deeper than {JSON_DEPTH_MAX} levels");
            return self.bad(&context, code::INVALID_REQUEST, &text);
        }
        match jsonrpc::body(text) {
            Ok(jsonrpc::Body::One(text)) => self.finish(dispatch::single(&context, text)).await,
            Ok(jsonrpc::Body::Batch(entries)) => self.batch(&context, &entries).await,
            Err(bad) => context.malformed(&bad),
        }
    }

    /// The entries of a legacy batch, one after the other and answered in their order.
    async fn batch(
        &self,
        context: &Context<'_>,
        entries: &[&serde_json::value::RawValue],
    ) -> Answer {
        if !crate::mcp::era::takes_batches(context.version) {
            let text = "Invalid Request: this revision has no batches";
            return self.bad(context, code::INVALID_REQUEST, text);
        }
        // All answers are kept until the last is there, with their charges: so the memory of the
        // whole batch counts when an entry asks for more.
        let mut payloads = Vec::with_capacity(entries.len());
        for entry in entries {
            if let Some(step) = dispatch::batched(context, entry.get()) {
                payloads.push(self.finish(step).await.payload);
            }
        }
        if payloads.is_empty() {
            return Answer::accepted();
        }
        let mut out = vec![b'['];
        for payload in payloads {
            if out.len() > 1 {
                out.push(b',');
            }
            payload.append_to(&mut out);
        }
        out.push(b']');
        let charge = self.edge.budget.force(out.len());
        Answer::charged(charge, out)
    }

    async fn finish(&self, step: Step<'_>) -> Answer {
        match step {
            Step::Done(answer) => answer,
            Step::Call(planned) => {
                let settings = &self.edge.settings;
                let hold = call::hold(planned.tool.meta, settings.hold_max);
                let around = Circumstances {
                    client: self.client,
                    deadline: self.began + settings.call_timeout + hold,
                    detach: self.detach.clone(),
                    budget: Arc::clone(&self.edge.budget),
                };
                let (backend, catalog) = (&self.edge.backend, &self.edge.catalog);
                let answer = tools::run(backend, catalog, planned, &around).await;
                if answer.status == StatusCode::SERVICE_UNAVAILABLE {
                    self.edge.stats.turn_away(Turned::Memory);
                }
                answer
            }
        }
    }

    fn bad(&self, context: &Context<'_>, code: i32, text: &str) -> Answer {
        fault(StatusCode::BAD_REQUEST, context.unreadable_id(), code, text, None)
    }
}

/// The answer to a body that could not be read.
fn unread<B>(edge: &Edge<B>, headers: &HeaderMap, why: Refused) -> Answer {
    let (status, text) = match why {
        Refused::TooLarge => {
            edge.stats.turn_away(Turned::BodyTooLarge);
            let text = format!("The body is larger than {} bytes", edge.settings.body_bytes_max);
            (StatusCode::PAYLOAD_TOO_LARGE, text)
        }
        Refused::NoMemory => {
            edge.stats.turn_away(Turned::Memory);
            return overloaded(headers);
        }
        Refused::TooSlow => {
            edge.stats.turn_away(Turned::BodyTooSlow);
            (StatusCode::REQUEST_TIMEOUT, "The body did not arrive in time".to_owned())
        }
        Refused::Broken => (StatusCode::BAD_REQUEST, "The body is broken".to_owned()),
    };
    refusal(headers, status, code::INVALID_REQUEST, &text)
}

/// A refusal before the message was read.
fn refusal(headers: &HeaderMap, status: StatusCode, code: i32, text: &str) -> Answer {
    fault(status, dispatch::unreadable_id(dispatch::version(headers)), code, text, None)
}

fn overloaded(headers: &HeaderMap) -> Answer {
    Answer::overloaded(dispatch::unreadable_id(dispatch::version(headers)))
}

/// Frames an answer. Only a 200 goes out as an event: an error status is read as JSON by all.
fn respond(answer: Answer, form: Form) -> Response<ReplyBody> {
    let Answer { status, payload, retry_after_s } = answer;
    let is_event = form == Form::EventStream && status == StatusCode::OK;
    let is_empty = matches!(payload, Payload::Empty);
    let mut response = Response::new(payload.into_body(is_event));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    if is_empty {
        headers.insert(CONTENT_LENGTH, HeaderValue::from_static("0"));
    } else if is_event {
        headers.insert(CONTENT_TYPE, EVENT_STREAM);
        headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-cache"));
        let buffering = HeaderName::from_static("x-accel-buffering");
        headers.insert(buffering, HeaderValue::from_static("no"));
    } else {
        headers.insert(CONTENT_TYPE, JSON);
    }
    if let Some(seconds) = retry_after_s {
        headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

/// The answer to a method that does not read, on a path that can only be read.
pub(crate) fn only_reads(method: &Method) -> Option<Response<ReplyBody>> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return None;
    }
    let text = Bytes::from_static(b"Method Not Allowed\n");
    let mut response = with_type(StatusCode::METHOD_NOT_ALLOWED, TEXT, text);
    response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
    Some(response)
}

fn health(method: &Method, well: bool) -> Response<ReplyBody> {
    if let Some(refused) = only_reads(method) {
        return refused;
    }
    let (status, text): (_, &[u8]) = if well {
        (StatusCode::OK, b"ok\n")
    } else {
        (StatusCode::SERVICE_UNAVAILABLE, b"not ready\n")
    };
    with_type(status, TEXT, Bytes::from_static(text))
}

/// A response of one ready body.
pub(crate) fn with_type(
    status: StatusCode,
    content_type: HeaderValue,
    body: Bytes,
) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::of(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, content_type);
    response
}

/// Reads on what an early refusal left unread, within bounds: closing at once would reset the
/// connection and could take the answer with it. A client that waits for `100 Continue` sends
/// nothing.
fn discard<B, R>(edge: &Edge<B>, request: Request<R>)
where
    R: Body<Data = Bytes> + Send + Unpin + 'static,
{
    if request.body().is_end_stream() || request.headers().contains_key(EXPECT) {
        return;
    }
    let Ok(place) = Arc::clone(&edge.discards).try_acquire_owned() else { return };
    tokio::spawn(async move {
        let _place = place;
        body::read_and_drop(request.into_body(), DISCARD_BYTES_MAX, DISCARD_MAX).await;
    });
}
