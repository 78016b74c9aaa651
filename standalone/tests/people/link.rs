//! The test client: a stream to the node, and a human or a resident runtime that speaks on it.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use gateway::upstream::Transport;
use object::{Object as _, ParticipantId};
use proto::v1::room_node_client::RoomNodeClient;
use proto::v1::{Attach, Call, Detach, Down, Refusal, Success, Up, answer, down, notice, up};
use serde_json::{Value, json};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

/// Longer than any period of the scenarios: reached only by a test that is stuck.
const NEVER: Duration = Duration::from_secs(1_000_000);

/// More frames than any scenario leaves unread on one connection.
const HEARD_FRAMES_MAX: usize = 1_024;
/// Messages on their way up one stream.
const UP_MAX: usize = 64;

/// What came down a connection.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Heard {
    Frame(Value),
    Closed(u32),
    /// The whole stream has ended.
    Lost,
}

type Answered = Result<Success, Refusal>;

#[derive(Default)]
struct Waiting {
    calls: HashMap<u64, oneshot::Sender<Answered>>,
    lines: HashMap<u64, mpsc::Sender<Heard>>,
}

/// One stream to the node.
pub(crate) struct Link {
    up: mpsc::Sender<Up>,
    ids: AtomicU64,
    waiting: Arc<Mutex<Waiting>>,
}

impl Link {
    pub(crate) async fn open<T: Transport>(mut client: RoomNodeClient<T>) -> Arc<Self> {
        let (up, receiver) = mpsc::channel(UP_MAX);
        let down = client.link(ReceiverStream::new(receiver)).await.unwrap().into_inner();
        let waiting = Arc::<Mutex<Waiting>>::default();
        tokio::spawn(read(down, Arc::clone(&waiting)));
        Arc::new(Self { up, ids: AtomicU64::new(1), waiting })
    }

    async fn send(&self, what: up::What) {
        self.up.send(Up { what: Some(what) }).await.unwrap();
    }

    async fn call(&self, mut call: Call) -> Answered {
        call.id = self.ids.fetch_add(1, Ordering::Relaxed);
        let (answered, answer) = oneshot::channel();
        self.waiting.lock().unwrap().calls.insert(call.id, answered);
        self.send(up::What::Call(call)).await;
        tokio::time::timeout(NEVER, answer).await.unwrap().unwrap()
    }
}

async fn read(mut down: tonic::Streaming<Down>, waiting: Arc<Mutex<Waiting>>) {
    while let Some(Ok(message)) = down.next().await {
        let mut waiting = waiting.lock().unwrap();
        match message.what.unwrap() {
            down::What::Answer(answer) => {
                let caller = waiting.calls.remove(&answer.id).unwrap();
                let _gone = caller.send(match answer.what.unwrap() {
                    answer::What::Success(success) => Ok(success),
                    answer::What::Refusal(refusal) => Err(refusal),
                });
            }
            down::What::Notice(notice) => {
                let heard = match notice.what.unwrap() {
                    notice::What::Frame(frame) => {
                        Heard::Frame(serde_json::from_slice(&frame).unwrap())
                    }
                    notice::What::CloseCode(code) => Heard::Closed(code),
                };
                if let Some(line) = waiting.lines.get(&notice.connection) {
                    told(line, heard);
                }
            }
            down::What::Draining(_) => {}
        }
    }
    let mut waiting = waiting.lock().unwrap();
    waiting.calls.clear();
    for line in waiting.lines.values() {
        told(line, Heard::Lost);
    }
}

/// A reader that is gone is no fault, one that does not read is.
fn told(line: &mpsc::Sender<Heard>, heard: Heard) {
    assert!(!matches!(line.try_send(heard), Err(TrySendError::Full(_))), "frames pile up");
}

/// A human's browser, or the runtime of a resident agent.
pub(crate) struct Human {
    pub(crate) link: Arc<Link>,
    room: String,
    pub(crate) id: ParticipantId,
    /// The attached connection; 0 for none.
    pub(crate) connection: u64,
    heard: mpsc::Receiver<Heard>,
}

impl Human {
    pub(crate) fn new(link: Arc<Link>, room: &str, id: ParticipantId) -> Self {
        let (_closed, heard) = mpsc::channel(HEARD_FRAMES_MAX);
        Self { link, room: room.to_owned(), id, connection: 0, heard }
    }

    /// Attaches a connection at the node; the room hears of it with the next call.
    pub(crate) async fn attach(&mut self, connection: u64) {
        let (line, heard) = mpsc::channel(HEARD_FRAMES_MAX);
        self.link.waiting.lock().unwrap().lines.insert(connection, line);
        (self.connection, self.heard) = (connection, heard);
        let attach = Attach {
            connection,
            kind: u32::from(room::Room::KIND.0),
            object: self.room.clone(),
            participant: self.bytes(),
        };
        self.link.send(up::What::Attach(attach)).await;
    }

    pub(crate) async fn detach(&self) {
        self.link.send(up::What::Detach(Detach { connection: self.connection })).await;
    }

    /// Another tab of the same human: a connection of its own on the same stream.
    pub(crate) async fn tab(&self, connection: u64) -> Self {
        let mut tab = Self::new(Arc::clone(&self.link), &self.room, self.id);
        tab.attach(connection).await;
        tab
    }

    fn bytes(&self) -> Bytes {
        self.id.0.to_be_bytes().to_vec().into()
    }

    async fn send(&self, op: &str, args: &Value, blob: Option<&[u8]>) -> Answered {
        let call = Call {
            op: op.into(),
            kind: u32::from(room::Room::KIND.0),
            object: self.room.clone(),
            participant: self.bytes(),
            joining: op == "join_human",
            args: args.to_string().into_bytes().into(),
            blob: blob.map(Bytes::copy_from_slice),
            request: fastrand::u128(1..).to_be_bytes().to_vec().into(),
            attempt: 1,
            deadline_ms: 60_000,
            connection: self.connection,
            ..Call::default()
        };
        self.link.call(call).await
    }

    pub(crate) async fn join(&self, name: &str) -> Result<Value, Refusal> {
        let args = json!({"roomId": self.room, "name": name});
        self.send("join_human", &args, None).await.map(|success| body(&success))
    }

    /// The answer of a call that succeeds.
    pub(crate) async fn ok(&self, op: &str, args: Value) -> Value {
        match self.send(op, &args, None).await {
            Ok(success) => body(&success),
            Err(refusal) => panic!("{op}: {} {}", refusal.code, refusal.message),
        }
    }

    /// The code of a call that is refused.
    pub(crate) async fn code(&self, op: &str, args: Value) -> String {
        match self.send(op, &args, None).await {
            Ok(success) => panic!("{op}: {}", body(&success)),
            Err(refusal) => refusal.code,
        }
    }

    /// A successful call that carries bytes.
    pub(crate) async fn upload(&self, op: &str, args: Value, bytes: &[u8]) -> Value {
        body(&self.send(op, &args, Some(bytes)).await.unwrap())
    }

    /// A successful call that brings bytes: its body, the bytes, the type of an image.
    pub(crate) async fn load(&self, op: &str, args: Value) -> (Value, Bytes, Option<String>) {
        let success = self.send(op, &args, None).await.unwrap();
        (body(&success), success.blob.clone().unwrap(), success.image_mime)
    }

    /// Whatever comes next.
    pub(crate) async fn heard(&mut self) -> Heard {
        tokio::time::timeout(NEVER, self.heard.recv()).await.unwrap().unwrap()
    }

    /// Everything that was sent down this connection until now. What was sent comes before the
    /// answer of a later call, on one stream; this call gets no further than the stream's end.
    pub(crate) async fn so_far(&mut self) -> Vec<Heard> {
        assert_eq!(self.code("nonsense", json!({})).await, "unknown_op");
        std::iter::from_fn(|| self.heard.try_recv().ok()).collect()
    }

    /// The next frame, which must be of this type.
    pub(crate) async fn next(&mut self, kind: &str) -> Value {
        match self.heard().await {
            Heard::Frame(frame) if frame["type"] == kind => frame,
            other => panic!("{kind} wanted, {other:?} came"),
        }
    }

    /// The next frame that pleases; others are skipped.
    pub(crate) async fn until(&mut self, pleases: impl Fn(&Value) -> bool) -> Value {
        loop {
            match self.heard().await {
                Heard::Frame(frame) if pleases(&frame) => return frame,
                Heard::Frame(_) => {}
                other => panic!("{other:?}"),
            }
        }
    }

    /// The room as this human's browser would show it now.
    pub(crate) async fn state(&self) -> Value {
        self.ok("human_read_state", json!({})).await["state"].take()
    }
}

fn body(success: &Success) -> Value {
    serde_json::from_slice(&success.body).unwrap()
}
