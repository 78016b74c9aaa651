//! What ours is measured against: raw hyper, and raw hyper with the least a refusal needs.

use std::convert::Infallible;
use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use governor::{Quota, RateLimiter};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::load::Server;

type Answer = Result<Response<Full<Bytes>>, Infallible>;

/// Answers every request with the same bytes.
pub(crate) fn ceiling(body: Vec<u8>) -> Server {
    let body = Bytes::from(body);
    Server::start(move |listener| {
        serve(listener, move |request| {
            let body = body.clone();
            async move {
                request.into_body().collect().await.unwrap();
                respond(body)
            }
        })
    })
}

/// Parses, checks one cell of a keyed limiter, and refuses.
pub(crate) fn floor() -> Server {
    let quota = Quota::per_minute(NonZeroU32::MIN);
    let limiter = Arc::new(RateLimiter::keyed(quota));
    Server::start(move |listener| {
        serve(listener, move |request| {
            let limiter = Arc::clone(&limiter);
            async move {
                let bytes = request.into_body().collect().await.unwrap().to_bytes();
                let call: Call<'_> = serde_json::from_slice(&bytes).unwrap();
                let handle = call.params.arguments.handle;
                let key = xxhash_rust::xxh3::xxh3_64(handle.as_bytes());
                let refused = limiter.check_key(&key).is_err();
                let mut out = Vec::with_capacity(256);
                out.extend_from_slice(b"{\"jsonrpc\":\"2.0\",\"id\":");
                out.extend_from_slice(call.id.get().as_bytes());
                let rest: &[u8] = if refused && call.method == "tools/call" {
                    b",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"{\\\"error\\\":\
                      \\\"wait_rate_limited\\\",\\\"retryAfterMs\\\":1000}\"}],\"isError\":true}}"
                } else {
                    b",\"result\":{\"content\":[]}}"
                };
                out.extend_from_slice(rest);
                respond(Bytes::from(out))
            }
        })
    })
}

#[derive(Deserialize)]
struct Call<'a> {
    #[serde(borrow)]
    id: &'a RawValue,
    method: &'a str,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    arguments: Arguments<'a>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(rename = "participantHandle")]
    handle: &'a str,
}

fn respond(body: Bytes) -> Answer {
    Ok(Response::builder()
        .header("content-type", "application/json")
        .body(Full::new(body))
        .unwrap())
}

async fn serve<S, F>(listener: std::net::TcpListener, service: S)
where
    S: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    let listener = tokio::net::TcpListener::from_std(listener).unwrap();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        stream.set_nodelay(true).unwrap();
        let service = service.clone();
        tokio::spawn(async move {
            let connection =
                http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(service));
            drop(connection.await);
        });
    }
}
