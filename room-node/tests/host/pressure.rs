//! Memory pressure and gateways that are gone.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use proto::v1::Up;
use proto::v1::room_node_client::RoomNodeClient;
use room_node::host::MemoryUse;
use tokio_stream::wrappers::ReceiverStream;

use super::rig::{Rig, id, pass};
use super::town::Town;

#[derive(Debug)]
struct Meter(AtomicU64);

impl MemoryUse for Meter {
    fn used_bytes(&self) -> Option<u64> {
        Some(self.0.load(Ordering::Relaxed))
    }
}

#[tokio::test(start_paused = true)]
async fn under_memory_pressure_the_longest_unused_stubs_go_cold() {
    let rig = Rig::with(
        |config| {
            config.idle_to_stub_ms = 1_000;
            config.stub_to_cold_ms = 10_000_000;
            config.agent_lease_ms = 100_000_000;
        },
        0,
    );
    for number in 0..1_000 {
        rig.join(&number.to_string(), 1).await;
        if number % 250 == 249 {
            pass(60_000).await;
        }
    }
    assert_eq!(rig.stubs(), 1_000);
    let meter = Arc::new(Meter(AtomicU64::new(790_000)));
    rig.host.watch_memory(1_000_000, Arc::<Meter>::clone(&meter));
    pass(20_000).await;
    assert_eq!(rig.stubs(), 1_000, "below the mark");
    // 100 of 900 parts are too much, but at least 256 go.
    meter.0.store(900_000, Ordering::Relaxed);
    pass(5_000).await;
    meter.0.store(740_000, Ordering::Relaxed);
    assert_eq!(rig.stubs(), 744);
    let owned = |number: u32| rig.store.fence(&id(&number.to_string())).is_some();
    assert!((0..250).all(|number| !owned(number)), "the oldest went");
    assert!((500..1_000).all(owned), "the younger half stays");
    pass(20_000).await;
    assert_eq!(rig.stubs(), 744, "below the low mark");
    assert_eq!(rig.host.metrics().pressure_stubs.get(), 256);
    assert_eq!(rig.host.metrics().memory_used.get(), 740_000);
    // What went cold is there as before.
    assert_eq!(rig.call("add", "3", 1, "2").await, r#"ok {"value":2}"#);
}

#[tokio::test(start_paused = true)]
async fn a_node_that_no_gateway_reaches_any_more_raises_an_alarm() {
    let town = Town::new();
    let cut_off = || town.a.rig.host.metrics().cut_off.get();
    let (up, receiver) = tokio::sync::mpsc::channel::<Up>(1);
    let mut client = RoomNodeClient::new(room_node::rpc::service(town.a.rig.host.clone()));
    let down = client.link(ReceiverStream::new(receiver)).await.unwrap();
    pass(20_000).await;
    assert_eq!((town.a.rig.host.metrics().links.get(), cut_off()), (1, 0));
    drop((up, down));
    pass(14_000).await;
    assert_eq!((town.a.rig.host.metrics().links.get(), cut_off()), (0, 0));
    pass(2_000).await;
    assert_eq!(cut_off(), 1);
}
