//! Curated apps: which browser answers an agent's `room_app_request`, and how such a request
//! ends (rooms 16, ours 22).
//!
//! A request lives only in [`Live`]: it is opened by the agent's call, which parks; the host's
//! answer, its loss, the caller's loss or 15 seconds end it. Nothing is queued, retried, stored
//! or logged.

use object::{Millis, ParticipantId, RequestId};
use serde_json::{Map, Value, json};

use crate::limits::{APP_PAYLOAD_BYTES_MAX, APP_REQUEST_MS_MAX, APP_REQUESTS_MAX};
use crate::live::{AppAnswer, AppRequest, Connection, Live, Signal};
use crate::names::app_instance_id;
use crate::settings::{CuratedApp, Settings};
use crate::text::{Text, utf16_len};

/// Longest error word of a host, in UTF-16 units.
pub const HOST_ERROR_UTF16_MAX: usize = 256;
/// The payload key that only the room sets.
pub const RESERVED_KEY: &str = "sourceParticipantId";

/// How a request fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Failure {
    /// Apps are switched off, or the room has no such curated app.
    AppUnavailable,
    /// Nobody's browser hosts the app, or the host closed it.
    HostUnavailable,
    /// The host's connection was lost.
    HostDisconnected,
    /// Four requests are in flight in this room.
    TooManyRequests,
    /// No answer within 15 seconds.
    Timeout,
    /// The caller left or is gone.
    AgentDisconnected,
    /// The host's answer was malformed or too large.
    InvalidResponse,
    /// The host's own word.
    Host(Text),
}

/// Where a parked request stands.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Step {
    /// Keep waiting, until then at most.
    Wait(Millis),
    /// Over, with the JSON text of the host's result.
    Done(Result<Text, Failure>),
}

/// The curated app an instance id names in this room, unless apps are switched off.
#[must_use]
pub fn curated<'a>(settings: &'a Settings, room: &str, instance: &str) -> Option<&'a CuratedApp> {
    let (app_id, _) = instance.split_once(':')?;
    let app = settings.room_apps.iter().find(|app| app.app_id == app_id)?;
    (settings.room_apps_enabled && app_instance_id(room, app_id) == instance).then_some(app)
}

/// The connection a request goes to: the smallest participant id that hosts the instance, then
/// its oldest connection.
#[must_use]
pub fn host<'a>(live: &'a Live, instance: &str) -> Option<&'a Connection> {
    let hosts = |c: &&Connection| c.hosts.iter().any(|hosted| hosted.as_str() == instance);
    // `min_by_key` keeps the first of equals, and connections are in order of attachment.
    live.connections.iter().filter(hosts).min_by_key(|c| c.participant)
}

/// True for a payload that may be sent: small, and without the key only the room sets.
#[must_use]
pub fn is_payload(payload: &Map<String, Value>) -> bool {
    let bytes = serde_json::to_vec(payload).map_or(usize::MAX, |text| text.len());
    bytes <= APP_PAYLOAD_BYTES_MAX && !payload.contains_key(RESERVED_KEY)
}

/// Finds the host of a new request. The order of refusals: unknown app, no host, too many.
///
/// Requests whose time is over but whose caller was not told yet hold no place.
pub fn open(
    live: &Live,
    curated: Option<&CuratedApp>,
    request: RequestId,
    from: ParticipantId,
    instance: &str,
    now: Millis,
) -> Result<AppRequest, Failure> {
    if curated.is_none() {
        return Err(Failure::AppUnavailable);
    }
    let host = host(live, instance).ok_or(Failure::HostUnavailable)?;
    if live.requests.iter().filter(|open| open.until > now).count() >= APP_REQUESTS_MAX {
        return Err(Failure::TooManyRequests);
    }
    Ok(AppRequest {
        request,
        from,
        instance: instance.into(),
        host: host.participant,
        connection: host.connection,
        until: now.plus(APP_REQUEST_MS_MAX),
        answer: None,
    })
}

/// The frame that brings a request to its host's browser (rooms 16.2).
#[must_use]
pub fn frame(request: &AppRequest, payload: &Map<String, Value>) -> Vec<u8> {
    let mut payload = payload.clone();
    payload.insert(RESERVED_KEY.to_owned(), Value::from(request.from.to_string()));
    let frame = json!({
        "type": "room-app-agent-request",
        "requestId": request.request.to_string(),
        "appInstanceId": request.instance.as_str(),
        "payload": payload,
    });
    frame.to_string().into_bytes()
}

/// Where an open request stands. `present` tells whether the caller is still a participant.
#[must_use]
pub fn step(live: &Live, request: RequestId, present: bool, now: Millis) -> Step {
    let Some(open) = live.requests.iter().find(|open| open.request == request) else {
        // Closed under a repeat of the same call: the first attempt took the answer.
        return Step::Done(Err(Failure::AgentDisconnected));
    };
    if !present {
        return Step::Done(Err(Failure::AgentDisconnected));
    }
    match &open.answer {
        Some(AppAnswer::Result(result)) => Step::Done(Ok(result.clone())),
        Some(AppAnswer::HostError(word)) => Step::Done(Err(Failure::Host(word.clone()))),
        Some(AppAnswer::InvalidResponse) => Step::Done(Err(Failure::InvalidResponse)),
        Some(AppAnswer::HostUnavailable) => Step::Done(Err(Failure::HostUnavailable)),
        Some(AppAnswer::HostDisconnected) => Step::Done(Err(Failure::HostDisconnected)),
        None if now >= open.until => Step::Done(Err(Failure::Timeout)),
        None => Step::Wait(open.until),
    }
}

/// What a browser sent back.
#[derive(Clone, Copy, Debug)]
pub struct Answered<'a> {
    pub connection: u64,
    pub request: RequestId,
    pub instance: &'a str,
    pub ok: Option<bool>,
    pub result: Option<&'a Value>,
    pub error: Option<&'a str>,
}

/// Takes a browser's answer. `None` if it is late, unknown, of another instance, or came by
/// another connection than the request went to.
#[must_use]
pub fn answer(live: &Live, sent: &Answered<'_>, now: Millis) -> Option<Signal> {
    let open = live.requests.iter().find(|open| {
        open.request == sent.request
            && open.connection == sent.connection
            && open.instance.as_str() == sent.instance
    })?;
    if open.answer.is_some() || now >= open.until {
        return None;
    }
    let answer = match (sent.ok, sent.result, sent.error) {
        (Some(true), Some(result), _) => {
            let text = result.to_string();
            if text.len() > APP_PAYLOAD_BYTES_MAX {
                AppAnswer::InvalidResponse
            } else {
                AppAnswer::Result(text.into())
            }
        }
        (Some(false), _, Some(word)) if is_host_word(word) => AppAnswer::HostError(word.into()),
        _ => AppAnswer::InvalidResponse,
    };
    Some(Signal::RequestAnswered { request: sent.request, answer })
}

/// Ends the requests that wait for a connection that is lost, and forgets the connection.
#[must_use]
pub fn disconnected(live: &Live, connection: u64) -> Vec<Signal> {
    let lost = |open: &&AppRequest| open.connection == connection;
    let mut signals = ended(live, lost, &AppAnswer::HostDisconnected);
    signals.push(Signal::Detached { connection });
    signals
}

/// Ends the requests that wait for an app a browser has closed.
#[must_use]
pub fn closed(live: &Live, connection: u64, instance: &str) -> Vec<Signal> {
    let mut signals = ended(
        live,
        |open| open.connection == connection && open.instance.as_str() == instance,
        &AppAnswer::HostUnavailable,
    );
    signals.push(Signal::AppHost { connection, instance: instance.into(), ready: false });
    signals
}

/// Ends the requests that wait for a human who leaves, and forgets its connections.
#[must_use]
pub fn left(live: &Live, human: ParticipantId) -> Vec<Signal> {
    let mut signals = ended(live, |open| open.host == human, &AppAnswer::HostUnavailable);
    let lines = live.connections.iter().filter(|c| c.participant == human);
    signals.extend(lines.map(|c| Signal::Detached { connection: c.connection }));
    signals
}

fn ended(live: &Live, which: impl Fn(&&AppRequest) -> bool, answer: &AppAnswer) -> Vec<Signal> {
    let open = live.requests.iter().filter(|open| open.answer.is_none()).filter(which);
    open.map(|open| Signal::RequestAnswered { request: open.request, answer: answer.clone() })
        .collect()
}

fn is_host_word(word: &str) -> bool {
    (1..=HOST_ERROR_UTF16_MAX).contains(&utf16_len(word))
}

#[cfg(test)]
mod tests;
