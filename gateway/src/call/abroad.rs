//! Calls whose room is at home in another region: carried there as they came, answered as they
//! come back (cluster 2.12). Handle, cadence and guard are the home's.

use std::sync::Arc;

use bytes::Bytes;
use object::{Address, Minted, OpMeta, RequestId};
use proto::v1;
use serde_json::Value;

use super::{Arguments, Attached, HANDLE_ARGUMENT, Pipeline, Success, ToolCall, hold, mint};
use crate::clock;
use crate::error::Refusal;
use crate::handle::Sealer;
use crate::routing::Abroad;

/// Where a call came in.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Origin {
    /// From its client.
    Client,
    /// From a gateway of another region, which may send it again by the same request id.
    Peer { request: RequestId, attempt: u32, age_ms: u64 },
}

impl Pipeline {
    /// The region a call is to be forwarded to; `None` if it is served here.
    pub(super) fn region_of(&self, meta: &OpMeta, value: &Value) -> Option<&Arc<str>> {
        let regions = self.peers.regions();
        // With one region, nothing is abroad.
        regions.prefix()?;
        let text = |name| value.get(name).and_then(Value::as_str).unwrap_or_default();
        let home = match meta.address {
            Address::Fresh => return None,
            Address::Argument(name) => regions.home(room::text::trim(text(name))),
            Address::Handle => regions.named(&Sealer::tag(text(HANDLE_ARGUMENT))?)?,
        };
        (**home != *regions.own()).then_some(home)
    }

    /// Asks the home region; its answer is complete.
    pub(super) async fn forward(
        &self,
        region: &Arc<str>,
        call: &ToolCall<'_>,
        arguments: &Arguments,
    ) -> Result<Success, Refusal> {
        let meta = call.tool.meta;
        let _bytes = self.charge_blob(arguments.blob.as_ref())?;
        let _slot = self.routes.enter().ok_or_else(Refusal::overloaded)?;
        let fresh = mint::Fresh::draw()?;
        let deadline =
            call.deadline.min(clock::now() + self.call_timeout + hold(meta, self.hold_max));
        let abroad = Abroad {
            region,
            call: v1::Call {
                op: meta.name.to_owned(),
                kind: u32::from(room::KIND.0),
                args: Bytes::copy_from_slice(call.arguments.get().as_bytes()),
                request: Bytes::copy_from_slice(&fresh.request.0.to_be_bytes()),
                attempt: 1,
                forwarded: Some(v1::Forwarded {
                    client: Bytes::copy_from_slice(&call.client.bits().to_be_bytes()),
                    default_region: self.peers.regions().default_region().to_owned(),
                }),
                ..v1::Call::default()
            },
            // What is minted for a call is minted at home, anew for every sending.
            repeatable: meta.minted == Minted::Nothing
                && (meta.read_only || meta.wait || meta.client_request_id),
            harmless: meta.read_only || meta.wait,
            deadline,
        };
        self.metrics.forwarded(region);
        let answer = if meta.wait {
            tokio::select! {
                biased;
                answer = self.peers.call(abroad) => answer,
                () = self.waits_over(clock::now()) => Err(Refusal::room_unavailable()),
            }
        } else {
            self.peers.call(abroad).await
        };
        match answer?.what {
            Some(v1::answer::What::Success(success)) => {
                let image_mime = success.image_mime;
                let blob = success.blob.map(|bytes| Attached { bytes, image_mime });
                Ok(Success { body: success.body, blob })
            }
            Some(v1::answer::What::Refusal(refusal)) => Err(Refusal::from(refusal)),
            // A peer of a newer kind: it ran, and nobody knows how it went.
            None if meta.read_only || meta.wait => Err(Refusal::room_unavailable()),
            None => Err(Refusal::outcome_unknown()),
        }
    }
}
