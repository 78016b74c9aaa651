//! The ceiling: hyper reads the request's body and answers the bytes of a file, whatever was asked.
#![forbid(unsafe_code)]

use bytes::Bytes;
use http_body_util::BodyExt;
use peers::{Failure, json, run, serve};

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> Result<(), Failure> {
    let path = std::env::args().nth(1).ok_or("usage: ceiling FILE")?;
    let body = Bytes::from(std::fs::read(path)?);
    run(|listener| {
        serve(listener, move |request| {
            let body = body.clone();
            async move {
                // A body that breaks off ends the connection anyhow.
                drop(request.into_body().collect().await);
                Ok(json(body))
            }
        })
    })
}
