//! The floor of a refused poll: hyper, the JSON-RPC body parsed, one keyed check of a limiter that
//! is used up, and a small answer made for the request.
#![forbid(unsafe_code)]

use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU32;
use std::sync::Arc;

use bytes::Bytes;
use governor::{DefaultKeyedRateLimiter, Quota, RateLimiter};
use http_body_util::BodyExt;
use hyper::Request;
use hyper::body::Incoming;
use peers::{Answer, Failure, json, run, serve};
use serde::Deserialize;
use serde_json::value::RawValue;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

#[derive(Deserialize)]
struct Call<'a> {
    jsonrpc: &'a str,
    #[serde(borrow)]
    id: &'a RawValue,
    method: &'a str,
    #[serde(borrow)]
    params: Params<'a>,
}

#[derive(Deserialize)]
struct Params<'a> {
    name: &'a str,
    #[serde(borrow)]
    arguments: Arguments<'a>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(rename = "participantHandle")]
    handle: &'a str,
}

struct Limiter {
    cells: DefaultKeyedRateLimiter<u64>,
    hasher: RandomState,
}

fn main() -> Result<(), Failure> {
    let cells = RateLimiter::keyed(Quota::per_hour(NonZeroU32::MIN));
    let limiter = Arc::new(Limiter { cells, hasher: RandomState::new() });
    run(|listener| serve(listener, move |request| answer(Arc::clone(&limiter), request)))
}

async fn answer(limiter: Arc<Limiter>, request: Request<Incoming>) -> Answer {
    let Ok(body) = request.into_body().collect().await else {
        return Ok(json(Bytes::new()));
    };
    let body = body.to_bytes();
    let Ok(call) = serde_json::from_slice::<Call<'_>>(&body) else {
        return Ok(json(Bytes::from_static(b"{}")));
    };
    let known =
        call.jsonrpc == "2.0" && call.method == "tools/call" && !call.params.name.is_empty();
    let key = limiter.hasher.hash_one(call.params.arguments.handle);
    let refused = limiter.cells.check_key(&key).is_err();
    let mut out = Vec::with_capacity(256);
    out.extend_from_slice(br#"{"jsonrpc":"2.0","id":"#);
    out.extend_from_slice(call.id.get().as_bytes());
    let rest: &[u8] = if known && refused {
        br#","result":{"content":[{"type":"text","text":"{\"error\":\"wait_rate_limited\",\"retryAfterMs\":1000}"}],"isError":true}}"#
    } else {
        br#","result":{"content":[{"type":"text","text":"{}"}],"isError":false}}"#
    };
    out.extend_from_slice(rest);
    Ok(json(Bytes::from(out)))
}
