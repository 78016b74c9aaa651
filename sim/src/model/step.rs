//! What each action does.

use super::node::{Flight, Node, Phase, Sight};
use super::store::{Batch, Disk, Fence, Frame, Incarnation, Reply, Request};
use super::{Ack, Action, Answer, Client, Fate, Level, Mutant, Protocol, Seen, State, Weakening};

/// Keys of the second client begin here.
const KEYS_MAX: u8 = 8;

impl State {
    pub fn node(&self, n: u8) -> &Node {
        let [first, second] = &self.nodes;
        if n == 0 { first } else { second }
    }

    fn node_mut(&mut self, n: u8) -> &mut Node {
        let [first, second] = &mut self.nodes;
        if n == 0 { first } else { second }
    }

    fn client_mut(&mut self, c: u8) -> &mut Client {
        let [first, second] = &mut self.clients;
        if c == 0 { first } else { second }
    }

    fn incarnation(&self, node: u8) -> Incarnation {
        Incarnation { node, boot: self.node(node).boot }
    }

    /// Whether the node lease of an incarnation has ended, or its process has.
    fn ended(&self, who: Incarnation) -> bool {
        let node = self.node(who.node);
        node.boot != who.boot || !node.leased
    }

    /// What the node would state in a claim now; `None` if it may not claim.
    pub(super) fn observed(&self, n: u8) -> Option<Option<Fence>> {
        let Disk { e: epoch, k, o, .. } = self.primary;
        match (o, k) {
            (Some(owner), _) if owner.node != n && !self.ended(owner) => None,
            (Some(_), Some(nonce)) => Some(Some(Fence { epoch, nonce })),
            (Some(_), None) | (None, _) => Some(None),
        }
    }

    /// The clients whose calls the node has get no answer from it.
    fn let_go(&mut self, n: u8) {
        for client in self.clients.iter_mut().filter(|client| client.at == Some(n)) {
            client.at = None;
        }
    }

    fn drop_activation(&mut self, n: u8, dropped: Option<Fence>) {
        self.let_go(n);
        self.node_mut(n).phase = Phase::Cold { dropped };
    }
}

fn lsn(log: &[Frame]) -> u8 {
    u8::try_from(log.len()).unwrap_or(u8::MAX)
}

impl Protocol {
    pub(super) fn has_key(&self, c: u8, client: &Client) -> bool {
        let [first, second] = self.bounds.keys;
        client.done < if c == 0 { first } else { second }
    }

    /// `None` if it cannot happen here.
    pub(super) fn step(&self, state: &mut State, action: Action) -> Option<()> {
        match action {
            Action::Claim(n) => {
                let observed = state.observed(n)?;
                let nonce = nonce(state);
                state.node_mut(n).phase = Phase::Claiming { nonce, observed };
                self.send_awaited(state, n);
            }
            Action::Call { client, node } => return self.call(state, client, node),
            Action::ClientGivesUp(c) => state.client_mut(c).at = None,
            Action::Deliver(request) => self.deliver(state, request),
            Action::Receive(answer) => return self.receive(state, answer),
            Action::Refence(n) => {
                let nonce = nonce(state);
                let phase = &mut state.node_mut(n).phase;
                if let Phase::Live { fence, log, flight: Some(flight) } = phase {
                    let (old, log, flight) = (*fence, std::mem::take(log), *flight);
                    *phase = Phase::InDoubt { old, nonce, log, flight };
                }
                self.send_awaited(state, n);
            }
            Action::GiveUp(n) => {
                let dropped = match &state.node(n).phase {
                    Phase::InDoubt { old, .. } => Some(*old),
                    _ => None,
                };
                state.drop_activation(n, dropped);
            }
            Action::Release(n) => {
                let (Phase::Live { fence, .. } | Phase::Cold { dropped: Some(fence) }) =
                    &state.node(n).phase
                else {
                    return None;
                };
                state.node_mut(n).phase = Phase::Releasing { fence: *fence };
                self.send_awaited(state, n);
            }
            Action::Replicate => {
                state.replica = state.primary.clone();
                confirm(state);
            }
            Action::Failover => self.fail_over(state),
            Action::Notice(n) => state.node_mut(n).sight = Sight::Recheck,
            Action::Recheck(n) => self.recheck(state, n),
            Action::Lapse(n) => {
                state.lapses += 1;
                state.node_mut(n).leased = false;
            }
            Action::Crash(n) => {
                state.crashes += 1;
                state.let_go(n);
                let boot = state.node(n).boot + 1;
                let phase = Node::cold();
                *state.node_mut(n) = Node { boot, leased: true, sight: Sight::Current, phase };
            }
        }
        Some(())
    }

    fn send_awaited(&self, state: &mut State, n: u8) {
        state.requests.extend(state.node(n).awaited(&self.rules, n));
    }

    /// Decides in memory, and sends the append. A key already in memory is a repeat: its answer is
    /// read from memory, under the rules of every read.
    fn call(&self, state: &mut State, c: u8, n: u8) -> Option<()> {
        let me = state.incarnation(n);
        let mutant = self.rules.mutant;
        let unleased = self.rules.weakening == Some(Weakening::RepeatsWithoutLease);
        let client = state.client_mut(c);
        client.attempt += 1;
        let batch = Batch { key: c * KEYS_MAX + client.done, attempt: client.attempt };
        let node = state.node_mut(n);
        let may_answer = node.answers().is_some() || unleased;
        let Phase::Live { fence, log, flight } = &mut node.phase else { return None };
        if flight.is_some() {
            return None;
        }
        let fence = *fence;
        let stored = (1..).zip(log.iter()).find(|(_, frame)| frame.batch.key == batch.key);
        if let Some((at, frame)) = stored {
            let stored = frame.batch;
            if !may_answer {
                return None;
            }
            state.client_mut(c).at = Some(n);
            acknowledge(state, c, stored, at, fence, me);
            return Some(());
        }
        *flight = Some(Flight { client: c, batch, repeated: false });
        let next = lsn(log) + 1;
        state.client_mut(c).at = Some(n);
        if mutant == Some(Mutant::DueBeforeCommit) {
            state.requests.insert(Request::Due { me, fence, due: next });
        }
        self.send_awaited(state, n);
        if mutant == Some(Mutant::ReplyBeforeGate) {
            acknowledge(state, c, batch, next, fence, me);
        }
        Some(())
    }

    fn deliver(&self, state: &mut State, request: Request) {
        let before = (state.primary.lsn(), state.primary.e, state.primary.o);
        let reply = state.primary.run(&self.rules, request);
        let grew = state.primary.lsn() > before.0;
        state.grew_unowned |= grew && before.2.is_none();
        self.note(state, &request, &reply, before, grew);
        let sender = request.sender();
        let node = state.node(sender.node);
        let awaited =
            node.boot == sender.boot && node.awaited(&self.rules, sender.node) == Some(request);
        if awaited {
            let confirmed = self.rules.level == Level::Window || state.primary == state.replica;
            state.answers.insert(Answer { to: request, reply, confirmed });
        }
    }

    fn note(
        &self,
        state: &State,
        request: &Request,
        reply: &Reply,
        (_, epoch, owner): (u8, u8, Option<Incarnation>),
        grew: bool,
    ) {
        match (request, reply) {
            (Request::Append { .. }, Reply::Fenced) => Seen::count(&self.seen.fenced_append),
            (Request::Append { .. }, Reply::Stored) if !grew => {
                Seen::count(&self.seen.duplicate_append);
            }
            (Request::Claim { me, nonce, .. }, Reply::Claimed { fence, .. })
                if fence.epoch > epoch =>
            {
                if owner.is_some_and(|owner| owner.node != me.node) {
                    Seen::count(&self.seen.takeover);
                }
                let twice = |other: &Request| {
                    matches!(other, Request::Append { fence: old, .. }
                        if old.epoch == fence.epoch && old.nonce != *nonce)
                };
                if state.requests.iter().any(twice) {
                    Seen::count(&self.seen.epoch_collision);
                }
            }
            _ => {}
        }
    }

    fn receive(&self, state: &mut State, answer: Answer) -> Option<()> {
        let n = answer.to.sender().node;
        let me = state.incarnation(n);
        state.settled.insert(answer.to);
        match (state.node(n).phase.clone(), answer.reply) {
            (Phase::Claiming { .. }, Reply::Claimed { fence, log }) => {
                state.node_mut(n).phase = Phase::Live { fence, log, flight: None };
            }
            (Phase::Live { fence, mut log, flight: Some(flight) }, Reply::Stored) => {
                // The gate opens.
                log.push(Frame { batch: flight.batch, fence });
                let at = lsn(&log);
                state.node_mut(n).phase = Phase::Live { fence, log, flight: None };
                acknowledge(state, flight.client, flight.batch, at, fence, me);
            }
            (Phase::Live { flight: Some(flight), .. }, Reply::Fenced | Reply::Lsn) => {
                if self.rules.weakening == Some(Weakening::FencedMeansFailed) {
                    state.failed.insert(flight.batch);
                }
                state.drop_activation(n, None);
            }
            (Phase::InDoubt { log: before, flight, .. }, Reply::Claimed { fence, log }) => {
                self.resolve(state, n, (&before, flight), fence, log);
            }
            (
                Phase::Claiming { .. } | Phase::InDoubt { .. } | Phase::Releasing { .. },
                Reply::Fenced | Reply::Released | Reply::Lsn,
            ) => state.drop_activation(n, None),
            _ => return None,
        }
        Some(())
    }

    /// Under the new fence the log says what became of the append (2.5, step 3).
    fn resolve(
        &self,
        state: &mut State,
        n: u8,
        (before, mut flight): (&[Frame], Flight),
        fence: Fence,
        log: Vec<Frame>,
    ) {
        let me = state.incarnation(n);
        let found = (1..).zip(&log).find(|(_, frame)| frame.batch == flight.batch);
        if let Some((at, _)) = found {
            Seen::count(&self.seen.resolved_present);
            state.node_mut(n).phase = Phase::Live { fence, log, flight: None };
            acknowledge(state, flight.client, flight.batch, at, fence, me);
        } else if log.len() != before.len() {
            state.drop_activation(n, None);
        } else if flight.repeated {
            // Twice not there, and what was sent can no longer land.
            state.failed.insert(flight.batch);
            state.drop_activation(n, None);
        } else {
            Seen::count(&self.seen.resolved_absent);
            flight.repeated = true;
            state.node_mut(n).phase = Phase::Live { fence, log, flight: Some(flight) };
            self.send_awaited(state, n);
        }
    }

    fn fail_over(&self, state: &mut State) {
        state.failovers += 1;
        state.primary = state.replica.clone();
        state.answers.clear();
        let settled = std::mem::take(&mut state.settled);
        state.requests.retain(|request| !settled.contains(request));
        if self.rules.level == Level::Window {
            // The fence that made it certain may be lost with the window.
            state.failed.clear();
        }
        let acks = std::mem::take(&mut state.acks);
        state.acks = acks
            .into_iter()
            .map(|ack| match ack.fate {
                Fate::Kept if !stands(&state.primary, &ack) => Ack { fate: Fate::Lost, ..ack },
                Fate::Kept | Fate::Lost | Fate::Reported => ack,
            })
            .collect();
        let late = self.rules.weakening == Some(Weakening::LateNotice);
        for n in 0..2 {
            let me = state.incarnation(n);
            let remembers = matches!(state.node(n).phase, Phase::Live { .. })
                || state.acks.iter().any(|ack| ack.by == me);
            if remembers {
                state.node_mut(n).sight = if late { Sight::Unnoticed } else { Sight::Recheck };
            }
        }
    }

    /// After a change of primary, before anything is answered from memory: are the fence and the log
    /// still stored, and is everything still there that this process has acknowledged?
    fn recheck(&self, state: &mut State, n: u8) {
        let me = state.incarnation(n);
        let by_length = self.rules.weakening == Some(Weakening::LossByLengthOnly);
        let acks = std::mem::take(&mut state.acks);
        state.acks = acks
            .into_iter()
            .map(|ack| {
                let own = ack.by == me && ack.fate == Fate::Lost;
                // A doubled append may have brought it back, under a claim that survived.
                let fate = match own {
                    true if stands(&state.primary, &ack) => Fate::Kept,
                    true if by_length && state.primary.lsn() >= ack.lsn => Fate::Lost,
                    true => {
                        Seen::count(&self.seen.lost_reported);
                        Fate::Reported
                    }
                    false => ack.fate,
                };
                Ack { fate, ..ack }
            })
            .collect();
        state.node_mut(n).sight = Sight::Current;
        if let Phase::Live { fence, log, flight } = &state.node(n).phase {
            // The fence alone is not enough: a doubled claim may have brought it back over
            // another log. What is stored must be what is in memory, but for the one in flight.
            let beyond = state.primary.log.strip_prefix(log.as_slice());
            let same = beyond.is_some_and(|beyond| match beyond {
                [] => true,
                [frame] => flight.is_some_and(|flight| flight.batch == frame.batch),
                _ => false,
            });
            if !same || !state.primary.is_fence(*fence) {
                state.drop_activation(n, None);
            }
        }
    }

    /// Lets go of what can have no effect any more, so that fewer states are told apart.
    pub(super) fn forget(&self, state: &mut State) {
        if !self.may_fail_over(state) {
            state.replica = state.primary.clone();
            state.settled.clear();
            confirm(state);
        }
        let awaited: Vec<Request> =
            (0..2).filter_map(|n| state.node(n).awaited(&self.rules, n)).collect();
        state.answers.retain(|answer| awaited.contains(&answer.to));
        // No primary will ever have a lower epoch, and no mutant lets a lower one in.
        let floor = state.replica.e;
        state.requests.retain(|request| {
            request.epoch().is_none_or(|epoch| epoch >= floor) || awaited.contains(request)
        });
        let requests = &state.requests;
        state.settled.retain(|request| requests.contains(request));
    }
}

fn nonce(state: &mut State) -> u8 {
    state.nonces += 1;
    state.nonces
}

fn confirm(state: &mut State) {
    let answers = std::mem::take(&mut state.answers);
    state.answers =
        answers.into_iter().map(|answer| Answer { confirmed: true, ..answer }).collect();
}

/// Whether the acknowledged batch is where it was acknowledged.
fn stands(disk: &Disk, ack: &Ack) -> bool {
    let at = usize::from(ack.lsn).checked_sub(1).and_then(|at| disk.log.get(at));
    at.is_some_and(|frame| frame.batch == ack.batch)
}

/// The reply leaves the node. It counts whether or not the client still waits for it.
fn acknowledge(state: &mut State, c: u8, batch: Batch, lsn: u8, fence: Fence, by: Incarnation) {
    let again = |ack: &Ack| ack.fate == Fate::Kept && ack.batch == batch && ack.lsn == lsn;
    if !state.acks.iter().any(again) {
        state.acks.insert(Ack { key: batch.key, lsn, batch, fence, by, fate: Fate::Kept });
    }
    let client = state.client_mut(c);
    if client.at == Some(by.node) && c * KEYS_MAX + client.done == batch.key {
        *client = Client { done: client.done + 1, attempt: 0, at: None };
    }
}
