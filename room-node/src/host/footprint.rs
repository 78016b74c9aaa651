//! What an idle activation costs before its state (D11, performance.md goal 15): at most 2 KiB.

use std::sync::Arc;

use object::{
    Call, CodecError, Cx, Decision, IdlePoll, IdleView, KindTag, Millis, Object, ObjectId, OpMeta,
    ParticipantId, Reject, Reply,
};

use super::directory::{Active, Cause};
use super::live::Live;
use super::{Host, actor};
use crate::clock::Clock;
use crate::cluster::Alone;
use crate::config::Config;
use crate::error;
use crate::front::book::Book;
use crate::store::{Incarnation, memory::Memory};

/// An object without state.
#[derive(Debug)]
pub(super) struct Null;

impl Object for Null {
    const KIND: KindTag = KindTag(b'n');
    const SCHEMA: u32 = 1;
    type Event = ();
    type Signal = ();
    type Settings = ();

    fn op(_name: &str) -> Option<&'static OpMeta> {
        None
    }
    fn fresh(_id: &ObjectId) -> Self {
        Self
    }
    fn absent(_cx: &Cx<'_, ()>, _call: &Call<'_>) -> Result<Reply, Reject> {
        Err(error::unavailable())
    }
    fn occupied(_call: &Call<'_>) -> Reject {
        error::unavailable()
    }
    fn decide(&self, _cx: &Cx<'_, ()>, _call: &Call<'_>) -> Decision<(), ()> {
        Decision::refuse(error::unavailable())
    }
    fn on_due(&self, _cx: &Cx<'_, ()>) -> Decision<(), ()> {
        Decision::refuse(error::unavailable())
    }
    fn on_disconnect(&self, _: &Cx<'_, ()>, _: ParticipantId, _: u64) -> Decision<(), ()> {
        Decision::refuse(error::unavailable())
    }
    fn evolve(&mut self, _event: &()) {}
    fn renew(&mut self, _participant: ParticipantId, _end: Millis, _now: Millis) {}
    fn absorb(&mut self, _signal: &()) {}
    fn next_due(&self) -> Option<Millis> {
        None
    }
    fn busy(&self) -> bool {
        false
    }
    fn idle_view(&self, _settings: &()) -> IdleView {
        IdleView { sequence: 0, pollers: Vec::new(), projection: Arc::from(Vec::new()) }
    }
    fn answer_idle_poll(_settings: &(), _poll: &IdlePoll<'_>) -> Option<Reply> {
        None
    }
    fn encode_event(_event: &(), _out: &mut Vec<u8>) {}
    fn decode_event(_schema: u32, _bytes: &[u8]) -> Result<(), CodecError> {
        Ok(())
    }
    fn encode_snapshot(&self) -> Vec<u8> {
        Vec::new()
    }
    fn decode_snapshot(_id: &ObjectId, _: u32, _bytes: &[u8]) -> Result<Self, CodecError> {
        Ok(Self)
    }
}

/// A task's own header in the runtime, and the rounding of its allocations.
const TASK_BYTES: usize = 256;
/// An entry of the directory at its lowest load, and the shared name.
const DIRECTORY_BYTES: usize = 2 * (size_of::<ObjectId>() + size_of::<usize>() + 1) + 48;

#[tokio::test(start_paused = true)]
async fn an_idle_activation_costs_at_most_two_kibibytes_before_its_state() {
    let clock = Clock::starting_at(Millis(1));
    let me = Incarnation { node: "node".into(), boot: 1 };
    let registry = prometheus::Registry::new();
    let store = Memory::new(Millis(1));
    let alone = Arc::new(Alone::default());
    let config = Config::default();
    let host = Host::<Null>::start(config, (), store, clock, me, alone, &registry).unwrap();
    let id = ObjectId::new(Null::KIND, "a").unwrap();
    let entry =
        Arc::new(Active::new(id, Cause::Call, Book::new(host.metrics().cadences.clone()), None));
    let tasks = actor::future_bytes(&host.inner, &entry);
    let parts = [size_of::<Active>() + 16, size_of::<Live<Null>>(), TASK_BYTES, DIRECTORY_BYTES];
    let total = tasks + parts.iter().sum::<usize>();
    assert!(total <= 2_048, "{total} = futures {tasks} + {parts:?}");
}
