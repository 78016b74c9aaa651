//! One copy of one room in Redis, and the scripts that change it (cluster 2.3, 2.5, 2.7).

use std::fmt;

use super::{Mutant, Rules, Weakening};

/// Ownership: equality of both parts lets a write in.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fence {
    pub epoch: u8,
    pub nonce: u8,
}

/// One run of one node process.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Incarnation {
    pub node: u8,
    pub boot: u8,
}

/// One attempt at one keyed append: the batch id.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Batch {
    pub key: u8,
    pub attempt: u8,
}

/// One entry of the log; its position is its lsn, from 1.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Frame {
    pub batch: Batch,
    pub fence: Fence,
}

impl fmt::Debug for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "e{}k{}", self.epoch, self.nonce)
    }
}

impl fmt::Debug for Incarnation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "node{}.{}", self.node, self.boot)
    }
}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "key{}/{}", self.key, self.attempt)
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}@{:?}", self.batch, self.fence)
    }
}

/// What Redis keeps of the room: `e`, `k`, `o`, the log (its length is `s`) and the due entry.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Disk {
    pub e: u8,
    pub k: Option<u8>,
    pub o: Option<Incarnation>,
    /// `rk`: the nonce that the last release ended.
    pub rk: Option<u8>,
    pub log: Vec<Frame>,
    /// The timer of the room: every entry moves it one step later.
    pub due: u8,
}

/// What a node sends. It stays in the network for good: it may arrive late, again, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    /// Compare-and-set on the fence observed, if there was an owner.
    Claim {
        me: Incarnation,
        nonce: u8,
        observed: Option<Fence>,
    },
    Refence {
        me: Incarnation,
        old: Fence,
        nonce: u8,
    },
    Append {
        me: Incarnation,
        fence: Fence,
        expect: u8,
        batch: Batch,
    },
    Release {
        me: Incarnation,
        fence: Fence,
    },
    /// Only of [`Mutant::NoRefence`]: reads the log without taking a new fence first.
    Read {
        me: Incarnation,
        fence: Fence,
    },
    /// Only of [`Mutant::DueBeforeCommit`]: moves the timer apart from the append.
    Due {
        me: Incarnation,
        fence: Fence,
        due: u8,
    },
}

impl Request {
    pub const fn sender(&self) -> Incarnation {
        match self {
            Self::Claim { me, .. }
            | Self::Refence { me, .. }
            | Self::Append { me, .. }
            | Self::Release { me, .. }
            | Self::Read { me, .. }
            | Self::Due { me, .. } => *me,
        }
    }

    /// The epoch without which it can do nothing; a claim needs none.
    pub const fn epoch(&self) -> Option<u8> {
        match self {
            Self::Claim { .. } => None,
            Self::Refence { old: fence, .. }
            | Self::Append { fence, .. }
            | Self::Release { fence, .. }
            | Self::Read { fence, .. }
            | Self::Due { fence, .. } => Some(fence.epoch),
        }
    }
}

/// What the script answers.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Reply {
    /// Of a claim, a refence, a read: the fence and the whole log.
    Claimed {
        fence: Fence,
        log: Vec<Frame>,
    },
    /// Of an append: stored now, or found (`DUP`).
    Stored,
    Released,
    /// The fence, or the one observed, is not the stored one.
    Fenced,
    /// The log does not stand where the append expects it.
    Lsn,
}

impl Disk {
    pub fn lsn(&self) -> u8 {
        u8::try_from(self.log.len()).unwrap_or(u8::MAX)
    }

    pub fn is_fence(&self, fence: Fence) -> bool {
        self.e == fence.epoch && self.k == Some(fence.nonce)
    }

    /// What a write must pass; two mutants weaken it.
    fn admits(&self, rules: &Rules, fence: Fence) -> bool {
        match rules.mutant {
            Some(Mutant::NonceRemoved) => self.o.is_some() && self.e == fence.epoch,
            Some(Mutant::AtLeast) => fence.epoch > self.e || self.is_fence(fence),
            _ => self.is_fence(fence),
        }
    }

    fn own(&mut self, me: Incarnation, nonce: u8) {
        self.e += 1;
        self.k = Some(nonce);
        self.o = Some(me);
        self.rk = None;
    }

    fn claimed(&self, nonce: u8) -> Reply {
        Reply::Claimed { fence: Fence { epoch: self.e, nonce }, log: self.log.clone() }
    }

    /// Runs one script: all checks first, then the writes.
    pub fn run(&mut self, rules: &Rules, request: Request) -> Reply {
        match request {
            Request::Claim { me, nonce, observed } => self.claim(rules, me, nonce, observed),
            Request::Refence { me, old, nonce } => {
                let repeat = self.k == Some(nonce) && self.e == old.epoch + 1;
                if !repeat {
                    if !self.admits(rules, old) {
                        return Reply::Fenced;
                    }
                    self.own(me, nonce);
                }
                self.claimed(nonce)
            }
            Request::Append { fence, expect, batch, .. } => {
                self.append(rules, fence, expect, batch)
            }
            Request::Release { fence, .. } => self.release(rules, fence),
            Request::Read { fence, .. } if self.admits(rules, fence) => self.claimed(fence.nonce),
            Request::Due { fence, due, .. } if self.admits(rules, fence) => {
                self.due = due;
                Reply::Stored
            }
            Request::Read { .. } | Request::Due { .. } => Reply::Fenced,
        }
    }

    fn claim(
        &mut self,
        rules: &Rules,
        me: Incarnation,
        nonce: u8,
        observed: Option<Fence>,
    ) -> Reply {
        if self.k == Some(nonce) && self.o == Some(me) {
            return self.claimed(nonce);
        }
        let mine = rules.weakening == Some(Weakening::OwnClaimsUnchecked);
        let allowed = self.o.is_none_or(|owner| {
            observed.is_some_and(|seen| self.is_fence(seen)) || (mine && owner.node == me.node)
        });
        if !allowed {
            return Reply::Fenced;
        }
        self.own(me, nonce);
        self.claimed(nonce)
    }

    fn append(&mut self, rules: &Rules, fence: Fence, expect: u8, batch: Batch) -> Reply {
        if !self.admits(rules, fence) {
            return Reply::Fenced;
        }
        let last_two = self.log.iter().rev().take(2);
        if self.lsn() > expect && last_two.into_iter().any(|frame| frame.batch == batch) {
            return Reply::Stored;
        }
        if self.lsn() != expect {
            return Reply::Lsn;
        }
        self.log.push(Frame { batch, fence });
        self.due = self.lsn();
        Reply::Stored
    }

    fn release(&mut self, rules: &Rules, fence: Fence) -> Reply {
        if self.o.is_none() && self.e == fence.epoch && self.rk == Some(fence.nonce) {
            return Reply::Released;
        }
        if !self.admits(rules, fence) {
            return Reply::Fenced;
        }
        self.o = None;
        self.rk = Some(fence.nonce);
        if rules.mutant != Some(Mutant::ReleaseKeepsNonce) {
            self.k = None;
        }
        Reply::Released
    }
}
