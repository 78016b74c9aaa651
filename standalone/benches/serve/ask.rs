//! Asking: fixed requests over and over on keep-alive connections, one thread, no pipelining.

use std::io::ErrorKind;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Connections that ask at the same time.
pub(crate) const CONNECTIONS: usize = 64;

/// Asks about `count` times in all and returns how often. Each connection has its share of the
/// requests and asks them in turn; its last answer must contain `wanted`.
pub(crate) fn run(at: SocketAddr, requests: &[Vec<u8>], count: usize, wanted: &'static str) -> u64 {
    assert!(requests.len() >= CONNECTIONS);
    let times = count.div_ceil(CONNECTIONS);
    on_this_thread(async {
        let mut asking = tokio::task::JoinSet::new();
        for first in 0..CONNECTIONS {
            let requests: Vec<Vec<u8>> =
                requests.iter().skip(first).step_by(CONNECTIONS).cloned().collect();
            asking.spawn(async move {
                let mut connection = Connection::open(at).await;
                for request in requests.iter().cycle().take(times) {
                    connection.ask(request).await;
                }
                let answer = String::from_utf8_lossy(connection.body());
                assert!(answer.contains(wanted), "no {wanted} in {answer}");
            });
        }
        while let Some(done) = asking.join_next().await {
            done.unwrap();
        }
    });
    (times * CONNECTIONS) as u64
}

/// The body of one request's answer.
pub(crate) fn once(at: SocketAddr, request: &[u8]) -> Vec<u8> {
    on_this_thread(async {
        let mut connection = Connection::open(at).await;
        connection.ask(request).await;
        connection.body().to_vec()
    })
}

pub(crate) fn on_this_thread<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

pub(crate) struct Connection {
    stream: TcpStream,
    /// The last answer, whole.
    answer: Vec<u8>,
    body_at: usize,
}

impl Connection {
    pub(crate) async fn open(at: SocketAddr) -> Self {
        let stream = TcpStream::connect(at).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, answer: Vec::with_capacity(128 * 1024), body_at: 0 }
    }

    pub(crate) async fn ask(&mut self, request: &[u8]) {
        self.send(request).await;
        self.receive().await;
    }

    pub(crate) async fn send(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.unwrap();
    }

    /// Reads one whole answer.
    pub(crate) async fn receive(&mut self) {
        self.answer.clear();
        let mut whole = None;
        loop {
            let read = self.stream.read_buf(&mut self.answer).await.unwrap();
            assert!(read > 0, "the server closed the connection");
            if whole.is_none() {
                whole = self.head();
            }
            if whole.is_some_and(|length| self.answer.len() >= length) {
                return;
            }
        }
    }

    /// Whether nothing has arrived since the last answer.
    pub(crate) fn is_silent(&self) -> bool {
        matches!(self.stream.try_read(&mut [0]), Err(error) if error.kind() == ErrorKind::WouldBlock)
    }

    pub(crate) fn body(&self) -> &[u8] {
        &self.answer[self.body_at..]
    }

    /// The length of the whole answer, once its head is there.
    fn head(&mut self) -> Option<usize> {
        let end = self.answer.windows(4).position(|window| window == b"\r\n\r\n")?;
        let head = std::str::from_utf8(&self.answer[..end]).unwrap();
        assert!(head.starts_with("HTTP/1.1 200"), "{head}");
        let length = head.split("\r\n").find_map(|line| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>())
        });
        self.body_at = end + 4;
        Some(self.body_at + length.expect("a content-length").unwrap())
    }
}
