//! What a gateway is to the gateways of other regions: a node that holds the rooms of this one
//! (cluster 2.12). It speaks the same service, and only takes calls that are marked as forwarded.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use object::RequestId;
use process::tls::Links;
use proto::v1;
use proto::v1::room_node_server::{RoomNode, RoomNodeServer};
use room::catalog::Tool;
use serde_json::value::RawValue;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::{AbortHandle, JoinHandle};
use tokio_stream::wrappers::ReceiverStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;
use tonic::transport::server::TcpIncoming;
use tonic::{Request, Response, Status, Streaming};

use crate::call::{Origin, Outcome, Pipeline, ToolCall};
use crate::client_addr::ClientAddr;
use crate::clock;
use crate::error::Refusal;
use crate::upstream::Counted;
use crate::upstream::channel::MESSAGE_BYTES_MAX;

/// Calls of one stream under way at once; more are answered `overloaded`.
pub(crate) const RELAYED_CALLS_MAX: usize = 4_096;
/// Streams one peer may have open at a time; it needs a few.
const CONNECTION_STREAMS_MAX: u32 = 64;
/// Longest life of a relayed call, whatever its sender says.
const DEADLINE_MAX: Duration = Duration::from_secs(60);
/// How often a silent peer is probed, and how long it may take to answer.
const KEEP_ALIVE: Duration = Duration::from_secs(5);

/// The service that peer gateways call.
#[derive(Debug)]
pub(crate) struct Relay {
    shared: Arc<Shared>,
}

struct Shared {
    pipeline: Arc<Pipeline>,
    /// Bounded by the catalog: no more than it has.
    tools: HashMap<&'static str, Tool>,
    /// Peers send new calls elsewhere from now on.
    stop: CancellationToken,
    calls_max: usize,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

/// The service over a pipeline, for a server or for a client in the same process; `calls_max` is
/// for each stream.
pub(crate) fn service(
    pipeline: Arc<Pipeline>,
    tools: Vec<Tool>,
    stop: CancellationToken,
    calls_max: usize,
) -> RoomNodeServer<Relay> {
    let tools = tools.into_iter().map(|tool| (tool.meta.name, tool)).collect();
    RoomNodeServer::new(Relay { shared: Arc::new(Shared { pipeline, tools, stop, calls_max }) })
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

/// Serves peers that show a certificate until `stop`, then lets their calls finish.
pub(crate) fn serve(
    listener: TcpListener,
    tls: &Arc<Links>,
    pipeline: Arc<Pipeline>,
    stop: CancellationToken,
) -> JoinHandle<()> {
    let service = service(pipeline, room::catalog::tools(), stop.clone(), RELAYED_CALLS_MAX);
    let server = Server::builder()
        .http2_keepalive_interval(Some(KEEP_ALIVE))
        .http2_keepalive_timeout(Some(KEEP_ALIVE))
        .max_concurrent_streams(Some(CONNECTION_STREAMS_MAX));
    let incoming = tls.incoming(TcpIncoming::from(listener).with_nodelay(Some(true)));
    tokio::spawn(async move {
        let served = server.serve_with_incoming_shutdown(service, incoming, stop.cancelled_owned());
        if let Err(error) = served.await {
            tracing::error!(%error, "gateways of other regions are not served any more");
        }
    })
}

type Answers = mpsc::Sender<Result<v1::Down, Status>>;
type Calls = Arc<Mutex<HashMap<u64, AbortHandle>>>;

#[tonic::async_trait]
impl RoomNode for Relay {
    type LinkStream = ReceiverStream<Result<v1::Down, Status>>;

    async fn link(
        &self,
        request: Request<Streaming<v1::Up>>,
    ) -> Result<Response<Self::LinkStream>, Status> {
        // One answer per call under way: the queue cannot be full for long.
        let (answers, receiver) = mpsc::channel(self.shared.calls_max);
        tokio::spawn(serve_link(Arc::clone(&self.shared), request.into_inner(), answers));
        Ok(Response::new(ReceiverStream::new(receiver)))
    }

    async fn describe(
        &self,
        _request: Request<v1::DescribeRequest>,
    ) -> Result<Response<v1::DescribeResponse>, Status> {
        Err(Status::unimplemented("a gateway holds no rooms: ask a node"))
    }
}

/// Serves one stream until either side ends it; then its calls are cancelled.
async fn serve_link(shared: Arc<Shared>, mut up: Streaming<v1::Up>, answers: Answers) {
    let calls = Calls::default();
    let mut told = false;
    loop {
        let message = tokio::select! {
            biased;
            () = answers.closed() => break,
            () = shared.stop.cancelled(), if !told => {
                told = true;
                let draining = v1::down::What::Draining(v1::Draining { view: 0 });
                // A peer that is gone sends nothing more anyway.
                let _gone = answers.send(Ok(v1::Down { what: Some(draining) })).await;
                continue;
            }
            message = up.message() => message,
        };
        let Ok(Some(message)) = message else { break };
        match message.what {
            Some(v1::up::What::Call(call)) => begin(&shared, &calls, &answers, call).await,
            Some(v1::up::What::Cancel(cancel)) => {
                if let Some(call) = lock(&calls).remove(&cancel.id) {
                    call.abort();
                }
            }
            // Connections stay in their own region; a newer peer may say more than we know.
            Some(v1::up::What::Attach(_) | v1::up::What::Detach(_)) | None => {}
        }
    }
    for call in std::mem::take(&mut *lock(&calls)).into_values() {
        call.abort();
    }
}

async fn begin(shared: &Arc<Shared>, calls: &Calls, answers: &Answers, call: v1::Call) {
    let id = call.id;
    let full = {
        let mut under_way = lock(calls);
        let full = under_way.len() >= shared.calls_max || under_way.contains_key(&id);
        if !full {
            let (shared, calls, answers) = (Arc::clone(shared), Arc::clone(calls), answers.clone());
            let task = tokio::spawn(async move {
                let _under_way = Counted::new(&shared.pipeline.metrics().relayed);
                let what = answer(&shared, &call).await;
                // Whoever removes the entry answers: a cancelled call stays silent.
                if lock(&calls).remove(&id).is_some() {
                    // A peer that is gone has no use for it.
                    let _gone = answers.send(down(id, what)).await;
                }
            });
            // The entry is made under the lock the task needs to remove it.
            under_way.insert(id, task.abort_handle());
        }
        full
    };
    if full {
        shared.pipeline.metrics().overloaded.inc();
        // A peer that is gone has no use for it.
        let _gone = answers.send(down(id, refused(Refusal::overloaded()))).await;
    }
}

async fn answer(shared: &Shared, call: &v1::Call) -> v1::answer::What {
    match Relayed::read(shared, call) {
        Ok(relayed) => {
            let (call, origin) = (relayed.call(), relayed.origin);
            match shared.pipeline.call_from(call, origin).await {
                Outcome::Success(success) => {
                    let (blob, image_mime) =
                        success.blob.map_or((None, None), |it| (Some(it.bytes), it.image_mime));
                    v1::answer::What::Success(v1::Success { body: success.body, blob, image_mime })
                }
                Outcome::Refused(refusal) => refused(refusal),
            }
        }
        Err(refusal) => refused(refusal),
    }
}

/// A forwarded call whose envelope is sound.
struct Relayed<'a> {
    tool: &'a Tool,
    arguments: &'a RawValue,
    client: ClientAddr,
    deadline: clock::Instant,
    origin: Origin,
}

impl<'a> Relayed<'a> {
    fn read(shared: &'a Shared, call: &'a v1::Call) -> Result<Self, Refusal> {
        let forwarded = call.forwarded.as_ref().ok_or_else(Refusal::wrong_region)?;
        let regions = shared.pipeline.regions();
        if forwarded.default_region != regions.default_region() {
            tracing::error!(
                theirs = forwarded.default_region,
                ours = regions.default_region(),
                "a peer gateway has another default region: make the regions files the same"
            );
            return Err(Refusal::wrong_region());
        }
        let word = |bytes: &[u8]| <[u8; 16]>::try_from(bytes).map(u128::from_be_bytes).ok();
        let malformed = || Refusal::wrong_region();
        Ok(Self {
            tool: shared.tools.get(call.op.as_str()).ok_or_else(malformed)?,
            arguments: serde_json::from_slice(&call.args).map_err(|_not_json| malformed())?,
            client: ClientAddr::from_bits(word(&forwarded.client).ok_or_else(malformed)?),
            deadline: clock::now() + Duration::from_millis(call.deadline_ms).min(DEADLINE_MAX),
            origin: Origin::Peer {
                request: RequestId(word(&call.request).ok_or_else(malformed)?),
                attempt: call.attempt.max(1),
                age_ms: call.age_ms,
            },
        })
    }

    const fn call(&self) -> ToolCall<'a> {
        ToolCall {
            tool: self.tool,
            arguments: self.arguments,
            client: self.client,
            deadline: self.deadline,
        }
    }
}

fn refused(refusal: Refusal) -> v1::answer::What {
    v1::answer::What::Refusal(refusal.into())
}

fn down(id: u64, what: v1::answer::What) -> Result<v1::Down, Status> {
    let answer = v1::Answer { id, what: Some(what), next_wait_ms: None };
    Ok(v1::Down { what: Some(v1::down::What::Answer(answer)) })
}

fn lock(calls: &Calls) -> std::sync::MutexGuard<'_, HashMap<u64, AbortHandle>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}
