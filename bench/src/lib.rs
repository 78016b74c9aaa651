//! What the peers share: one worker thread, a free port named on the first line, plain hyper.
#![forbid(unsafe_code)]

use std::convert::Infallible;

use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

pub type Answer = Result<Response<Full<Bytes>>, Infallible>;
/// Whatever stopped a peer; shown by `main`.
pub type Failure = Box<dyn std::error::Error + Send + Sync>;

/// Runs `serve` on a runtime with one worker, with a listener on a free port of loopback.
///
/// # Errors
/// No runtime, no port, or what `serve` says.
pub fn run<F>(serve: impl FnOnce(TcpListener) -> F) -> Result<(), Failure>
where
    F: Future<Output = Result<(), Failure>>,
{
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build()?.block_on(async {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        println!("listening {}", listener.local_addr()?);
        serve(listener).await
    })
}

/// Answers every connection with `service`, without any limit.
///
/// # Errors
/// A connection that cannot be accepted.
pub async fn serve<S, F>(listener: TcpListener, service: S) -> Result<(), Failure>
where
    S: Fn(Request<Incoming>) -> F + Clone + Send + 'static,
    F: Future<Output = Answer> + Send + 'static,
{
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let service = service.clone();
        tokio::spawn(async move {
            let mut builder = http1::Builder::new();
            let connection = builder
                .pipeline_flush(true)
                .serve_connection(TokioIo::new(stream), service_fn(service));
            // A connection that breaks is the other side's affair.
            drop(connection.await);
        });
    }
}

/// A JSON answer.
#[must_use]
pub fn json(body: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(body));
    let value = hyper::header::HeaderValue::from_static("application/json");
    response.headers_mut().insert(hyper::header::CONTENT_TYPE, value);
    response
}
