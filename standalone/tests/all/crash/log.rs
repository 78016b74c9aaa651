//! The history while it is made: one clock, one order.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use serde_json::Value;

use sim::history::{Phase, Record};

/// Shared by all clients of a run.
#[derive(Clone)]
pub(crate) struct Log {
    begin: Instant,
    records: Arc<Mutex<Vec<Record>>>,
}

/// What a record is about.
#[derive(Clone, Debug)]
pub(crate) struct About {
    pub(crate) client: String,
    pub(crate) op: &'static str,
    pub(crate) key: String,
    pub(crate) room: String,
}

impl Log {
    pub(crate) fn new() -> Self {
        Self { begin: Instant::now(), records: Arc::default() }
    }

    pub(crate) fn add(&self, about: &About, phase: Phase, sequence: Option<u64>, detail: Value) {
        let mut records = self.records.lock().unwrap();
        // The time is read under the lock, so that order in the file is order in time.
        let t = self.now();
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

    /// The moment on the history's clock.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begin.elapsed().as_micros()).unwrap()
    }

    /// The rooms in which something succeeded after this moment.
    pub(crate) fn answered_since(&self, t: u64) -> BTreeSet<String> {
        let records = self.records.lock().unwrap();
        let late = records.iter().rev().take_while(|record| record.t > t);
        late.filter(|record| record.phase == Phase::Ok).map(|record| record.room.clone()).collect()
    }

    pub(crate) fn records(&self) -> Vec<Record> {
        self.records.lock().unwrap().clone()
    }
}
