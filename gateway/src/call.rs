//! One tool call from its arguments to its outcome: the narrow waist of the gateway.
//!
//! Order: the op's stateless check, the handle, the cadence, the guard, the node. Everything
//! before the node is decided here; a refusal there has cost no node anything.

mod abroad;
mod arguments;
mod mint;
mod splice;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use object::{Activation, Address, Minted, ObjectId, OpMeta, ParticipantId};
use proto::v1;
use room::catalog::Tool;
use room::reject::Code;
use serde_json::Value;
use serde_json::value::RawValue;
use tokio_util::sync::CancellationToken;

pub(crate) use self::abroad::Origin;
use self::arguments::Arguments;
use crate::cadence::Cadence;
use crate::client_addr::ClientAddr;
use crate::clock::{self, Clock, Instant};
use crate::config::Config;
use crate::error::Refusal;
use crate::guard::{Guard, Payer};
use crate::handle::Sealer;
use crate::metrics::Metrics;
use crate::region::Regions;
use crate::routing::{Peers, Routes};
use crate::upstream::{Reply, Request};

/// The argument that holds the sealed handle, in every op that takes one.
pub const HANDLE_ARGUMENT: &str = "participantHandle";
/// Fresh room ids tried before `room_id_collision` (rooms 6.4).
pub const ROOM_ID_TRIES_MAX: u32 = 3;
/// Uploads on their way to nodes at once, in bytes; more is answered `overloaded`.
pub const BLOB_INFLIGHT_BYTES_MAX: usize = 64 * 1024 * 1024;
/// What a wait is given to be answered while waits are ended: one that is not held needs less.
pub const WAIT_GRACE: Duration = Duration::from_millis(250);

/// One call of a tool, as the protocol layer hands it over.
#[derive(Clone, Copy)]
pub struct ToolCall<'a> {
    pub tool: &'a Tool,
    /// The arguments exactly as received: the text of one JSON object.
    pub arguments: &'a RawValue,
    pub client: ClientAddr,
    /// When the caller stops waiting; it only shrinks on the way.
    pub deadline: Instant,
}

/// What became of a call.
#[derive(Clone, PartialEq, Eq)]
pub enum Outcome {
    Success(Success),
    Refused(Refusal),
}

/// A success.
#[derive(Clone, PartialEq, Eq)]
pub struct Success {
    /// Compact JSON of one object, complete: `participantHandle`, `invite`, `retryAfterMs` and
    /// `duplicate` are in it where they apply.
    pub body: Bytes,
    pub blob: Option<Attached>,
}

/// Bytes that belong to a success and are rendered by the protocol layer.
#[derive(Clone, PartialEq, Eq)]
pub struct Attached {
    /// The bytes themselves, not base64.
    pub bytes: Bytes,
    /// MIME type of an image; `None` for text.
    pub image_mime: Option<String>,
}

/// What a pipeline is made of.
#[derive(Debug)]
pub struct Parts {
    pub sealer: Sealer,
    pub routes: Routes,
    /// The gateways of other regions.
    pub peers: Peers,
    pub clock: Clock,
    pub metrics: Arc<Metrics>,
    /// Base of `roomUrl`, without a trailing slash.
    pub app_url: String,
    /// Random and secret: the key of the admission tables' hashes.
    pub seed: u64,
}

/// The way of every tool call: check, handle, cadence, guard, routing, upstream.
#[derive(Debug)]
pub struct Pipeline {
    sealer: Sealer,
    routes: Routes,
    peers: Peers,
    cadence: Cadence,
    guard: Guard,
    metrics: Arc<Metrics>,
    app_url: String,
    call_timeout: Duration,
    hold_max: Duration,
    blob_inflight: AtomicUsize,
    /// No wait is held from now on.
    no_holding: CancellationToken,
}

/// Whom and what an admitted call addresses.
struct Target {
    room: ObjectId,
    participant: Option<ParticipantId>,
}

impl Pipeline {
    /// Puts the parts together; remembers nothing yet.
    #[must_use]
    pub fn new(config: &Config, parts: Parts) -> Self {
        Self {
            cadence: Cadence::new(config, &parts.clock, parts.seed),
            guard: Guard::new(config, &parts.clock, parts.seed.rotate_left(32)),
            sealer: parts.sealer,
            routes: parts.routes,
            peers: parts.peers,
            metrics: parts.metrics,
            app_url: parts.app_url,
            call_timeout: config.call_timeout,
            hold_max: config.hold_max,
            blob_inflight: AtomicUsize::new(0),
            no_holding: CancellationToken::new(),
        }
    }

    /// Carries one call through and says what became of it. Dropping the future cancels the call.
    pub async fn call(&self, call: ToolCall<'_>) -> Outcome {
        self.call_from(call, Origin::Client).await
    }

    /// As [`Pipeline::call`], wherever the call came in.
    pub(crate) async fn call_from(&self, call: ToolCall<'_>, origin: Origin) -> Outcome {
        match self.run(&call, origin).await {
            Ok(success) => {
                self.metrics.successes.inc();
                Outcome::Success(success)
            }
            Err(refusal) => {
                self.metrics.refused(&refusal.code);
                tracing::debug!(op = call.tool.meta.name, code = %refusal.code, "call refused");
                Outcome::Refused(refusal)
            }
        }
    }

    /// From now on every wait that is not answered within [`WAIT_GRACE`] is refused with
    /// `room_unavailable`, those that are held already at once: this gateway goes. No answer is
    /// invented, and clients still have their cursors (cluster 2.10).
    pub fn end_waits(&self) {
        self.no_holding.cancel();
    }

    pub(crate) const fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// The regions there are.
    pub(crate) const fn regions(&self) -> &Regions {
        self.peers.regions()
    }

    /// Whether calls can be sent at all.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.routes.is_open()
    }

    /// Brings the gauges that are costly to keep up to date.
    pub fn refresh_gauges(&self) {
        let participants = i64::try_from(self.cadence.len()).unwrap_or(i64::MAX);
        self.metrics.cadence_participants.set(participants);
        let cells = i64::try_from(self.guard.used_cells()).unwrap_or(i64::MAX);
        self.metrics.guard_cells.set(cells);
        self.routes.refresh_gauges();
    }

    async fn run(&self, call: &ToolCall<'_>, origin: Origin) -> Result<Success, Refusal> {
        let meta = call.tool.meta;
        let arguments = Arguments::read(call.arguments.get(), meta.blob)?;
        (call.tool.check)(&arguments.value, arguments.blob.as_deref())?;
        if let Some(region) = self.region_of(meta, &arguments.value) {
            return match origin {
                Origin::Client => Box::pin(self.forward(region, call, &arguments)).await,
                // The sender and we do not agree on where the room is at home.
                Origin::Peer { .. } => Err(Refusal::wrong_region()),
            };
        }
        let target = self.target(meta, &arguments.value)?;
        self.admit(meta, call.client, target.as_ref())?;
        let _bytes = self.charge_blob(arguments.blob.as_ref())?;
        // Boxed: held waits are most of the futures there are, and should not carry this one.
        Box::pin(self.send(call, origin, arguments, target)).await
    }

    /// The room and participant a call names; `None` for a room that is made by it.
    fn target(&self, meta: &OpMeta, value: &Value) -> Result<Option<Target>, Refusal> {
        match meta.address {
            Address::Fresh => Ok(None),
            Address::Handle => {
                let text = value.get(HANDLE_ARGUMENT).and_then(Value::as_str).unwrap_or_default();
                let opened = self.sealer.open(text).map_err(|error| {
                    self.metrics.handles_refused.inc();
                    tracing::debug!(%error, "handle refused");
                    Refusal::invalid_participant_handle()
                })?;
                Ok(Some(Target { room: opened.room, participant: Some(opened.participant) }))
            }
            Address::Argument(name) => {
                let text = value.get(name).and_then(Value::as_str).unwrap_or_default();
                let room =
                    ObjectId::new(room::KIND, room::text::trim(text)).map_err(|_bad_id| {
                        Refusal::invalid_arguments(name, "length", "1 to 64 characters.")
                    })?;
                Ok(Some(Target { room, participant: None }))
            }
        }
    }

    /// Cadence, then guard: a refused poll spends no token of the guard (ours 8).
    fn admit(
        &self,
        meta: &OpMeta,
        client: ClientAddr,
        target: Option<&Target>,
    ) -> Result<(), Refusal> {
        let participant = target.and_then(|target| target.participant);
        if let (true, Some(participant)) = (meta.wait, participant) {
            self.cadence.admit(participant).map_err(|refused| {
                self.metrics.waits_refused.inc();
                Refusal::wait_rate_limited(refused.retry_after_ms)
            })?;
        }
        let payer = match (meta.guard, participant) {
            (object::Guard::Call(_), Some(participant)) => Payer::Handle(participant),
            _ => Payer::Address(client),
        };
        self.guard.admit(meta.guard, payer).map_err(|refused| {
            self.metrics.guard_refused.inc();
            Refusal::rate_limited(refused.retry_after_ms)
        })
    }

    /// Mints what the call needs, sends it, and completes the answer.
    async fn send(
        &self,
        call: &ToolCall<'_>,
        origin: Origin,
        arguments: Arguments,
        target: Option<Target>,
    ) -> Result<Success, Refusal> {
        let meta = call.tool.meta;
        let longest = self.call_timeout + hold(meta, self.hold_max);
        let deadline = call.deadline.min(clock::now() + longest);
        let args = arguments.forwarded(call.arguments.get());
        let (known, attempt, age_ms) = match origin {
            Origin::Client => (None, 1, 0),
            Origin::Peer { request, attempt, age_ms } => (Some(request), attempt, age_ms),
        };
        let mut tries = 0;
        loop {
            tries += 1;
            let fresh = mint::Fresh::draw()?;
            let room = match &target {
                Some(target) => target.room.clone(),
                None => fresh.room(self.peers.regions().prefix())?,
            };
            let joining = meta.minted != Minted::Nothing;
            let participant = if joining {
                Some(fresh.participant)
            } else {
                target.as_ref().and_then(|target| target.participant)
            };
            let request = Request {
                op: meta.name,
                object: room,
                participant,
                joining,
                args: args.clone(),
                blob: arguments.blob.clone(),
                request: known.unwrap_or(fresh.request),
                attempt,
                age: Duration::from_millis(age_ms),
                repeatable: meta.read_only || meta.wait || meta.client_request_id || joining,
                harmless: meta.read_only || meta.wait,
                wait: meta.wait,
                deadline,
            };
            let reply = self.routed(&request, meta.wait).await;
            self.learn(meta, participant, &reply);
            match reply.result {
                Ok(success) => return self.complete(meta, &request, &fresh, success),
                Err(refusal) if taken(meta, &refusal) => {
                    if tries >= ROOM_ID_TRIES_MAX {
                        return Err(Refusal::room_id_collision());
                    }
                }
                Err(refusal) => return Err(refusal),
            }
        }
    }

    async fn routed(&self, request: &Request, wait: bool) -> Reply {
        let started = clock::now();
        if wait {
            // An answer that is there goes first.
            return tokio::select! {
                biased;
                reply = self.routes.call(request) => reply,
                () = self.waits_over(started) => {
                    let refusal = Refusal::room_unavailable();
                    Reply { result: Err(refusal), next_wait_ms: None }
                }
            };
        }
        let reply = self.routes.call(request).await;
        self.metrics.call_seconds.observe(started.elapsed().as_secs_f64());
        reply
    }

    /// Resolves when a wait that began then is not held any longer here.
    async fn waits_over(&self, started: Instant) {
        self.no_holding.cancelled().await;
        tokio::time::sleep_until(started + WAIT_GRACE).await;
    }

    /// Remembers when the owner admits this participant's next poll.
    fn learn(&self, meta: &OpMeta, participant: Option<ParticipantId>, reply: &Reply) {
        let (true, Some(participant)) = (meta.wait, participant) else { return };
        let refused = match &reply.result {
            Err(refusal) if refusal.code == Code::WaitRateLimited.code() => refusal.retry_after_ms,
            _ => None,
        };
        if let Some(next_wait_ms) = reply.next_wait_ms.or(refused) {
            self.cadence.remember(participant, next_wait_ms);
        }
    }

    /// Adds what only the edge can: the sealed handle and the invite.
    fn complete(
        &self,
        meta: &OpMeta,
        request: &Request,
        fresh: &mint::Fresh,
        success: v1::Success,
    ) -> Result<Success, Refusal> {
        let body = match meta.minted {
            Minted::Nothing => success.body,
            Minted::Handle | Minted::HandleAndInvite => {
                let handle = self.sealer.seal(&request.object, fresh.participant, fresh.nonce);
                let invite = (meta.minted == Minted::HandleAndInvite)
                    .then(|| splice::Invite { app_url: &self.app_url, room: &request.object });
                splice::complete(&success.body, &handle, invite)
                    .ok_or_else(Refusal::unreadable_answer)?
            }
        };
        let image_mime = success.image_mime;
        let blob = success.blob.map(|bytes| Attached { bytes, image_mime });
        Ok(Success { body, blob })
    }

    fn charge_blob(&self, blob: Option<&Bytes>) -> Result<Option<BlobBytes<'_>>, Refusal> {
        let Some(blob) = blob else { return Ok(None) };
        let charge = BlobBytes { pipeline: self, bytes: blob.len() };
        let before = self.blob_inflight.fetch_add(charge.bytes, Ordering::Relaxed);
        self.metrics.blob_inflight.add(charge.signed());
        if before.saturating_add(charge.bytes) > BLOB_INFLIGHT_BYTES_MAX {
            self.metrics.overloaded.inc();
            return Err(Refusal::overloaded());
        }
        Ok(Some(charge))
    }
}

/// The bytes of one upload on its way.
struct BlobBytes<'a> {
    pipeline: &'a Pipeline,
    bytes: usize,
}

impl BlobBytes<'_> {
    fn signed(&self) -> i64 {
        i64::try_from(self.bytes).unwrap_or(i64::MAX)
    }
}

impl Drop for BlobBytes<'_> {
    fn drop(&mut self) {
        self.pipeline.blob_inflight.fetch_sub(self.bytes, Ordering::Relaxed);
        self.pipeline.metrics.blob_inflight.sub(self.signed());
    }
}

/// How long the room itself may hold a call of this op before it answers, on top of what an
/// answer may take anyway.
#[must_use]
pub const fn hold(meta: &OpMeta, hold_max: Duration) -> Duration {
    if meta.wait { hold_max } else { Duration::from_millis(meta.park_ms) }
}

/// Whether a fresh room id turned out to be taken.
fn taken(meta: &OpMeta, refusal: &Refusal) -> bool {
    meta.address == Address::Fresh
        && meta.activation == Activation::MustCreate
        && refusal.code == Code::RoomAlreadyExists.code()
}

impl std::fmt::Debug for ToolCall<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ToolCall").field("tool", &self.tool.meta.name).finish_non_exhaustive()
    }
}

// Bodies hold messages and handles: nothing of them may reach a log by way of Debug.
impl std::fmt::Debug for Outcome {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Success(success) => success.fmt(f),
            Self::Refused(refusal) => write!(f, "Refused({})", refusal.code),
        }
    }
}

impl std::fmt::Debug for Success {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Success")
            .field("body_bytes", &self.body.len())
            .field("blob", &self.blob)
            .finish()
    }
}

impl std::fmt::Debug for Attached {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Attached").field("bytes", &self.bytes.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
