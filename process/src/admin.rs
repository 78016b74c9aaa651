//! The admin port: `/livez` (this process), `/readyz` (store open, not draining), `/metrics`.
//!
//! It answers until the very end of a drain, so that whoever watches sees the drain.

use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use http::header::{ALLOW, CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderValue, Method, Request, Response, StatusCode};
use http_body_util::Full;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use prometheus::proto::MetricFamily;
use prometheus::{Encoder as _, IntCounter, IntGauge, Registry, TextEncoder};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Connections served at once; more are closed.
pub const ADMIN_CONNECTIONS_MAX: usize = 64;
/// A request's head must arrive within this.
const HEADER_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after a failed accept.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// What the admin port tells of.
pub struct Admin {
    /// Gathered together; a name that appears in several is one family.
    /// Bounded by the parts of the process.
    pub registries: Vec<Registry>,
    /// Whether new calls can be served; why not, in a few words.
    pub ready: Box<dyn Fn() -> Result<(), &'static str> + Send + Sync>,
    /// Brings costly gauges up to date before they are read.
    pub refresh: Box<dyn Fn() + Send + Sync>,
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin").finish_non_exhaustive()
    }
}

impl Admin {
    /// Serves until `end`, then cuts what is open.
    pub async fn serve(mut self, listener: TcpListener, end: CancellationToken) {
        let own = match Own::new() {
            Ok(own) => own,
            // Cannot be: the names are constants that a test registers.
            Err(error) => {
                tracing::error!(%error, "the admin port has no metrics and does not serve");
                return;
            }
        };
        self.registries.push(own.registry.clone());
        let admin = Arc::new(self);
        let places = Arc::new(Semaphore::new(ADMIN_CONNECTIONS_MAX));
        loop {
            let accepted = tokio::select! {
                biased;
                () = end.cancelled() => return,
                accepted = listener.accept() => accepted,
            };
            let stream = match accepted {
                Ok((stream, _peer)) => stream,
                Err(error) => {
                    tracing::warn!(%error, "accepting an admin connection failed");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else {
                own.turned_away.inc();
                continue;
            };
            let open = Open::new(&own.connections);
            let admin = Arc::clone(&admin);
            let end = end.clone();
            tokio::spawn(async move {
                let _place = (place, open);
                let service = service_fn(|request| {
                    let response = admin.answer(&request);
                    async { Ok::<_, Infallible>(response) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADER_TIMEOUT)
                    .serve_connection(TokioIo::new(stream), service);
                tokio::select! {
                    // A broken admin connection concerns nobody but its client.
                    _ended = connection => {}
                    () = end.cancelled() => {}
                }
            });
        }
    }

    fn answer<B>(&self, request: &Request<B>) -> Response<Full<Bytes>> {
        let found = match request.uri().path() {
            "/livez" | "/healthz" | "/metrics" => Ok(()),
            "/readyz" => (self.ready)().map_err(|why| {
                (StatusCode::SERVICE_UNAVAILABLE, Bytes::from(format!("not ready: {why}\n")))
            }),
            _ => Err((StatusCode::NOT_FOUND, Bytes::from_static(b"not found\n"))),
        };
        let mut response = match found {
            Err((status, text)) => plain(status, text),
            Ok(()) if !matches!(*request.method(), Method::GET | Method::HEAD) => {
                let text = Bytes::from_static(b"method not allowed\n");
                let mut response = plain(StatusCode::METHOD_NOT_ALLOWED, text);
                response.headers_mut().insert(ALLOW, HeaderValue::from_static("GET, HEAD"));
                response
            }
            Ok(()) if request.uri().path() == "/metrics" => {
                let mut response = plain(StatusCode::OK, self.metrics());
                let kind = HeaderValue::from_static(prometheus::TEXT_FORMAT);
                response.headers_mut().insert(CONTENT_TYPE, kind);
                response
            }
            Ok(()) => plain(StatusCode::OK, Bytes::from_static(b"ok\n")),
        };
        response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
        response
    }

    fn metrics(&self) -> Bytes {
        (self.refresh)();
        let mut families: Vec<MetricFamily> = Vec::new();
        for family in self.registries.iter().flat_map(Registry::gather) {
            // The text format allows each name once.
            match families.iter_mut().find(|known| known.name() == family.name()) {
                Some(known) => known.mut_metric().extend(family.get_metric().iter().cloned()),
                None => families.push(family),
            }
        }
        families.sort_by(|one, two| one.name().cmp(two.name()));
        let mut text = Vec::new();
        if let Err(error) = TextEncoder::new().encode(&families, &mut text) {
            tracing::warn!(%error, "encoding metrics failed");
        }
        Bytes::from(text)
    }
}

/// The admin port's own metrics, in a registry of their own.
struct Own {
    registry: Registry,
    connections: IntGauge,
    turned_away: IntCounter,
}

impl Own {
    fn new() -> Result<Self, prometheus::Error> {
        let own = Self {
            registry: Registry::new(),
            connections: IntGauge::new(
                "roomring_admin_connections",
                "Open connections of the admin port.",
            )?,
            turned_away: IntCounter::new(
                "roomring_admin_turned_away_total",
                "Connections of the admin port closed because too many were open.",
            )?,
        };
        own.registry.register(Box::new(own.connections.clone()))?;
        own.registry.register(Box::new(own.turned_away.clone()))?;
        Ok(own)
    }
}

/// Counts an open connection for as long as it lives.
struct Open(IntGauge);

impl Open {
    fn new(gauge: &IntGauge) -> Self {
        gauge.inc();
        Self(gauge.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

fn plain(status: StatusCode, text: Bytes) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(text));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    response
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;
    use std::sync::atomic::{AtomicBool, Ordering};

    use http_body_util::BodyExt as _;
    use prometheus::{IntCounterVec, Opts};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpStream;

    use super::*;

    fn admin(ready: &Arc<AtomicBool>) -> Admin {
        let one = Registry::new();
        let two = Registry::new();
        let labels = HashMap::from([("tier".to_owned(), "gateway".to_owned())]);
        let opts = Opts::new("roomring_waits_refused_total", "Refused.");
        let counter = IntCounter::with_opts(opts.clone().const_labels(labels)).unwrap();
        one.register(Box::new(counter.clone())).unwrap();
        let other = IntCounterVec::new(opts, &["tier"]).unwrap();
        two.register(Box::new(other.clone())).unwrap();
        counter.inc_by(3);
        other.with_label_values(&["owner"]).inc_by(5);
        let ready = Arc::clone(ready);
        Admin {
            registries: vec![one, two],
            ready: Box::new(move || ready.load(Ordering::Relaxed).then_some(()).ok_or("not yet")),
            refresh: Box::new(move || counter.inc()),
        }
    }

    async fn ask(admin: &Admin, method: Method, path: &str) -> (u16, String) {
        let request = Request::builder().method(method).uri(path).body(()).unwrap();
        let response = admin.answer(&request);
        let status = response.status().as_u16();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        (status, String::from_utf8(body.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn paths_answer_and_readiness_follows() {
        let ready = Arc::new(AtomicBool::new(false));
        let admin = admin(&ready);
        let unready = ask(&admin, Method::GET, "/readyz").await;
        assert_eq!(unready, (503, "not ready: not yet\n".to_owned()));
        ready.store(true, Ordering::Relaxed);
        for (method, path, status) in [
            (Method::GET, "/livez", 200),
            (Method::GET, "/healthz", 200),
            (Method::HEAD, "/readyz", 200),
            (Method::GET, "/metrics?x=1", 200),
            (Method::POST, "/metrics", 405),
            (Method::GET, "/mcp", 404),
            (Method::GET, "/", 404),
        ] {
            assert_eq!(ask(&admin, method, path).await.0, status, "{path}");
        }
    }

    #[tokio::test]
    async fn families_of_several_registries_are_one() {
        let admin = admin(&Arc::new(AtomicBool::new(true)));
        let (_, text) = ask(&admin, Method::GET, "/metrics").await;
        assert_eq!(text.matches("# TYPE roomring_waits_refused_total").count(), 1, "{text}");
        // Three and the refresh of this very request.
        assert!(text.contains("roomring_waits_refused_total{tier=\"gateway\"} 4"), "{text}");
        assert!(text.contains("roomring_waits_refused_total{tier=\"owner\"} 5"), "{text}");
    }

    async fn get(stream: &mut TcpStream) -> String {
        let head = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n";
        // A connection over the bound is closed before it is read.
        if stream.write_all(head).await.is_err() {
            return String::new();
        }
        let mut text = Vec::new();
        while !String::from_utf8_lossy(&text)
            .contains("roomring_waits_refused_total{tier=\"owner\"}")
        {
            if stream.read_buf(&mut text).await.unwrap_or(0) == 0 {
                break;
            }
        }
        String::from_utf8(text).unwrap()
    }

    #[tokio::test]
    async fn connections_are_bounded_and_shown() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let end = CancellationToken::new();
        let admin = admin(&Arc::new(AtomicBool::new(true)));
        let serving = tokio::spawn(admin.serve(listener, end.clone()));
        let mut open = Vec::new();
        for _ in 0..ADMIN_CONNECTIONS_MAX {
            let mut stream = TcpStream::connect(address).await.unwrap();
            assert!(get(&mut stream).await.starts_with("HTTP/1.1 200"));
            open.push(stream);
        }
        let mut over = TcpStream::connect(address).await.unwrap();
        assert_eq!(get(&mut over).await, "", "closed without a word");
        let text = get(&mut open[0]).await;
        assert!(text.contains("roomring_admin_connections 64\n"), "{text}");
        assert!(text.contains("roomring_admin_turned_away_total 1\n"), "{text}");
        end.cancel();
        serving.await.unwrap();
    }
}
