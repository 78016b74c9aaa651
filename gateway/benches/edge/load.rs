//! Asking: a fixed request over and over on a few connections.

use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

const CONNECTIONS: usize = 64;

/// A server on a thread of its own.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    pub(crate) at: SocketAddr,
    /// `/proc/<pid>/task/<tid>/schedstat` of the thread.
    schedstat: String,
}

impl Server {
    /// Runs a server's future on a new thread; it tells where it listens.
    pub(crate) fn start<F>(serve: impl FnOnce(std::net::TcpListener) -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()>,
    {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let at = listener.local_addr().unwrap();
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        std::thread::spawn(move || {
            let thread = std::fs::read_link("/proc/thread-self").unwrap();
            tell.send(format!("/proc/{}/schedstat", thread.display())).unwrap();
            let runtime =
                tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(serve(listener));
        });
        Self { at, schedstat: told.recv().unwrap() }
    }

    /// CPU time of the serving thread, user and system.
    pub(crate) fn cpu_ns(&self) -> u64 {
        let text = std::fs::read_to_string(&self.schedstat).unwrap();
        text.split(' ').next().unwrap().parse().unwrap()
    }
}

/// Sends `requests` requests in all and reads their answers.
pub(crate) fn run(at: SocketAddr, request: &[u8], requests: usize) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut asking = tokio::task::JoinSet::new();
        for _ in 0..CONNECTIONS {
            let request = request.to_vec();
            asking.spawn(async move {
                let mut stream = TcpStream::connect(at).await.unwrap();
                stream.set_nodelay(true).unwrap();
                let mut buffer = Vec::with_capacity(256 * 1024);
                for _ in 0..requests / CONNECTIONS {
                    stream.write_all(&request).await.unwrap();
                    answer(&mut stream, &mut buffer).await;
                }
            });
        }
        while let Some(done) = asking.join_next().await {
            done.unwrap();
        }
    });
}

/// One request's answer: its body.
pub(crate) fn once(at: SocketAddr, request: &[u8]) -> Vec<u8> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let mut stream = TcpStream::connect(at).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut buffer = Vec::new();
        let start = answer(&mut stream, &mut buffer).await;
        buffer.split_off(start)
    })
}

/// Reads one answer; returns where its body starts.
async fn answer(stream: &mut TcpStream, buffer: &mut Vec<u8>) -> usize {
    buffer.clear();
    let mut whole = None;
    loop {
        assert!(stream.read_buf(buffer).await.unwrap() > 0, "the server closed");
        if whole.is_none() {
            whole = head(buffer);
        }
        if let Some((start, length)) = whole
            && buffer.len() >= start + length
        {
            return start;
        }
    }
}

fn head(buffer: &[u8]) -> Option<(usize, usize)> {
    let end = buffer.windows(4).position(|window| window == b"\r\n\r\n")?;
    let text = std::str::from_utf8(buffer.get(..end)?).unwrap();
    assert!(text.starts_with("HTTP/1.1 200"), "{text}");
    let length = text
        .split("\r\n")
        .find_map(|line| line.to_ascii_lowercase().strip_prefix("content-length: ").map(str::parse))
        .expect("a length")
        .unwrap();
    Some((end + 4, length))
}
