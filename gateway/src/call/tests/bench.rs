//! A pipeline in front of a scripted node, and tools of its own.

use object::{Audience, BlobEncoding, BlobField, Class, Fault, Reject};
use prometheus::Registry;
use proto::v1::room_node_client::RoomNodeClient;
use proto::v1::room_node_server::RoomNodeServer;
use room::catalog::Annotations;

use super::super::*;
use crate::fake_node::{Act, FakeNode};
use crate::handle::KeyRing;
use crate::upstream::Upstream;

const fn meta(name: &'static str, address: Address, guard: object::Guard) -> OpMeta {
    OpMeta {
        name,
        address,
        activation: Activation::MustExist,
        audience: Audience::Agent,
        read_only: false,
        minted: Minted::Nothing,
        guard,
        wait: false,
        park_ms: 0,
        client_request_id: true,
        blob: None,
    }
}

static JOIN_META: OpMeta = OpMeta {
    activation: Activation::MayCreate,
    minted: Minted::Handle,
    client_request_id: false,
    ..meta("join_room", Address::Argument("roomId"), object::Guard::Join)
};
static CREATE_META: OpMeta = OpMeta {
    activation: Activation::MustCreate,
    minted: Minted::HandleAndInvite,
    client_request_id: false,
    ..meta("create_room", Address::Fresh, object::Guard::Join)
};
static INFO_META: OpMeta = OpMeta {
    activation: Activation::Peek,
    read_only: true,
    client_request_id: false,
    ..meta("room_info", Address::Argument("roomId"), object::Guard::Info)
};
static WAIT_META: OpMeta = OpMeta {
    wait: true,
    park_ms: 0,
    client_request_id: false,
    ..meta("wait_for_events", Address::Handle, object::Guard::Call(1))
};
static UPLOAD_META: OpMeta = OpMeta {
    blob: Some(BlobField { name: "data", encoding: BlobEncoding::Base64, bytes_max: 1_000 }),
    ..meta("send_attachment", Address::Handle, object::Guard::Call(8))
};
static LEGACY_META: OpMeta = OpMeta {
    client_request_id: false,
    ..meta("send_unkeyed", Address::Handle, object::Guard::Call(1))
};
static PARK_META: OpMeta = OpMeta {
    park_ms: 15_000,
    client_request_id: false,
    ..meta("room_app_request", Address::Handle, object::Guard::Call(1))
};
static SEND_META: OpMeta = meta("send_text", Address::Handle, object::Guard::Call(1));

/// All tools, as a catalog has them.
pub(super) fn tools() -> Vec<Tool> {
    let all =
        [&JOIN_META, &CREATE_META, &INFO_META, &WAIT_META, &UPLOAD_META, &LEGACY_META, &SEND_META];
    all.into_iter().map(tool).collect()
}

const fn tool(meta: &'static OpMeta) -> Tool {
    Tool {
        meta,
        title: "Title",
        description: "Description",
        annotations: Annotations {
            read_only: false,
            destructive: false,
            idempotent: false,
            open_world: false,
        },
        input_schema: Value::Null,
        output_schema: Value::Null,
        check,
    }
}

pub(super) static JOIN: Tool = tool(&JOIN_META);
pub(super) static CREATE: Tool = tool(&CREATE_META);
pub(super) static INFO: Tool = tool(&INFO_META);
pub(super) static WAIT: Tool = tool(&WAIT_META);
pub(super) static UPLOAD: Tool = tool(&UPLOAD_META);
pub(super) static LEGACY: Tool = tool(&LEGACY_META);
pub(super) static PARK: Tool = tool(&PARK_META);
pub(super) static SEND: Tool = tool(&SEND_META);

/// Everything passes but a member `bad`.
fn check(value: &Value, _blob: Option<&[u8]>) -> Result<(), Reject> {
    if value.get("bad").is_none() {
        return Ok(());
    }
    let mut reject = Reject::new(Class::Invalid, "invalid_arguments", "See fields.", false);
    reject.faults.push(Fault { path: "bad".into(), rule: "type", message: "Leave it out.".into() });
    Err(reject)
}

type Client = RoomNodeClient<RoomNodeServer<FakeNode>>;

pub(super) struct Bench {
    pub(super) node: Arc<FakeNode>,
    client: Client,
    keys: KeyRing,
    pub(super) pipeline: Arc<Pipeline>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) registry: Registry,
    pub(super) clock: Clock,
}

impl Bench {
    pub(super) async fn start(script: impl FnMut(&v1::Call) -> Act + Send + 'static) -> Self {
        Self::with_clock(script, Clock::hand()).await
    }

    pub(super) async fn with_clock(
        script: impl FnMut(&v1::Call) -> Act + Send + 'static,
        clock: Clock,
    ) -> Self {
        let (node, client, _cancels) = FakeNode::start(script);
        let keys = KeyRing::ephemeral().unwrap();
        Self::over(node, client, keys, clock).await
    }

    /// Another gateway over the same node, with the same keys and the same time.
    pub(super) async fn beside(&self) -> Self {
        let (node, keys) = (Arc::clone(&self.node), self.keys.clone());
        Self::over(node, self.client.clone(), keys, self.clock.clone()).await
    }

    async fn over(node: Arc<FakeNode>, client: Client, keys: KeyRing, clock: Clock) -> Self {
        Self::with_peers(node, client, keys, clock, |_metrics| Peers::none("local")).await
    }

    /// A gateway with keys of its own in a region among others.
    pub(super) async fn in_region(
        script: impl FnMut(&v1::Call) -> Act + Send + 'static,
        peers: impl FnOnce(&Arc<Metrics>) -> Peers,
    ) -> Self {
        let (node, client, _cancels) = FakeNode::start(script);
        let keys = KeyRing::ephemeral().unwrap();
        Self::with_peers(node, client, keys, Clock::hand(), peers).await
    }

    async fn with_peers(
        node: Arc<FakeNode>,
        client: Client,
        keys: KeyRing,
        clock: Clock,
        peers: impl FnOnce(&Arc<Metrics>) -> Peers,
    ) -> Self {
        let registry = Registry::new();
        let metrics = Arc::new(Metrics::register(&registry).unwrap());
        let upstream = Upstream::start(&client, 1, &metrics);
        let routes = Routes::single(upstream, 100, Arc::clone(&metrics));
        routes.wait_open().await;
        let peers = peers(&metrics);
        let parts = Parts {
            sealer: Sealer::new(peers.regions().own(), keys.clone()).unwrap(),
            routes,
            peers,
            clock: clock.clone(),
            metrics: Arc::clone(&metrics),
            app_url: "https://rooms.test".to_owned(),
            seed: 42,
        };
        let pipeline = Arc::new(Pipeline::new(&Config::default(), parts));
        Self { node, client, keys, pipeline, metrics, registry, clock }
    }

    /// A handle as if its participant had joined.
    pub(super) fn handle(&self, room: &str, participant: u128) -> String {
        let room = ObjectId::new(room::KIND, room).unwrap();
        let participant = ParticipantId::from_random(participant);
        self.pipeline.sealer.seal(&room, participant, [3; 24]).expose().to_owned()
    }

    pub(super) async fn call(&self, tool: &Tool, args: &str) -> Outcome {
        self.call_within(tool, args, Duration::from_secs(60)).await
    }

    pub(super) async fn call_within(&self, tool: &Tool, args: &str, within: Duration) -> Outcome {
        let arguments: &RawValue = serde_json::from_str(args).unwrap();
        let deadline = clock::now() + within;
        let client = ClientAddr::LOOPBACK;
        self.pipeline.call(ToolCall { tool, arguments, client, deadline }).await
    }

    pub(super) async fn call_by(&self, tool: &Tool, args: &str, client: ClientAddr) -> Outcome {
        let arguments: &RawValue = serde_json::from_str(args).unwrap();
        let deadline = clock::now() + Duration::from_secs(60);
        self.pipeline.call(ToolCall { tool, arguments, client, deadline }).await
    }

    pub(super) async fn code(&self, tool: &Tool, args: &str) -> String {
        match self.call(tool, args).await {
            Outcome::Success(_) => "success".to_owned(),
            Outcome::Refused(refusal) => refusal.code.into_owned(),
        }
    }

    pub(super) async fn body(&self, tool: &Tool, args: &str) -> Value {
        match self.call(tool, args).await {
            Outcome::Success(success) => serde_json::from_slice(&success.body).unwrap(),
            Outcome::Refused(refusal) => panic!("{refusal:?}"),
        }
    }
}
