//! A node for tests: answers by script, remembers what it saw.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use object::{Class, Reject};
use proto::v1;
use proto::v1::room_node_client::RoomNodeClient;
use proto::v1::room_node_server::{RoomNode, RoomNodeServer};
use tokio::sync::{mpsc, watch};
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
    /// Another node owns it: the address named, if any, and the view known.
    NotOwner(Option<&'static str>, u64),
    /// A success after a while; later calls do not wait for it.
    After(Duration, Box<Self>),
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

/// Where the node is in its life.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    Up,
    /// Says so on every stream, and answers what comes all the same.
    Draining(u64),
    /// Ends every stream and opens none.
    Down,
}

pub(crate) struct FakeNode {
    pub(crate) phase: watch::Sender<Phase>,
    /// Shared with the streams, which live by themselves.
    play: Arc<Play>,
    cancelled: mpsc::Sender<u64>,
    /// Links refused before the first is accepted.
    pub(crate) refuse_links: AtomicUsize,
    /// Reads nothing from links while it is set.
    pub(crate) deaf: Arc<AtomicBool>,
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
            phase: watch::channel(Phase::Up).0,
            play: Arc::new(Play { script: Mutex::new(Box::new(script)), seen: Mutex::default() }),
            cancelled,
            refuse_links: AtomicUsize::new(0),
            deaf: Arc::default(),
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

type Sender = mpsc::Sender<Result<v1::Down, Status>>;

/// Answers one call; false if the stream ends.
async fn perform(
    play: &Play,
    sender: &Sender,
    gathered: &mut Vec<v1::Call>,
    call: v1::Call,
) -> bool {
    let id = call.id;
    let message = match play.act(&call) {
        Act::Gather(count) => {
            gathered.push(call);
            if gathered.len() < count {
                return true;
            }
            for call in gathered.drain(..).rev() {
                let text = String::from_utf8(call.args.to_vec()).unwrap();
                sender.send(answer(call.id, body(&text), None)).await.unwrap();
            }
            return true;
        }
        Act::Drain => {
            let draining = v1::Draining { view: 0 };
            sender.send(down(v1::down::What::Draining(draining))).await.unwrap();
            answer(id, body("{}"), None)
        }
        Act::Silence => return true,
        Act::EndStream => return false,
        Act::After(after, act) => {
            let sender = sender.clone();
            tokio::spawn(async move {
                tokio::time::sleep(after).await;
                let _gone = sender.send(plain(id, *act)).await;
            });
            return true;
        }
        act => plain(id, act),
    };
    sender.send(message).await.is_ok()
}

/// An answer that is one message.
fn plain(id: u64, act: Act) -> Result<v1::Down, Status> {
    match act {
        Act::Success(success) => answer(id, Some(v1::answer::What::Success(success)), None),
        Act::Wait(text, next) => answer(id, body(text), Some(next)),
        Act::Refuse(reject) => {
            let refusal = proto::class::refusal(reject);
            answer(id, Some(v1::answer::What::Refusal(refusal)), None)
        }
        Act::NotOwner(hint, view) => {
            let reject = Reject::new(Class::NotOwner, "room_unavailable", "Elsewhere.", true);
            let refusal = v1::Refusal {
                owner_hint: hint.map(str::to_owned),
                view,
                ..proto::class::refusal(reject)
            };
            answer(id, Some(v1::answer::What::Refusal(refusal)), None)
        }
        Act::Newer => answer(id, None, None),
        _ => panic!("no plain answer"),
    }
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
        let mut phase = self.phase.subscribe();
        if *phase.borrow() == Phase::Down {
            return Err(Status::unavailable("down"));
        }
        // Whatever it is by now, the stream is told.
        phase.mark_changed();
        let mut up = request.into_inner();
        let (sender, receiver) = mpsc::channel(SCRIPT_CALLS_MAX);
        let (calls, mut inbox) = mpsc::channel(SCRIPT_CALLS_MAX);
        let cancelled = self.cancelled.clone();
        let deaf = Arc::clone(&self.deaf);
        tokio::spawn(async move {
            while deaf.load(Ordering::Relaxed) {
                tokio::task::yield_now().await;
            }
            while let Ok(Some(message)) = up.message().await {
                match message.what {
                    Some(v1::up::What::Call(call)) => drop(calls.try_send(call)),
                    Some(v1::up::What::Cancel(cancel)) => drop(cancelled.try_send(cancel.id)),
                    _ => {}
                }
            }
        });
        let play = Arc::clone(&self.play);
        tokio::spawn(async move {
            let mut gathered = Vec::new();
            loop {
                let call = tokio::select! {
                    biased;
                    changed = phase.changed() => {
                        let now = *phase.borrow_and_update();
                        if changed.is_err() || now == Phase::Down {
                            return;
                        }
                        if let Phase::Draining(view) = now {
                            let draining = down(v1::down::What::Draining(v1::Draining { view }));
                            sender.send(draining).await.unwrap();
                        }
                        continue;
                    }
                    call = inbox.recv() => match call {
                        Some(call) => call,
                        None => return,
                    },
                };
                if !perform(&play, &sender, &mut gathered, call).await {
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
