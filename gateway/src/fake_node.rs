//! A node for tests: answers by script, remembers what it saw.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use object::Reject;
use proto::v1;
use proto::v1::room_node_client::RoomNodeClient;
use proto::v1::room_node_server::{RoomNode, RoomNodeServer};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tonic::{Request, Response, Status, Streaming};

/// Calls that wait for their script, and answers that wait to be read.
const SCRIPT_CALLS_MAX: usize = 1_024;

/// What the node does with one call.
pub(crate) enum Act {
    Success(v1::Success),
    /// A success, and when the next wait is admitted.
    Wait(&'static str, u64),
    Refuse(Reject),
    /// An answer of a kind this gateway does not know.
    Newer,
    Silence,
    /// Answers in the reverse order of arrival once so many calls are there.
    Gather(usize),
    EndStream,
    /// Says that the stream ends soon, then answers.
    Drain,
}

/// A plain success.
pub(crate) fn success(body: &'static str) -> Act {
    Act::Success(v1::Success { body: Bytes::from_static(body.as_bytes()), ..Default::default() })
}

type Script = Box<dyn FnMut(&v1::Call) -> Act + Send>;

pub(crate) struct FakeNode {
    /// Shared with the streams, which live by themselves.
    play: Arc<Play>,
    cancelled: mpsc::Sender<u64>,
    /// Links refused before the first is accepted.
    pub(crate) refuse_links: AtomicUsize,
}

struct Play {
    script: Mutex<Script>,
    seen: Mutex<Vec<v1::Call>>,
}

impl Play {
    fn act(&self, call: &v1::Call) -> Act {
        self.seen.lock().unwrap().push(call.clone());
        (self.script.lock().unwrap())(call)
    }
}

impl FakeNode {
    /// A node, its client running directly on it, and the ids of cancelled calls.
    pub(crate) fn start(
        script: impl FnMut(&v1::Call) -> Act + Send + 'static,
    ) -> (Arc<Self>, RoomNodeClient<RoomNodeServer<Self>>, mpsc::Receiver<u64>) {
        let (cancelled, cancels) = mpsc::channel(SCRIPT_CALLS_MAX);
        let node = Arc::new(Self {
            play: Arc::new(Play { script: Mutex::new(Box::new(script)), seen: Mutex::default() }),
            cancelled,
            refuse_links: AtomicUsize::new(0),
        });
        let client = RoomNodeClient::new(RoomNodeServer::from_arc(Arc::clone(&node)));
        (node, client, cancels)
    }

    /// All calls so far, in order of arrival.
    pub(crate) fn seen(&self) -> Vec<v1::Call> {
        self.play.seen.lock().unwrap().clone()
    }
}

fn down(what: v1::down::What) -> Result<v1::Down, Status> {
    Ok(v1::Down { what: Some(what) })
}

fn answer(
    id: u64,
    what: Option<v1::answer::What>,
    next_wait_ms: Option<u64>,
) -> Result<v1::Down, Status> {
    down(v1::down::What::Answer(v1::Answer { id, what, next_wait_ms }))
}

fn body(text: &str) -> Option<v1::answer::What> {
    let body = Bytes::copy_from_slice(text.as_bytes());
    Some(v1::answer::What::Success(v1::Success { body, ..Default::default() }))
}

#[tonic::async_trait]
impl RoomNode for FakeNode {
    type LinkStream = ReceiverStream<Result<v1::Down, Status>>;

    async fn link(
        &self,
        request: Request<Streaming<v1::Up>>,
    ) -> Result<Response<Self::LinkStream>, Status> {
        let refused =
            self.refuse_links
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        if refused.is_ok() {
            return Err(Status::unavailable("not yet"));
        }
        let mut up = request.into_inner();
        let (sender, receiver) = mpsc::channel(SCRIPT_CALLS_MAX);
        let (calls, mut inbox) = mpsc::channel(SCRIPT_CALLS_MAX);
        let cancelled = self.cancelled.clone();
        tokio::spawn(async move {
            while let Ok(Some(message)) = up.message().await {
                match message.what {
                    Some(v1::up::What::Call(call)) => drop(calls.try_send(call)),
                    Some(v1::up::What::Cancel(cancel)) => drop(cancelled.try_send(cancel.id)),
                    _ => {}
                }
            }
        });
        let mut gathered = Vec::new();
        let play = Arc::clone(&self.play);
        tokio::spawn(async move {
            while let Some(call) = inbox.recv().await {
                let id = call.id;
                let message = match play.act(&call) {
                    Act::Success(success) => {
                        answer(id, Some(v1::answer::What::Success(success)), None)
                    }
                    Act::Wait(text, next) => answer(id, body(text), Some(next)),
                    Act::Refuse(reject) => {
                        let refusal = proto::class::refusal(reject);
                        answer(id, Some(v1::answer::What::Refusal(refusal)), None)
                    }
                    Act::Newer => answer(id, None, None),
                    Act::Silence => continue,
                    Act::Gather(count) => {
                        gathered.push(call);
                        if gathered.len() < count {
                            continue;
                        }
                        for call in gathered.drain(..).rev() {
                            let text = String::from_utf8(call.args.to_vec()).unwrap();
                            sender.send(answer(call.id, body(&text), None)).await.unwrap();
                        }
                        continue;
                    }
                    Act::EndStream => return,
                    Act::Drain => {
                        let draining = v1::Draining { view: 0 };
                        sender.send(down(v1::down::What::Draining(draining))).await.unwrap();
                        answer(id, body("{}"), None)
                    }
                };
                if sender.send(message).await.is_err() {
                    return;
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn describe(
        &self,
        _request: Request<v1::DescribeRequest>,
    ) -> Result<Response<v1::DescribeResponse>, Status> {
        Err(Status::unimplemented("not asked in these tests"))
    }
}
