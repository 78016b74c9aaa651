//! The task of one object: loads it, decides batches, stores each, and only then lets anything
//! out. Ends when the object sleeps, is destroyed, or has nobody left to answer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use futures_util::FutureExt as _;
use object::{Activation, Caller, Object, Poll, Reject};

use super::activation::{self, LoadError, Loaded};
use super::batch::Batch;
use super::commit::{self, Committed};
use super::directory::{Active, Cause};
use super::guard::{self, Memory};
use super::lifecycle::Rest;
use super::live::{Current, Env, Live};
use super::mailbox::Message;
use super::{Inner, effects, leave, rest};
use crate::error;
use crate::store;

/// Runs an activation to its end. The entry leaves the directory before this returns.
pub(super) async fn run<O: Object>(host: Arc<Inner<O>>, entry: Arc<Active>) {
    let (mut first, mut released) = (true, false);
    loop {
        let stage = Box::pin(stage(&host, &entry, first, &mut released));
        let staged = AssertUnwindSafe(stage).catch_unwind().await;
        first = false;
        if staged.is_err() {
            panicked_aside(&host, &entry);
        }
        if host.is_dead() || host.retire(&entry) {
            return;
        }
    }
}

// A panic outside a decision; whoever had been decided is told by the closed reply.
fn panicked_aside<O: Object>(host: &Inner<O>, entry: &Active) {
    host.metrics.panics.inc();
    host.note_panic(&entry.id);
    tracing::error!("object panicked; its activation was dropped");
}

/// How serving an object ended.
pub(super) enum End {
    /// Memory is not to be trusted: read it again for whoever waits.
    Rebuild,
    /// The object no longer exists, or sleeps, or its memory may not be used.
    Over,
    /// The object was given up, and that is durable.
    Left,
}

// One load and what follows from it.
async fn stage<O: Object>(
    host: &Arc<Inner<O>>,
    entry: &Arc<Active>,
    first: bool,
    released: &mut bool,
) {
    host.wake_token(entry.cause).await;
    if !host.cluster.is_leased() {
        refuse_all(host, entry, &error::not_owner());
        return;
    }
    if host.must_leave(&entry.id) {
        // A stub is still ours: it serves who woke it, and leaves soon.
        if !first || !entry.was_stub {
            if !*released {
                *released = Box::pin(leave::give_back(host, entry)).await;
            }
            refuse_all(host, entry, &error::not_owner());
            return;
        }
        entry.leave_by(leave::soon(host.clock.mono()));
    }
    *released = false;
    if host.is_aside(&entry.id) {
        refuse_all(host, entry, &error::quarantined());
        return;
    }
    let may_create = entry.mailbox.any_call(|call| {
        matches!(call.request.op.activation, Activation::MayCreate | Activation::MustCreate)
    });
    let exact = entry.take_from_stub();
    let loaded = Box::pin(activation::load(host, &entry.id, may_create, &exact)).await;
    drop(exact);
    match loaded {
        Ok(loaded) => {
            let mut live = begin(host, entry, loaded, first);
            let served = AssertUnwindSafe(Box::pin(serve(host, entry, &mut live)));
            let end = served.catch_unwind().await.unwrap_or_else(|_panic| {
                panicked_aside(host, entry);
                End::Rebuild
            });
            match end {
                End::Rebuild => {
                    host.subscribers.close_all(&entry.id);
                    put_back_parked(host, entry, &mut live);
                }
                End::Over => {}
                End::Left => *released = true,
            }
        }
        Err(LoadError::Absent) => answer_absent(host, entry, may_create),
        Err(LoadError::Owned(owner)) => {
            host.note_away(&entry.id, &owner);
            refuse_all(host, entry, &error::not_owner());
        }
        Err(LoadError::Damaged { what, owned }) => {
            tracing::error!(what, "object set aside because its stored bytes are damaged");
            host.note_damage(&entry.id);
            refuse_all(host, entry, &error::quarantined());
            if let Some(fence) = owned {
                activation::set_aside(host, &entry.id, fence).await;
            }
        }
        Err(LoadError::Unavailable(reason)) => {
            tracing::warn!(%reason, "object could not be loaded");
            refuse_all(host, entry, &error::unavailable());
        }
    }
}

fn begin<O: Object>(
    host: &Inner<O>,
    entry: &Arc<Active>,
    loaded: Loaded<O>,
    first: bool,
) -> Box<Live<O>> {
    let Loaded { mut live, created } = loaded;
    if created {
        host.metrics.creations.inc();
        host.forget_absent(&entry.id);
    } else if first && live.lsn > 0 {
        live.for_poll = entry.cause == Cause::Poll && !entry.was_stub;
        if !live.for_poll {
            host.metrics.wakes.with_label_values(&[entry.cause.label()]).inc();
        }
    }
    match entry.cause {
        // Until a command comes, it may sleep again as soon as this is done.
        Cause::Poll | Cause::Timer => {
            live.commanded.0 = live.commanded.0.saturating_sub(host.config.idle_to_stub_ms);
        }
        Cause::Call | Cause::Disconnect => {}
    }
    Box::new(live)
}

// What an idle object waits in is kept small: rare and large steps are boxed while they last.
async fn serve<O: Object>(host: &Arc<Inner<O>>, entry: &Arc<Active>, live: &mut Live<O>) -> End {
    loop {
        if host.is_dead() {
            return End::Over;
        }
        if !host.cluster.is_leased() {
            // Dropped, not released: whoever claims it next states that our lease has ended.
            leave::let_go(host, entry, live);
            return End::Over;
        }
        if leave::is_time(host, entry, live) {
            host.metrics.handoffs.with_label_values(&["active"]).inc();
            return Box::pin(leave::leave(host, entry, live)).await;
        }
        let step = match gather(host, entry, live) {
            Gathered::Nothing if live.primary != host.primary() => {
                // Nobody asks now: an object that was lost is noticed all the same.
                match Box::pin(guard::memory(host, entry, live)).await {
                    Memory::True | Memory::Lapsed => None,
                    Memory::Stale => Some(End::Rebuild),
                    Memory::Unsure => {
                        let until = host.clock.mono().plus(CHECK_PAUSE_MS);
                        let at = host.clock.instant(rest::stay_until(host, entry, live, until));
                        let _either = tokio::time::timeout_at(at, entry.mailbox.woken()).await;
                        None
                    }
                }
            }
            Gathered::Nothing => match rest::at_rest(host, live) {
                Rest::Stay(until) => {
                    let at = host.clock.instant(rest::stay_until(host, entry, live, until));
                    // A sleep that ends and one that is cut short are the same to the loop.
                    let _either = tokio::time::timeout_at(at, entry.mailbox.woken()).await;
                    None
                }
                asleep @ (Rest::Stub | Rest::Vanish) => {
                    Box::pin(rest::fall_asleep(host, entry, live, asleep)).await
                }
            },
            Gathered::Batch(batch) => Box::pin(settle(host, entry, live, batch)).await,
            Gathered::Panicked(batch, current) => {
                Box::pin(panicked(host, entry, live, batch, current)).await;
                Some(End::Rebuild)
            }
        };
        if let Some(end) = step {
            return end;
        }
    }
}

enum Gathered {
    Nothing,
    Batch(Box<Batch>),
    Panicked(Box<Batch>, Current),
}

// One batch of decisions. Their panics end here.
fn gather<O: Object>(host: &Inner<O>, entry: &Active, live: &mut Live<O>) -> Gathered {
    let mut batch = Box::<Batch>::default();
    let mut current = Current::default();
    let env = Env {
        settings: &host.settings,
        config: &host.config,
        metrics: &host.metrics,
        subscribers: &host.subscribers,
        gate: &host.gate,
        id: &entry.id,
        now: host.clock.now(),
    };
    let gathered = catch_unwind(AssertUnwindSafe(|| {
        live.gather(&env, &entry.mailbox, &mut batch, &mut current);
    }));
    if gathered.is_err() {
        Gathered::Panicked(batch, current)
    } else if batch.is_empty() && batch.retry.is_empty() {
        Gathered::Nothing
    } else {
        Gathered::Batch(batch)
    }
}

// Stores a batch and lets it out, or ends the activation.
async fn settle<O: Object>(
    host: &Arc<Inner<O>>,
    entry: &Arc<Active>,
    live: &mut Live<O>,
    batch: Box<Batch>,
) -> Option<End> {
    let mut batch = batch;
    let primary = host.primary();
    let stores = !batch.stores_nothing();
    if !stores {
        let memory = guard::memory(host, entry, live).await;
        if memory != Memory::True {
            return Some(untold(host, entry, memory, batch));
        }
    }
    match commit::commit(host, &entry.id, live, &batch).await {
        Committed::Stored => {
            if stores {
                // The fence was there when it was stored: what was decided before was the truth.
                live.primary = primary;
            }
            release(host, entry, live, batch);
            if live.tail_frames >= host.config.snapshot_frames
                || live.tail_bytes >= host.config.snapshot_bytes
            {
                return rest::snapshot(host, entry, live).await.err().map(|_fenced| End::Rebuild);
            }
            None
        }
        Committed::Destroyed => Some(ended(host, entry, live, batch)),
        Committed::NotDestroyed(reason) => {
            tracing::warn!(%reason, "object was not destroyed; it is read again");
            batch.not_ended(not_stored(&reason));
            release(host, entry, live, batch);
            Some(End::Rebuild)
        }
        Committed::Failed(reason) => {
            tracing::warn!(%reason, "append failed; object is read again");
            batch.refuse(&failed(&reason));
            Some(End::Rebuild)
        }
        Committed::BlobMissing(blob) => {
            let (named, rest) = batch.split_by_blob(blob);
            if named.is_empty() {
                // Nobody brought it: deciding again would ask for it again, without end.
                tracing::error!("an event names a blob that no call has brought");
                host.put_back(entry, rest);
                refuse_all(host, entry, &error::unavailable());
                return Some(End::Rebuild);
            }
            for call in named {
                call.answer(Err(error::unavailable()));
            }
            host.put_back(entry, rest);
            Some(End::Rebuild)
        }
        Committed::Unknown => {
            tracing::warn!("append outcome stayed unknown; object is read again");
            batch.refuse(&error::outcome_unknown());
            Some(End::Rebuild)
        }
    }
}

// The object is gone, and that is stored.
fn ended<O: Object>(
    host: &Arc<Inner<O>>,
    entry: &Arc<Active>,
    live: &mut Live<O>,
    mut batch: Box<Batch>,
) -> End {
    let now = host.clock.now();
    let farewell = AssertUnwindSafe(|| {
        live.farewell(&host.settings, &host.metrics, now);
    });
    if catch_unwind(farewell).is_err() {
        host.metrics.panics.inc();
    }
    let last = std::mem::take(&mut batch.last_effects);
    batch.effects.extend(last);
    release(host, entry, live, batch);
    // Whoever the object has not sent away itself has nothing to stay for.
    host.subscribers.close_all(&entry.id);
    put_back_parked(host, entry, live);
    End::Over
}

// The answers of a batch that stored nothing may not leave: nothing of it has happened.
fn untold<O: Object>(
    host: &Inner<O>,
    entry: &Arc<Active>,
    memory: Memory,
    batch: Box<Batch>,
) -> End {
    if memory == Memory::Stale {
        // Decided again on what is stored, by whoever owns it now.
        host.put_back(entry, batch.into_messages());
    } else {
        batch.refuse(&guard::refusal(memory));
    }
    End::Rebuild
}

/// Pause before a fence that could not be checked is checked again for nobody in particular.
const CHECK_PAUSE_MS: u64 = 250;

// What callers are told of an append that did certainly not happen.
const fn failed(reason: &store::Error) -> Reject {
    if matches!(reason, store::Error::Fenced) { error::not_owner() } else { error::unavailable() }
}

// What callers are told of a change that the store did not confirm.
const fn not_stored(reason: &store::Error) -> Reject {
    if matches!(reason, store::Error::Unknown { .. }) {
        error::outcome_unknown()
    } else {
        error::unavailable()
    }
}

// The output gate opens: the batch is stored.
fn release<O: Object>(
    host: &Arc<Inner<O>>,
    entry: &Arc<Active>,
    live: &mut Live<O>,
    batch: Box<Batch>,
) {
    if std::mem::take(&mut live.for_poll) {
        if batch.command {
            host.metrics.wakes.with_label_values(&[Cause::Poll.label()]).inc();
        } else {
            host.metrics.stub_claims.inc();
        }
    }
    if batch.command {
        live.commanded = host.clock.mono();
        entry.touch(live.commanded);
    }
    effects::perform(host, &entry.id, batch.effects);
    for (call, verdict) in batch.answers {
        if let (Caller::Participant(who), Ok(reply)) = (call.request.caller, &verdict) {
            match reply.poll {
                Some(Poll::News | Poll::Quiet) => live.hear(who),
                Some(Poll::Terminal) => live.heard.retain(|(known, _)| *known != who),
                None => {}
            }
        }
        if let (Caller::Joining(who), Ok(_)) = (call.request.caller, &verdict) {
            let entries_max = host.config.cadence_entries_max;
            entry.book().join(who, host.clock.mono(), entries_max);
        }
        call.answer(verdict);
    }
    for parked in batch.parked {
        host.metrics.parked_calls.inc();
        live.parked.push(parked);
    }
    // Those parked by this very batch too: the change may have come after them.
    live.ask_parked |= batch.changed && !live.parked.is_empty();
    host.put_back(entry, batch.retry.into_iter().map(Message::Call).collect());
}

// A panic in an object's code: its call is told, everybody else is decided again.
async fn panicked<O: Object>(
    host: &Arc<Inner<O>>,
    entry: &Arc<Active>,
    live: &mut Live<O>,
    batch: Box<Batch>,
    current: Current,
) {
    host.metrics.panics.inc();
    let Current { call, due: by_time, rest } = current;
    live.parked.extend(rest.into_iter().rev());
    let mut again = batch.into_messages();
    match call {
        // The call is not at fault.
        Some(call) if by_time => again.push(Message::Call(call)),
        Some(call) => call.answer(Err(error::internal())),
        None => {}
    }
    host.put_back(entry, again);
    let retry = host.note_panic(&entry.id);
    tracing::error!(by_time, "object panicked; its activation was dropped");
    if by_time {
        // The due entry moves to the retry time, else it would stand in the way of others.
        let at = host.clock.now().plus(retry);
        let (id, fence) = (&entry.id, live.fence);
        let _tried = commit::repeat(host, || host.store.set_due(id.clone(), fence, Some(at))).await;
    }
}

// Waits survive a rebuild, they are decided afresh. What other parked calls waited for was
// volatile and is gone.
pub(super) fn put_back_parked<O: Object>(host: &Inner<O>, entry: &Arc<Active>, live: &mut Live<O>) {
    let mut waits = Vec::new();
    for parked in live.parked.drain(..) {
        host.metrics.parked_calls.dec();
        if parked.call.request.op.wait {
            waits.push(Message::Call(parked.call));
        } else {
            parked.call.answer(Err(error::unavailable()));
        }
    }
    host.put_back(entry, waits);
}

/// Ends every call in the mailbox with one refusal.
pub(super) fn refuse_all<O: Object>(host: &Inner<O>, entry: &Active, reject: &Reject) {
    while let Some(message) = entry.mailbox.pop() {
        if let Message::Call(call) = message {
            host.metrics.mailbox_calls.dec();
            call.answer(Err(reject.clone()));
        }
    }
}

fn answer_absent<O: Object>(host: &Inner<O>, entry: &Arc<Active>, may_create: bool) {
    host.note_absent(&entry.id);
    let mut creating = Vec::new();
    while let Some(message) = entry.mailbox.pop() {
        let Message::Call(call) = message else { continue };
        host.metrics.mailbox_calls.dec();
        match call.request.op.activation {
            Activation::Peek | Activation::MustExist => {
                let verdict = host.absent_verdict(&call);
                call.answer(verdict);
            }
            // It came after the claim was made; a claim that may create follows.
            Activation::MayCreate | Activation::MustCreate if !may_create => {
                creating.push(Message::Call(call));
            }
            Activation::MayCreate | Activation::MustCreate => {
                call.answer(Err(error::unavailable()));
            }
        }
    }
    host.put_back(entry, creating);
}

/// Bytes of the futures an idle activation holds: the task, its stage and its serving loop.
#[cfg(test)]
pub(super) fn future_bytes<O: Object>(host: &Arc<Inner<O>>, entry: &Arc<Active>) -> usize {
    let run = run(Arc::clone(host), Arc::clone(entry));
    let mut released = false;
    let stage = stage(host, entry, true, &mut released);
    let serve = |live: &mut Live<O>| size_of_val(&serve(host, entry, live));
    size_of_val(&run) + size_of_val(&stage) + activation::with_fresh(host, &entry.id, serve)
}
