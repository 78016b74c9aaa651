//! One admin port for several processes: their metrics one after the other, for tests that ask a
//! server for its own.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Serves `/metrics` until it is dropped.
#[derive(Debug)]
pub(crate) struct Admin {
    pub(crate) at: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Admin {
    pub(crate) fn of(processes: Vec<SocketAddr>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let at = listener.local_addr().unwrap();
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                if stopped.load(Ordering::SeqCst) {
                    return;
                }
                answer(stream, &processes);
            }
        });
        Self { at, stop, thread: Some(thread) }
    }
}

impl Drop for Admin {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the thread.
        drop(TcpStream::connect(self.at));
        drop(self.thread.take().map(JoinHandle::join));
    }
}

/// Answers one request, whatever it asks, with the metrics of all.
fn answer(mut stream: TcpStream, processes: &[SocketAddr]) {
    let mut head = Vec::new();
    let mut chunk = [0; 1024];
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        match stream.read(&mut chunk) {
            Ok(n @ 1..) => head.extend_from_slice(&chunk[..n]),
            Ok(0) | Err(_) => return,
        }
    }
    // A process that is gone has no metrics.
    let body: String = processes.iter().filter_map(|at| metrics(*at).ok()).collect();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/plain\r\ncontent-length: {length}\r\n\
         connection: close\r\n\r\n"
    );
    drop(stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(body.as_bytes())));
}

fn metrics(at: SocketAddr) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(at)?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer.split_once("\r\n\r\n").map_or_else(String::new, |(_, body)| body.to_owned()))
}
