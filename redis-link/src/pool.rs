//! Links for blobs: a big value, or the wait after it, would hold up a lane.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bb8::ManageConnection;
use prometheus::IntCounter;
use redis::{Cmd, Pipeline, Value};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout_at};

use crate::core::{Core, Turns};
use crate::exchange::{Confirm, Wait, exchange};
use crate::identity::{Identity, NotUsable, rejoin};
use crate::lane::{Missed, Outcome};
use crate::retry::{Again, Detour, Verdict, judge};
use crate::socket::{Login, Socket};
use crate::{Address, Doubt, Failure, Unsent, slot};

/// Links per primary.
const LINKS_MAX: u32 = 4;
/// Uploads and downloads of one primary at once, those that wait for a link among them.
const BLOBS_MAX: usize = 256;
/// Seconds after which a link is made anew.
const LIFE_S: u64 = 600;

/// The pool of one primary.
#[derive(Debug)]
pub(crate) struct Pool {
    links: bb8::Pool<Manager>,
    wait: Option<Wait>,
    short: IntCounter,
    places: Semaphore,
}

/// Makes links, and before each use makes sure that the same primary is behind it: PING would be
/// answered by a demoted one too.
#[derive(Debug)]
struct Manager {
    address: Address,
    identity: Identity,
    login: Login,
}

impl ManageConnection for Manager {
    type Connection = Option<Socket>;
    type Error = NotUsable;

    async fn connect(&self) -> Result<Self::Connection, NotUsable> {
        let socket = Socket::open(&self.address, &self.login).await?;
        rejoin(socket, &self.identity).await.map(Some)
    }

    async fn is_valid(&self, link: &mut Self::Connection) -> Result<(), NotUsable> {
        let socket = link.take().ok_or(NotUsable::Other)?;
        *link = Some(rejoin(socket, &self.identity).await?);
        Ok(())
    }

    fn has_broken(&self, link: &mut Self::Connection) -> bool {
        !link.as_ref().is_some_and(Socket::is_alive)
    }
}

impl Pool {
    pub(crate) fn new(core: &Core, address: Address, identity: Identity) -> Self {
        let manager = Manager { address, identity, login: core.login.clone() };
        let links = bb8::Pool::builder()
            .max_size(LINKS_MAX)
            .max_lifetime(Some(Duration::from_secs(LIFE_S)))
            .connection_timeout(core.login.connect)
            .retry_connection(false)
            .build_unchecked(manager);
        let wait = Wait::new(core.settings.durability, core.settings.response_ms);
        let short = core.metrics.short.clone();
        Self { links, wait, short, places: Semaphore::new(BLOBS_MAX) }
    }

    /// Runs one command on a link of its own, unless `taken` was set before it was sent. Not to be
    /// dropped half way: the caller runs it in a task.
    async fn run(&self, command: Cmd, how: How, taken: &AtomicBool) -> Outcome {
        let full = |_| Missed::Final(Failure::not_sent(Unsent::QueueFull));
        let _place = self.places.try_acquire().map_err(full)?;
        let link = self.links.get().await;
        let link = link.map_err(|_| Missed::Again(Again::NoPrimary))?;
        let socket = link.as_ref().ok_or(Missed::Again(Again::NoPrimary))?;
        let mut commands = Pipeline::with_capacity(4);
        if how.asking {
            commands.cmd("ASKING");
        }
        commands.add_command(command);
        let wait = self.wait.filter(|_| how.is_durable);
        if taken.swap(true, Ordering::AcqRel) {
            return Err(Missed::Final(Failure::not_sent(Unsent::Deadline)));
        }
        let confirm = wait.map(|wait| Confirm { wait, is_eager: true });
        let mut verdict = Verdict::Done(Value::Nil);
        let first = |mut values: Vec<Value>| {
            verdict = judge(values.pop().unwrap_or(Value::Nil));
            matches!(verdict, Verdict::Done(_))
        };
        let is_met = exchange(socket, commands, confirm, first).await;
        let is_met = is_met.map_err(|e| Missed::Final(Failure::unknown(e)))?;
        if !is_met {
            self.short.inc();
            return Err(Missed::Final(Failure::unknown(Doubt::ShortWait)));
        }
        match verdict {
            Verdict::Done(value) => Ok(value),
            Verdict::Again(again) => Err(Missed::Again(again)),
            Verdict::Final(failure) => Err(Missed::Final(failure)),
        }
    }
}

#[derive(Clone, Copy)]
struct How {
    is_durable: bool,
    asking: bool,
}

/// Runs a command on the pool of the key's primary, again while nothing ran and there is time.
pub(crate) async fn run(
    core: &Core,
    key: &[u8],
    command: Cmd,
    is_durable: bool,
    deadline: Instant,
) -> Result<Value, Failure> {
    let slot = slot(key);
    let mut turns = Turns::new(core, deadline);
    let mut detour: Option<Detour> = None;
    loop {
        if core.is_closed() {
            return Err(Failure::not_sent(Unsent::Closed));
        }
        let how = How { is_durable, asking: detour.as_ref().is_some_and(|d| d.asking) };
        let map = Arc::clone(&core.map.borrow());
        let primary = map.way(slot, detour.take().as_ref());
        let Some(primary) = primary.map(Arc::clone) else {
            turns.next(Again::NoPrimary).await?;
            continue;
        };
        let (command, taken) = (command.clone(), Arc::new(AtomicBool::new(false)));
        let sent = Arc::clone(&taken);
        let run = tokio::spawn(async move { primary.pool.run(command, how, &sent).await });
        match timeout_at(deadline, run).await {
            Err(_) if !taken.swap(true, Ordering::AcqRel) => {
                return Err(Failure::not_sent(Unsent::Deadline));
            }
            Err(_) => return Err(Failure::unknown(Doubt::Timeout)),
            Ok(Err(_)) => return Err(Failure::unknown(Doubt::LinkLost)),
            Ok(Ok(Ok(value))) => return Ok(value),
            Ok(Ok(Err(Missed::Final(failure)))) => return Err(failure),
            Ok(Ok(Err(Missed::Again(again)))) => {
                detour = again.detour();
                turns.next(again).await?;
            }
        }
    }
}
