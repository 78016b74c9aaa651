//! What only resident runtimes do: never shown through MCP, reached by name through the node's
//! service (humans B2, A6, A8). Everything else they do with the tools.

pub mod activity;
pub mod connect;
pub mod heartbeat;
pub mod permission_request;
pub mod transcript_append;

use object::{Activation, Address, Audience, Guard, Minted, OpMeta};

/// The declaration of an op of a resident agent.
pub(crate) const fn meta(name: &'static str) -> OpMeta {
    OpMeta {
        name,
        address: Address::Handle,
        activation: Activation::MustExist,
        audience: Audience::Resident,
        read_only: false,
        minted: Minted::Nothing,
        guard: Guard::Call(1),
        wait: false,
        park_ms: 0,
        client_request_id: true,
        blob: None,
    }
}

/// The same, for an op that stores nothing but the renewed lease.
pub(crate) const fn volatile(name: &'static str) -> OpMeta {
    let mut meta = meta(name);
    meta.read_only = true;
    meta.client_request_id = false;
    meta
}
