//! One link: calls up, answers and notices down, matched by id.

use std::collections::HashMap;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use futures_core::Stream;
use futures_util::{FutureExt as _, StreamExt as _};
use object::{Object, ObjectId};
use proto::v1;
use tokio::task::AbortHandle;
use tokio_util::sync::CancellationToken;
use tonic::Status;

use super::convert;
use super::outbox::Outbox;
use crate::error;
use crate::host::{Host, Request, Response, Sink};

/// Serves one link until either side ends it; then its calls are cancelled and its connections
/// detached.
pub(super) async fn serve<O: Object>(
    host: Host<O>,
    up: impl Stream<Item = Result<v1::Up, Status>>,
    outbox: Arc<Outbox>,
    gone: CancellationToken,
) {
    let _open = Open::new(&host);
    let mut link = Link {
        host,
        outbox,
        calls: Arc::default(),
        connections: HashMap::new(),
        told_draining: false,
    };
    let mut up = pin!(up);
    loop {
        let message = tokio::select! {
            biased;
            () = gone.cancelled() => break,
            () = link.host.drain_begun(), if !link.told_draining => {
                link.tell_draining();
                continue;
            }
            message = up.next() => message,
        };
        match message {
            Some(Ok(up)) => link.take(up),
            Some(Err(_)) | None => break,
        }
    }
    link.end();
}

/// Counts a stream for as long as it lives.
struct Open(prometheus::IntGauge);

impl Open {
    fn new<O: Object>(host: &Host<O>) -> Self {
        let gauge = host.metrics().links.clone();
        gauge.inc();
        Self(gauge)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// Calls in flight, by the id their sender gave them.
type Calls = Arc<Mutex<HashMap<u64, AbortHandle>>>;

struct Link<O: Object> {
    host: Host<O>,
    outbox: Arc<Outbox>,
    calls: Calls,
    /// At most `subscribers_max`: one that the host has closed stays until the gateway detaches it.
    connections: HashMap<u64, ObjectId>,
    told_draining: bool,
}

impl<O: Object> Link<O> {
    fn take(&mut self, up: v1::Up) {
        match up.what {
            Some(v1::up::What::Call(call)) => self.call(call),
            Some(v1::up::What::Cancel(cancel)) => {
                let removed = lock(&self.calls).remove(&cancel.id);
                if let Some(call) = removed {
                    self.host.metrics().link_calls.dec();
                    call.abort();
                }
            }
            Some(v1::up::What::Attach(attach)) => self.attach(&attach),
            Some(v1::up::What::Detach(detach)) => {
                if let Some(object) = self.connections.remove(&detach.connection) {
                    self.host.detach(&object, detach.connection);
                }
            }
            // A newer peer may say more than we know.
            None => {}
        }
    }

    fn call(&self, call: v1::Call) {
        let id = call.id;
        match convert::request::<O>(call, self.host.clock().mono()) {
            Ok(request) => self.begin(id, request),
            Err(reject) => self.outbox.send(convert::answer(id, Response::refused(reject))),
        }
    }

    fn begin(&self, id: u64, request: Request) {
        let mut calls = lock(&self.calls);
        if calls.len() >= self.host.config().link_calls_max || calls.contains_key(&id) {
            drop(calls);
            self.host.metrics().bound_hit("link_calls_max");
            let full = error::overloaded("Too many calls are in flight on this link.");
            self.outbox.send(convert::answer(id, Response::refused(full)));
            return;
        }
        let (host, outbox) = (self.host.clone(), Arc::clone(&self.outbox));
        let in_flight = Arc::clone(&self.calls);
        let task = tokio::spawn(async move {
            // Whatever happens, the sender is told and the place in the table becomes free.
            let called = AssertUnwindSafe(host.call(request)).catch_unwind().await;
            let response = called.unwrap_or_else(|_panic| {
                host.metrics().panics.inc();
                Response::refused(error::internal())
            });
            // Whoever removes the entry answers: a cancelled call stays silent.
            if lock(&in_flight).remove(&id).is_some() {
                host.metrics().link_calls.dec();
                outbox.send(convert::answer(id, response));
            }
        });
        // The entry is made under the lock the task needs to remove it.
        calls.insert(id, task.abort_handle());
        self.host.metrics().link_calls.inc();
    }

    fn attach(&mut self, attach: &v1::Attach) {
        let connection = attach.connection;
        let object = convert::object_id::<O>(attach.kind, &attach.object);
        let participant = convert::participant(&attach.participant);
        let sink: Arc<dyn Sink> = Arc::clone(&self.outbox) as Arc<dyn Sink>;
        let attached = match (object, participant) {
            (Ok(object), Ok(participant)) if self.has_room_for(connection) => {
                let attached =
                    self.host.attach(&object, participant, connection, Arc::clone(&sink));
                if attached
                    && let Some(before) = self.connections.insert(connection, object.clone())
                    && before != object
                {
                    // One connection is in one object; the one before must not keep it.
                    self.host.detach(&before, connection);
                }
                attached
            }
            _ => false,
        };
        if !attached {
            sink.push(connection, crate::host::Notice::Close(CLOSE_FULL), None);
        }
    }

    /// Whether the table takes the connection: a gateway that never detaches must not fill it.
    fn has_room_for(&self, connection: u64) -> bool {
        let full = self.connections.len() >= self.host.config().subscribers_max
            && !self.connections.contains_key(&connection);
        if full {
            self.host.metrics().bound_hit("subscribers_max");
        }
        !full
    }

    fn tell_draining(&mut self) {
        self.told_draining = true;
        let draining = v1::Draining { view: self.host.view() };
        self.outbox.send(v1::Down { what: Some(v1::down::What::Draining(draining)) });
    }

    fn end(&mut self) {
        let calls = std::mem::take(&mut *lock(&self.calls));
        for call in calls.into_values() {
            self.host.metrics().link_calls.dec();
            call.abort();
        }
        for (connection, object) in self.connections.drain() {
            self.host.detach(&object, connection);
        }
        self.outbox.close();
    }
}

/// An attach that cannot be taken is closed with this code: try again later.
const CLOSE_FULL: u16 = 1013;

fn lock(calls: &Calls) -> MutexGuard<'_, HashMap<u64, AbortHandle>> {
    calls.lock().unwrap_or_else(PoisonError::into_inner)
}
