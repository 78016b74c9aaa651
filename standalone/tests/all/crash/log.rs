//! The history while it is made: one clock, one order.

use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;

use crate::history::{Phase, Record};

/// Shared by all clients of a run.
#[derive(Clone)]
pub(super) struct Log {
    begin: Instant,
    records: Arc<Mutex<Vec<Record>>>,
}

/// What a record is about.
#[derive(Clone, Debug)]
pub(super) struct About {
    pub(super) client: String,
    pub(super) op: &'static str,
    pub(super) key: String,
    pub(super) room: String,
}

impl Log {
    pub(super) fn new() -> Self {
        Self { begin: Instant::now(), records: Arc::default() }
    }

    pub(super) fn add(&self, about: &About, phase: Phase, sequence: Option<u64>, detail: Value) {
        let mut records = self.records.lock().unwrap();
        // The time is read under the lock, so that order in the file is order in time.
        let t = u64::try_from(self.begin.elapsed().as_micros()).unwrap();
        records.push(Record {
            t,
            client: about.client.clone(),
            op: about.op.to_owned(),
            key: about.key.clone(),
            phase,
            room: about.room.clone(),
            sequence,
            detail,
        });
    }

    pub(super) fn records(&self) -> Vec<Record> {
        self.records.lock().unwrap().clone()
    }
}
