//! The generated service over a host. In one process the generated client runs directly on it.

use std::sync::Arc;

use object::Object;
use proto::v1;
use proto::v1::room_node_server::{RoomNode, RoomNodeServer};
use tokio_util::sync::CancellationToken;
use tonic::{Request, Response, Status, Streaming};

use super::link;
use super::outbox::{Outbox, Reader};
use crate::host::Host;

/// Largest message of a link: a call with its blob, and room for the envelope.
const MESSAGE_BYTES_MAX: usize = 8 * 1024 * 1024;

/// [`RoomNode`] over a [`Host`].
#[derive(Debug)]
pub struct Service<O: Object> {
    host: Host<O>,
}

/// The service of a host, for a server or for a client in the same process.
#[must_use]
pub fn service<O: Object>(host: Host<O>) -> RoomNodeServer<Service<O>> {
    RoomNodeServer::new(Service { host })
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX)
}

#[tonic::async_trait]
impl<O: Object> RoomNode for Service<O> {
    type LinkStream = Reader;

    async fn link(
        &self,
        request: Request<Streaming<v1::Up>>,
    ) -> Result<Response<Self::LinkStream>, Status> {
        let outbox = Arc::new(Outbox::default());
        let gone = CancellationToken::new();
        let reader = Reader { outbox: Arc::clone(&outbox), on_drop: gone.clone() };
        tokio::spawn(link::serve(self.host.clone(), request.into_inner(), outbox, gone));
        Ok(Response::new(reader))
    }

    async fn describe(
        &self,
        _request: Request<v1::DescribeRequest>,
    ) -> Result<Response<v1::DescribeResponse>, Status> {
        let me = self.host.incarnation();
        let metrics = self.host.metrics();
        Ok(Response::new(v1::DescribeResponse {
            node: me.node.to_string(),
            boot: me.boot,
            active: u64::try_from(metrics.active.get()).unwrap_or(0),
            stubs: u64::try_from(metrics.stubs.get()).unwrap_or(0),
            draining: self.host.is_draining(),
        }))
    }
}
