//! The edge with the conformance suite's tools and no rooms behind it:
//! `cargo run -p gateway --features test-hooks --example conformance_edge -- 127.0.0.1:4100`,
//! then `LAB=DIR gateway/tests/conformance.sh http://127.0.0.1:4100/mcp`.

use std::sync::Arc;

use gateway::call::{Outcome, ToolCall};
use gateway::error::Refusal;
use gateway::http::{Edge, Settings, serve};
use gateway::mcp::tools::{Backend, Catalog};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

/// Refuses everything: there is no room.
#[derive(Debug)]
struct Nowhere;

impl Backend for Nowhere {
    async fn call(&self, _: ToolCall<'_>) -> Outcome {
        Outcome::Refused(Refusal::room_unavailable())
    }

    fn ready(&self) -> bool {
        true
    }
}

#[tokio::main]
#[expect(clippy::print_stdout, reason = "the first line tells where it listens")]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:0".to_owned());
    let listener = TcpListener::bind(address).await?;
    let url = format!("http://{}", listener.local_addr()?);
    println!("listening url={url}/mcp");
    let catalog = Catalog::new(room::catalog::tools());
    let edge = Arc::new(Edge::new(Nowhere, catalog, Settings::default(), &url));
    let shutdown = CancellationToken::new();
    let stop = shutdown.clone();
    tokio::spawn(async move {
        if tokio::signal::ctrl_c().await.is_ok() {
            stop.cancel();
        }
    });
    serve(listener, edge, shutdown).await;
    Ok(())
}
