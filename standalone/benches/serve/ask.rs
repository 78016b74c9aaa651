//! Asking: fixed requests over and over on keep-alive connections, one thread, no pipelining.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Asks each request on a connection of its own, about `count` times in all, and returns how often.
/// The last answer on each connection must contain `wanted`.
pub(crate) fn run(at: SocketAddr, requests: &[Vec<u8>], count: usize, wanted: &'static str) -> u64 {
    let times = count.div_ceil(requests.len());
    on_this_thread(async {
        let mut asking = tokio::task::JoinSet::new();
        for request in requests {
            let request = request.clone();
            asking.spawn(async move {
                let mut connection = Connection::open(at).await;
                for _ in 0..times {
                    connection.ask(&request).await;
                }
                let answer = String::from_utf8_lossy(connection.body());
                assert!(answer.contains(wanted), "no {wanted} in {answer}");
            });
        }
        while let Some(done) = asking.join_next().await {
            done.unwrap();
        }
    });
    (times * requests.len()) as u64
}

/// The body of one request's answer.
pub(crate) fn once(at: SocketAddr, request: &[u8]) -> Vec<u8> {
    on_this_thread(async {
        let mut connection = Connection::open(at).await;
        connection.ask(request).await;
        connection.body().to_vec()
    })
}

fn on_this_thread<T>(future: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(future)
}

struct Connection {
    stream: TcpStream,
    /// The last answer, whole.
    answer: Vec<u8>,
    body_at: usize,
}

impl Connection {
    async fn open(at: SocketAddr) -> Self {
        let stream = TcpStream::connect(at).await.unwrap();
        stream.set_nodelay(true).unwrap();
        Self { stream, answer: Vec::with_capacity(128 * 1024), body_at: 0 }
    }

    async fn ask(&mut self, request: &[u8]) {
        self.stream.write_all(request).await.unwrap();
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

    fn body(&self) -> &[u8] {
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
