//! Bounds of one turn that only a crowd in one shard reaches.

use std::sync::Arc;

use object::{Millis, Object as _, ObjectId};

use super::footprint::Null;
use super::leave::RELEASES_MAX;
use super::wheel::TAKE_MAX;
use super::{Host, directory};
use crate::clock::{Clock, Mono};
use crate::cluster::Alone;
use crate::config::Config;
use crate::front::stub::Stub;
use crate::store::memory::{Fault, Hold, Memory, Method};
use crate::store::{Fence, Incarnation};

/// More than two pages of a shard, less than three.
const CROWD: usize = 600;

struct Rig {
    host: Host<Null>,
    store: Arc<Memory>,
}

impl Rig {
    fn new() -> Self {
        let clock = Clock::starting_at(Millis(1));
        let me = Incarnation { node: "node".into(), boot: 1 };
        let store = Memory::new(Millis(1));
        let alone = Arc::new(Alone::default());
        let (config, registry) = (Config::default(), prometheus::Registry::new());
        let kept = Arc::<Memory>::clone(&store);
        let host = Host::<Null>::start(config, (), kept, clock, me, alone, &registry).unwrap();
        Self { host, store }
    }

    /// Stubs of one shard; the store knows none of them, which a release does not mind.
    fn crowd(&self) {
        let host = &self.host.inner;
        let projection = host.projections.keep(&Arc::from(Vec::new()));
        for (id, fence) in ids() {
            let stub = Stub {
                fence,
                sequence: 0,
                due: None,
                touched: Mono(0),
                projection,
                tick: 0,
                unchecked: false,
                pollers: Vec::new(),
            };
            host.directory.shard(&id).stubs.put(directory::hash(&id), id.name(), &stub);
            host.directory.stubs_grew(1);
            host.metrics.stubs.inc();
        }
    }

    fn bound_hit(&self, bound: &str) -> u64 {
        self.host.metrics().bounds_hit.with_label_values(&[bound]).get()
    }

    fn in_flight(&self) -> i64 {
        self.host.metrics().inflight.with_label_values(&["releases"]).get()
    }
}

/// Objects whose names have one shard.
fn ids() -> Vec<(ObjectId, Fence)> {
    let all = (0_u64..).map(|number| ObjectId::new(Null::KIND, &format!("{number:08}")).unwrap());
    let one_shard = all.filter(|id| (directory::hash(id) >> 32).is_multiple_of(64));
    let fence = Fence { epoch: 1, nonce: 1 };
    one_shard.map(|id| (id, fence)).take(CROWD).collect()
}

async fn pass(ms: u64) {
    tokio::time::sleep(std::time::Duration::from_millis(ms)).await;
}

#[tokio::test(start_paused = true)]
async fn a_crowded_shard_is_given_up_page_by_page() {
    let rig = Rig::new();
    rig.crowd();
    assert!(rig.host.drain(20_000).await);
    assert_eq!(rig.host.metrics().stubs.get(), 0);
    assert_eq!(rig.store.calls(Method::Release), CROWD as u64);
    assert_eq!((rig.bound_hit("page_slots_max"), rig.in_flight()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_crowded_shard_is_swept_page_by_page() {
    let rig = Rig::new();
    rig.crowd();
    rig.host.inner.release_stubs(0, usize::MAX).await;
    assert_eq!(rig.host.metrics().stubs.get(), 0);
    assert_eq!(rig.store.calls(Method::Release), CROWD as u64);
    assert_eq!(rig.bound_hit("sweep_slots_max"), 2);
}

#[tokio::test(start_paused = true)]
async fn so_many_stubs_are_released_at_the_same_time_and_then_the_next() {
    let rig = Rig::new();
    let hold = Hold::new();
    for _ in 0..CROWD {
        assert!(rig.store.inject(Method::Release, Fault::HoldCall(hold.clone())));
    }
    let all = rig.host.inner.release(ids());
    let look = async {
        let most = RELEASES_MAX as u64;
        for released in [most, 2 * most, CROWD as u64] {
            pass(1).await;
            assert_eq!(rig.store.calls(Method::Release), released);
            assert_eq!(rig.in_flight(), (released - 1) as i64 % most as i64 + 1);
            for _ in 0..most {
                hold.release();
            }
        }
    };
    tokio::join!(all, look);
    assert_eq!((rig.bound_hit("releases_max"), rig.in_flight()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn timers_that_are_due_together_are_taken_in_bounded_portions() {
    let rig = Rig::new();
    let host = &rig.host.inner;
    for hash in 0..2 * TAKE_MAX as u64 + 1 {
        host.enter_timer(host.clock.mono().plus(1_000), hash);
    }
    assert_eq!(host.metrics.timer_entries.get(), 2 * TAKE_MAX as i64 + 1);
    pass(1_200).await;
    assert_eq!((host.metrics.timer_entries.get(), rig.bound_hit("take_max")), (0, 2));
}
